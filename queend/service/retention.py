"""Removes what queues no longer keep, in the background: expired and completed messages, those that waited too long, and
cursors of what is gone.

Any number of daemons may run it on one database; one of them works, the others look every interval whether it still does:
its advisory lock belongs to its session and ends with it. Every step is one small transaction of `queend.retain`. After each
the service rests as long as the step took, half of one processor at most, unless the run is late: what is pushed faster than
that has to go as fast.
"""
from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass

import psycopg

from .. import log
from ..config import Settings
from .leader import Leader

LOCK = 0x71756575_01       # session lock of the one that works
PARTITIONS = 1000          # looked at per step
CURSORS = 1000             # looked at per step
TIDY_S = 3600.0
BUSY_S = 1.0               # until another try after the database was away
REASONS = {1: "expired", 2: "completed", 3: "waited"}
QUEUES = """SELECT id, name, queend.now_us() AS now, retention_enabled, retention_seconds, completed_retention_seconds, max_wait_time_seconds
              FROM queend.queues
             WHERE retention_enabled AND (retention_seconds > 0 OR completed_retention_seconds > 0) OR max_wait_time_seconds > 0 ORDER BY id"""


@dataclass
class Figures:
    """What this daemon's service did since it started; the gauges are of its last run."""

    removed: Counter[str]                    # messages, by reason
    rows: int = 0                            # of the log
    runs: int = 0
    working: bool = False                    # it is the one
    seconds: float = 0.0                     # the last run, rests included
    pinned: dict[tuple[str, str], int] | None = None   # (queue, group) → messages that only wait for this group to consume them


class Retention:
    """`open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, settings: Settings, conninfo: str):
        self.settings = settings
        self.figures = Figures(Counter(), pinned={})
        # A removal that a crash undoes is done again; who was given an offset above it has flushed it with his own commit.
        self._leader = Leader(conninfo, LOCK, "SET synchronous_commit = off")
        self._task: asyncio.Task | None = None
        self._late = 0.0      # when the present run stops resting

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._leave()

    async def _run(self) -> None:
        every = {"retention": self.settings.retention_interval / 1000, "eviction": self.settings.eviction_interval / 1000, "tidy": TIDY_S}
        due = {job: time.monotonic() + seconds for job, seconds in every.items()}
        while True:
            await asyncio.sleep(max(0.0, min(due.values()) - time.monotonic()))
            jobs = {job for job, at in due.items() if at <= time.monotonic()}
            try:
                if await self._lead():
                    await self._work(jobs)
                for job in jobs:
                    due[job] = time.monotonic() + every[job]
            except psycopg.Error as error:
                log.line("warn", "retention_failed", str(error).strip())
                await self._leave()
                await asyncio.sleep(BUSY_S)

    # -- who works ------------------------------------------------------------------------------------------------------------

    async def _lead(self) -> bool:
        """Whether this one works: it holds the lock as long as its session lives."""
        self.figures.working = await self._leader.lead()
        return self.figures.working

    async def _leave(self) -> None:
        self.figures.working = False
        await self._leader.leave()

    # -- the work -------------------------------------------------------------------------------------------------------------

    async def _work(self, jobs: set[str]) -> None:
        began = time.monotonic()
        self._late = began + min(self.settings.retention_interval, self.settings.eviction_interval) / 1000
        pinned: Counter[tuple[int, int | None]] = Counter()
        if jobs & {"retention", "eviction"}:
            for queue in await self._rows(QUEUES):
                await self._queue(queue, jobs, pinned)
        if "retention" in jobs:
            await self._pinned(pinned)
        if "tidy" in jobs:
            at: tuple[int | None, int] = (0, 0)
            while at[0] is not None:
                ((_, *rest),) = await self._step("SELECT * FROM queend.tidy(%s, %s, %s)", *at, CURSORS)
                at = tuple(rest)
        self.figures.runs += 1
        self.figures.seconds = time.monotonic() - began

    async def _queue(self, queue: tuple, jobs: set[str], pinned: Counter) -> None:
        number, name, now, enabled, expired_s, completed_s, waited_s = queue

        def before(seconds: int, job: str) -> int:
            return now - seconds * 1_000_000 if seconds > 0 and job in jobs else 0
        moments = (before(expired_s if enabled else 0, "retention"), before(completed_s if enabled else 0, "retention"), before(waited_s, "eviction"))
        rows = self.settings.retention_batch_size if "retention" in jobs else self.settings.eviction_batch_size
        removed: Counter[str] = Counter()
        after: int | None = 0
        while after is not None and any(moments):
            *told, last = await self._step("SELECT * FROM queend.retain(%s, %s, %s, %s, %s, %s, %s)", number, after, PARTITIONS, rows, *moments)
            for _, reason, gone, records, waiting, group in told:
                if gone:
                    removed[REASONS[reason]] += records
                    self.figures.rows += gone
                if waiting:
                    pinned[number, group] += waiting
            after = last[0]
        self.figures.removed += removed
        if removed:
            log.line("debug", "retained", queue=name, **removed)

    async def _pinned(self, pinned: Counter[tuple[int, int | None]]) -> None:
        """Who holds back what would go otherwise; told once when it begins."""
        names = {}
        if pinned:
            for queue, name, group, title in await self._rows(
                    "SELECT q.id, q.name, g.id, g.name FROM queend.queues q LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id WHERE q.id = ANY(%s)",
                    [queue for queue, _ in pinned]):
                names[queue, group], names[queue, None] = (name, title), (name, "")
        was, now = self.figures.pinned or {}, {names[key]: count for key, count in pinned.items() if key in names}
        for queue, group in now.keys() - was.keys():
            log.line("warn", "retention_pinned", f"messages of {queue} stay because "
                     + (f"the group {group} has not consumed them" if group else "no group has consumed them"), queue=queue, group=group, messages=now[queue, group])
        self.figures.pinned = now

    async def _step(self, query: str, *values: object) -> list[tuple]:
        began = time.monotonic()
        rows = await self._rows(query, *values)
        if time.monotonic() < self._late:
            await asyncio.sleep(time.monotonic() - began)
        return rows

    async def _rows(self, query: str, *values: object) -> list[tuple]:
        return await self._leader.rows(query, *values)
