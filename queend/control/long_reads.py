"""Reads that wait for records: one statement looks at the heads of all of them, and runs only while any waits.

It finds what any program committed, and sleeps at least nine times as long as it took.
"""
from __future__ import annotations

import asyncio
import math
import time
from contextvars import Context
from dataclasses import dataclass, field

import psycopg
from psycopg_pool import AsyncConnectionPool

from .fair_semaphore import SHARE, Share

TICK_S = 0.03
READS_MOST = 1000          # most reads that wait at once
PARTITIONS_MOST = 4000     # most partitions that they wait for together
SHARE_OF_ONE = 0.75        # of both bounds, for the reads of one address
HEADS = "SELECT queend.heads(%s::text[], %s::text[])"

Heads = dict[tuple[str, str], int]


@dataclass(eq=False)
class _Hold:
    heads: Heads
    share: Share
    not_before: float
    expires_s: float             # by the wall clock
    changed: asyncio.Future = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Holds:
    """Parks reads. Requires `wait` and `release` on the running loop."""

    def __init__(self, pool: AsyncConnectionPool):
        self.pool = pool
        self._held: set[_Hold] = set()
        self._watcher: asyncio.Task | None = None
        self._released = False
        self.cuts = 0                # number of calls of `cut`

    async def wait(self, heads: Heads, deadline: float, pause: float = 0.0, cuts: int | None = None,
                   expires_s: float = math.inf) -> bool:
        """Returns True once a head (by queue and partition) changed, but not before `pause` seconds are over. Returns
        False when the loop's clock reaches `deadline`; at once if too many wait already, of all or of the address, or
        after `release`. cuts: the count when the read began; returns False if `cut` was called since. expires_s: expiry
        of the read's token by the wall clock, since the epoch; returns False once it has passed, also if that clock was
        set forward."""
        loop = asyncio.get_running_loop()
        share = SHARE.get()
        if self._released or cuts not in (None, self.cuts) or not self._has_room(share, len(heads)):
            return False
        hold = _Hold(heads, share, loop.time() + pause, expires_s)
        self._held.add(hold)
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name="holds", context=Context())      # of no client
        try:
            async with asyncio.timeout_at(deadline):
                return await hold.changed
        except TimeoutError:
            return False
        finally:
            self._held.discard(hold)

    def _has_room(self, share: Share, partitions: int) -> bool:
        own = [hold for hold in self._held if hold.share == share]
        return all(len(holds) < part * READS_MOST and
                   sum(len(hold.heads) for hold in holds) + partitions <= part * PARTITIONS_MOST
                   for holds, part in ((self._held, 1), (own, SHARE_OF_ONE)))

    def release(self) -> None:
        """Answers all waiting reads, and every later one at once: the daemon is stopping."""
        self._released = True
        self._wake(self._held, False)

    def cut(self) -> None:
        """Answers all reads that wait now, because their tokens must be verified again."""
        self.cuts += 1
        self._wake(self._held, False)

    def _wake(self, holds: set[_Hold] | list[_Hold], changed: bool) -> None:
        for hold in holds:
            if not hold.changed.done():
                hold.changed.set_result(changed)

    async def _watch(self) -> None:
        took = 0.0
        try:
            while self._held:
                await asyncio.sleep(max(TICK_S, 9 * took))
                now = time.time()
                self._wake([hold for hold in self._held if hold.expires_s <= now], False)
                took = await self._look()
        finally:
            self._watcher = None        # the next read starts another

    async def _look(self) -> float:
        """Wakes the reads whose heads changed. Returns the seconds it took."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        looked = [hold for hold in self._held if hold.not_before <= begin]
        wanted = sorted({key for hold in looked for key in hold.heads})
        if not wanted:
            return 0.0
        try:
            async with self.pool.connection() as connection:
                row = await (await connection.execute(
                    HEADS, ([q for q, _ in wanted], [p for _, p in wanted]))).fetchone()
        except psycopg.Error:
            self._wake(looked, True)        # their next read reports the error
            return 0.0
        now = dict(zip(wanted, row[0], strict=True))
        self._wake([hold for hold in looked if any(now[key] != head for key, head in hold.heads.items())], True)
        return loop.time() - begin
