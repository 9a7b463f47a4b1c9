"""/api/v1/analytics: what daemons, workers and queues did over time. Everything here was written down a minute at a time."""
from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from .answer import Json
from .database import rows
from .history import ROWS, Span, average, lag_ms, latest, newest, queue_series, rate, span, ts0, whole, worker_series
from .query import Query
from .queues import ts3

router = APIRouter()

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
RETENTION_KEYS = {"retentionMsgs": "retention", "completedRetentionMsgs": "completed", "evictionMsgs": "eviction", "totalMsgs": "total", "eventCount": "events"}
# Of the reference's several ways to share state between daemons none is in use here.
UNKNOWN = {
    "queue_backoff": {"queues_with_backoff": 0, "total_backed_off_groups": 0, "avg_interval_ms": 0}, "queue_backoff_summary": [],
    "queue_config_cache": {"size": None, "hits": None, "misses": None},
    "consumer_presence": {"queues_tracked": None, "servers_tracked": None, "total_registrations": None},
    "server_health": {"alive": None, "dead": None}, "transport": {"sent": None, "received": None, "dropped": None}}


def _leaf(level: list[float | None]) -> dict[str, float | None]:
    return {"avg": average(level), "min": level[2], "max": level[3], "last": level[4]}


@router.get("/api/v1/analytics/system-metrics", tags=["analytics"])
async def system_metrics(request: Request) -> Json:
    """Processor, memory and pools of every daemon, oldest first. Query: from, to (the last hour), hostname, workerId."""
    query, wanted = Query(request), span(request)
    worker = query.whole("workerId", -1, -1, 2**31 - 1)
    found = await worker_series(request, wanted, "m.hostname, m.port", query.text("hostname"), None if worker < 0 else worker)
    replicas: dict[tuple[str, int], list[Any]] = {}
    for one in found:
        if one.rss[1]:
            replicas.setdefault((one.hostname, one.port), []).append({"timestamp": ts3(one.at), "sampleCount": int(one.rss[1]), "metrics": _metrics(one)})
    return Json({"timeRange": wanted.shown, "replicas": [{"hostname": host, "port": port, "workerId": "0", "timeSeries": series} for (host, port), series in replicas.items()],
                 "replicaCount": len(replicas), "bucketMinutes": wanted.minutes, "pointCount": max(map(len, replicas.values()), default=0)})


def _metrics(one: Any) -> dict[str, Any]:
    return {
        "cpu": {"user_us": _leaf(one.cpu_user), "system_us": _leaf(one.cpu_system)}, "memory": {"rss_bytes": _leaf(one.rss), "virtual_bytes": _leaf(one.virtual)},
        "database": {"pool_size": _leaf(one.pool_size), "pool_idle": _leaf(one.pool_idle), "pool_active": _leaf(one.pool_active)},
        "threadpool": {"db": {"pool_size": _leaf(one.slots), "queue_size": _leaf(one.jobs)}, "system": {"pool_size": _leaf(one.threads), "queue_size": _leaf(one.waiting)}},
        "registries": {"response": _leaf(one.responses)},
        "shared_state": {"enabled": False, **UNKNOWN, "sidecar_ops": {
            name: {"count": requests, "items": items, "latency_us": us // requests if requests else 0} for name, requests, items, us in (
                ("push", one.push_requests, one.push_messages, one.push_us), ("pop", one.pop_requests, one.pop_messages, one.pop_us),
                ("ack", one.ack_requests, one.ack_messages, one.ack_us))}}}


@router.get("/api/v1/analytics/worker-metrics", tags=["analytics"])
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
        "timeRange": wanted.shown, "bucketMinutes": wanted.minutes, "pointCount": len(series), "timeSeries": [_bucket(one, wanted.lasted(one.at)) for one in reversed(series)],
        "workers": [{"hostname": one.hostname, "workerId": one.worker, "avgEventLoopLagMs": whole(average(one.loop_lag_ms)), "maxEventLoopLagMs": whole(one.loop_lag_ms[3]),
                     "freeSlots": whole(one.free[4]), "dbConnections": whole(one.slots[4]), "jobQueueSize": whole(one.jobs[4]), "backoffSize": whole(one.parked[4]),
                     "messagesProcessed": one.push_messages + one.pop_messages + one.ack_messages, "lastSeen": ts0(one.seen_at)} for one in workers],
        "queues": sorted(({"queueName": one.name, "popCount": one.pop_messages, "avgLagMs": lag_ms(one)[0], "maxLagMs": lag_ms(one)[1]} for one in queues),
                         key=lambda one: (-one["popCount"], one["queueName"])),
        "summary": {"totalPushMessages": total("push_messages"), "totalPopMessages": total("pop_messages"), "totalAckMessages": total("ack_messages"),
                    "totalPushRequests": total("push_requests"), "totalPopRequests": total("pop_requests"), "totalAckRequests": total("ack_requests"),
                    "totalDbErrors": total("db_errors"), "totalAckFailed": total("ack_failed"), "totalDlq": total("dead_lettered"), "pendingMessages": pending}})


