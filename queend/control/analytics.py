"""/api/v1/analytics: what daemons, workers and queues did over time. Everything here was written down a minute at a time."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ..auth.levels import READ
from .answer import Json
from .database import rows
from .history import ROWS, Span, average, lag_ms, latest, newest, or_zero, queue_series, rate, span, ts0, worker_series
from .query import Query
from .queues import ts3
from .route import Routes
from .shapes import A_LAG, A_WORKER, FROM, LAG, OPS, QUEUE, RANGE, SPAN, TO, WORKER, each, integers
from .words import FLAG, INTEGER, NAME, NUMBER, SOME_INTEGER, SOME_NUMBER, TEXT, TIME, array, like, parameter, whole

router = Routes("analytics")
DAEMON = [parameter("hostname", NAME), parameter("workerId", {**INTEGER, "minimum": 0})]
RATES = ("pushPerSecond", "popPerSecond", "ackPerSecond")
REMOVED = ("retentionMsgs", "completedRetentionMsgs", "evictionMsgs", "totalMsgs", "eventCount")
SUMMARY = ("totalPushMessages", "totalPopMessages", "totalAckMessages", "totalPushRequests", "totalPopRequests",
           "totalAckRequests", "totalDbErrors", "totalAckFailed", "totalDlq", "pendingMessages")
# What is null was not measured. Of a level: average, bounds and the last value of the samples in a bucket.
LEVEL = whole(**each(SOME_NUMBER, "avg", "min", "max", "last"))
A_LEVEL = {"avg": 8.0, "min": 8.0, "max": 8.0, "last": 8.0}
LEVEL_NAMES = {"cpu": ("user_us", "system_us"), "memory": ("rss_bytes", "virtual_bytes"),
               "database": ("pool_size", "pool_idle", "pool_active"), "registries": ("response",)}
POOLS = ("pool_size", "queue_size")
# Kept by servers that talk to each other; there are none here.
PEERS = {"queue_config_cache": ("size", "hits", "misses"), "consumer_presence": ("queues_tracked", "servers_tracked",
    "total_registrations"), "server_health": ("alive", "dead"),
         "transport": ("sent", "received", "dropped")}
BACKOFF_NAMES = ("queues_with_backoff", "total_backed_off_groups", "avg_interval_ms")
OP = ("count", "items", "latency_us")
METRIC_SHAPES = whole(
    **{name: whole(**each(LEVEL, *leaves)) for name, leaves in LEVEL_NAMES.items()},
    threadpool=whole(**each(whole(**each(LEVEL, *POOLS)), "db", "system")),
    shared_state=whole(enabled=FLAG, queue_backoff=whole(**integers(*BACKOFF_NAMES)),
                       queue_backoff_summary={"type": "array", "maxItems": 0},
                       **{name: whole(**each(SOME_INTEGER, *leaves)) for name, leaves in PEERS.items()},
                       sidecar_ops=whole(**each(whole(**integers(*OP)), *OPS))))
SOME_METRICS = {
    **{name: dict.fromkeys(leaves, A_LEVEL) for name, leaves in LEVEL_NAMES.items()},
    "threadpool": dict.fromkeys(("db", "system"), dict.fromkeys(POOLS, A_LEVEL)),
    "shared_state": {"enabled": False, "queue_backoff": dict.fromkeys(BACKOFF_NAMES, 0), "queue_backoff_summary": [],
                     **{name: dict.fromkeys(leaves) for name, leaves in PEERS.items()},
                     "sidecar_ops": dict.fromkeys(OPS, {"count": 4, "items": 10, "latency_us": 900})}}

SEEN_S = 300
PENDING = "SELECT coalesce(sum(s.pending), 0)::bigint AS pending FROM queend.stat_queues s JOIN queend.queues q ON q.id = s.queue_id"
PARTITIONS = f"""
SELECT q.name, m.bucket, m.partitions, m.partitions - coalesce(lag(m.partitions) OVER (PARTITION BY m.queue_id ORDER BY m.bucket), CASE WHEN m.bucket < %s THEN m.partitions ELSE 0 END) AS more
  FROM queend.queues q CROSS JOIN LATERAL (
        (SELECT x.* FROM queend.metric_partitions x WHERE x.queue_id = q.id AND x.bucket < %s ORDER BY x.bucket DESC LIMIT 1)
        UNION ALL SELECT x.* FROM queend.metric_partitions x WHERE x.queue_id = q.id AND x.bucket >= %s AND x.bucket <= %s) m
 WHERE %s::text IS NULL OR q.name = %s ORDER BY q.name, m.bucket LIMIT {ROWS}"""
PARKED = f"""
SELECT m.bucket - m.bucket %% %s AS at, q.name, m.hostname, m.worker, sum(m.parked)::float8 / greatest(sum(m.samples), 1) AS parked
  FROM queend.metric_queues m JOIN queend.queues q ON q.id = m.queue_id
 WHERE m.bucket >= %s AND m.bucket <= %s AND m.parked > 0 AND (%s::text IS NULL OR q.name = %s) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4 LIMIT {ROWS}"""
RETENTION = """
SELECT b.at, sum(b.messages) FILTER (WHERE b.kind IN ('retention', 'ttl'))::bigint AS retention,
       sum(b.messages) FILTER (WHERE b.kind = 'completed_retention')::bigint AS completed,
       sum(b.messages) FILTER (WHERE b.kind = 'max_wait_time_eviction')::bigint AS eviction, sum(b.messages)::bigint AS total, count(*) AS events
  FROM (SELECT (extract(epoch FROM h.executed_at)::bigint - extract(epoch FROM h.executed_at)::bigint %% %s) * 1000000 AS at, h.kind, h.messages
          FROM queend.retention_history h LEFT JOIN queend.queues q ON q.id = h.queue_id
         WHERE h.executed_at >= queend.moment(%s) AND h.executed_at <= queend.moment(%s) AND (%s::text IS NULL OR q.name = %s)) b
 GROUP BY b.at ORDER BY b.at"""
RETENTION_KEYS = {"retentionMsgs": "retention", "completedRetentionMsgs": "completed", "evictionMsgs": "eviction",
                  "totalMsgs": "total", "eventCount": "events"}
# Of the reference's several ways to share state between daemons none is in use here.
UNKNOWN = {
    "queue_backoff": {"queues_with_backoff": 0, "total_backed_off_groups": 0, "avg_interval_ms": 0},
    "queue_backoff_summary": [],
    "queue_config_cache": {"size": None, "hits": None, "misses": None},
    "consumer_presence": {"queues_tracked": None, "servers_tracked": None, "total_registrations": None},
    "server_health": {"alive": None, "dead": None}, "transport": {"sent": None, "received": None, "dropped": None}}


def _leaf(level: list[float | None]) -> dict[str, float | None]:
    return {"avg": average(level), "min": level[2], "max": level[3], "last": level[4]}


@router.declare("GET /api/v1/analytics/system-metrics", READ,
                like(whole(**SPAN, replicaCount=INTEGER, pointCount=INTEGER,
                           replicas=array(whole(hostname=TEXT, port=INTEGER, workerId=TEXT,
                                                timeSeries=array(whole(timestamp=TIME, sampleCount=INTEGER,
                                                                       metrics=METRIC_SHAPES))))),
                                                                       {**RANGE, "replicaCount": 1, "pointCount": 1,
                                                                        "replicas": [{"hostname": "one", "port": 6632,
                                                                            "workerId": "0",
                                                                            "timeSeries": [{"timestamp": "2026-01-02T03:04:00.000Z", "sampleCount": 60, "metrics": SOME_METRICS}]}]}),
                [FROM, TO, *DAEMON])
async def system_metrics(request: Request) -> Json:
    """Processor, memory and pools of every daemon, oldest first. Query: from, to (the last hour), hostname, workerId."""
    query, wanted = Query(request), span(request)
    worker = query.whole("workerId", -1, -1, 2**31 - 1)
    found = await worker_series(request, wanted, "m.hostname, m.port", query.text("hostname"),
                                None if worker < 0 else worker)
    replicas: dict[tuple[str, int], list[Any]] = {}
    for one in found:
        if one.rss[1]:
            replicas.setdefault((one.hostname, one.port), []).append({"timestamp": ts3(one.at),
                                                                      "sampleCount": int(one.rss[1]),
                                                                      "metrics": _metrics(one)})
    return Json({"timeRange": wanted.shown, "replicas": [{"hostname": host, "port": port, "workerId": "0",
                                                          "timeSeries": series} for (host, port),
                                                          series in replicas.items()],
                 "replicaCount": len(replicas), "bucketMinutes": wanted.minutes,
                 "pointCount": max(map(len, replicas.values()), default=0)})


def _metrics(one: Any) -> dict[str, Any]:
    return {
        "cpu": {"user_us": _leaf(one.cpu_user), "system_us": _leaf(one.cpu_system)},
        "memory": {"rss_bytes": _leaf(one.rss), "virtual_bytes": _leaf(one.virtual)},
        "database": {"pool_size": _leaf(one.pool_size), "pool_idle": _leaf(one.pool_idle),
                     "pool_active": _leaf(one.pool_active)},
        "threadpool": {"db": {"pool_size": _leaf(one.slots), "queue_size": _leaf(one.jobs)},
                       "system": {"pool_size": _leaf(one.threads), "queue_size": _leaf(one.waiting)}},
        "registries": {"response": _leaf(one.responses)},
        "shared_state": {"enabled": False, **UNKNOWN, "sidecar_ops": {
            name: {"count": requests, "items": items, "latency_us": us // requests if requests else 0} for name,
            requests, items, us in (
                ("push", one.push_requests, one.push_messages, one.push_us),
                ("pop", one.pop_requests, one.pop_messages, one.pop_us),
                ("ack", one.ack_requests, one.ack_messages, one.ack_us))}}}


@router.declare("GET /api/v1/analytics/worker-metrics", READ,
                like(whole(**SPAN, pointCount=INTEGER, timeSeries=array(whole(timestamp=TIME,
                    **integers("pushMessages", "popMessages", "ackMessages", "pushRequests", "popRequests",
                               "ackRequests", "jobsDone", "avgEventLoopLagMs", "maxEventLoopLagMs", "avgFreeSlots",
                               "minFreeSlots", "dbConnections", "avgJobQueueSize", "maxJobQueueSize", "backoffSize",
                               "lagCount", "dbErrors", "ackSuccess", "ackFailed", "dlqCount"), **each(NUMBER, *RATES),
                               **LAG)), workers=array(whole(**WORKER, backoffSize=INTEGER, lastSeen=TIME)),
                               queues=array(whole(queueName=TEXT, popCount=INTEGER, **LAG)),
                               summary=whole(**integers(*SUMMARY))), {**RANGE, "pointCount": 1,
                                                                      "timeSeries": [{"timestamp": "2026-01-02T03:04:00Z", "pushMessages": 10, "popMessages": 9, "ackMessages": 9, "pushRequests": 4, "popRequests": 5, "ackRequests": 5, "jobsDone": 14, "avgEventLoopLagMs": 1, "maxEventLoopLagMs": 7, "avgFreeSlots": 7, "minFreeSlots": 7, "dbConnections": 8, "avgJobQueueSize": 0, "maxJobQueueSize": 1, "backoffSize": 0, "lagCount": 9, "dbErrors": 0, "ackSuccess": 9, "ackFailed": 0, "dlqCount": 0, "pushPerSecond": 0.17, "popPerSecond": 0.15, "ackPerSecond": 0.15, **A_LAG}], "workers": [{**A_WORKER, "backoffSize": 0, "lastSeen": "2026-01-02T03:04:05Z"}], "queues": [{"queueName": "orders", "popCount": 9, **A_LAG}], "summary": dict(zip(SUMMARY, (10, 9, 9, 4, 5, 5, 0, 0, 0, 1), strict=True))}),
                [FROM, TO, *DAEMON])
async def worker_metrics(request: Request) -> Json:
    """What the workers did, newest first, and their latest state. Query: from, to (the last hour), hostname, workerId."""
    query, wanted = Query(request), span(request)
    worker = query.whole("workerId", -1, -1, 2**31 - 1)
    which = (query.text("hostname"), None if worker < 0 else worker)
    series = await worker_series(request, wanted, "", *which)
    workers = newest(await worker_series(request, latest(SEEN_S), "m.hostname, m.worker", *which))
    queues = await queue_series(request, Span(wanted.start, wanted.end, 10**9), "q.name")
    ((pending,),) = await rows(request, PENDING)

    def total(name: str) -> int:
        return sum(getattr(one, name) for one in series)
    return Json({
        "timeRange": wanted.shown, "bucketMinutes": wanted.minutes, "pointCount": len(series),
        "timeSeries": [_bucket(one, wanted.lasted(one.at)) for one in reversed(series)],
        "workers": [{"hostname": one.hostname, "workerId": one.worker,
                     "avgEventLoopLagMs": or_zero(average(one.loop_lag_ms)),
                     "maxEventLoopLagMs": or_zero(one.loop_lag_ms[3]),
                     "freeSlots": or_zero(one.free[4]), "dbConnections": or_zero(one.slots[4]),
                     "jobQueueSize": or_zero(one.jobs[4]), "backoffSize": or_zero(one.parked[4]),
                     "messagesProcessed": one.push_messages + one.pop_messages + one.ack_messages,
                     "lastSeen": ts0(one.seen_at)} for one in workers],
        "queues": sorted(({"queueName": one.name, "popCount": one.pop_messages, "avgLagMs": lag_ms(one)[0],
                           "maxLagMs": lag_ms(one)[1]} for one in queues),
                         key=lambda one: (-one["popCount"], one["queueName"])),
        "summary": {"totalPushMessages": total("push_messages"), "totalPopMessages": total("pop_messages"),
                    "totalAckMessages": total("ack_messages"),
                    "totalPushRequests": total("push_requests"), "totalPopRequests": total("pop_requests"),
                    "totalAckRequests": total("ack_requests"),
                    "totalDbErrors": total("db_errors"), "totalAckFailed": total("ack_failed"),
                    "totalDlq": total("dead_lettered"), "pendingMessages": pending}})


def _bucket(one: Any, seconds: float) -> dict[str, Any]:
    lag = lag_ms(one)
    return {
        "timestamp": ts0(one.at), "pushMessages": one.push_messages, "popMessages": one.pop_messages,
        "ackMessages": one.ack_messages,
        "pushRequests": one.push_requests, "popRequests": one.pop_requests, "ackRequests": one.ack_requests,
        "jobsDone": one.requests,
        "pushPerSecond": rate(one.push_messages, seconds), "popPerSecond": rate(one.pop_messages, seconds),
        "ackPerSecond": rate(one.ack_messages, seconds),
        "avgEventLoopLagMs": or_zero(average(one.loop_lag_ms)), "maxEventLoopLagMs": or_zero(one.loop_lag_ms[3]),
        "avgFreeSlots": or_zero(average(one.free)),
        "minFreeSlots": or_zero(one.free[2]), "dbConnections": or_zero(one.slots[4]),
        "avgJobQueueSize": or_zero(average(one.jobs)), "maxJobQueueSize": or_zero(one.jobs[3]),
        "backoffSize": or_zero(one.parked[4]), "avgLagMs": lag[0], "maxLagMs": lag[1], "lagCount": one.lag_n,
        "dbErrors": one.db_errors,
        "ackSuccess": one.ack_done, "ackFailed": one.ack_failed, "dlqCount": one.dead_lettered}


@router.declare("GET /api/v1/analytics/queue-lag", READ,
                like(array(whole(queueName=TEXT, popCount=INTEGER, **LAG, bucketTime=TIME)),
                     [{"queueName": "orders", "popCount": 9, **A_LAG, "bucketTime": "2026-01-02T03:04:00Z"}]),
                [FROM, TO, QUEUE])
async def queue_lag(request: Request) -> Json:
    """Age of messages when they were delivered, minute by minute, newest first. Query: from, to (the last hour), queue."""
    wanted = span(request)
    found = await queue_series(request, Span(wanted.start, wanted.end, 1), "q.name", Query(request).text("queue"))
    return Json([{"queueName": one.name, "popCount": one.pop_messages, "avgLagMs": lag_ms(one)[0],
                  "maxLagMs": lag_ms(one)[1], "bucketTime": ts0(one.at)}
                 for one in sorted(found, key=lambda one: (-one.at, one.name))])


@router.declare("GET /api/v1/analytics/queue-ops", READ,
                like(whole(**SPAN, queues=array(TEXT), series=array(whole(bucket=TIME, queueName=TEXT, **LAG,
                    partitionCount=SOME_INTEGER, **integers("pushRequests", "pushMessages", "popMessages", "popEmpty",
                                                            "ackRequests", "ackSuccess", "ackFailed", "transactions",
                                                            "partitionsCreated", "partitionsDeleted"),
                                                            **each(NUMBER, *RATES, "emptyPerSecond", "parkedCount")))),
                                                            {**RANGE, "queues": ["orders"],
                                                             "series": [{"bucket": "2026-01-02T03:04:00Z",
                                                                 "queueName": "orders", **A_LAG, "partitionCount": 2,
                                                                 "pushRequests": 4, "pushMessages": 10,
                                                                 "popMessages": 9, "popEmpty": 1, "ackRequests": 5,
                                                                 "ackSuccess": 9, "ackFailed": 0, "transactions": 0,
                                                                 "partitionsCreated": 2, "partitionsDeleted": 0,
                                                                 "pushPerSecond": 0.17, "popPerSecond": 0.15,
                                                                 "ackPerSecond": 0.15, "emptyPerSecond": 0.02,
                                                                 "parkedCount": 0.5}]}),
                [FROM, TO, QUEUE])
async def queue_ops(request: Request) -> Json:
    """What was done to each queue, oldest first. Query: from, to (the last hour), queue."""
    wanted, queue = span(request), Query(request).text("queue")
    series = {(one.at, one.name): one for one in await queue_series(request, wanted, "q.name", queue)}
    width, first, last = wanted.bounds
    partitions: dict[tuple[int, str], list[int]] = {}      # created, deleted, how many at the end
    for one in await rows(request, PARTITIONS, first, first, first, last, queue, queue, prepare=False):
        if one.bucket >= first:
            entry = partitions.setdefault((one.bucket - one.bucket % width, one.name), [0, 0, 0])
            entry[0] += max(one.more, 0)
            entry[1] += max(-one.more, 0)
            entry[2] = one.partitions
    keys = sorted(series.keys() | partitions.keys())
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes,
                 "series": [_operations(at, name, series.get((at, name)), partitions.get((at, name)), wanted.lasted(at))
                                                                                     for at, name in keys],
                                                                                     "queues": sorted({name for _,
                                                                                         name in keys})})


def _operations(at: int, name: str, one: Any, partitions: list[int] | None, seconds: float) -> dict[str, Any]:
    def value(key: str) -> int:
        return getattr(one, key) if one else 0
    lag = lag_ms(one) if one else (0, 0)
    return {
        "bucket": ts0(at), "queueName": name, "pushRequests": value("push_requests"),
        "pushMessages": value("push_messages"), "popMessages": value("pop_messages"),
        "popEmpty": value("pop_empty"), "ackRequests": value("ack_requests"), "ackSuccess": value("ack_done"),
        "ackFailed": value("ack_failed"),
        "transactions": value("transactions"), "partitionsCreated": partitions[0] if partitions else 0,
        "partitionsDeleted": partitions[1] if partitions else 0,
        "partitionCount": partitions[2] if partitions else None, "avgLagMs": lag[0], "maxLagMs": lag[1],
        "pushPerSecond": rate(value("push_messages"), seconds),
        "popPerSecond": rate(value("pop_messages"), seconds), "ackPerSecond": rate(value("ack_done"), seconds),
        "emptyPerSecond": rate(value("pop_empty"), seconds),
        "parkedCount": round(value("parked") / max(value("samples"), 1), 2)}


@router.declare("GET /api/v1/analytics/queue-parked-replicas", READ,
                like(whole(**SPAN, series=array(whole(bucket=TIME, queueName=TEXT, hostname=TEXT, workerId=INTEGER,
                                                      parkedCount=NUMBER)),
                                                      replicas=array(whole(hostname=TEXT, workerId=INTEGER))),
                                                      {**RANGE, "series": [{"bucket": "2026-01-02T03:04:00Z",
                                                          "queueName": "orders", "hostname": "one", "workerId": 0,
                                                          "parkedCount": 0.5}],
                                                          "replicas": [{"hostname": "one", "workerId": 0}]}),
                [FROM, TO, QUEUE])
async def queue_parked_replicas(request: Request) -> Json:
    """Long polls that waited, by queue and daemon, on average; only where there were some. Query: from, to (the last hour), queue."""
    wanted, queue = span(request), Query(request).text("queue")
    await request.app.state.control.metrics.fresh()
    found = await rows(request, PARKED, *wanted.bounds, queue, queue, prepare=False)
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes, "series": [
        {"bucket": ts0(one.at), "queueName": one.name, "hostname": one.hostname, "workerId": one.worker,
         "parkedCount": round(one.parked, 2)} for one in found],
        "replicas": [{"hostname": host, "workerId": worker} for host, worker in sorted({(one.hostname,
            one.worker) for one in found})]})


@router.declare("GET /api/v1/analytics/retention", READ,
                like(whole(**SPAN, series=array(whole(bucket=TIME, **integers(*REMOVED))),
                           totals=whole(**integers(*REMOVED))), {**RANGE,
                                                                 "series": [{"bucket": "2026-01-02T03:04:00Z",
                                                                     **dict(zip(REMOVED, (7, 0, 0, 7, 1),
                                                                         strict=True))}],
                                                                         "totals": dict(zip(REMOVED, (7, 0, 0, 7, 1),
                                                                             strict=True))}),
                [FROM, TO, QUEUE])
async def retention(request: Request) -> Json:
    """What retention removed, oldest first. Query: from, to (the last hour), queue."""
    wanted, queue = span(request), Query(request).text("queue")
    found = await rows(request, RETENTION, wanted.seconds, wanted.start, wanted.end, queue, queue)
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes,
                 "series": [{"bucket": ts0(one.at), **{key: getattr(one, name) or 0 for key,
                                                       name in RETENTION_KEYS.items()}} for one in found],
                 "totals": {key: sum(getattr(one, name) or 0 for one in found) for key,
                            name in RETENTION_KEYS.items()}})
