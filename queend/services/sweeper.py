"""Removes the rows of deleted queues in the background, a portion at a time.

Wakes when this daemon deleted a queue, and once a minute for leftovers of ended daemons. Any number of daemons may
sweep one database at once.
"""
from __future__ import annotations

import psycopg
from psycopg_pool import AsyncConnectionPool

from ..postgres import session
from .running import Running

ROWS = 1000      # per transaction, which holds the partition's lane
IDLE_S = 60.0
BUSY_S = 1.0     # after a lane was busy or the database was away


class Sweeper(Running):
    """The background service. Requires `open` and `close` on the same running loop."""

    def __init__(self, pool: AsyncConnectionPool):
        self.pool = pool

    async def _run(self) -> None:
        while True:
            try:
                pause = IDLE_S if await self._sweep() else BUSY_S
                self._done("sweep_failed")
            except psycopg.Error as error:
                self._failed("sweep_failed", error)
                pause = BUSY_S
            await self._rest(pause)

    async def _sweep(self) -> bool:
        """Sweeps until nothing is left or nothing can be swept. Returns whether nothing is left."""
        async with self.pool.connection() as connection:
            while True:
                ((removed, partitions),) = await session.rows(connection, "SELECT * FROM queend.sweep(%s)", ROWS)
                if partitions == 0 or removed == 0:
                    return partitions == 0
