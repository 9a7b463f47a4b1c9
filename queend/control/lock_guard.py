"""Ends sessions of roles without rights that hold the advisory locks of queend (postgres/foreign_locks)."""
from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import psycopg

from .. import log
from ..postgres import migrate, session
from ..postgres.foreign_locks import CLASSES, Holder, question, tell
from ..services import retention, stats
from ..services.running import Running
from .pulse import Pulse

KEYS = {retention.LOCK: "retention", stats.LOCK: "figures", migrate.LOCK: "migrations"}
POLL_S = 0.25        # between two looks at the waits of this daemon
LATE_S = 0.5         # between two questions while something waits
CHASE_S = 0.1        # the same after sessions were ended: their role may have connected anew
IDLE_S = 10.0        # while nothing waits: locks that are tried, not waited for, keep services from their work
ANSWER_S = 5.0       # time for the answer
TOLD_S = 10.0        # between two lines about sessions of one role that were ended


class LockGuard(Running):
    """While a statement waits, ends all foreign holders at once. Otherwise ends those that two questions in a row have
    found: a function with the rights of its owner may take a lock for the moment of a call."""

    def __init__(self, core: Any, conninfo: str, pulse: Pulse):
        self.core, self.conninfo, self.pulse = core, conninfo, pulse
        self._before: set[tuple] = set()             # holders that the last question found
        self._told: dict[str, float] = {}            # role → when a line about ended sessions was written
        self._untold: dict[str, list[Holder]] = {}   # role → sessions that were ended since

    async def _run(self) -> None:
        asked, pause = time.monotonic(), LATE_S
        while True:
            await self._rest(min(POLL_S, pause))
            late = self.core.late() or self.pulse.late()
            if not late:
                pause = LATE_S
            if self.pulse.silent or time.monotonic() - asked < (pause if late else IDLE_S):
                continue
            try:
                async with asyncio.timeout(ANSWER_S):
                    pause = CHASE_S if await self._end(late) else LATE_S
            except (psycopg.Error, OSError, TimeoutError):
                pass      # the doubts of the data plane and the pulse report a database that does not answer
            asked = time.monotonic()
            self._tell(asked)

    async def _end(self, late: bool) -> bool:
        """Ends foreign holders. Returns True if one was ended."""
        async with await session.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
            query, values = question(KEYS, CLASSES, True)
            found = [Holder(*row) for row in await session.rows(connection, query, **values)]
            before, self._before = self._before, {(one.pid, one.gid, one.role_id) for one in found}
            chosen = [one for one in found if late or (one.pid, one.gid, one.role_id) in before]
            ended = [await self._end_one(connection, one) for one in chosen if one.may_end]
        self._report([one for one in chosen if not one.may_end])
        if all(one.may_end for one in found):
            self._done("foreign_lock")
        if all(ended):
            self._done("foreign_lock_kept")
        return any(ended)

    async def _end_one(self, connection: session.AsyncConnection, one: Holder) -> bool:
        """Returns False if the database refuses it."""
        try:
            await connection.execute(*one.ending())
        except psycopg.Error as error:      # a prepared transaction may be in use: the others go on
            if connection.closed:
                raise
            self._failed("foreign_lock_kept", error, role=one.role, pid=one.pid, held=one.held)
            return False
        self._untold.setdefault(one.role, []).append(one)
        return True

    def _report(self, kept: list[Holder]) -> None:
        """Logs the first holder that this daemon may not end, until `_done` once, and keeps it for the doctor."""
        for one in kept[:1]:
            text = f"{one.seen}. {one.advice}"
            if "foreign_lock" not in self.failing:
                log.line("error", "foreign_lock", text, role=one.role, pid=one.pid, held=one.held)
            self._keep_failure("foreign_lock", text)

    async def close(self) -> None:
        await super().close()
        self._tell(math.inf)

    def _tell(self, now: float) -> None:
        """Logs what was ended. A role that connects again and again gets a line every TOLD_S."""
        for role in [role for role in self._untold if now - self._told.get(role, -TOLD_S) >= TOLD_S]:
            self._told[role] = now
            tell(self._untold.pop(role))
