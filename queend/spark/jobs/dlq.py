"""Dead letters: counts by group, error and age; and a redrive of those that match a predicate."""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from ..link import Link, Refused, Unreachable
from .fault import JobError, asking, failing
from .frames import opened
from .progress import Progress, Say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE, OFFSET_MOST, CHUNK = 1000, 1_000_000, 1000
COLUMNS = ("queue string, partition string, `group` string, error string, retries int, value string, "
           "transactionId string, id string, partitionId string, offset bigint, producer string, created timestamp, "
           "failed timestamp, age bigint")


def letters(spark: SparkSession, queue: str | None = None, group: str | None = None, *, most: int = OFFSET_MOST,
            progress: Progress | None = None, **link: str) -> DataFrame:
    """Returns the newest `most` dead letters as a frame; `age` is in seconds, since the newest of them or by this
    machine's clock, whichever is later."""
    import pyarrow as pa
    from pyspark.sql import functions as F

    fields = [("queue", pa.string()), ("partition", pa.string()), ("group", pa.string()), ("error", pa.string()),
              ("retries", pa.int32()), ("value", pa.string()), ("transactionId", pa.string()), ("id", pa.string()),
              ("partitionId", pa.string()), ("offset", pa.int64()), ("producer", pa.string()), ("created", pa.string()),
              ("failed", pa.string())]
    with opened(link) as wire, asking():
        rows = list(_pages(wire, queue, group, most, progress))
    # new dead letters shift the pages meanwhile
    seen: dict[tuple, dict] = {(one["id"], one["group"]): one for one in rows}
    if not seen:
        return spark.createDataFrame([], COLUMNS)
    table = pa.Table.from_pylist(list(seen.values()), pa.schema(fields))
    frame = spark.createDataFrame(table).withColumns({"created": F.to_timestamp("created"),
                                                      "failed": F.to_timestamp("failed")})
    newest = max(one["failed"] for one in rows)
    now = F.unix_timestamp(F.greatest(F.current_timestamp(), F.to_timestamp(F.lit(newest))))
    return frame.withColumn("age", F.greatest(now - F.unix_timestamp("failed"), F.lit(0)))


def _pages(link: Link, queue: str | None, group: str | None, most: int,
           progress: Progress | None) -> Iterator[dict[str, Any]]:
    at = 0
    while at < min(most, OFFSET_MOST):
        query: dict[str, Any] = {"limit": min(PAGE, most - at), "offset": at, **({"queue": queue} if queue else {}),
                 **({"consumerGroup": group} if group else {})}
        found = link.get(f"/api/v1/dlq?{urlencode(query)}")
        for one in found["messages"]:
            yield {"queue": one["queue"], "partition": one["partition"], "group": one["consumerGroup"],
                   "error": one["errorMessage"], "retries": one["retryCount"],
                   "value": json.dumps(one["data"], ensure_ascii=False), "transactionId": one["transactionId"],
                   "id": one["id"], "partitionId": one["partitionId"], "offset": one["offset"],
                   "producer": one["producerSub"], "created": one["createdAt"], "failed": one["failedAt"]}
        at += len(found["messages"])
        if progress and found["messages"]:
            progress.say(f"{at:,} of {found['total']:,} dead letters")
        if len(found["messages"]) < query["limit"]:
            return


def report(spark: SparkSession, queue: str | None = None, group: str | None = None, *, where: str | None = None,
           most: int = OFFSET_MOST, say: Say | None = None, **link: str) -> dict[str, Any]:
    """Counts dead letters by queue, group and error. Adds the ages of the oldest and the newest, and counts of the last
    hour, day and week."""
    from pyspark.sql import functions as F

    progress = Progress(spark, "dlq", say)
    with failing(""):
        frame = letters(spark, queue, group, most=most, progress=progress, **link)
        frame = frame.where(where) if where else frame
        younger = [F.count(F.when(F.col("age") < seconds, 1)).alias(name)
                   for name, seconds in (("hour", 3600), ("day", 86_400), ("week", 604_800))]
        counts = frame.groupBy("queue", "group", "error").agg(
            F.count(F.lit(1)).alias("count"), F.max("age").alias("oldest"), F.min("age").alias("newest"), *younger)
        found = [row.asDict() for row in counts.orderBy(F.desc("count"), "queue", "group", "error").collect()]
        partitions = frame.select("queue", "partition").distinct().count()
    return {"job": "dlq", "rows": sum(one["count"] for one in found), "partitions": partitions, "counts": found,
            "seconds": progress.seconds}


def revive(spark: SparkSession, where: str, queue: str | None = None, group: str | None = None, *,
           to: str | None = None, dry: bool = False, most: int = OFFSET_MOST, say: Say | None = None,
           **link: str) -> dict[str, Any]:
    """Redrives the dead letters that match the predicate, in the order they failed, each once. Storing the new message
    and deleting the dead letter is one transaction. to: another queue. dry: only counts."""
    progress = Progress(spark, "dlq redrive", say)
    with failing(""):
        frame = letters(spark, queue, group, most=most, progress=progress, **link).where(where)
        rows = frame.select("queue", "partitionId", "offset", "group", "partition").orderBy("queue", "failed", "id")
        found = [row.asDict() for row in rows.collect()]
    redriven = 0
    with opened(link) as wire:
        for name in dict.fromkeys(one["queue"] for one in found):
            messages = [{"partitionId": one["partitionId"], "offset": one["offset"],
                         "consumerGroup": one["group"]} for one in found if one["queue"] == name]
            for at in range(0, 0 if dry else len(messages), CHUNK):
                try:
                    said = wire.json("/api/v1/dlq/redrive",
                                     {"queue": name, "messages": messages[at:at + CHUNK],
                                      **({"targetQueue": to} if to else {})})
                except (Refused, Unreachable) as error:
                    raise JobError(f"{error}. {redriven} were redriven before; run the job again for the "
                                   "others") from None
                redriven += said["redriven"]
                progress.say(f"queue {name}: {at + len(messages[at:at + CHUNK]):,} of {len(messages):,}")
    return {"job": "dlq redrive", "rows": len(found), "redriven": redriven,
            "partitions": len({(one["queue"], one["partition"]) for one in found}),
            "to": to, "seconds": progress.seconds}
