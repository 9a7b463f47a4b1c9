"""The data source `queend`, which Spark loads for `format("queend")`."""
from __future__ import annotations

import sys

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .link import reach
from .plain import plain
from .records import usual
from .settings import LINK, SOURCE, OptionError, Options, SinkSettings
from .sink import BatchWriter, StreamWriter
from .source import BatchReader, FailedReader, FilteredReader, StreamReader
from .wanted import SourceSettings

PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"

KEPT = "queend.options"
NAMES = {name.lower() for name in (*LINK, *SOURCE)}


def _kept(schema: StructType) -> dict[str, str]:
    """Returns the options of a table, which its schema keeps (schema)."""
    return dict(schema.fields[0].metadata.get(KEPT) or {}) if schema.fields else {}


@plain("schema", "reader", "streamReader", "writer", "streamWriter")
class QueendDataSource(DataSource):
    """Reads and writes queues, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "queend"

    def schema(self) -> StructType:
        """Returns the schema of a table. Spark keeps the options of a table but does not pass them to its reader. So
        they travel in the metadata of the first column, except the token, which must not end up in files."""
        columns = usual(Options(self.options).flag("includeHeaders", False))
        if "provider" in self.options:    # CREATE TABLE
            columns.fields[0].metadata = {
                KEPT: {name: value for name, value in self.options.items() if name.lower() in NAMES - {"token"}}}
        return columns

    def reader(self, schema: StructType) -> BatchReader:
        settings = SourceSettings.of(Options(_kept(schema) | dict(self.options)), streaming=False)
        reach(settings.link)
        # Spark refuses a reader that takes filters if the session does not push them down, and asks from another module
        # if it does.
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        told = PUSHDOWN in sys.modules or getattr(main, "name", None) == PUSHDOWN
        return (FilteredReader if told else BatchReader)(settings, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        try:
            settings = SourceSettings.of(Options(_kept(schema) | dict(self.options)), streaming=True)
            reach(settings.link)
            return StreamReader(settings, schema)
        except Exception as error:  # noqa: BLE001
            return FailedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise OptionError('a queue cannot be overwritten: use mode("append")')
        writer = BatchWriter(SinkSettings.of(Options(self.options)), schema)
        reach(writer.settings.link)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        if overwrite:
            raise OptionError('a queue cannot be overwritten, so there is no outputMode("complete"): use "append", or '
                              'foreachBatch, which writes the whole result as messages: batch.write.format("queend")'
                              '.option("queryId", f"NAME-{epoch}").mode("append").save()')
        writer = StreamWriter(SinkSettings.of(Options(self.options), streaming=True), schema)
        reach(writer.settings.link)
        return writer
