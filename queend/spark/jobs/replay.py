"""Replays an archive, or any query, into a queue: in order per key, each row once however often the job runs."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fault import JobError, failing
from .frames import as_messages, opened, row_id, sink, stored, tasks_for
from .progress import Progress, Say
from .read import Both

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def replay(spark: SparkSession, to: str, job: str, *, archive: str | None = None, queue: str | None = None,
           sql: str | None = None, frame: DataFrame | None = None, where: str | None = None, key: str | None = None,
           value: str = "value", order: tuple[str, ...] = (), hot: bool = False, keep_ids: bool = False,
           allow_gaps: bool = False, tasks: int | None = None, say: Say | None = None, **link: str) -> dict[str, Any]:
    """Stores rows in the queue `to`. job: the name under which no row is stored twice.

    The rows come from the archive of `queue` in the folder `archive` (hot: and records not archived yet), from a query
    in SQL, or from a frame. where, key, value and order are expressions of its columns. For an archive the key is the
    partition and the order is that of storage. keep_ids: keeps the transaction ids."""
    progress = Progress(spark, f"replay {job}", say)
    with failing(f"into queue {to!r}"):
        if archive is not None:
            if not queue:
                raise JobError("the archive may have several queues: name one with --queue")
            rows = Both(spark, queue, archive, hot, allow_gaps, link).frame()
            key, order = key or "partition", order or ("timestamp", "id")
        elif frame is not None or sql:
            rows = frame if frame is not None else spark.sql(sql or "")
        else:
            raise JobError("nothing to replay: give an archive or a query")
        rows = rows.where(where) if where else rows
        if key is None:
            key = "key" if "key" in rows.columns else None
        if "transactionId" not in rows.columns and keep_ids:
            raise JobError('the query has no column "transactionId" to keep')
        made = _rows(rows, job, key, value, order, archive is not None, keep_ids)
        parts = tasks_for(spark, tasks)
        made = made.repartition(parts, "partition") if key else made.repartition(1)
        if "transactionId" not in made.columns:
            made = _counted(made, job, len(order))
        out = made.sortWithinPartitions("partition", *[f"_o{n}" for n in range(len(order))], "value")
        return send(progress, out.select("partition", "value", "transactionId"), to, job, link, "replay")


def _rows(rows: DataFrame, job: str, key: str | None, value: str, order: tuple[str, ...], archived: bool,
          keep_ids: bool) -> DataFrame:
    """Returns partition, value and the columns to sort by."""
    from pyspark.sql import functions as F

    columns = [(F.expr(key).cast("string") if key else F.lit("Default")).alias("partition"),
               F.expr(value).alias("value"),
               *(F.expr(one).alias(f"_o{n}") for n, one in enumerate(order))]
    if keep_ids or "transactionId" in rows.columns and not archived:
        columns.append(F.col("transactionId").cast("string").alias("transactionId"))
    elif archived:    # a message id names one record for ever
        columns.append(row_id(job, F.col("topic"), F.col("id")).alias("transactionId"))
    return as_messages(rows.select(*columns), value)


def _counted(rows: DataFrame, job: str, orders: int) -> DataFrame:
    """Adds ids of the content of rows, with a number for each repetition: equal rows get the first, the second … So the
    order of ties does not matter."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    alike = ["partition", *[f"_o{n}" for n in range(orders)], "value"]
    place = F.row_number().over(Window.partitionBy(*alike).orderBy(F.lit(1)))
    return rows.withColumn("_n", place).withColumn("transactionId",
                                                   row_id(job, *(F.col(one) for one in (*alike, "_n"))))


def send(progress: Progress, rows: DataFrame, to: str, job: str, link: dict[str, str], what: str,
         **more: Any) -> dict[str, Any]:
    """Sends sorted rows into a queue. Returns the result counts."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    with opened(link) as wire:
        before = stored(wire, to) or 0
        seen = Observation()
        rows = rows.observe(seen, F.count(F.lit(1)).alias("rows"),
                            F.approx_count_distinct("partition").alias("partitions"))
        with progress.tasks("rows"):
            sink(rows, link, to, job)
        after = stored(wire, to) or 0
    count = int(seen.get.get("rows") or 0)
    progress.batch(what, count, progress.seconds)
    return {"job": what, "name": job, "queue": to, "rows": count, "partitions": int(seen.get.get("partitions") or 0),
            "offsets": {"from": before, "to": after}, **more, "seconds": progress.seconds}
