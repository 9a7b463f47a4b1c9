"""Metrics of this daemon, sampled and written a minute at a time.

Levels (processor, memory, pools, waiting requests) are measured every METRICS_SAMPLE_INTERVAL_MS; the core keeps counts
itself. When a minute of the database's clock ends, its counts are set apart. They are added to the minute's rows
(`sql/migrate/0018_metrics.sql`) every METRICS_AGGREGATE_INTERVAL_S, when a page asks for unwritten ones, and at the
end. Rows older than METRICS_RETENTION_DAYS are removed.
"""
from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from operator import add, sub
from typing import Any

import orjson
import psycopg
from psycopg_pool import AsyncConnectionPool

from .. import log
from ..postgres import session
from ..settings.model import Settings
from .dbtime import DbTime
from .minute import MINUTE_US, OF_QUEUES, SUMS, Minute
from .running import Running

DAY_US = 86_400_000_000
CLEAN_S = 600.0
CLEAN_AGAIN_S = 10.0      # after one that failed
CLEAN_ROWS = 10_000
SEALED_MOST = 1 << 31      # by one key
PAGE_AGE_S = 0.05          # figures of this daemon on a page are at most so much older than the page, or
SHARE = 20                 # so many times as long as writing them took
MINUTES = 60               # kept while nothing can be written; then the oldest two are merged

KEEP = "SELECT queend.metrics_keep(%s, %s, %s, %s, %s::int[], %s::int[], %s::bigint[], %s::jsonb, %s::jsonb)"
CLEAN = """WITH old AS (DELETE FROM queend.{0} WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM queend.{0} m
        WHERE m.bucket < %(before)s {1} LIMIT %(most)s)) RETURNING 1) SELECT count(*)
     FROM old"""
BY_BUCKET = "ORDER BY m.bucket"
# A number of partitions counts until the next one is recorded: the newest of the old rows of a queue stays.
REPLACED = """AND (EXISTS (SELECT FROM queend.metric_partitions n
        WHERE n.queue_id = m.queue_id AND n.bucket > m.bucket AND n.bucket < %(before)s)
    OR NOT EXISTS (SELECT FROM queend.queues q WHERE q.id = m.queue_id))"""
CLEANED = {"metric_queues": BY_BUCKET, "metric_workers": BY_BUCKET, "metric_backlogs": BY_BUCKET,
           "metric_partitions": REPLACED}
ASK_MOST = 1000      # queues asked for at once
EXISTING = "SELECT q.name FROM queend.queues q WHERE q.name = ANY (%s)"


def memory() -> tuple[int, int]:
    """Returns virtual and resident size of this process in bytes."""
    with open("/proc/self/statm") as file:
        virtual, resident = file.read().split()[:2]
    return int(virtual) * resource.getpagesize(), int(resident) * resource.getpagesize()


