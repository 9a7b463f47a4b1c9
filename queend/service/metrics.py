"""What this daemon does, sampled and written down a minute at a time.

Levels (processor, memory, pools, what waits) are measured every METRICS_SAMPLE_INTERVAL_MS; counts the core keeps anyway. Every
METRICS_AGGREGATE_INTERVAL_S, when a page is asked for what is not written yet, and at the end, what came since is added to the
minute's rows (`sql/migrate/0018_metrics.sql`). Rows older than METRICS_RETENTION_DAYS go.
"""
from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from typing import Any

import orjson
import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from .. import log
from ..config import Settings
from .running import Running

MINUTE_US = 60_000_000
CLEAN_S = 600.0
CLEAN_ROWS = 10_000
PAGE_AGE_S = 0.05          # what a page shows of this daemon is at most so much older than the page, or
SHARE = 20                 # so many times what writing it took
# Of a worker, in the order of metric_workers.counts; the last four are summed over its queues.
COUNTS = ("push_requests", "push_messages", "pop_requests", "pop_messages", "ack_requests", "ack_messages", "transactions", "requests", "errors",
          "db_errors", "dead_lettered", "empty_pops", "push_us", "pop_us", "ack_us", "ack_done", "ack_failed", "lag_us", "lag_n")
NOTHING, SUMS = (0,) * 12, 11            # of Core.tallies: the last one is no sum

KEEP = "SELECT queend.metrics_keep(%s, %s, %s, %s, %s::int[], %s::int[], %s::bigint[], %s::jsonb, %s::jsonb)"
CLEAN = """WITH old AS (DELETE FROM queend.{0} WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM queend.{0} m WHERE m.bucket < %s ORDER BY m.bucket LIMIT %s)) RETURNING 1)
           SELECT count(*) FROM old"""


