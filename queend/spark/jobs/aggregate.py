"""Aggregates a queue in windows, as a stream: tumbling, sliding or session windows with a watermark, into another queue
or a table of Parquet."""
from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from .fault import JobError, failing
from .frames import NULLS, row_id
from .progress import Progress, Say
from .store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOOK = 1.0    # between two looks at a running stream


def aggregate(spark: SparkSession, queue: str, checkpoint: str, *, to: str | None = None, table: str | None = None,
              schema: str | None = None, time: str = "timestamp", watermark: str = "10 minutes",
              window: str | None = None, slide: str | None = None, session: str | None = None,
              by: tuple[str, ...] = (), select: tuple[str, ...] = ("count(*) AS count",), where: str | None = None,
              key: str | None = None, once: bool = False, most: int | None = None, group: str | None = None,
              say: Say | None = None, **link: str) -> dict[str, Any]:
    """Runs the stream. schema: of the JSON in the messages, whose columns all expressions may name. time, by, select,
    where and key are expressions. A window is written once, when the watermark has passed its end. once: ends when the
    present records were read; otherwise it runs until it is stopped. most: records of a micro-batch."""
    progress = Progress(spark, f"aggregate {queue}", say)
    if (to is None) == (table is None):
        raise JobError("give one target for the result: a queue or a table")
    if (window is None) == (session is None):
        raise JobError('give one kind of window: window (with slide: sliding), like "5 minutes", or session, the gap '
                       'that ends it')
    if slide and session:
        raise JobError("a session window cannot slide")
    query = None
    try:
        with failing(f"queue {queue!r}"):
            job = _same(spark, checkpoint, {"queue": queue, "to": to, "table": table, "schema": schema, "time": time,
                                            "window": window, "slide": slide, "session": session, "by": list(by),
                                            "select": list(select), "where": where})
            events = _events(spark, link, queue, schema, time, where, most, group)
            windows = _windows(events, watermark, window, slide, session, by, select)
            query = _start(windows, job, checkpoint, to, table, key, len(by), once, link)
            told = _follow(progress, query)
    finally:
        if query is not None and query.isActive:
            query.stop()
    return {"job": "aggregate", "queue": queue, "to": to or table, **told, "seconds": progress.seconds}


