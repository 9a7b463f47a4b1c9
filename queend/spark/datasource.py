"""The data source `queend`: what Spark asks for by `format("queend")`."""
from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from .settings import OptionError, Options, SinkSettings
from .sink import BatchWriter, StreamWriter


class QueendDataSource(DataSource):
    """Reads and writes queues, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        return "queend"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise OptionError('a queue is never overwritten: use mode("append")')
        return BatchWriter(SinkSettings.of(Options(self.options)), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        if overwrite:
            raise OptionError('a queue is never overwritten: use outputMode("append") or "update"')
        return StreamWriter(SinkSettings.of(Options(self.options)), schema)
