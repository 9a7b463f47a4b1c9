"""Leader election: one of several daemons works for all. It holds a session's advisory lock as long as that session
lives."""
from __future__ import annotations

import contextlib
from typing import Any

import psycopg

from ..postgres import session


class Leader:
    """The session of a background service. lock: its advisory lock; settings: SQL run once on a new session."""

    def __init__(self, conninfo: str, lock: int, settings: str | None = None):
        self.conninfo, self.lock, self.settings = conninfo, lock, settings
        self.connection: psycopg.AsyncConnection | None = None

    async def lead(self) -> bool:
        """Returns whether this daemon works. Raises psycopg.Error if the database cannot be asked."""
        if self.connection is None:
            await self._connect()
            if not await self._take():
                await self.leave()
                return False
        return True

    async def _connect(self) -> None:
        self.connection = await session.AsyncConnection.connect(self.conninfo, autocommit=True)
        if self.settings:
            try:
                await self.connection.execute(self.settings)
            except BaseException:
                await self.leave()
                raise

    async def _take(self) -> bool:
        try:
            return (await self.rows("SELECT pg_try_advisory_lock(%s)", self.lock))[0][0]
        except BaseException:
            await self.leave()
            raise

    @property
    def alive(self) -> bool:
        """Whether there is a session, as far as this process knows."""
        return self.connection is not None and not self.connection.closed

    async def leave(self) -> None:
        """Gives the lock up, so that another daemon may work from now on."""
        if self.connection is not None:
            with contextlib.suppress(psycopg.Error):
                await self.connection.close()
            self.connection = None

    async def rows(self, query: str, *values: Any, binary: bool = False, **named: Any) -> list:
        assert self.connection is not None
        return await session.rows(self.connection, query, *values, binary=binary, **named)


class Turns(Leader):
    """A Leader for a service that takes the lock for each piece of work: `lead`, then `rest`. The session stays in
    between."""

    async def lead(self) -> bool:
        if self.connection is None:
            await self._connect()
        return await self._take()

    async def rest(self) -> None:
        if self.connection is not None:
            await self.rows("SELECT pg_advisory_unlock(%s)", self.lock)