def _same(spark: SparkSession, checkpoint: str, asked: dict[str, Any]) -> str:
    """Returns the name of the job, which stays with its checkpoint wherever that is. A checkpoint belongs to one query:
    another one would misread its state."""
    store = Store(spark, checkpoint)
    try:
        if not store.exists("queend.json"):
            mark = uuid.uuid4().hex
            store.create("queend.json", json.dumps({"job": mark, **asked}), mark)
        before = json.loads(store.read("queend.json"))
        name = before["job"]
    except OSError as error:
        raise JobError(f"cannot write {store}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise JobError(f"{store}/queend.json is damaged; it describes the job of the checkpoint") from None
    changed = [name for name, value in asked.items() if before.get(name) != value]
    if changed:
        raise JobError(f"{store} is the checkpoint of another job: {', '.join(changed)} differ. Use another checkpoint "
                       "directory")
    return name


def _events(spark: SparkSession, link: dict[str, str], queue: str, schema: str | None, time: str, where: str | None,
            most: int | None, group: str | None) -> DataFrame:
    from pyspark.sql import functions as F

    from .. import QueendDataSource

    spark.dataSource.register(QueendDataSource)
    options = {"subscribe": queue, "startingOffsets": "earliest",
               **({"maxOffsetsPerTrigger": str(most)} if most else {}), **({"commitGroup": group} if group else {})}
    columns = "value string, partition string, offset bigint, timestamp timestamp"
    rows = spark.readStream.format("queend").options(**link, **options).schema(columns).load()
    if schema:
        rows = rows.withColumn("_json", F.from_json("value", schema))
        inner = set(rows.schema["_json"].dataType.names)
        rows = rows.select(*[name for name in ("value", "partition", "offset", "timestamp") if name not in inner],
                           "_json.*")
    rows = rows.where(where) if where else rows
    rows = rows.withColumn("_time", F.expr(time))
    if rows.schema["_time"].dataType.typeName() not in ("timestamp", "timestamp_ntz"):
        raise JobError(f'the time "{time}" is {rows.schema["_time"].dataType.simpleString()}; expected a timestamp, '
                       'like timestamp_seconds(at)')
    return rows.observe("queend", F.count(F.lit(1)).alias("rows"),
                        F.count(F.when(F.col("_time").isNull(), 1)).alias("untimed"))


def _windows(events: DataFrame, watermark: str, window: str | None, slide: str | None, session: str | None,
             by: tuple[str, ...], select: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F

    over = F.session_window("_time", session) if session else F.window("_time", window, slide)
    groups = [F.expr(one) for one in by]
    found = events.withWatermark("_time", watermark).groupBy(over.alias("_window"), *groups).agg(*map(F.expr, select))
    names = [one for one in found.columns if one != "_window"]
    return found.select(F.col("_window.start").alias("start"), F.col("_window.end").alias("end"), *names)


def _start(windows: DataFrame, job: str, checkpoint: str, to: str | None, table: str | None, key: str | None, bys: int,
           once: bool, link: dict[str, str]) -> StreamingQuery:
    from pyspark.sql import functions as F

    trigger = {"availableNow": True} if once else {"processingTime": "1 second"}
    where = f"{checkpoint.rstrip('/')}/stream"
    if table:
        files = windows.writeStream.format("parquet").options(checkpointLocation=where, path=table)
        return files.outputMode("append").trigger(**trigger).start()
    if to is None:
        raise JobError("no queue is given")
    names = [F.col(f"`{one}`") for one in windows.columns[2:2 + bys]]
    partition = F.expr(key).cast("string") if key else names[0].cast("string") if names else F.lit("Default")
    # A window is written once per key: that is its id. The order of rows after a shuffle differs each time.
    rows = windows.select(F.coalesce(partition, F.lit("Default")).alias("partition"),
                          F.to_json(F.struct(*windows.columns), NULLS).alias("value"),
                          row_id(job, F.lit(to), F.col("start"), F.col("end"), *names).alias("transactionId"))
    messages = rows.writeStream.format("queend").options(**link, queue=to, checkpointLocation=where)
    return messages.outputMode("append").trigger(**trigger).start()


def _follow(progress: Progress, query: StreamingQuery) -> dict[str, Any]:
    """Prints a line per micro-batch until the stream ends, or is interrupted, which is its usual end."""
    seen, sums = -1, {"rows": 0, "late": 0, "untimed": 0, "batches": 0}
    end: Any = None
    over = False
    while not over:
        try:
            over = query.awaitTermination(LOOK)
        except KeyboardInterrupt:
            query.stop()
            over = True
        for one in map(_plain, query.recentProgress):
            if one["batchId"] <= seen:
                continue
            seen = one["batchId"]
            metrics = one.get("observedMetrics", {}).get("queend") or {}
            sums["rows"] += one.get("numInputRows") or 0
            sums["untimed"] += metrics.get("untimed") or 0
            sums["late"] += sum(state.get("numRowsDroppedByWatermark") or 0 for state in one.get("stateOperators", ()))
            sums["batches"] += 1
            end = one["sources"][0].get("endOffset") if one.get("sources") else end
            took = (one.get("durationMs") or {}).get("triggerExecution", 0) / 1000
            if one.get("numInputRows") or over:
                progress.batch(f"batch {seen}, watermark {(one.get('eventTime') or {}).get('watermark', 'none')}",
                               one.get("numInputRows") or 0, took)
    if query.exception() is not None:
        raise query.exception()
    return {**sums, "batch": seen, **_place(end)}


def _plain(progress: Any) -> dict[str, Any]:
    return json.loads(progress.json) if hasattr(progress, "json") else progress


def _place(end: Any) -> dict[str, Any]:
    from ..position import unpacked

    try:
        position = unpacked(end if isinstance(end, dict) else json.loads(end))
    except (TypeError, ValueError, KeyError):
        return {"partitions": 0, "offsets": {}}
    return {"partitions": sum(map(len, position.values())),
            "offsets": {"to": sum(sum(known.values()) for known in position.values())}}
