"""History of daemons and queues, read from the minutes they wrote (`services/metrics`)."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from ...services.minute import COUNTS, MINUTE_US
from ..database import rows
from ..http.moments import ts3
from ..http.query import Query

HOUR_S, DAY_S = 3600, 86400
# longest range (s) shown in buckets of so many minutes
WIDTHS = ((HOUR_S, 1), (6 * HOUR_S, 5), (24 * HOUR_S, 15), (7 * DAY_S, 60))
WIDEST = 360
LEVELS = ("cpu_user", "cpu_system", "rss", "virtual", "pool_size", "pool_active", "pool_idle", "threads", "waiting",
          "loop_lag_ms", "responses", "slots", "free", "jobs", "parked", "lag_most_ms")
ROWS = 100_000      # most rows of a series

SUMS = ", ".join(f"sum(m.{name})::bigint AS {name}"
                 for name in ("push_requests", "push_messages", "pop_requests", "pop_messages", "pop_empty",
                              "ack_requests", "ack_done", "ack_failed", "transactions", "lag_us", "lag_n")) + (
    ", sum(m.push_messages)::bigint AS queue_pushed, max(m.lag_most_us) AS lag_most_us")
# Long polls that waited, on average: added up over the minutes of a bucket, to be divided by their number.
PARKED = "sum(m.parked::float8 / greatest(m.samples, 1)) AS parked"
SUMS += f", {PARKED}"
# Messages pushed to the queues of a worker. Daemons of former releases wrote those of pushes alone.
PUSHED = f"sum(coalesce(m.counts[{COUNTS.index('queue_pushed') + 1}], m.counts[{COUNTS.index('push_messages') + 1}]))"
COUNTED = ", ".join(f"coalesce({PUSHED if name == 'queue_pushed' else f'sum(m.counts[{i}])'}, 0)::bigint AS {name}"
                    for i, name in enumerate(COUNTS, 1))
# A level: sum, samples, least, most, last.
LEVEL = """ARRAY[sum((m.levels->'{0}'->>0)::float8), sum((m.levels->'{0}'->>1)::float8),
                 min((m.levels->'{0}'->>2)::float8), max((m.levels->'{0}'->>3)::float8),
                 (array_agg((m.levels->'{0}'->>4)::float8 ORDER BY m.bucket DESC)
                  FILTER (WHERE m.levels ? '{0}'))[1]] AS {0}"""
# A filter that is NULL matches everything.
OF_QUEUE = "(%(queue)s::text IS NULL OR q.name = %(queue)s)"
FILTERS = OF_QUEUE + """ AND (%(namespace)s::text IS NULL OR q.namespace = %(namespace)s)
   AND (%(task)s::text IS NULL OR q.task = %(task)s)"""
QUEUES = f"""SELECT m.bucket - m.bucket %% %(width)s AS at, {{columns}} {SUMS}
  FROM queend.metric_queues m JOIN queend.queues q ON q.id = m.queue_id
 WHERE m.bucket >= %(first)s AND m.bucket <= %(last)s AND {FILTERS}
 GROUP BY {{group}} ORDER BY {{group}} LIMIT {ROWS}"""
WORKERS = f"""SELECT m.bucket - m.bucket %% %(width)s AS at, {{columns}} max(m.seen_at) AS seen_at, {COUNTED},
       {", ".join(map(LEVEL.format, LEVELS))}
  FROM queend.metric_workers m
 WHERE m.bucket >= %(first)s AND m.bucket <= %(last)s
   AND (%(hostname)s::text IS NULL OR m.hostname = %(hostname)s) AND (%(worker)s::int IS NULL OR m.worker = %(worker)s)
 GROUP BY {{group}} ORDER BY {{group}} LIMIT {ROWS}"""


@dataclass(frozen=True)
class Span:
    """A range of time: from and to in µs; the width of its buckets in minutes."""

    start: int
    end: int
    minutes: int
    now: int      # by the database's clock

    @property
    def range(self) -> dict[str, str | None]:
        return {"from": ts3(self.start), "to": ts3(self.end)}

    @property
    def shown(self) -> dict[str, Any]:
        """Returns the range as answers name it."""
        return {"timeRange": self.range, "bucketMinutes": self.minutes}

    def lasted(self, at: int | None = None) -> float:
        """Returns the seconds of the bucket that begins at `at` (µs), as far as they are past and in the range; without
        `at` those of all buckets."""
        start = self.start - self.start % MINUTE_US      # minutes count as a whole
        end = min(self.end - self.end % MINUTE_US + MINUTE_US, self.now)
        if at is not None:
            start, end = max(start, at), min(end, at + self.minutes * MINUTE_US)
        return max(end - start, 1_000_000) / 1e6

    def begun(self, at: int) -> int:
        """Returns the number of minutes of the bucket that begins at `at`, as far as they have begun."""
        return math.ceil(self.lasted(at) / 60)

    @property
    def bounds(self) -> dict[str, int]:
        """Returns width of a bucket, first and last minute, µs: parameters of the statements above."""
        return {"width": self.minutes * MINUTE_US, "first": self.start - self.start % MINUTE_US, "last": self.end}


def span(request: Request, seconds: int = HOUR_S) -> Span:
    """Returns the range that a request names with from and to; by default the last `seconds`. Refuses an invalid
    time."""
    query = Query(request)
    end, start = query.moment("to"), query.moment("from")
    now = request.app.state.control.metrics.time.now_us()
    end = now if end is None else end
    start = end - seconds * 1_000_000 if start is None else start
    width = next((minutes for most, minutes in WIDTHS if end - start <= most * 1_000_000), WIDEST)
    return Span(start, end, width, now)


def latest(request: Request, seconds: int) -> Span:
    """Returns the last `seconds`, minute by minute."""
    now = request.app.state.control.metrics.time.now_us()
    return Span(now - seconds * 1_000_000, now, 1, now)


def newest(found: list[Any]) -> list[Any]:
    """Returns the newest row of each worker, from rows with hostname, port and worker, oldest first."""
    return [one for _, one in sorted({(one.hostname, one.port, one.worker): one for one in found}.items())]


async def _series(request: Request, statement: str, wanted: Span, by: tuple[str, ...], **filters: Any) -> list[Any]:
    await request.app.state.control.metrics.fresh()
    statement = statement.format(columns="".join(f"{name}, " for name in by), group=", ".join(["at", *by]))
    return await rows(request, statement, **wanted.bounds, **filters, prepare=False)


async def queue_series(request: Request, wanted: Span, *by: str, queue: str | None = None,
                       namespace: str | None = None, task: str | None = None) -> list[Any]:
    """Returns sums per bucket (at, µs), oldest first. by: further columns to group by, such as `q.name`."""
    return await _series(request, QUEUES, wanted, by, queue=queue, namespace=namespace, task=task)


async def worker_series(request: Request, wanted: Span, *by: str, hostname: str | None = None,
                        worker: int | None = None) -> list[Any]:
    """Returns sums and levels per bucket, oldest first. The five numbers of a level are NULL if nothing was
    measured."""
    return await _series(request, WORKERS, wanted, by, hostname=hostname, worker=worker)


def hostname_and_worker(query: Query) -> dict[str, Any]:
    """Returns the filter for workers that a request names."""
    worker = query.whole("workerId", -1, -1, 2**31 - 1)
    return {"hostname": query.text("hostname"), "worker": None if worker < 0 else worker}


def average(level: list[float | None]) -> float | None:
    """Returns the average of a level; None if nothing was measured."""
    return level[0] / level[1] if level and level[0] is not None and level[1] else None


def or_zero(value: float | None) -> int:
    return int(value or 0)


def rate(count: int, seconds: float) -> float:
    return round(count / seconds, 2)


def lag_ms(row: Any) -> dict[str, float]:
    """Returns average and largest age of a message at its delivery."""
    largest = row.lag_most_us // 1000 if hasattr(row, "lag_most_us") else or_zero(row.lag_most_ms[3])
    return {"avgLagMs": round(row.lag_us / row.lag_n / 1000, 1) if row.lag_n else 0, "maxLagMs": largest}


NO_LAG = {"avgLagMs": 0, "maxLagMs": 0}


def worker_state(row: Any) -> dict[str, Any]:
    """Returns the last known state of a worker."""
    return {"hostname": row.hostname, "port": row.port, "workerId": row.worker,
            "avgEventLoopLagMs": or_zero(average(row.loop_lag_ms)),
            "maxEventLoopLagMs": or_zero(row.loop_lag_ms[3]), "freeSlots": or_zero(row.free[4]),
            "dbConnections": or_zero(row.slots[4]), "jobQueueSize": or_zero(row.jobs[4]),
            "messagesProcessed": row.push_messages + row.pop_messages + row.ack_messages}
