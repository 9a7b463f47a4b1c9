"""Overview of everything: /api/v1/resources/overview, /api/v1/status, /api/v1/status/analytics. Sums come from the kept
figures (`services/stats`), rates from the minutes that daemons wrote (`metrics/history`)."""
from __future__ import annotations

import statistics
import time
from typing import Any

from fastapi import Request

from ..._core import read_queue_id
from ...auth.levels import READ
from ...services.minute import COUNTS
from ..database import rows, seed_of
from ..http.answer import Json, Refusal
from ..http.moments import age_s, ts0, ts3
from ..http.query import Query
from ..http.route import Routes
from ..http.schema import (ID, INTEGER, MAYBE, NAME, NUMBER, SOME_INTEGER, SOME_NUMBER, TEXT, TIME, array, parameter,
                           whole)
from ..http.schemas import FROM, LAG, OPS, QUEUE, SIX_COUNTS, SPAN, TO, WORKER, each, integers
from ..metrics.backlogs import OLDEST
from ..metrics.history import (DAY_S, FILTERS, NO_LAG, PUSHED, average, lag_ms, latest, newest, or_zero, queue_series,
                               rate, span, worker_series, worker_state)

router = Routes("status")
NAMESPACE = parameter("namespace", NAME)
TASK = parameter("task", NAME)
SPREAD = whole(**integers("avg", "median", "min", "max"))
PROCESS = ("avgEventLoopLagMs", "maxEventLoopLagMs", "minFreeSlots", "dbErrors", "dlqCount", "queenCpuUserPct",
           "queenCpuSysPct", "queenRssMb", "dbPoolActive", "dbPoolIdle", "dbPoolSize")

RATE_S = 300
POINTS = 10_000
STEPS = {"minute": 60, "hour": 3600, "day": DAY_S, "week": 7 * DAY_S}
MONDAY_S = 4 * DAY_S      # 1970-01-05

SUMS = """
SELECT count(*) AS queues, count(DISTINCT nullif(q.namespace, '')) AS namespaces,
       count(DISTINCT nullif(q.task, '')) AS tasks, coalesce(sum(s.partitions), 0)::bigint AS partitions,
       coalesce(sum(s.pushed), 0)::bigint AS pushed, coalesce(sum(s.pending), 0)::bigint AS pending,
       coalesce(sum(s.processing), 0)::bigint AS processing, coalesce(sum(s.dead), 0)::bigint AS dead,
       coalesce(sum(s.leased), 0)::bigint AS leased_partitions,
       (SELECT (queend.now_us() - x.looked_at) / 1000000 FROM queend.stats x) AS age,
       (SELECT t.counts FROM queend.metric_totals t) AS totals
  FROM queend.queues q LEFT JOIN queend.stat_queues s ON s.queue_id = q.id"""
# Gives two figures of each queue. messages: what the group has to consume that is furthest behind in each partition.
# oldest: the moment from which the first of them could be delivered.
LAGS = f"""
SELECT greatest(s.pending + s.processing - s.overlap, 0) AS messages, {OLDEST} AS oldest, queend.now_us() AS now
  FROM queend.stat_queues s JOIN queend.queues q ON q.id = s.queue_id"""
QUEUES = f"""
SELECT q.id, q.name, q.namespace, q.task, s.partitions, s.consumed
  FROM queend.queues q JOIN queend.stat_queues s ON s.queue_id = q.id
 WHERE s.total > 0 AND {FILTERS} ORDER BY q.created_at, q.id LIMIT 10000"""
LEASES = """
SELECT coalesce(sum(g.leases), 0)::bigint AS active, coalesce(sum(g.leased), 0)::bigint AS messages
  FROM queend.stat_groups g JOIN queend.queues q ON q.id = g.queue_id"""
# Only the latest dead letters: there may be many.
DEAD = """
SELECT d.error, count(*) AS count,
       (SELECT count(DISTINCT x.partition_id)
          FROM (SELECT l.partition_id FROM queend.dead_letters l
                 ORDER BY l.failed_at DESC, l.id DESC LIMIT 10000) x) AS partitions
  FROM (SELECT l.error FROM queend.dead_letters l ORDER BY l.failed_at DESC, l.id DESC LIMIT 1000) d
 GROUP BY d.error ORDER BY count DESC, d.error LIMIT 10"""
STORED = f"""
SELECT m.bucket - (m.bucket - %(anchor)s) %% %(step)s AS at, sum(m.push_messages)::bigint AS messages
  FROM queend.metric_queues m JOIN queend.queues q ON q.id = m.queue_id
 WHERE m.bucket >= %(first)s AND m.bucket <= %(last)s AND {FILTERS} GROUP BY 1 ORDER BY 1"""
