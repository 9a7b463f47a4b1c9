"""Overwrites payloads of deleted records that SQL could not overwrite: those of compressed rows (queend.erasures).

A route that deletes calls `settle` in its own transaction. Deletions by SQL of programs are found here once a second,
by any daemon."""
from __future__ import annotations

import asyncio

import psycopg
from psycopg_pool import AsyncConnectionPool

from .._core import body_erased
from ..settings.model import Settings
from .running import Running

ROWS_RECORDS = 2000      # per call: records that wait, of one partition
PARTITIONS = 1000        # per look
POLL_S = 1.0

ROWS = "SELECT copy, base, n, body, places FROM queend.erase_rows(%s, %s)"
PUT = "SELECT queend.erase_put(%s, %s, %s, %s, %s::int[])"
END = "SELECT queend.erase_end(%s, %s)"
WAITS = "SELECT * FROM queend.erase_waits(%s, %s)"


async def settle(connection: psycopg.AsyncConnection, part: int, least: int) -> None:
    """Overwrites all waiting payloads of a partition, within the caller's transaction. least: QUEEND_COMPRESS_FROM.
    Does nothing if another transaction has the partition."""
    async with connection.cursor(binary=True) as cursor:
        while await settle_some(cursor, part, least):
            pass


async def settle_some(cursor: psycopg.AsyncCursor, part: int, least: int) -> bool:
    """Overwrites the payloads of at most ROWS_RECORDS records. Returns whether there may be more."""
    *rows, end = await (await cursor.execute(ROWS, (part, ROWS_RECORDS))).fetchall() or [None]
    if end is None:
        return False
    for copy, base, n, body, places in rows:
        written = await asyncio.to_thread(body_erased, body, n, places, least)
        await cursor.execute(PUT, (part, copy, base, written, places))
    await cursor.execute(END, (part, end[1]))
    return True


class Eraser(Running):
    """The background service. Requires `open` and `close` on the same running loop."""

    def __init__(self, pool: AsyncConnectionPool, settings: Settings):
        self.pool, self.settings = pool, settings

    async def _run(self) -> None:
        after, refused = 0, False
        while True:
            try:
                refused = refused and after > 0      # of this walk
                after, some = await self._look(after)
                refused = refused or some
                self._done("erase_failed")
                if not after and not refused:
                    self._done("erase_refused")
            except psycopg.Error as error:
                self._failed("erase_failed", error)
                after = 0
            if not after:
                await self._rest(POLL_S)

    async def _look(self, after: int) -> tuple[int, bool]:
        """Settles the next partitions behind this one. Returns the last of them, 0 at the end, and whether one was
        refused."""
        refused = False
        async with self.pool.connection() as connection:
            parts = [part for part, in await (await connection.execute(WAITS, (after, PARTITIONS))).fetchall()]
            for part in parts:
                try:
                    await self._settle(connection, part)
                except ValueError as error:      # a row of unknown format: the others do not wait for it
                    self._failed("erase_refused", error, partition=part)
                    refused = True
        return parts[-1] if len(parts) == PARTITIONS else 0, refused

    async def _settle(self, connection: psycopg.AsyncConnection, part: int) -> None:
        """Settles a partition with a transaction for each step, so that the partition is never locked for long."""
        more = True
        while more:
            async with connection.transaction(), connection.cursor(binary=True) as cursor:
                more = await settle_some(cursor, part, self.settings.queend_compress_from)
