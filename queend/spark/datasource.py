"""The data source `queend`, which Spark loads for `format("queend")`.

Spark imports this module in each application that looks for any Python data source: modules that take long to load are
imported where they are needed."""
from __future__ import annotations

from typing import TYPE_CHECKING

from .compat import DATA_SOURCES, LIMITS, VERSION, DataSource, takes_filters
from .settings import LINK, SOURCE, OptionError, Options, SinkSettings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink import BatchWriter, StreamWriter
    from .source import BatchReader, StreamReader

if not DATA_SOURCES:
    raise ImportError(f"PySpark {VERSION} has no data sources in Python: use read_batch, write_batch and batch_writer "
                      "of queend.spark")

KEPT = "queend.options"
NAMES = {name.lower() for name in (*LINK, *SOURCE)}


def _kept(schema: StructType) -> dict[str, str]:
    """Returns the options of a table, which its schema keeps (schema)."""
    return dict(schema.fields[0].metadata.get(KEPT) or {}) if schema.fields else {}


class QueendDataSource(DataSource):
    """Reads and writes queues, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "queend"

    def schema(self) -> StructType:
        """Returns the schema of a table. Spark keeps the options of a table but does not pass them to its reader. So
        they travel in the metadata of the first column, except the token, which must not end up in files."""
        from .records import usual

        columns = usual(Options(self.options).flag("includeHeaders", False))
        if "provider" in self.options:    # CREATE TABLE
            columns.fields[0].metadata = {
                KEPT: {name: value for name, value in self.options.items() if name.lower() in NAMES - {"token"}}}
        return columns

    def reader(self, schema: StructType) -> BatchReader:
        from .link import reach
        from .source import BatchReader, FilteredReader
        from .wanted import SourceSettings

        settings = SourceSettings.of(Options(_kept(schema) | dict(self.options)), streaming=False)
        reach(settings.link)
        return (FilteredReader if takes_filters() else BatchReader)(settings, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        from .link import reach
        from .source import StreamReader
        from .unlimited import UnlimitedReader
        from .wanted import SourceSettings

        settings = SourceSettings.of(Options(_kept(schema) | dict(self.options)), streaming=True)
        reader = (StreamReader if LIMITS else UnlimitedReader)(settings, schema)
        reach(settings.link)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from .link import reach
        from .sink import BatchWriter

        if overwrite:
            raise OptionError('a queue cannot be overwritten: use mode("append")')
        writer = BatchWriter(SinkSettings.of(Options(self.options)), schema)
        reach(writer.settings.link)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from .link import reach
        from .sink import StreamWriter

        if overwrite:
            raise OptionError('a queue cannot be overwritten: use outputMode("append") or "update"')
        writer = StreamWriter(SinkSettings.of(Options(self.options)), schema)
        reach(writer.settings.link)
        return writer
