"""Keeps the figures of queues and groups, so that a page reads a sum instead of 100 000 partitions.

A look finds the partitions that changed since the last one and updates their part of the sums
(`sql/function/stats.sql`). One look at a time works on a database: it holds a session lock. Every STATS_INTERVAL_MS one
of the daemons looks. Every STATS_RECONCILE_INTERVAL_MS it begins to walk through all partitions, 1000 per transaction,
for at most a tenth of the time. With few partitions a page looks itself before it answers: figures of a small database
are of this moment, those of a large one at most as old as the interval.
"""
from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

import psycopg

from ..settings.model import Settings
from .leader import Turns
from .running import Running

LOCK = 0x71756575_03
PAGE = 1000                # partitions per transaction
ROWS = 1_000_000           # of the log between two looks; beyond, everything is walked through
PAGE_ROWS = 20_000         # the same limit for the look of a page: it does not read so much
SMALL = 10_000             # up to so many partitions every page looks itself, and visits all that changed
WAIT_S = 2.0               # for a running look
FRESH_S = 10.0             # longest wait of a page for its own look
WALK = 0.1                 # of the time between two looks a walk may take; the rest of it goes on with the next
PAUSE_S = 1.0              # after the database was away
NEVER = 1e9

# The database's clock may have been set back: then the time since a look is negative, and a look is due.
DUE = """SELECT coalesce(abs(queend.now_us() - s.looked_at) / 1e6, 1e9)::float8,
        coalesce((queend.now_us() - s.full_at) / 1e6, 1e9)::float8, EXISTS (SELECT FROM queend.stat_queues q
        WHERE q.visit_after IS NOT NULL) FROM (SELECT) AS one LEFT JOIN queend.stats s ON true"""
# set_back: the clock is behind the last look, so rows written after that look may have an earlier time than the look.
CHANGED = """SELECT since, queues, parts,
        coalesce((SELECT s.looked_at > queend.now_us() FROM queend.stats s), false) AS set_back
     FROM queend.stats_changed(%s, %s, %s)"""
VISIT = "SELECT queend.stats_visit(%s::int[], %s::int[])"
STEP = "SELECT queend.stats_walk(%s)"
NOTE = "SELECT queend.stats_note()"
SPACES = "SELECT queend.stats_spaces()"
KEEP = "SELECT queend.stats_keep(%s, %s)"


@dataclass
class Look:
    """The result of one look."""

    changed: int = 0       # partitions visited because they changed
    walked: int = 0        # partitions visited on a walk
    skipped: bool = False  # another daemon was looking


class Stats(Running):
    """The background service. Requires `open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, settings: Settings, conninfo: str):
        self.settings = settings
        # Everything can be computed again: commits do not wait for the disk.
        self._leader = Turns(conninfo, LOCK, "SET synchronous_commit = off; SET statement_timeout = 0")
        self._lock = asyncio.Lock()
        self._began = 0.0      # the last look; monotonic
        self._last_refresh = 0.0, Look()      # when it began (monotonic), and its result
        self._partitions = 0
        self.stores_nothing: Callable[[], bool] = lambda: False      # returns True while the database stores nothing
        self.writing: Callable[[], AbstractAsyncContextManager] = nullcontext      # ends the enclosed work in that case

    async def close(self) -> None:
        await super().close()
        await self._leader.leave()

    @property
    def interval(self) -> float:
        return self.settings.stats_interval_ms / 1000

    @property
    def full(self) -> float:
        return self.settings.stats_reconcile_interval_ms / 1000

    async def _run(self) -> None:
        while True:
            pause = self.interval
            try:
                async with self._lock:
                    if await self._leader.lead():
                        ((age, full_age, walking),) = await self._leader.rows(DUE)
                        if age >= self.interval * 0.9:      # another daemon may have looked just now
                            await self._work(ROWS, full_age >= self.full and not walking, whole=True,
                                             walk_s=self.interval * WALK if age < NEVER else NEVER)
                            await self._leader.rows(NOTE)
                        await self._leader.rest()
                    self._done("stats_failed")
            except psycopg.Error as error:
                self._failed("stats_failed", error)
                await self._leader.leave()
                pause = PAUSE_S
            await self._rest(pause)

    async def fresh(self) -> None:
        """Looks before a page answers, if there are few partitions. Never raises for the database: the page's own query
        then reports the error."""
        asked = time.monotonic()
        if self._partitions > SMALL or self.stores_nothing():
            return
        try:
            await asyncio.wait_for(self._lock.acquire(), WAIT_S)
        except TimeoutError:      # the first walk through many partitions, or a refresh
            return
        try:
            if self._began < asked:      # otherwise one began after the question
                async with self.writing(), asyncio.timeout(FRESH_S):
                    try:
                        await self._look_of_page()
                    except psycopg.Error:
                        if self._leader.alive:
                            raise
                        await self._leader.leave()      # the session had ended since the last look
                        await self._look_of_page()
        except (psycopg.Error, TimeoutError) as error:
            self._failed("stats_failed", error if str(error) else "the database does not answer")
            await self._leader.leave()      # the session ends, and its lock with it
        finally:
            self._lock.release()

    async def _look_of_page(self) -> None:
        await self._look(PAGE_ROWS, full=False, whole=False, walk_s=FRESH_S / 2)

    async def refresh(self) -> Look:
        """Visits every partition. All who ask before a refresh begins share its result. Raises psycopg.Error."""
        asked = time.monotonic()
        async with self._lock:
            began, look = self._last_refresh
            if began >= asked:
                return look
            began = time.monotonic()
            try:
                look = await self._look(ROWS, full=True, whole=True, walk_s=NEVER)
                self._last_refresh = began, look
                return look
            except psycopg.Error:
                await self._leader.leave()
                raise

    async def _look(self, rows: int, full: bool, whole: bool, walk_s: float) -> Look:
        if not await self._leader.lead():
            return Look(skipped=True)
        look = await self._work(rows, full, whole, walk_s)
        await self._leader.rest()
        return look

    async def _work(self, rows: int, full: bool, whole: bool, walk_s: float) -> Look:
        """Runs one look. full: begins a walk through everything; so does a clock that was set back. whole: visits all
        that changed; otherwise no more than a page may wait for, and the service visits the rest. walk_s: how long to
        walk if a walk is due, at least one page."""
        look = Look()
        self._began = time.monotonic()
        floors = whole or self._partitions <= SMALL
        ((since, queues, parts, set_back),) = await self._leader.rows(CHANGED, rows, whole, floors)
        queues, parts = queues or [], parts or []
        if since is None or not whole and len(parts) > SMALL:
            return look
        for i in range(0, len(parts), PAGE):
            await self._leader.rows(VISIT, queues[i:i + PAGE], parts[i:i + PAGE])
        look.changed = len(parts)
        ((self._partitions,),) = await self._leader.rows(KEEP, since, full or set_back)
        walk_until, more = time.monotonic() + walk_s, True
        while more:
            ((walked,),) = await self._leader.rows(STEP, PAGE)
            look.walked += walked
            more = walked > 0 and time.monotonic() < walk_until
        if whole:
            await self._leader.rows(SPACES)
        self._done("stats_failed")
        return look