class Metrics(Running):
    """The background service. Requires `open` and `close` on the same running loop. core: of this process; pool: the
    control plane's."""

    def __init__(self, settings: Settings, core: Any, pool: AsyncConnectionPool):
        self.settings, self.core, self.pool = settings, core, pool
        self.hostname, self.pid, self.port = socket.gethostname(), os.getpid(), settings.port
        self.key_told = False
        self.time = DbTime()
        self._bucket = self.minute()
        self._minutes: dict[int, Minute] = {}       # by beginning, µs; oldest first
        self._seen: dict[tuple[int, int], tuple[int, ...]] = {}       # (queue, worker) → counts already in minutes
        # queue → its sums of Core.tallies since the start; they never fall while the queue exists
        self.totals: dict[str, list[int]] = {}
        # queues of totals that Core.tallies does not list, as after a restart of the server; those still to ask for
        self._unlisted: set[str] = set()
        self._to_ask: list[str] = []
        self._seen_workers: list[list[int]] = []
        self._lock = asyncio.Lock()
        self._writing: set[asyncio.Task] = set()
        self._kept_at = self._cost = 0.0
        self.stores_nothing: Callable[[], bool] = lambda: False      # returns True while the database stores nothing
        self.writing: Callable[[], AbstractAsyncContextManager] = nullcontext      # ends the enclosed work in that case
        self.steps = 0      # writing steps so far

    async def close(self) -> None:
        if self._task is not None:
            await super().close()
            await self.keep()

    def minute(self) -> int:
        """Returns where the current minute of the database begins, µs."""
        return self.time.now_us() // MINUTE_US * MINUTE_US

    async def _hear(self, connection: Any) -> None:
        """Learns the time of the database. Minutes that were counted before the first time move with it."""
        known, ahead = self.time.known, await self.time.hear(connection)
        if not known:
            late = round(ahead / MINUTE_US) * MINUTE_US
            self._minutes = {bucket + late: one for bucket, one in self._minutes.items()}
            self._bucket += late

    async def _run(self) -> None:
        with suppress(psycopg.Error):
            async with self.pool.connection() as connection:
                await self._hear(connection)
        sampled = time.monotonic()
        usage, cleaned, kept = resource.getrusage(resource.RUSAGE_SELF), sampled - CLEAN_S, sampled
        while True:
            every, write = self.settings.metrics_sample_interval_ms / 1000, self.settings.metrics_aggregate_interval_s
            asked, pause = time.monotonic(), min(every, self._left())
            if await self._rest(pause):
                continue
            now = time.monotonic()
            turned = self.minute() != self._bucket
            if turned:
                self._count()
            if now - sampled >= every / 2:
                used = resource.getrusage(resource.RUSAGE_SELF)
                self._sample(now - asked - pause, now - sampled, usage, used)
                usage, sampled = used, now
            if now >= kept + write or turned:
                kept = now
                await self.keep()
            if now - cleaned >= CLEAN_S:
                cleaned = now if await self._clean() else now - CLEAN_S + CLEAN_AGAIN_S

    def _left(self) -> float:
        """Returns the seconds to the end of the minute, which is closed then."""
        return (MINUTE_US - self.time.now_us() % MINUTE_US) / 1e6

    def _open(self) -> Minute:
        """Returns the minute that receives counts now."""
        if self._bucket not in self._minutes:
            self._minutes[self._bucket] = Minute(len(self.core.stats()["workers"]))
        return self._minutes[self._bucket]

    def _sample(self, late_s: float, passed_s: float, before: resource.struct_rusage,
                now: resource.struct_rusage) -> None:
        minute, pool, workers = self._open(), self.pool.get_stats(), self.core.stats()["workers"]
        virtual, resident = memory()
        slots, jobs = (sum(values)
                       for values in zip(*((one["slots"], one["jobs"] - one["parked"]) for one in workers),
                                         strict=True))
        busy = min(slots, jobs)
        # One process has one set of levels, which stands with the first worker.
        minute.levels[0].add(cpu_user=round((now.ru_utime - before.ru_utime) / passed_s * 10_000),
                             cpu_system=round((now.ru_stime - before.ru_stime) / passed_s * 10_000), rss=resident,
                             virtual=virtual, pool_size=slots + pool["pool_size"],
                             pool_active=busy + pool["pool_size"] - pool["pool_available"],
                             pool_idle=slots - busy + pool["pool_available"],
                             threads=len(os.listdir("/proc/self/task")), waiting=pool["requests_waiting"],
                             loop_lag_ms=max(0.0, late_s * 1000))
        for levels, one in zip(minute.levels, workers, strict=True):
            jobs = one["jobs"] - one["parked"]
            levels.add(slots=one["slots"], free=max(one["slots"] - jobs, 0), jobs=jobs, parked=one["parked"],
                       responses=one["requests"])
        for queue, _, parked in self.core.parked():
            minute.parked[queue] = minute.parked.get(queue, 0) + parked
        minute.samples += 1
        self._count_sealed(sum(one["sealed"] for one in workers))

    def _count_sealed(self, sealed: int) -> None:
        """Logs once that a key has sealed half of what it may seal (docs/encryption.md)."""
        if sealed >= SEALED_MOST and not self.key_told:
            self.key_told = True
            log.line("warn", "key_half_used", f"{sealed} payloads were encrypted since the start; change the key "
                                              "before all daemons together reach 2^32")

    def _count(self) -> None:
        """Adds what the core counted since the last call to the open minute, which then ends if its time is over."""
        minute = self._open()
        # There may be 100 000 queues, and nothing else of this loop runs meanwhile: an idle queue costs two look-ups.
        tallies: dict[tuple[int, int], tuple[int, ...]] = {}
        had, before = self.totals, self._seen
        totals: dict[str, list[int]] = {}
        for queue, name, worker, counts in self.core.tallies():
            key = (queue, worker)
            tallies[key], lag_most, counts = counts[:SUMS], counts[SUMS], counts[:SUMS]
            total = totals[name] = totals.get(name) or had.get(name) or [0] * SUMS
            seen = before.get(key)
            if seen == counts:
                continue
            more = [*counts] if seen is None else [*map(sub, counts, seen)]
            if min(more) < 0:
                more = [*counts]      # the core forgot the queue, with its server, and counts from 0
            minute.add(key, more, lag_most)
            total[:] = map(add, total, more)
        self._unlisted = had.keys() - totals.keys()
        self.totals = totals | {name: had[name] for name in self._unlisted}
        workers = self._workers()
        for mine, now, then in zip(
            minute.workers, workers, self._seen_workers or [[0] * OF_QUEUES for _ in workers], strict=True):
            mine[:OF_QUEUES] = (had + one - other for had, one, other in zip(mine, now, then, strict=False))
        self._seen, self._seen_workers = tallies, workers
        self._bucket = self.minute()
        while len(self._minutes) > MINUTES:
            oldest, following = list(self._minutes)[:2]
            self._minutes[following].take(self._minutes.pop(oldest))

    async def fresh(self) -> None:
        """Writes what was counted since the last write, before a page answers."""
        if time.monotonic() - self._kept_at > max(PAGE_AGE_S, SHARE * self._cost) and not self.stores_nothing():
            with suppress(TimeoutError):
                async with self.writing():
                    await self.keep()

    async def keep(self) -> None:
        """Adds what was counted since the last write to the database. What cannot be written now is written the next
        time, to the minute in which it was counted. The caller may be cancelled, but the writing goes on: the outcome
        of an interrupted statement would be unknown."""
        task = asyncio.create_task(self._keep())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.shield(task)

    async def _keep(self) -> None:
        async with self._lock:
            began = time.monotonic()
            self._count()
            self.steps += 1
            try:
                async with self.pool.connection() as connection:
                    await self._hear(connection)
                    for bucket in list(self._minutes):
                        # later counts are another share of it; the oldest may have been merged meanwhile
                        if (one := self._minutes.pop(bucket, None)) is None:
                            continue
                        try:
                            await self._write(connection, bucket, one)
                        except BaseException:
                            self._put_back(bucket, one)
                            raise
                    await self._drop_deleted(connection)
            except psycopg.Error as error:
                self._failed("metrics_not_kept", error)
                return
            self._done("metrics_not_kept")
            self._kept_at = time.monotonic()
            self._cost = self._kept_at - began

    async def _write(self, connection: Any, bucket: int, one: Minute) -> None:
        """Writes portion by portion, and removes written ones from `one`."""
        portions = one.portions()
        for keys in portions:
            workers, levels = (one.workers, one.levels) if keys is portions[-1] else ([], [])
            await connection.execute(KEEP, (
                self.hostname, self.port, self.pid, bucket, [queue for queue, _ in keys],
                [worker for _, worker in keys], one.values(keys), orjson.dumps(workers).decode(),
                orjson.dumps([level.values for level in levels]).decode()))
            one.drop(keys)
            self.steps += 1

    async def _drop_deleted(self, connection: Any) -> None:
        """Removes the sums of deleted queues. Asks the database for some of those that the core does not list."""
        self._to_ask = self._to_ask or [*self._unlisted]
        if asked := self._to_ask[-ASK_MOST:]:
            del self._to_ask[-ASK_MOST:]
            found = await session.rows(connection, EXISTING, asked)
            for name in self._unlisted.intersection(asked).difference(name for (name,) in found):
                self.totals.pop(name, None)

    def _put_back(self, bucket: int, one: Minute) -> None:
        meanwhile = self._minutes.pop(bucket, None)
        if meanwhile is not None:
            one.take(meanwhile)
        self._minutes = {bucket: one, **self._minutes}

    def _workers(self) -> list[list[int]]:
        """Returns the first of COUNTS of each worker, since the start."""
        result = []
        for operations, worker in zip(self.core.operations(), self.core.stats()["workers"], strict=True):
            push, pop, ack, transaction = (operations[name] for name in ("push", "pop", "ack", "transaction"))
            result.append([*push[:2], *pop[:2], *ack[:2], transaction[0], sum(one[0] for one in operations.values()),
                           sum(one[2] for one in operations.values()), worker["db_errors"], worker["dead_lettered"],
                           worker["empty_pops"], push[3], pop[3], ack[3]])
        return result

    async def _clean(self) -> bool:
        """Removes minutes that are kept no longer. Returns False if that failed."""
        try:
            async with self.pool.connection() as connection:
                await self._hear(connection)
                before = self.time.now_us() - self.settings.metrics_retention_days * DAY_US
                for table, rule in CLEANED.items():
                    gone = CLEAN_ROWS
                    while gone == CLEAN_ROWS:
                        ((gone,),) = await session.rows(connection, CLEAN.format(table, rule), before=before,
                                                        most=CLEAN_ROWS)
        except psycopg.Error as error:
            self._failed("metrics_not_cleaned", error)
            return False
        self._done("metrics_not_cleaned")
        return True
