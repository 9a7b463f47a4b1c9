"""Batches in and out by plain functions, which need no data source: PySpark 3.5 has none for Python."""
from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from .compat import DATA_SOURCES
from .link import reach
from .records import usual
from .settings import Options, SinkSettings
from .shape import Shape
from .sink import Sink, Written
from .source import BatchReader
from .wanted import SourceSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

QUERY = "sql.streaming.queryId"    # Spark's name for the id in the checkpoint of a stream
Option = str | int | float | bool


def read_batch(spark: SparkSession, schema: StructType | str | None = None, **options: Option) -> DataFrame:
    """Returns the records of queues as a frame. Plans the ranges now: the frame has the same records each time.

    schema: columns to read; None: the usual ones. options: those of a read (docs/spark.md)."""
    given = _texts(options)
    if DATA_SOURCES:
        reader = spark.read.format("queend").options(**given)
        return (reader if schema is None else reader.schema(schema)).load()
    settings = SourceSettings.of(Options(given), streaming=False)
    reach(settings.link)
    empty = spark.createDataFrame([], usual(settings.headers) if schema is None else schema)
    source = BatchReader(settings, empty.schema)
    tasks = [(bytearray(pickle.dumps(one)),) for one in source.partitions()]
    if not tasks:
        return empty

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from source.read(pickle.loads(task))

    planned = spark.createDataFrame(spark.sparkContext.parallelize(tasks, len(tasks)), "task binary")
    return planned.mapInArrow(read, empty.schema)


def write_batch(frame: DataFrame, **options: Option) -> Written:
    """Writes a frame into queues and returns the counts of stored rows. With the option `queryId`, a repeated call
    stores each row once. options: those of a write (docs/spark.md)."""
    settings = SinkSettings.of(Options(_texts(options)))
    return _write(frame, settings, settings.query, 0)


def batch_writer(**options: Option) -> Callable[[DataFrame, int], None]:
    """Returns a function for `foreachBatch`, which stores each row of a stream once, whatever epochs run again. The ids
    of rows are those of `writeStream`. options: those of a write; `queryId` replaces the id of the stream."""
    given = _texts(options)
    settings = SinkSettings.of(Options(given))
    named = Options(given).text("queryId")

    def write(frame: DataFrame, epoch: int) -> None:
        query = named or (_query_of(frame) if settings.exactly_once else "")
        _write(frame, settings, query, epoch)

    return write


def _texts(options: dict[str, Option]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _query_of(frame: DataFrame) -> str:
    """Returns the id of the stream whose batch this is: Spark calls the function in the thread of the stream."""
    try:
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY)
    except Exception:  # noqa: BLE001 - Spark Connect has no such context, and says so in a class of each version
        query = None
    if query is None:
        raise RuntimeError('Spark does not tell the id of the stream here: set the option "queryId" to a name that '
                           "stays the same when the stream is restarted, or rows would be stored twice")
    return query


def _write(frame: DataFrame, settings: SinkSettings, query: str, epoch: int) -> Written:
    shape = Shape.of(frame.schema, settings.queue, settings.format)
    reach(settings.link)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        done = Sink(settings, shape, query, epoch, task.partitionId()).write(batches)
        yield pa.record_batch({"rows": [done.rows], "duplicates": [done.duplicates], "refused": [done.refused]})

    counts = frame.mapInArrow(write, "rows bigint, duplicates bigint, refused bigint").collect()
    return Written(*(sum(column) for column in zip(*counts, strict=True)))
