"""Keeps the index of the log by time summarized.

Records that other programs committed are found once a second through the BRIN index on created_at. A block range
without a summary has to be read as a whole. PostgreSQL summarizes at an automatic vacuum: at its default interval that
is a minute of pushes to read again every second. So each block range gets its summary here as soon as it is full.
"""
from __future__ import annotations

import asyncio

import psycopg
from psycopg_pool import AsyncConnectionPool

from .running import Running

EVERY_S = 1.0
PAUSE_S = 60.0       # after the server refused
RANGES = 1000        # at most per statement
PAGES = 128          # of a block range, as the migration made the index
FULL = f"SELECT pg_relation_size('queend.log') / current_setting('block_size')::int / {PAGES}"
# A vacuum of the log holds the lock that summarizing takes. Asking first saves the server's log an error per second
# during a vacuum.
BUSY = """SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
        WHERE d.datname = current_database() AND l.relation = 'queend.log'::regclass
        AND l.mode = 'ShareUpdateExclusiveLock')"""


class Summary(Running):
    """The background service. Requires `open` and `close` on the same running loop. Any number of daemons may run it; a
    range is summarized once."""

    def __init__(self, pool: AsyncConnectionPool):
        self.pool = pool
        self._full: int | None = None      # ranges known to be summarized; None: no look yet

    async def _run(self) -> None:
        while True:
            pause = EVERY_S
            try:
                await self.look()
                self._done("summary_failed")
            except psycopg.OperationalError:
                pass      # a vacuum began in between and will do it; or the database is away
            except psycopg.Error as error:
                self._failed("summary_failed", error)
                pause = PAUSE_S
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Summarizes the ranges that were filled since the last look; the first time, all without a summary. Does
        nothing during a vacuum."""
        async with self.pool.connection() as connection:
            (full,) = await (await connection.execute(FULL)).fetchone()
            if self._full is not None and full <= self._full:
                self._full = full      # fewer: the table was rewritten
                return
            (busy,) = await (await connection.execute(BUSY)).fetchone()
            if busy:
                return
            async with connection.transaction():
                # The lock is that of a vacuum. The vacuum must not be waited for, nor be cancelled for waiting too
                # long.
                await connection.execute("SET LOCAL lock_timeout = '100ms'")
                if self._full is None:
                    await connection.execute("SELECT brin_summarize_new_values('queend.log_by_time')")
                else:
                    full = min(full, self._full + RANGES)
                    await connection.execute("SELECT brin_summarize_range('queend.log_by_time', r * %s) FROM "
                                             "generate_series(%s::bigint, %s) AS r", (PAGES, self._full, full - 1))
            self._full = full