# Pushed messages of all queues, from the rows of workers, which are fewer.
STORED_ALL = f"""
SELECT m.bucket - (m.bucket - %(anchor)s) %% %(step)s AS at,
       {PUSHED}::bigint AS messages
  FROM queend.metric_workers m WHERE m.bucket >= %(first)s AND m.bucket <= %(last)s GROUP BY 1 ORDER BY 1"""


def totals(row: Any) -> dict[str, int]:
    """Returns counts since the beginning, by the names of COUNTS."""
    return dict(zip(COUNTS, [*row.totals, *([0] * len(COUNTS))], strict=False))


async def sums(request: Request) -> Any:
    """Returns sums over everything."""
    control = request.app.state.control
    await control.stats.fresh()
    await control.metrics.fresh()
    return (await rows(request, SUMS))[0]


@router.declare("GET /api/v1/resources/overview", READ, whole(
    **integers("queues", "partitions", "namespaces", "tasks"), messages=SIX_COUNTS,
    lag=whole(time=SPREAD, offset=SPREAD), throughput=whole(ingestedPerSecond=NUMBER, processedPerSecond=NUMBER),
    timestamp=TIME, statsAge=INTEGER))
async def overview(request: Request) -> Json:
    """Returns totals, lags per queue, and rates of the last five minutes. `total` counts all messages ever stored in
    the existing queues. The other counts cover all queues since the database was created. `completed` and `failed` are
    acknowledgments of all groups: accepted ones, whatever their status, and refused ones. `deadLetter` excludes dead
    letters that were moved by hand or in SQL."""
    row = await sums(request)
    counted, now = totals(row), time.time()
    lags = await rows(request, LAGS)
    wanted = span(request, RATE_S)
    series = await queue_series(request, wanted)
    return Json({"queues": row.queues, "partitions": row.partitions, "namespaces": row.namespaces, "tasks": row.tasks,
                 "messages": _messages(row, counted),
                 "lag": {"time": _spread([age_s(one.oldest, one.now) for one in lags]),
                         "offset": _spread([one.messages for one in lags])},
                 "throughput": {"ingestedPerSecond": rate(sum(one.push_messages for one in series), wanted.lasted()),
                                "processedPerSecond": rate(sum(one.ack_done for one in series), wanted.lasted())},
                 "timestamp": ts3(int(now * 1e6)), "statsAge": -1 if row.age is None else row.age})


def _spread(values: list[int]) -> dict[str, int]:
    if not values:
        return {"avg": 0, "median": 0, "min": 0, "max": 0}
    return {"avg": round(statistics.mean(values)), "median": round(statistics.median(values)), "min": min(values),
            "max": max(values)}


@router.declare("GET /api/v1/status", READ, whole(
    **SPAN, pointCount=INTEGER, throughput=array(
        whole(timestamp=TIME, **integers("ingested", "processed", "popMessages", "ackFailed"),
              **each(NUMBER, "ingestedPerSecond", "processedPerSecond", "popPerSecond"), **LAG,
              **each(SOME_INTEGER, *PROCESS[:5]), **each(SOME_NUMBER, *PROCESS[5:]))),
    queues=array(whole(id=ID, name=TEXT, namespace=TEXT, task=TEXT, **integers("partitions", "totalConsumed"))),
    messages=whole(**SIX_COUNTS["properties"], requests=whole(**integers(*OPS)),
                   batchEfficiency=whole(**each(NUMBER, *OPS))),
    leases=whole(**integers("active", "partitionsWithLeases", "totalBatchSize", "totalAcked")),
    deadLetterQueue=whole(**integers("totalMessages", "affectedPartitions"),
                          topErrors=array(whole(error=MAYBE, count=INTEGER))), workers=array(whole(**WORKER)),
    errors=whole(**integers("dbErrors", "ackFailed", "dlqMessages")), statsAge=INTEGER),
                [FROM, TO, QUEUE, NAMESPACE, TASK])