class Levels:
    """Measurements by name: [sum, samples, least, most, last]."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def add(self, **measured: float) -> None:
        for name, value in measured.items():
            one = self.values.get(name)
            if one is None:
                self.values[name] = [value, 1, value, value, value]
            else:
                one[0] += value
                one[1] += 1
                one[2], one[3], one[4] = min(one[2], value), max(one[3], value), value


class Metrics(Running):
    """`open` and `close` on the same running loop. core: of this process; pool: the control plane's."""

    def __init__(self, settings: Settings, core: Any, pool: AsyncConnectionPool):
        self.settings, self.core, self.pool = settings, core, pool
        self.hostname, self.pid, self.port = socket.gethostname(), os.getpid(), settings.port
        self.sampled_at = 0.0
        self._levels: list[Levels] = []      # of each worker
        self._parked: dict[int, int] = {}
        self._samples = 0
        self._told: dict[tuple[int, int], tuple[int, ...]] = {}       # (queue, worker) → counts that were written
        self._told_workers: list[list[int]] = []
        self._lock = asyncio.Lock()
        self._kept_at = self._cost = 0.0

    async def close(self) -> None:
        if self._task is not None:
            await super().close()
            await self.keep()

    async def _run(self) -> None:
        every, write = self.settings.metrics_sample_interval_ms / 1000, self.settings.metrics_aggregate_interval_s
        began = time.monotonic()
        usage, minute, cleaned = resource.getrusage(resource.RUSAGE_SELF), time.time() // 60, began - CLEAN_S
        due = began + write
        while True:
            asked = time.monotonic()
            await asyncio.sleep(every)
            now, used = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
            self._sample(now - asked - every, now - asked, usage, used)
            usage = used
            if now >= due or time.time() // 60 != minute:       # what is sampled belongs to the minute it is written in
                minute, due = time.time() // 60, now + write
                await self.keep()
            if now - cleaned >= CLEAN_S:
                cleaned = now
                await self._clean()

    def _sample(self, late_s: float, passed_s: float, before: resource.struct_rusage, now: resource.struct_rusage) -> None:
        pool, workers = self.pool.get_stats(), self.core.stats()["workers"]
        with open("/proc/self/statm") as file:
            virtual, resident = (int(pages) * resource.getpagesize() for pages in file.read().split()[:2])
        slots, jobs = (sum(values) for values in zip(*((one["slots"], one["jobs"] - one["parked"]) for one in workers), strict=True))
        busy = min(slots, jobs)
        self._levels = self._levels or [Levels() for _ in workers]
        # One process, one set of its levels: they stand with the first worker.
        self._levels[0].add(
            cpu_user=round((now.ru_utime - before.ru_utime) / passed_s * 10_000), cpu_system=round((now.ru_stime - before.ru_stime) / passed_s * 10_000),
            rss=resident, virtual=virtual, pool_size=slots + pool["pool_size"], pool_active=busy + pool["pool_size"] - pool["pool_available"],
            pool_idle=slots - busy + pool["pool_available"], threads=len(os.listdir("/proc/self/task")), waiting=pool["requests_waiting"],
            loop_lag_ms=max(0.0, late_s * 1000))
        for levels, one in zip(self._levels, workers, strict=True):
            jobs = one["jobs"] - one["parked"]
            levels.add(slots=one["slots"], free=max(one["slots"] - jobs, 0), jobs=jobs, parked=one["parked"], responses=one["requests"])
        for queue, _, parked in self.core.parked():
            self._parked[queue] = self._parked.get(queue, 0) + parked
        self._samples += 1
        self.sampled_at = time.time()

    async def fresh(self) -> None:
        """Writes what came since the last write, before a page answers."""
        if time.monotonic() - self._kept_at > max(PAGE_AGE_S, SHARE * self._cost):
            await self.keep()

    async def keep(self) -> None:
        """Adds to the database what came since the last time; what cannot be written now is written the next time."""
        async with self._lock:
            began = time.monotonic()
            tallies = {(queue, worker): counts for queue, _, worker, counts in self.core.tallies()}
            workers = self._workers()
            parked, samples, levels = self._parked, self._samples, self._levels
            rows, done = [], [[0, 0, 0, 0, 0] for _ in workers]
            for key in tallies.keys() | {(queue, 0) for queue in parked}:
                counts, told = tallies.get(key, NOTHING), self._told.get(key, NOTHING)
                if any(one < other for one, other in zip(counts[:SUMS], told[:SUMS], strict=True)):
                    told = NOTHING      # the core forgot the queue, with its server, and counts it anew
                more = [one - other for one, other in zip(counts[:SUMS], told[:SUMS], strict=True)]
                waiting = parked.get(key[0], 0) if key[1] == 0 else 0
                if any(more) or waiting:
                    rows.append((*key, (*more, counts[SUMS], waiting, samples)))
                    mine = done[key[1]]
                    mine[:] = (*(one + other for one, other in zip(mine, (more[6], more[7], more[9], more[10]), strict=False)), max(mine[4], counts[SUMS]))
            told_workers = self._told_workers or [[0] * len(now) for now in workers]
            counts = [[*(one - other for one, other in zip(now, before, strict=True)), *more[:4]]
                      for now, before, more in zip(workers, told_workers, done, strict=True)]
            shown = [{**(levels[i].values if levels else {}), "lag_most_ms": [mine[4] / 1000, 1, mine[4] / 1000, mine[4] / 1000, mine[4] / 1000]}
                     for i, mine in enumerate(done)]
            self._parked, self._samples, self._levels = {}, 0, []
            try:
                async with self.pool.connection() as connection:
                    await connection.execute(KEEP, (
                        self.hostname, self.port, self.pid, int(time.time()) // 60 * MINUTE_US, [row[0] for row in rows], [row[1] for row in rows],
                        [value for row in rows for value in row[2]], orjson.dumps(counts).decode(), orjson.dumps(shown).decode()))
            except (psycopg.Error, PoolTimeout) as error:
                log.line("warn", "metrics_not_kept", str(error).strip())
                return      # the core keeps its counts; levels of a time without a database are lost
            self._told, self._told_workers, self._kept_at = tallies, workers, time.monotonic()
            self._cost = self._kept_at - began

    def _workers(self) -> list[list[int]]:
        """The first of COUNTS of each worker, since the start."""
        result = []
        for operations, worker in zip(self.core.operations(), self.core.stats()["workers"], strict=True):
            push, pop, ack, transaction = (operations[name] for name in ("push", "pop", "ack", "transaction"))
            result.append([*push[:2], *pop[:2], *ack[:2], transaction[0], sum(one[0] for one in operations.values()), sum(one[2] for one in operations.values()),
                           worker["db_errors"], worker["dead_lettered"], worker["empty_pops"], push[3], pop[3], ack[3]])
        return result

    async def _clean(self) -> None:
        before = int((time.time() - self.settings.metrics_retention_days * 86400) * 1e6)
        try:
            async with self.pool.connection() as connection:
                for table in ("metric_queues", "metric_workers"):
                    gone = CLEAN_ROWS
                    while gone == CLEAN_ROWS:
                        (gone,) = await (await connection.execute(CLEAN.format(table), (before, CLEAN_ROWS))).fetchone()
        except (psycopg.Error, PoolTimeout) as error:
            log.line("warn", "metrics_not_cleaned", str(error).strip())
