"""Moves what programs pushed inside their own transactions (the outbox) into its queues, as soon as it is committed.

Every daemon looks. The database lets one of them move at a time (queend.relay), so if one ends another takes over at
once. The daemon that moved wakes its own waiters, and notifies the other daemons by NOTIFY. Only this service sends
NOTIFY. Programs that push do not, because transactions that notify wait for each other at their commit.
"""
from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from .. import log
from .._core import verdict
from ..postgres import session
from .running import Running

CHANNEL = "queend_relay"
ROWS = 1000            # per transaction, which holds the lanes of their partitions
POLL_S = 0.2           # between two looks into an empty outbox
MARK_S = 1.0           # between two records of how far the outbox has been emptied
AFRESH_S = 60.0        # until the whole outbox is searched again
BUSY_S = 1.0           # until another attempt after the database was away
# As on the hot connections, a plan made while a table was small must not be a scan (sql/README.md).
SETTINGS = ("SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off;"
            " SET jit = off")


class Relay(Running):
    """The background service. Requires `open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, conninfo: str, core: Any):
        self.conninfo, self.core = conninfo, core
        self.moved = 0      # since the start

    async def _run(self) -> None:
        while True:
            try:
                async with await session.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
                    await connection.execute(SETTINGS)
                    await connection.execute(f"LISTEN {CHANNEL}")
                    await self._watch(connection)
            except psycopg.Error as error:
                self._failed("relay_failed", error)
            await asyncio.sleep(BUSY_S)

    async def _watch(self, connection: psycopg.AsyncConnection) -> None:
        clock = asyncio.get_running_loop().time
        low, mark, afresh_at, mark_at = 0, None, clock() + AFRESH_S, 0.0      # see queend.outbox_mark
        while True:
            if clock() >= afresh_at:
                low, mark, afresh_at = 0, None, clock() + AFRESH_S
            seen = None
            if clock() >= mark_at:
                (seen,) = await session.rows(connection, "SELECT * FROM queend.outbox_mark(%s)", None if mark else low)
                mark_at = clock() + MARK_S
            some, all_ = await self._empty(connection, low)
            self._done("relay_failed")
            if some:
                await connection.execute(f"NOTIFY {CHANNEL}")
                self.core.look()
            if seen and all_:
                last, after, oldest = seen
                if after is not None:
                    mark = (last, after)
                elif mark and oldest > mark[1]:
                    low, mark = mark[0] + 1, None
            async for word in connection.notifies(timeout=POLL_S, stop_after=1):
                if word.pid != connection.info.backend_pid:
                    self.core.look()

    async def _empty(self, connection: psycopg.AsyncConnection, low: int) -> tuple[bool, bool]:
        """Moves all waiting messages. Returns whether there were any, and whether none is left, unless another daemon
        is moving them."""
        some = careful = False
        while True:
            try:
                if careful:
                    rows = await session.rows(connection, "SELECT * FROM queend.relay_one()")
                else:
                    rows = await session.rows(connection, "SELECT * FROM queend.relay(%s, %s)", ROWS, low)
            except psycopg.Error as error:
                if careful or not _own(error):
                    raise
                log.line("warn", "relay_refused", str(error).strip())
                careful = True      # one by one, until the faulty one is marked
                continue
            if not rows or rows[0][1] < 0:
                return some, not rows
            some = True
            self.moved += sum(moved for _, moved in rows)
            careful = careful and all(moved for _, moved in rows)


def _own(error: psycopg.Error) -> bool:
    """Returns whether a message may cause the error. Any other error is the database's and ends the connection. (0A000:
    its queue is encrypted.)"""
    return verdict(error.sqlstate) == "data" or isinstance(error, psycopg.errors.FeatureNotSupported)