async def status(request: Request) -> Json:
    """Returns the activity in a time range, newest first, and the current state. Default range: the last hour."""
    wanted, filters = span(request), _filters(Query(request))
    row = await sums(request)
    counted = totals(row)
    system = {one.at: one for one in await worker_series(request, wanted)}
    # workers count the sums over all their queues
    series = await queue_series(request, wanted, **filters) if any(filters.values()) else list(system.values())
    workers = newest(await worker_series(request, latest(request, 120), "m.hostname", "m.port", "m.worker"))
    ((leases, leased),) = await rows(request, LEASES)
    dead = await rows(request, DEAD)
    by_bucket = {one.at: one for one in series}
    points = [_point(at, by_bucket.get(at), system.get(at), wanted.lasted(at))
              for at in sorted(by_bucket.keys() | system.keys(), reverse=True)]
    seed = await seed_of(request)
    return Json({
        **wanted.shown, "pointCount": len(points), "throughput": points,
        "queues": [{"id": read_queue_id(seed, one.id), "name": one.name, "namespace": one.namespace, "task": one.task,
                    "partitions": one.partitions, "totalConsumed": one.consumed}
                   for one in await rows(request, QUEUES, **filters)],
        "messages": {**_messages(row, counted), "requests": {name: counted[f"{name}_requests"] for name in OPS},
                     "batchEfficiency": {name: rate(counted[f"{name}_messages"], counted[f"{name}_requests"] or 1)
                                         for name in OPS}},
        "leases": {"active": leases, "partitionsWithLeases": row.leased_partitions, "totalBatchSize": leased,
                   "totalAcked": 0},
        "deadLetterQueue": {"totalMessages": row.dead, "affectedPartitions": dead[0].partitions if dead else 0,
                            "topErrors": [{"error": one.error, "count": one.count} for one in dead]},
        "workers": [worker_state(one) for one in workers],
        "errors": {"dbErrors": sum(one.db_errors for one in system.values()),
                   "ackFailed": sum(one.ack_failed for one in series),
                   "dlqMessages": sum(one.dead_lettered for one in system.values())},
        "statsAge": -1 if row.age is None else row.age})


def _filters(query: Query) -> dict[str, Any]:
    return {name: query.text(name) for name in ("queue", "namespace", "task")}


def _messages(row: Any, counted: dict[str, int]) -> dict[str, int]:
    return {"total": row.pushed, "pending": row.pending, "processing": row.processing,
            "completed": counted["ack_done"], "failed": counted["ack_failed"], "deadLetter": counted["dead_lettered"]}


def _point(at: int, queue: Any, system: Any, seconds: float) -> dict[str, Any]:
    pushed, popped, acked, failed = (queue.queue_pushed, queue.pop_messages, queue.ack_done,
                                     queue.ack_failed) if queue else (0, 0, 0, 0)
    return {"timestamp": ts0(at), "ingested": pushed, "processed": acked, "popMessages": popped, "ackFailed": failed,
            "ingestedPerSecond": rate(pushed, seconds), "processedPerSecond": rate(acked, seconds),
            "popPerSecond": rate(popped, seconds), **(lag_ms(queue) if queue else NO_LAG),
            **(_process(system) if system else dict.fromkeys(PROCESS))}


def _process(system: Any) -> dict[str, Any]:
    """Returns the values of PROCESS in a bucket."""
    user, kernel, rss, size, active = (average(getattr(system, name)) for name in (
        "cpu_user", "cpu_system", "rss", "pool_size", "pool_active"))

    def shown(value: float | None, digits: int, divide: float = 1) -> float | None:
        return None if value is None else round(value / divide, digits)
    values = (or_zero(average(system.loop_lag_ms)), or_zero(system.loop_lag_ms[3]), or_zero(system.free[2]),
              system.db_errors, system.dead_lettered, shown(user, 2, 100), shown(kernel, 2, 100),
              shown(rss, 1, 1 << 20), shown(active, 1),
              None if size is None or active is None else round(size - active, 1), shown(size, 1))
    return dict(zip(PROCESS, values, strict=True))


@router.declare("GET /api/v1/status/analytics", READ, whole(
    dataPoints=array(whole(timestamp=TIME, messages=INTEGER)), interval={"enum": list(STEPS)},
    **{"from": TIME, "to": TIME}), [FROM, TO, QUEUE, NAMESPACE, TASK,
                                    parameter("interval", {"enum": list(STEPS), "default": "hour"})],
                where="query")
async def status_analytics(request: Request) -> Json:
    """Returns the number of pushed messages per minute, hour, day or week, duplicates included, oldest first, with
    zeros for times without pushes. Default range: the last day."""
    query = Query(request)
    interval = query.one_of("interval", tuple(dict.fromkeys(("hour", *STEPS))))
    wanted, step = span(request, DAY_S), STEPS[interval] * 1_000_000
    anchor = MONDAY_S * 1_000_000 if interval == "week" else 0
    first = wanted.start - (wanted.start - anchor) % step
    if (wanted.end - first) // step > POINTS:
        raise Refusal(400, f"the range has more than {POINTS} points", "invalid_request")
    await request.app.state.control.metrics.fresh()
    filters, times = _filters(query), {"anchor": anchor, "step": step, "first": first, "last": wanted.end}
    stored = await rows(request, STORED if any(filters.values()) else STORED_ALL, **filters, **times, prepare=False)
    found = {one.at: one.messages for one in stored}
    return Json({"dataPoints": [{"timestamp": ts3(at), "messages": found.get(at, 0)}
                                for at in range(first, wanted.end + 1, step)],
                 "interval": interval, **wanted.range})