def _bucket(one: Any, seconds: float) -> dict[str, Any]:
    lag = lag_ms(one)
    return {
        "timestamp": ts0(one.at), "pushMessages": one.push_messages, "popMessages": one.pop_messages, "ackMessages": one.ack_messages,
        "pushRequests": one.push_requests, "popRequests": one.pop_requests, "ackRequests": one.ack_requests, "jobsDone": one.requests,
        "pushPerSecond": rate(one.push_messages, seconds), "popPerSecond": rate(one.pop_messages, seconds), "ackPerSecond": rate(one.ack_messages, seconds),
        "avgEventLoopLagMs": whole(average(one.loop_lag_ms)), "maxEventLoopLagMs": whole(one.loop_lag_ms[3]), "avgFreeSlots": whole(average(one.free)),
        "minFreeSlots": whole(one.free[2]), "dbConnections": whole(one.slots[4]), "avgJobQueueSize": whole(average(one.jobs)), "maxJobQueueSize": whole(one.jobs[3]),
        "backoffSize": whole(one.parked[4]), "avgLagMs": lag[0], "maxLagMs": lag[1], "lagCount": one.lag_n, "dbErrors": one.db_errors,
        "ackSuccess": one.ack_done, "ackFailed": one.ack_failed, "dlqCount": one.dead_lettered}


@router.get("/api/v1/analytics/queue-lag", tags=["analytics"])
async def queue_lag(request: Request) -> Json:
    """Age of messages when they were delivered, minute by minute, newest first. Query: from, to (the last hour), queue."""
    wanted = span(request)
    found = await queue_series(request, Span(wanted.start, wanted.end, 1), "q.name", Query(request).text("queue"))
    return Json([{"queueName": one.name, "popCount": one.pop_messages, "avgLagMs": lag_ms(one)[0], "maxLagMs": lag_ms(one)[1], "bucketTime": ts0(one.at)}
                 for one in sorted(found, key=lambda one: (-one.at, one.name))])


@router.get("/api/v1/analytics/queue-ops", tags=["analytics"])
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
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes, "series": [_operations(at, name, series.get((at, name)), partitions.get((at, name)), wanted.lasted(at))
                                                                                     for at, name in keys], "queues": sorted({name for _, name in keys})})


def _operations(at: int, name: str, one: Any, partitions: list[int] | None, seconds: float) -> dict[str, Any]:
    def value(key: str) -> int:
        return getattr(one, key) if one else 0
    lag = lag_ms(one) if one else (0, 0)
    return {
        "bucket": ts0(at), "queueName": name, "pushRequests": value("push_requests"), "pushMessages": value("push_messages"), "popMessages": value("pop_messages"),
        "popEmpty": value("pop_empty"), "ackRequests": value("ack_requests"), "ackSuccess": value("ack_done"), "ackFailed": value("ack_failed"),
        "transactions": value("transactions"), "partitionsCreated": partitions[0] if partitions else 0, "partitionsDeleted": partitions[1] if partitions else 0,
        "partitionCount": partitions[2] if partitions else None, "avgLagMs": lag[0], "maxLagMs": lag[1], "pushPerSecond": rate(value("push_messages"), seconds),
        "popPerSecond": rate(value("pop_messages"), seconds), "ackPerSecond": rate(value("ack_done"), seconds), "emptyPerSecond": rate(value("pop_empty"), seconds),
        "parkedCount": round(value("parked") / max(value("samples"), 1), 2)}


@router.get("/api/v1/analytics/queue-parked-replicas", tags=["analytics"])
async def queue_parked_replicas(request: Request) -> Json:
    """Long polls that waited, by queue and daemon, on average; only where there were some. Query: from, to (the last hour), queue."""
    wanted, queue = span(request), Query(request).text("queue")
    await request.app.state.control.metrics.fresh()
    found = await rows(request, PARKED, *wanted.bounds, queue, queue, prepare=False)
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes, "series": [
        {"bucket": ts0(one.at), "queueName": one.name, "hostname": one.hostname, "workerId": one.worker, "parkedCount": round(one.parked, 2)} for one in found],
        "replicas": [{"hostname": host, "workerId": worker} for host, worker in sorted({(one.hostname, one.worker) for one in found})]})


@router.get("/api/v1/analytics/retention", tags=["analytics"])
async def retention(request: Request) -> Json:
    """What retention removed, oldest first. Query: from, to (the last hour), queue."""
    wanted, queue = span(request), Query(request).text("queue")
    found = await rows(request, RETENTION, wanted.seconds, wanted.start, wanted.end, queue, queue)
    return Json({"timeRange": wanted.shown, "bucketMinutes": wanted.minutes,
                 "series": [{"bucket": ts0(one.at), **{key: getattr(one, name) or 0 for key, name in RETENTION_KEYS.items()}} for one in found],
                 "totals": {key: sum(getattr(one, name) or 0 for one in found) for key, name in RETENTION_KEYS.items()}})
