"""Common parts of jobs: heads and identity of a queue, frames from and into queues, ids computed from a row."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..link import Link, Refused
from ..marks import NoQueue, table_of
from ..settings import LinkSettings, OptionError, Options
from .fault import JobError, asking
from .manifest import Span

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NULLS = {"ignoreNullFields": "false"}    # of JSON: every column is present, even if null


def opened(link: dict[str, str]) -> Link:
    try:
        return Link(LinkSettings.of(Options(link)))
    except OptionError as error:
        raise JobError(str(error)) from None


class Head:
    """The present partitions of a queue. identity: of the queue itself, not of its name."""

    def __init__(self, link: Link, queue: str):
        self.link, self.queue = link, queue
        self.identity = self._identity()
        with asking():
            self.rows = self.partitions()

    def partitions(self) -> list[tuple[int, str, int, int]]:
        """Returns number, name, first and next offset of the partitions that the queue has now."""
        table = table_of(self.link, self.queue)
        return list(zip(*(table.column(name).to_pylist() for name in ("number", "name", "logStartOffset",
                                                                      "highWatermark")), strict=True))

    def _identity(self) -> str:
        with asking():
            try:
                return self.link.get(f"/api/v1/resources/queues/{quote(self.queue, safe='')}?limit=1")["id"]
            except Refused as refused:
                if refused.status != 404:
                    raise
                raise JobError(f"there is no queue {self.queue!r} at {refused.url}") from None

    def check(self) -> None:
        """Checks that it is still the same queue."""
        if self._identity() != self.identity:
            raise JobError(f"queue {self.queue!r} was deleted and created again during the run: the result was "
                           "dropped, because it would mix two queues")


def source(spark: SparkSession, link: dict[str, str], queue: str, spans: list[Span], schema: str | None = None,
           **options: Any) -> DataFrame:
    """Returns exactly these records; a missing one is an error."""
    from .. import QueendDataSource

    spark.dataSource.register(QueendDataSource)
    reader = spark.read.format("queend").options(**link, **{name: str(value) for name, value in options.items()})
    reader = reader.options(assign=json.dumps({queue: [one.name for one in spans]}),
                            startingOffsets=json.dumps({queue: {one.name: one.start for one in spans}}),
                            endingOffsets=json.dumps({queue: {one.name: one.end for one in spans}}))
    return (reader.schema(schema) if schema else reader).load()


def sink(frame: DataFrame, link: dict[str, str], queue: str, job: str, **options: Any) -> None:
    from .. import QueendDataSource

    frame.sparkSession.dataSource.register(QueendDataSource)
    frame.write.format("queend").options(**link, queue=queue, queryId=job,
                                         **{name: str(value) for name, value in options.items()}).mode("append").save()


def row_id(job: str, *columns: Column) -> Column:
    """Returns a UUID of version 8, computed from a job's name and the content of a row. The ends of columns are part of
    the content."""
    from pyspark.sql import functions as F

    pieces = [F.coalesce(F.concat(F.length(text).cast("string"), F.lit(":"), text),
                         F.lit("-")) for text in (one.cast("string") for one in (F.lit(job), *columns))]
    digits = F.sha2(F.concat(*pieces), 256)
    return F.concat(digits.substr(1, 8), F.lit("-"), digits.substr(9, 4), F.lit("-8"), digits.substr(14, 3),
                    F.lit("-a"), digits.substr(18, 3), F.lit("-"), digits.substr(21, 12))


def as_messages(rows: DataFrame, value: str, **how: str) -> DataFrame:
    """Returns `rows` with a value that is text and a partition that has a name. value: the expression of the value;
    how: options of Spark for JSON made of columns."""
    from pyspark.sql import functions as F

    kind = rows.schema["value"].dataType.typeName()
    if kind in ("struct", "map", "array"):
        rows = rows.withColumn("value", F.to_json("value", how))
    elif kind == "binary":
        rows = rows.withColumn("value", F.col("value").cast("string"))
    elif kind not in ("string", "varchar", "char"):
        raise JobError(f'"{value}" is {kind}; expected JSON text, or a struct, map or array')
    return rows.withColumn("partition", F.coalesce("partition", F.lit("Default")))


def tasks_for(spark: SparkSession, wanted: int | None) -> int:
    return wanted or max(2, 2 * spark.sparkContext.defaultParallelism)


def stored(link: Link, queue: str) -> int | None:
    """Returns the sum of the queue's heads, None if there is no such queue."""
    import pyarrow.compute as pc

    with asking():
        try:
            return pc.sum(table_of(link, queue).column("highWatermark")).as_py() or 0
        except NoQueue:
            return None
