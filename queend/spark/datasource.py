"""The data source `queend`, which Spark loads for `format("queend")`.

Spark imports this module in each application that looks for any Python data source: modules that take long to load are
imported where they are needed."""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from .compat import DATA_SOURCES, LIMITS, VERSION, DataSource, takes_filters
from .plain import plain
from .settings import LINK, SINK, SOURCE, OptionError, Options, SinkSettings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .sink import BatchWriter, StreamWriter
    from .source import BatchReader, StreamReader

if not DATA_SOURCES:
    raise ImportError(f"PySpark {VERSION} has no data sources in Python: use read_batch, write_batch and batch_writer "
                      "of queend.spark")

KEPT = "queend.options"
# Spark's name for the type with which a column of strings was declared.
DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
NAMES = {name.lower() for name in (*LINK, *SINK, *SOURCE)}
# Options that a table does not keep: a secret would be in files; all rows of a second INSERT are new.
LEFT = {"token", "queryid"}
# Columns of a table that the daemon sets.
SET = {"offset", "timestamp", "timestamptype", "id"}


def _kept(schema: StructType) -> dict[str, str]:
    """Returns the options of a table, which its schema keeps (schema)."""
    return dict(schema.fields[0].metadata.get(KEPT) or {}) if schema.fields else {}


def _type_of(kept: Mapping[str, str]) -> str:
    """Returns a type for the column `topic` that differs if the options of two tables differ. Without it, `INSERT INTO
    a SELECT * FROM b` would write into b: if all names and types are equal, Spark gives the writer the columns of b,
    with the options of b. The type limits the length of a name to 2^30 characters or more."""
    return f"varchar({2**30 + crc32(json.dumps(kept, sort_keys=True).encode()) % 2**30})"


def _written(schema: StructType, given: Mapping[str, str], streaming: bool) -> tuple[SinkSettings, StructType]:
    """Returns the settings and the columns of a write. INSERT INTO gives all columns of the table: those that the
    daemon sets are not written, and the queue is the one that the table reads. A frame that was read from a table may
    give them too; a place in `given`, or a column made by the query, says that another queue is meant."""
    from .records import usual

    table = all(KEPT in one.metadata for one in schema.fields) and set(usual(False).names) <= set(schema.names)
    if not table or {name.lower() for name in given} & {"url", "queue", "topic"}:
        return SinkSettings.of(Options(given), streaming), schema
    options = Options(_kept(schema) | dict(given))
    names = (options.text("subscribe") or "").split(",")
    if not options.text("queue") and len(names) == 1 and names[0].strip():
        options.values["queue"] = names[0].strip()
    hidden = SET | ({"topic"} if options.text("queue") else set())
    return (SinkSettings.of(options, streaming),
            type(schema)([one for one in schema.fields if one.name.lower() not in hidden]))


@plain("schema", "reader", "streamReader", "writer", "streamWriter")
class QueendDataSource(DataSource):
    """Reads and writes queues, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "queend"

    def schema(self) -> StructType:
        """Returns the schema of a table. Spark keeps the options of a table but does not pass them to its reader and
        its writer. So they travel in the metadata of the first column. The others are marked, so that a write can tell
        the columns of a table from those of a query."""
        from .records import usual

        columns = usual(Options(self.options).flag("includeHeaders", False))
        if "provider" in self.options:    # CREATE TABLE
            kept = {name: value for name, value in self.options.items() if name.lower() in NAMES - LEFT}
            for field in columns.fields:
                field.metadata = {KEPT: kept if field is columns.fields[0] else {}}
            columns["topic"].metadata[DECLARED] = _type_of(kept)
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
        from .source import FailedReader, StreamReader
        from .unlimited import UnlimitedReader
        from .wanted import SourceSettings

        try:
            settings = SourceSettings.of(Options(_kept(schema) | dict(self.options)), streaming=True)
            reach(settings.link)
            return (StreamReader if LIMITS else UnlimitedReader)(settings, schema)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            return FailedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from .link import reach
        from .sink import BatchWriter

        if overwrite:
            raise OptionError('a queue cannot be overwritten: use mode("append")')
        writer = BatchWriter(*_written(schema, self.options, streaming=False))
        reach(writer.settings.link)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        from .link import reach
        from .sink import StreamWriter

        if overwrite:
            raise OptionError('a queue cannot be overwritten, so there is no outputMode("complete"): use "append", or '
                              'foreachBatch, which writes the whole result as messages: batch.write.format("queend")'
                              '.option("queryId", f"NAME-{epoch}").mode("append").save()')
        writer = StreamWriter(*_written(schema, self.options, streaming=True))
        reach(writer.settings.link)
        return writer
