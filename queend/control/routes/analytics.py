"""/api/v1/analytics: what daemons, workers and queues did over time, read from the minutes they wrote
(`metrics/history`)."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import Request

from ...auth.levels import READ
from ..database import rows
from ..http.answer import Json
from ..http.moments import ts0, ts3
from ..http.query import Query
from ..http.route import Routes
from ..http.schema import (FLAG, INTEGER, NAME, NUMBER, SOME_INTEGER, SOME_NUMBER, TEXT, TIME, array, parameter,
                           titled, whole)
from ..http.schemas import FROM, LAG, OPS, QUEUE, SPAN, TO, WORKER, each, integers
from ..metrics.history import (NO_LAG, OF_QUEUE, PARKED, ROWS, average, hostname_and_worker, lag_ms, latest, newest,
                               or_zero, queue_series, rate, span, worker_series, worker_state)

router = Routes("analytics")
DAEMON = [parameter("hostname", NAME), parameter("workerId", {**INTEGER, "minimum": 0})]
SEEN_S = 300      # a worker that was silent for longer is left out

# Names of an answer → columns of a series.
WORKER_COUNTS = {"pushMessages": "push_messages", "popMessages": "pop_messages", "ackMessages": "ack_messages",
                 "pushRequests": "push_requests", "popRequests": "pop_requests", "ackRequests": "ack_requests",
                 "jobsDone": "requests", "lagCount": "lag_n", "dbErrors": "db_errors", "ackSuccess": "ack_done",
                 "ackFailed": "ack_failed", "dlqCount": "dead_lettered"}
WORKER_LEVELS = ("avgEventLoopLagMs", "maxEventLoopLagMs", "avgFreeSlots", "minFreeSlots", "dbConnections",
                 "avgJobQueueSize", "maxJobQueueSize", "backoffSize")
WORKER_RATES = {"pushPerSecond": "push_messages", "popPerSecond": "pop_messages", "ackPerSecond": "ack_messages"}
WORKER_SUMS = {"totalPushMessages": "push_messages", "totalPopMessages": "pop_messages",
               "totalAckMessages": "ack_messages", "totalPushRequests": "push_requests",
               "totalPopRequests": "pop_requests", "totalAckRequests": "ack_requests", "totalDbErrors": "db_errors",
               "totalAckFailed": "ack_failed", "totalDlq": "dead_lettered"}
QUEUE_COUNTS = {"pushRequests": "push_requests", "pushMessages": "push_messages", "popMessages": "pop_messages",
                "popEmpty": "pop_empty", "ackRequests": "ack_requests", "ackSuccess": "ack_done",
                "ackFailed": "ack_failed", "transactions": "transactions"}
QUEUE_RATES = {"pushPerSecond": "push_messages", "popPerSecond": "pop_messages", "ackPerSecond": "ack_done",
               "emptyPerSecond": "pop_empty"}
REMOVED = {"retentionMsgs": "retention", "completedRetentionMsgs": "completed", "evictionMsgs": "eviction",
           "totalMsgs": "total", "eventCount": "events"}
LEVELS = {"cpu": {"user_us": "cpu_user", "system_us": "cpu_system"},
          "memory": {"rss_bytes": "rss", "virtual_bytes": "virtual"},
          "database": {"pool_size": "pool_size", "pool_idle": "pool_idle", "pool_active": "pool_active"},
          "registries": {"response": "responses"}}
POOLS = {"db": {"pool_size": "slots", "queue_size": "jobs"},
         "system": {"pool_size": "threads", "queue_size": "waiting"}}
# Figures of Queen MQ servers about their peers. Daemons have none: these are null, or zero.
PEERS = {"queue_config_cache": ("size", "hits", "misses"),
         "consumer_presence": ("queues_tracked", "servers_tracked", "total_registrations"),
         "server_health": ("alive", "dead"), "transport": ("sent", "received", "dropped")}
BACKOFF = ("queues_with_backoff", "total_backed_off_groups", "avg_interval_ms")
NO_PEERS = {"enabled": False, "queue_backoff": dict.fromkeys(BACKOFF, 0), "queue_backoff_summary": [],
            **{name: dict.fromkeys(keys) for name, keys in PEERS.items()}}

# Levels of the samples of a bucket; null if nothing was measured.
LEVEL = titled("MetricLevel", whole(**each(SOME_NUMBER, "avg", "min", "max", "last")))
METRICS = titled("SystemMetrics", whole(
    **{name: whole(**each(LEVEL, *levels)) for name, levels in LEVELS.items()},
    threadpool=whole(**{name: whole(**each(LEVEL, *levels)) for name, levels in POOLS.items()}),
    shared_state=whole(enabled=FLAG, queue_backoff=whole(**integers(*BACKOFF)),
                       queue_backoff_summary={**array(TEXT), "maxItems": 0},
                       **{name: whole(**each(SOME_INTEGER, *keys)) for name, keys in PEERS.items()},
                       sidecar_ops=whole(**each(whole(**integers("count", "items", "latency_us")), *OPS)))))

PENDING = """SELECT coalesce(sum(s.pending), 0)::bigint AS pending
  FROM queend.stat_queues s JOIN queend.queues q ON q.id = s.queue_id"""
PARTITIONS = f"""
SELECT q.name, m.bucket, m.partitions,
       m.partitions - coalesce(lag(m.partitions) OVER (PARTITION BY m.queue_id ORDER BY m.bucket),
                               CASE WHEN m.bucket < %(first)s THEN m.partitions ELSE 0 END) AS more
  FROM queend.queues q CROSS JOIN LATERAL (
        (SELECT x.* FROM queend.metric_partitions x WHERE x.queue_id = q.id AND x.bucket < %(first)s
          ORDER BY x.bucket DESC LIMIT 1)
        UNION ALL SELECT x.* FROM queend.metric_partitions x
         WHERE x.queue_id = q.id AND x.bucket >= %(first)s AND x.bucket <= %(last)s) m
 WHERE {OF_QUEUE} ORDER BY q.name, m.bucket LIMIT {ROWS}"""
# Takes the last record of each bucket. A minute in which nothing was recorded for queue 0 is unknown. A queue without a
# record in the 12 hours before has no backlog (stats_note).
BACKLOG = """
SELECT t.at, coalesce(b.pending, 0) AS pending, coalesce(b.processing, 0) AS processing
  FROM (SELECT 0 AS id WHERE %(queue)s::text IS NULL
        UNION ALL SELECT q.id FROM queend.queues q WHERE q.name = %(queue)s) w
 CROSS JOIN (SELECT m.bucket - m.bucket %% %(width)s AS at, max(m.bucket) AS last FROM queend.metric_backlogs m
              WHERE m.queue_id = 0 AND m.bucket >= %(first)s AND m.bucket <= %(last)s GROUP BY 1) t
  LEFT JOIN LATERAL (SELECT x.pending, x.processing FROM queend.metric_backlogs x
                      WHERE x.queue_id = w.id AND x.bucket <= t.last AND x.bucket > t.last - 43200000000
                      ORDER BY x.bucket DESC LIMIT 1) b ON true
 ORDER BY t.at"""
PARKED_BY = f"""
SELECT m.bucket - m.bucket %% %(width)s AS at, q.name, m.hostname, m.port, m.worker, {PARKED}
  FROM queend.metric_queues m JOIN queend.queues q ON q.id = m.queue_id
 WHERE m.bucket >= %(first)s AND m.bucket <= %(last)s AND m.parked > 0 AND {OF_QUEUE}
 GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5 LIMIT {ROWS}"""
RETENTION = f"""
SELECT b.at, sum(b.messages) FILTER (WHERE b.kind IN ('retention', 'ttl'))::bigint AS retention,
       sum(b.messages) FILTER (WHERE b.kind = 'completed_retention')::bigint AS completed,
       sum(b.messages) FILTER (WHERE b.kind = 'max_wait_time_eviction')::bigint AS eviction,
       sum(b.messages)::bigint AS total, count(*) AS events
  FROM (SELECT (extract(epoch FROM h.executed_at)::bigint
                - extract(epoch FROM h.executed_at)::bigint %% %(seconds)s) * 1000000 AS at, h.kind, h.messages
          FROM queend.retention_history h LEFT JOIN queend.queues q ON q.id = h.queue_id
         WHERE h.executed_at >= queend.moment(%(start)s) AND h.executed_at <= queend.moment(%(end)s) AND {OF_QUEUE}) b
 GROUP BY b.at ORDER BY b.at"""


@router.declare("GET /api/v1/analytics/system-metrics", READ, whole(
    **SPAN, replicaCount=INTEGER, pointCount=INTEGER, replicas=array(
        whole(hostname=TEXT, port=INTEGER, workerId=TEXT,
              timeSeries=array(whole(timestamp=TIME, sampleCount=INTEGER, metrics=METRICS))))), [FROM, TO, *DAEMON])
async def system_metrics(request: Request) -> Json:
    """Returns CPU, memory and pools of every daemon, oldest first. Default range: the last hour."""
    wanted = span(request)
    replicas: dict[tuple[str, int], list[Any]] = {}
    for one in await worker_series(request, wanted, "m.hostname", "m.port", **hostname_and_worker(Query(request))):
        if one.rss[1]:
            replicas.setdefault((one.hostname, one.port), []).append(
                {"timestamp": ts3(one.at), "sampleCount": int(one.rss[1]), "metrics": _metrics(one)})
    return Json({**wanted.shown, "replicas": [{"hostname": host, "port": port, "workerId": "0", "timeSeries": series}
                                              for (host, port), series in replicas.items()],
                 "replicaCount": len(replicas), "pointCount": max(map(len, replicas.values()), default=0)})


def _metrics(one: Any) -> dict[str, Any]:
    def levels(names: dict[str, str]) -> dict[str, Any]:
        return {name: _level(getattr(one, column)) for name, column in names.items()}

    def operation(name: str) -> dict[str, int]:
        count, items, us = (getattr(one, f"{name}_{part}") for part in ("requests", "messages", "us"))
        return {"count": count, "items": items, "latency_us": us // count if count else 0}

    return {**{name: levels(names) for name, names in LEVELS.items()},
            "threadpool": {name: levels(names) for name, names in POOLS.items()},
            "shared_state": {**NO_PEERS, "sidecar_ops": {name: operation(name) for name in OPS}}}


def _level(level: list[float | None]) -> dict[str, float | None]:
    return {"avg": average(level), "min": level[2], "max": level[3], "last": level[4]}


def _columns(one: Any, names: dict[str, str]) -> dict[str, int]:
    return {name: getattr(one, column) or 0 for name, column in names.items()}


def _rates(one: Any, names: dict[str, str], seconds: float) -> dict[str, float]:
    return {name: rate(getattr(one, column), seconds) for name, column in names.items()}


@router.declare("GET /api/v1/analytics/worker-metrics", READ, whole(
    **SPAN, pointCount=INTEGER, timeSeries=array(
        whole(timestamp=TIME, **integers(*WORKER_COUNTS, *WORKER_LEVELS), **each(NUMBER, *WORKER_RATES), **LAG)),
    workers=array(whole(**WORKER, backoffSize=INTEGER, lastSeen=TIME)),
    queues=array(whole(queueName=TEXT, popCount=INTEGER, **LAG)),
    summary=whole(**integers(*WORKER_SUMS, "pendingMessages"))), [FROM, TO, *DAEMON])
async def worker_metrics(request: Request) -> Json:
    """Returns the activity of the workers, newest first, and their latest state. Default range: the last hour."""
    wanted, which = span(request), hostname_and_worker(Query(request))
    series = await worker_series(request, wanted, **which)
    workers = newest(await worker_series(request, latest(request, SEEN_S), "m.hostname", "m.port", "m.worker", **which))
    queues = await queue_series(request, replace(wanted, minutes=10**9), "q.name")
    ((pending,),) = await rows(request, PENDING)
    queues.sort(key=lambda one: (-one.pop_messages, one.name))
    return Json({**wanted.shown, "pointCount": len(series),
                 "timeSeries": [_bucket(one, wanted.lasted(one.at)) for one in reversed(series)],
                 "workers": [{**worker_state(one), "backoffSize": or_zero(one.parked[4]), "lastSeen": ts0(one.seen_at)}
                             for one in workers],
                 "queues": [{"queueName": one.name, "popCount": one.pop_messages, **lag_ms(one)} for one in queues],
                 "summary": {**{name: sum(getattr(one, column) for one in series)
                                for name, column in WORKER_SUMS.items()}, "pendingMessages": pending}})


def _bucket(one: Any, seconds: float) -> dict[str, Any]:
    levels = (average(one.loop_lag_ms), one.loop_lag_ms[3], average(one.free), one.free[2], one.slots[4],
              average(one.jobs), one.jobs[3], one.parked[4])
    return {"timestamp": ts0(one.at), **_columns(one, WORKER_COUNTS), **_rates(one, WORKER_RATES, seconds),
            **dict(zip(WORKER_LEVELS, map(or_zero, levels), strict=True)), **lag_ms(one)}


@router.declare("GET /api/v1/analytics/queue-lag", READ,
                array(whole(queueName=TEXT, popCount=INTEGER, **LAG, bucketTime=TIME)), [FROM, TO, QUEUE],
                where="query")
async def queue_lag(request: Request) -> Json:
    """Returns the age of messages at delivery, delays included, per minute, newest first. Default range: the last
    hour."""
    wanted = span(request)
    found = await queue_series(request, replace(wanted, minutes=1), "q.name", queue=Query(request).text("queue"))
    return Json([{"queueName": one.name, "popCount": one.pop_messages, **lag_ms(one), "bucketTime": ts0(one.at)}
                 for one in sorted(found, key=lambda one: (-one.at, one.name))])


@router.declare("GET /api/v1/analytics/queue-ops", READ,
                whole(**SPAN, queues=array(TEXT), series=array(whole(
                    bucket=TIME, queueName=TEXT, **LAG, partitionCount=SOME_INTEGER,
                    **integers(*QUEUE_COUNTS, "partitionsCreated", "partitionsDeleted"),
                    **each(NUMBER, *QUEUE_RATES, "parkedCount")))), [FROM, TO, QUEUE], where="query")
async def queue_ops(request: Request) -> Json:
    """Returns the operations of each queue, oldest first. Default range: the last hour."""
    wanted, queue = span(request), Query(request).text("queue")
    series = {(one.at, one.name): one for one in await queue_series(request, wanted, "q.name", queue=queue)}
    width, first, last = wanted.bounds.values()
    partitions: dict[tuple[int, str], list[int]] = {}      # created, deleted, number at the end
    for one in await rows(request, PARTITIONS, first=first, last=last, queue=queue, prepare=False):
        if one.bucket >= first:
            entry = partitions.setdefault((one.bucket - one.bucket % width, one.name), [0, 0, 0])
            entry[0] += max(one.more, 0)
            entry[1] += max(-one.more, 0)
            entry[2] = one.partitions
    keys = sorted(series.keys() | partitions.keys())
    return Json({**wanted.shown, "queues": sorted({name for _, name in keys}), "series": [
        _operations(at, name, series.get((at, name)), partitions.get((at, name)), wanted.lasted(at),
                    wanted.begun(at))
        for at, name in keys]})


def _operations(at: int, name: str, one: Any, partitions: list[int] | None, seconds: float,
                minutes: int) -> dict[str, Any]:
    created, deleted, there = partitions or (0, 0, None)
    done = {**_columns(one, QUEUE_COUNTS), **_rates(one, QUEUE_RATES, seconds), **lag_ms(one),
            "parkedCount": round(one.parked / minutes, 2)} if one else {
                **dict.fromkeys(QUEUE_COUNTS, 0), **dict.fromkeys(QUEUE_RATES, 0.0), **NO_LAG, "parkedCount": 0.0}
    return {"bucket": ts0(at), "queueName": name, **done, "partitionsCreated": created, "partitionsDeleted": deleted,
            "partitionCount": there}


@router.declare("GET /api/v1/analytics/queue-backlog", READ,
                whole(**SPAN, series=array(whole(bucket=TIME, **integers("pending", "processing")))), [FROM, TO, QUEUE],
                where="query", own=True)
async def queue_backlog(request: Request) -> Json:
    """Returns the backlog of a queue, or of all queues together, oldest first: pending messages and messages in flight
    as they were counted at the beginning of the last minute of each bucket. Buckets that were not recorded are left
    out. Default range: the last hour."""
    wanted = span(request)
    found = await rows(request, BACKLOG, **wanted.bounds, queue=Query(request).text("queue"), prepare=False)
    return Json({**wanted.shown, "series": [
        {"bucket": ts0(one.at), "pending": one.pending, "processing": one.processing} for one in found]})


@router.declare("GET /api/v1/analytics/queue-parked-replicas", READ,
                whole(**SPAN, series=array(whole(bucket=TIME, queueName=TEXT, hostname=TEXT, port=INTEGER,
                                                 workerId=INTEGER, parkedCount=NUMBER)),
                      replicas=array(whole(hostname=TEXT, port=INTEGER, workerId=INTEGER))), [FROM, TO, QUEUE],
                where="query")
async def queue_parked_replicas(request: Request) -> Json:
    """Returns the average number of parked long polls by queue and daemon; zeros are left out. Default range: the last
    hour."""
    wanted = span(request)
    await request.app.state.control.metrics.fresh()
    found = await rows(request, PARKED_BY, **wanted.bounds, queue=Query(request).text("queue"), prepare=False)
    return Json({**wanted.shown, "series": [
        {"bucket": ts0(one.at), "queueName": one.name, "hostname": one.hostname, "port": one.port,
         "workerId": one.worker, "parkedCount": round(one.parked / wanted.begun(one.at), 2)} for one in found],
        "replicas": [{"hostname": host, "port": port, "workerId": worker}
                     for host, port, worker in sorted({(one.hostname, one.port, one.worker) for one in found})]})


@router.declare("GET /api/v1/analytics/retention", READ,
                whole(**SPAN, series=array(whole(bucket=TIME, **integers(*REMOVED))),
                      totals=whole(**integers(*REMOVED))), [FROM, TO, QUEUE], where="query")
async def retention(request: Request) -> Json:
    """Returns what retention removed, oldest first. Default range: the last hour."""
    wanted = span(request)
    found = await rows(request, RETENTION, seconds=wanted.minutes * 60, start=wanted.start, end=wanted.end,
                       queue=Query(request).text("queue"))
    return Json({**wanted.shown, "series": [{"bucket": ts0(one.at), **_columns(one, REMOVED)} for one in found],
                 "totals": {name: sum(getattr(one, column) or 0 for one in found) for name, column in REMOVED.items()}})
