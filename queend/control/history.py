"""What daemons and queues did over time, read from the minutes they wrote (`service/metrics`)."""
from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from ..service.metrics import COUNTS, MINUTE_US
from .database import rows
from .query import Query
from .queues import EPOCH, ts3

HOUR_S, DAY_S = 3600, 86400
# a range so long (s) is shown in buckets of so many minutes
WIDTHS = ((HOUR_S, 1), (6 * HOUR_S, 5), (24 * HOUR_S, 15), (7 * DAY_S, 60))
WIDEST = 360
LEVELS = ("cpu_user", "cpu_system", "rss", "virtual", "pool_size", "pool_active", "pool_idle", "threads", "waiting",
          "loop_lag_ms", "responses", "slots", "free", "jobs", "parked", "lag_most_ms")
ROWS = 100_000      # of a series, at most

SUMS = """sum(m.push_requests)::bigint AS push_requests, sum(m.push_messages)::bigint AS push_messages, sum(m.pop_requests)::bigint AS pop_requests,
       sum(m.pop_messages)::bigint AS pop_messages, sum(m.pop_empty)::bigint AS pop_empty, sum(m.ack_requests)::bigint AS ack_requests,
       sum(m.ack_done)::bigint AS ack_done, sum(m.ack_failed)::bigint AS ack_failed, sum(m.transactions)::bigint AS transactions,
       sum(m.lag_us)::bigint AS lag_us, sum(m.lag_n)::bigint AS lag_n, max(m.lag_most_us) AS lag_most_us,
       sum(m.parked)::bigint AS parked, max(m.samples) AS samples"""
QUEUES = f"""SELECT m.bucket - m.bucket %% %s AS at, {{key}} {SUMS} FROM queend.metric_queues m JOIN queend.queues q ON q.id = m.queue_id
             WHERE m.bucket >= %s AND m.bucket <= %s AND (%s::text IS NULL OR q.name = %s) AND (%s::text IS NULL OR q.namespace = %s)
               AND (%s::text IS NULL OR q.task = %s) GROUP BY {{group}} ORDER BY {{group}} LIMIT {ROWS}"""
WORKERS = f"""SELECT m.bucket - m.bucket %% %s AS at, {{key}} max(m.seen_at) AS seen_at, {", ".join(
    f"coalesce(sum(m.counts[{i + 1}]), 0)::bigint AS {name}" for i, name in enumerate(COUNTS))}, {", ".join(
    f"ARRAY[sum((m.levels->'{name}'->>0)::float8), sum((m.levels->'{name}'->>1)::float8), min((m.levels->'{name}'->>2)::float8), "
    f"max((m.levels->'{name}'->>3)::float8), (array_agg((m.levels->'{name}'->>4)::float8 ORDER BY m.bucket DESC) FILTER (WHERE m.levels ? '{name}'))[1]] AS {name}"
    for name in LEVELS)} FROM queend.metric_workers m
             WHERE m.bucket >= %s AND m.bucket <= %s AND (%s::text IS NULL OR m.hostname = %s) AND (%s::int IS NULL OR m.worker = %s)
             GROUP BY {{group}} ORDER BY {{group}} LIMIT {ROWS}"""


@dataclass(frozen=True)
class Span:
    """From and to in µs; the width of its buckets in minutes."""

    start: int
    end: int
    minutes: int

    @property
    def shown(self) -> dict[str, str | None]:
        return {"from": ts3(self.start), "to": ts3(self.end)}

    @property
    def seconds(self) -> int:
        return self.minutes * 60

    def lasted(self, at: int | None = None) -> float:
        """Seconds of the bucket that begins at `at` (µs), as far as they are past and in the range; without `at` of all of them."""
        start = self.start - self.start % MINUTE_US      # minutes are counted as a whole
        end = min(self.end - self.end % MINUTE_US + MINUTE_US, int(time.time() * 1e6))
        if at is not None:
            start, end = max(start, at), min(end, at + self.minutes * MINUTE_US)
        return max(end - start, 1_000_000) / 1e6

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Width of a bucket, first and last minute, µs."""
        return self.minutes * MINUTE_US, self.start - self.start % MINUTE_US, self.end


def span(request: Request, seconds: int = HOUR_S) -> Span:
    """The range a request asks for with from and to; by default the last `seconds`. Refuses what is no time."""
    query = Query(request)
    end, start = query.moment("to"), query.moment("from")
    end = int(time.time() * 1e6) if end is None else end
    start = end - seconds * 1_000_000 if start is None else start
    return Span(start, end, next((minutes for most, minutes in WIDTHS if end - start <= most * 1_000_000), WIDEST))


def latest(seconds: int) -> Span:
    """The last `seconds`, minute by minute."""
    now = int(time.time() * 1e6)
    return Span(now - seconds * 1_000_000, now, 1)


def newest(found: list[Any]) -> list[Any]:
    """The newest row of each worker, of rows with hostname and worker, oldest first."""
    return [one for _, one in sorted({(one.hostname, one.worker): one for one in found}.items())]


async def queue_series(request: Request, wanted: Span, by: str = "", queue: str | None = None,
                       namespace: str | None = None, task: str | None = None) -> list[Any]:
    """Sums per bucket (at, µs), oldest first. by: further columns to group by, as `q.name`, with their alias."""
    await request.app.state.control.metrics.fresh()
    names = [one.strip() for one in by.split(",") if one.strip()]
    group = ", ".join(["1", *(str(i + 2) for i in range(len(names)))])
    return await rows(request, QUEUES.format(key="".join(f"{name}, " for name in names), group=group), *wanted.bounds,
                      queue, queue, namespace, namespace, task, task,
                      prepare=False)


async def worker_series(request: Request, wanted: Span, by: str = "", hostname: str | None = None,
                        worker: int | None = None) -> list[Any]:
    """Sums and levels per bucket, oldest first; a level is [sum, samples, least, most, last], NULLs where nothing was measured."""
    await request.app.state.control.metrics.fresh()
    names = [one.strip() for one in by.split(",") if one.strip()]
    group = ", ".join(["1", *(str(i + 2) for i in range(len(names)))])
    return await rows(request, WORKERS.format(key="".join(f"{name}, " for name in names), group=group), *wanted.bounds,
                      hostname, hostname, worker, worker, prepare=False)


def ts0(us: int) -> str:
    """UTC in whole seconds, as 2026-01-02T03:04:00Z."""
    return (EPOCH + datetime.timedelta(microseconds=us)).isoformat(timespec="seconds").replace("+00:00", "Z")


def average(level: list[float | None]) -> float | None:
    """Of a level; None where nothing was measured."""
    return level[0] / level[1] if level and level[1] else None


def or_zero(value: float | None) -> int:
    return int(value or 0)


def rate(count: int, seconds: float) -> float:
    return round(count / seconds, 2)


def lag_ms(row: Any) -> tuple[float, int]:
    """Average and largest age of a message when it was delivered."""
    return round(row.lag_us / row.lag_n / 1000, 1) if row.lag_n else 0, row.lag_most_us // 1000 if hasattr(row,
        "lag_most_us") else or_zero(row.lag_most_ms[3])
