"""One of several daemons works for all: it holds a session's advisory lock, for as long as that session lives."""
from __future__ import annotations

import contextlib
from typing import Any

import psycopg


class Leader:
    """The session of a background service. lock: its advisory lock; settings: SQL run once on a new session."""

    def __init__(self, conninfo: str, lock: int, settings: str | None = None):
        self.conninfo, self.lock, self.settings = conninfo, lock, settings
        self.connection: psycopg.AsyncConnection | None = None

    async def lead(self) -> bool:
        """Whether this one works. Raises psycopg.Error when the database cannot be asked."""
        if self.connection is None:
            connection = await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True)
            try:
                if self.settings:
                    await connection.execute(self.settings)
                got = (await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (self.lock,))).fetchone())[0]
            except BaseException:
                await connection.close()
                raise
            if not got:
                await connection.close()
                return False
            self.connection = connection
        return True

    async def leave(self) -> None:
        """Somebody else may work from now on."""
        if self.connection is not None:
            with contextlib.suppress(psycopg.Error):
                await self.connection.close()
            self.connection = None

    async def rows(self, query: str, *values: Any, binary: bool = False) -> list:
        assert self.connection is not None
        return await (await self.connection.execute(query, values or None, binary=binary)).fetchall()
