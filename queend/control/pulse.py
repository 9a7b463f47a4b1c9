"""Detects whether the database answers the control plane. A server that hangs neither answers nor refuses: without this
every page would wait for it as long as a statement may take."""
from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from .. import log
from ..postgres import session
from ..services.running import Running
from .fair_semaphore import FairSemaphore, Share

LOOK_S = 1.0           # between two looks at the doubts of the data plane
PROBE_S = 2.0          # a server that takes longer for SELECT 1 is silent
LATE_S = 1.0           # a statement of a page that has waited for so long starts a probe
COMMIT_S = 60.0        # then a new commit is tried: the old one may wait at a server that is gone
# Writes only to the log of the server (WAL); its commit waits as every other one does.
WRITE = "SELECT pg_logical_emit_message(true, 'queend', '')"
DOUBTS = {"away", "silent"}
TEXT = "the database does not answer"


class Pulse(Running):
    """Probes the database while the data plane doubts it, or a page waits for it. `silent`: the last probe was not
    answered. Then running statements of pages are cut off, and new ones fail at once, until a probe is answered. A
    statement that waits for a lock, or takes long, does not count: the probe is answered meanwhile."""

    def __init__(self, core: Any, conninfo: str):
        self.core, self.conninfo = core, conninfo
        self.silent = False
        self.commit: asyncio.Task | None = None      # awaited while commits hang, or may hang
        # statements of pages, and of figures written before a page: when each began (the loop's clock)
        self._waits: dict[asyncio.Timeout, float] = {}
        self._writes: dict[asyncio.Timeout, float] = {}

    async def _run(self) -> None:
        while True:
            doubts = self.core.database()["doubts"]
            self._try_commit(self.core.wants_commit())
            doubted = bool(DOUBTS.intersection(doubts))
            silent = (doubted or self.silent or self.late()) and not await self._answers(doubted)
            if silent != self.silent:
                self.silent = silent
                log.line("warn" if silent else "info", "database_silent" if silent else "database_speaks",
                         f"{TEXT}: requests of the control plane are refused at "
                         "once" if silent else "requests of the control plane are served again")
            if silent:
                self._cut(self._waits)
            if self.stores_nothing():
                self._cut(self._writes)
            await self._rest(LOOK_S)

    def _try_commit(self, wanted: bool) -> None:
        """Makes a commit and waits for it while commits hang, or may hang. When it completes, notifies the core that
        they do not hang. One at a time: the session of an abandoned commit stays at the server until that commit is
        through."""
        if wanted and (self.commit is None or self.commit.done()):
            self.commit = asyncio.create_task(self._commits())
        elif not wanted and self.commit is not None:
            self.commit.cancel()
            self.commit = None

    async def _commits(self) -> None:
        try:
            async with asyncio.timeout(COMMIT_S):
                async with await session.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
                    await connection.execute(WRITE)
            self.core.committed()
        except (psycopg.Error, OSError, TimeoutError):
            pass

    async def close(self) -> None:
        self._try_commit(False)
        await super().close()

    def late(self) -> bool:
        """Returns True if a page has waited for LATE_S."""
        before = asyncio.get_running_loop().time() - LATE_S
        return any(at < before for waits in (self._waits, self._writes) for at in waits.values())

    async def _answers(self, doubted: bool) -> bool:
        """Returns True if the database answers. If the data plane does not doubt it, an error is an answer: the server
        may only lack a connection for the probe."""
        try:
            async with asyncio.timeout(PROBE_S):
                async with await session.AsyncConnection.connect(self.conninfo, autocommit=True) as connection:
                    await connection.execute("SELECT 1")
            return True
        except TimeoutError:
            return False
        except (psycopg.Error, OSError):
            return not doubted

    def stores_nothing(self) -> bool:
        """Returns True while nothing is stored, as far as known: then figures are not written before a page."""
        return self.silent or "commits_hang" in self.core.database()["doubts"]

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Raises TimeoutError in the enclosed code once nothing is stored."""
        limit = asyncio.timeout(None)
        self._writes[limit] = asyncio.get_running_loop().time()
        try:
            async with limit:
                yield
        finally:
            del self._writes[limit]

    def _cut(self, waits: Iterable[asyncio.Timeout]) -> None:
        now = asyncio.get_running_loop().time()
        for wait in waits:
            if not wait.expired():
                wait.reschedule(now)

    def began(self, wait: asyncio.Timeout) -> None:
        """Registers the wait for a statement, which silence ends."""
        self._waits[wait] = asyncio.get_running_loop().time()

    def ended(self, wait: asyncio.Timeout) -> None:
        self._waits.pop(wait, None)


class Pool(AsyncConnectionPool):
    """Connections of pages. Gives none while the database is silent. Client addresses that wait for one take turns; of
    four or more, one address has at most three quarters."""

    conninfo: str      # a function could make it for each connection; here it is always the text

    def __init__(self, pulse: Pulse, conninfo: str, **more: Any):
        self.pulse = pulse
        super().__init__(conninfo, connection_class=type("Connection", (session.PatientConnection,), {"pulse": pulse}),
                         kwargs={"autocommit": True, **more.pop("kwargs", {})}, **more)
        self._turns = FairSemaphore(self.max_size, self.max_size if self.max_size < 4 else self.max_size * 3 // 4)
        self._lent: dict[Any, Share] = {}      # connections, with the share whose turn it was

    async def getconn(self, timeout: float | None = None) -> Any:
        """Returns a connection. Raises PoolTimeout if none became free in time."""
        if self.closed:
            return await super().getconn(timeout)      # raises PoolClosed
        try:
            share = await self._turns.acquire(self.timeout if timeout is None else timeout)
        except TimeoutError:
            raise PoolTimeout("no connection became free in time") from None
        try:
            connection = await self._living(timeout)
        except BaseException:
            self._turns.release(share)
            raise
        self._lent[connection] = share
        return connection

    async def putconn(self, connection: Any) -> None:
        try:
            await super().putconn(connection)
        finally:
            self._turns.release(self._lent.pop(connection))

    def get_stats(self) -> dict[str, int]:
        found = super().get_stats()
        found["requests_waiting"] = found.get("requests_waiting", 0) + self._turns.waiting()
        return found

    async def _living(self, timeout: float | None) -> Any:
        """Returns a connection that the server has not closed, as far as this side was told. After a restart of the
        server all idle connections are closed: without this look, each of them would fail a page."""
        while True:
            if self.pulse.silent:
                raise psycopg.OperationalError(TEXT)
            connection = await super().getconn(timeout)
            try:
                _take_news(connection.pgconn)
                return connection
            except psycopg.OperationalError:
                await connection.close()
                await super().putconn(connection)

    async def apart(self) -> Any:
        """Opens a connection as those of the pool, and leaves it to the caller."""
        if self.pulse.silent:
            raise psycopg.OperationalError(TEXT)
        return await self.connection_class.connect(self.conninfo, autocommit=True)


def _take_news(pgconn: PGconn) -> None:
    """Reads what the server has sent to an idle connection, without waiting. Raises OperationalError if the server has
    closed it; before the end of the stream it may have sent its reason."""
    watched = select.poll()
    watched.register(pgconn.socket, select.POLLIN)
    while watched.poll(0):
        pgconn.consume_input()
