"""Fires timers: stores the messages of those that are due and removes them, in one transaction (queend.timers_fire).

Every daemon fires, and the database lets one of them at a time. So if one ends, another takes over at once. The service
sleeps until the next timer is due, at most POLL_S. The core wakes it earlier for a timer that was scheduled through
this daemon. A timer that was scheduled through a daemon that ended meanwhile is found by the others within POLL_S.
"""
from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from .. import log
from .._core import seal_payload, verdict
from ..postgres import session
from .relay import CHANNEL, SETTINGS
from .running import Running

TIMERS = 1000          # per transaction, which holds the lanes of their partitions
POLL_S = 1.0           # between two looks without a timer that is due
TURN_S = 0.005         # until another attempt while another daemon fires
HELD_S = 0.02          # until another attempt while other transactions change all timers that are due
AGAIN_S = 1.0          # until another attempt after the database was away
SEALED = 100           # timers sealed at once
WINDOW_S = 60.0        # of the largest lateness
FAILED = "timers_failed"
FULL = "QD409"         # SQLSTATE of sql/function/names.sql
BUSY, REFUSED = -1, -2     # queend.timers_fire: another session fires; queend.timers_fire_one: the timer failed


class Timers(Running):
    """The background service. Requires `open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, conninfo: str, core: Any):
        self.conninfo, self.core = conninfo, core
        self.fired = self.refused = 0     # by this daemon, since the start
        self.deleted = 0                  # timers cancelled by DELETE
        self._late = (0.0, 0.0, 0.0)      # since when; largest lateness in s since then, and in the window before

    def late_s(self) -> float:
        """Returns how late the latest timer of the last one or two WINDOW_S was."""
        since, last, before = self._late
        past = asyncio.get_running_loop().time() - since
        return max(last, before) if past < WINDOW_S else last if past < 2 * WINDOW_S else 0.0

    async def _run(self) -> None:
        while True:
            try:
                async with await session.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
                    await connection.execute(SETTINGS)
                    await self._watch(connection)
            except psycopg.Error as error:
                self._failed(FAILED, error)
            await asyncio.sleep(AGAIN_S)

    async def _watch(self, connection: psycopg.AsyncConnection) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self.core.timers_fileno(), self.wake)
        try:
            while True:
                self.core.timers_begin()
                planned = loop.time() + await self._fire(connection)
                self._done(FAILED)
                until = self._sleeps(planned)
                while await self._rest(until - loop.time()):
                    until = self._sleeps(planned)
        finally:
            loop.remove_reader(self.core.timers_fileno())

    def _sleeps(self, planned: float) -> float:
        return self.core.timers_sleep(int(planned * 1e6)) / 1e6

    async def _fire(self, connection: psycopg.AsyncConnection) -> float:
        """Fires all timers that are due. Returns the seconds until the next look."""
        careful = False
        while True:
            try:
                if careful:
                    (row,) = await session.rows(connection, "SELECT * FROM queend.timers_fire_one()")
                else:
                    (row,) = await session.rows(connection, "SELECT * FROM queend.timers_fire(%s)", TIMERS)
            except psycopg.Error as error:
                if careful or not _own(error):
                    raise
                if not (isinstance(error, psycopg.errors.FeatureNotSupported) and await self._seal(connection)):
                    log.line("warn", "timer_refused", str(error).strip())
                    careful = True      # one by one, until the faulty one is marked
                continue
            fired, late_us, next_at, now_us = row
            if fired == BUSY:
                return TURN_S
            if fired == REFUSED:
                self.refused += 1
                careful = False
            if fired > 0:
                self.core.look()
                await connection.execute(f"NOTIFY {CHANNEL}")
                self._fired(fired, late_us / 1e6)
            if next_at is None:
                return POLL_S
            if next_at > now_us:
                return min(POLL_S, (next_at - now_us) / 1e6)
            if fired == 0:
                return HELD_S

    def _fired(self, n: int, late_s: float) -> None:
        self.fired += n
        since, last, before = self._late
        now = asyncio.get_running_loop().time()
        if now - since >= WINDOW_S:
            since, last, before = now, 0.0, last if now - since < 2 * WINDOW_S else 0.0
        self._late = since, max(last, late_s), before

    async def _seal(self, connection: psycopg.AsyncConnection) -> bool:
        """Seals timers whose queue became encrypted after they were scheduled. Returns False if there is none, or no
        key."""
        plain = await session.rows(connection, "SELECT * FROM queend.timers_unsealed(%s)", SEALED)
        for number, queue, key, payload in plain:
            try:
                envelope, name = seal_payload(queue, payload.encode())
            except LookupError:
                return False
            await connection.execute("SELECT queend.timer_sealed(%s, %s, %s, %s, %s)",
                                     (number, queue, key, envelope.decode(), name))
        return bool(plain)


def _own(error: psycopg.Error) -> bool:
    """Returns whether a timer may cause the error. Any other error is the database's and ends the connection. (0A000:
    its queue is encrypted.)"""
    return (verdict(error.sqlstate) == "data" or isinstance(error, psycopg.errors.FeatureNotSupported)
            or error.sqlstate == FULL)
