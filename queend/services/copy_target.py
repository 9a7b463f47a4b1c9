"""A database that a request names: connected with the values of the request and none of the daemon's own, and with a
limit on every wait. A server that goes silent costs a thread until the operating system gives up; no caller waits for
that thread.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from ..postgres import session
from ..postgres.conninfo import roots

NOWHERE = "/dev/null/none"      # a file that cannot exist: without one, libpq looks for its default files
CONNECT_S = 5
MOST = 4                        # threads at once

# Errors of an unreachable address: libpq's, and those of looking up an invalid name.
UNREACHABLE = (psycopg.Error, OSError, ValueError)


@dataclass(frozen=True)
class Address:
    """A database as the dashboard gives it."""

    host: str
    port: str
    database: str
    user: str
    password: str
    ssl: bool
    verify: bool = True       # with ssl: the server's certificate and name

    def among(self, targets: set[tuple[str, int, str]]) -> bool:
        """Returns whether the operator has listed it. The folder of a socket cannot be listed."""
        return any((self.host.lower(), int(self.port), database) in targets for database in (self.database, "*"))

    def conninfo(self) -> str:
        """Returns the connection string. It sets everything that libpq would take from the environment or from files of
        the daemon's account."""
        own = {option.keyword.decode(): (option.compiled or b"").decode()
               for option in psycopg.pq.Conninfo.get_defaults() if option.envvar
               and option.keyword not in (b"service", b"servicefile")}
        none = {"passfile": NOWHERE, "sslcert": NOWHERE, "sslkey": NOWHERE, "gssencmode": "disable",
                "krbsrvname": "none", "sslcertmode": "disable", "require_auth": "password,md5,scram-sha-256,none"}
        given = {"host": self.host, "port": self.port, "dbname": self.database, "user": self.user,
                 "password": self.password, "connect_timeout": str(CONNECT_S),
                 "sslmode": "disable" if not self.ssl else "verify-full" if self.verify else "require",
                 "sslrootcert": roots() if self.verify else "", "application_name": "queend transfer",
                 "client_encoding": "UTF8"}
        return make_conninfo(**{**own, **{name: value for name, value in none.items() if name in own}, **given})


class Cut(Exception):
    """The caller does not wait for this work any more."""


class Crowded(Exception):
    """As many threads as allowed have unfinished work."""


class Work:
    """Blocking work on a thread of its own. `run` returns its result. It raises TimeoutError if a step took longer than
    `step_s`, and Cut after `cut`; then the connections of the work are closed."""

    _alive: set[Work] = set()

    def __init__(self, step_s: float):
        self.step_s = step_s
        self._moved = time.monotonic()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._over = False
        self._result: asyncio.Future[Any] | None = None
        self._thread: threading.Thread | None = None

    def step(self) -> None:
        """Begins another step. Called on the thread of the work."""
        self._moved = time.monotonic()
        if self._over:
            raise Cut

    def connect(self, conninfo: str, options: str = "", **more: Any) -> psycopg.Connection:
        """Connects. Called on the thread of the work."""
        self.step()
        rest, settings = session.parted(conninfo, **({"options": options} if options else {}))
        connection = psycopg.connect(rest, **more)
        try:
            with self._lock:
                # stays the same socket even if the other descriptor is closed
                self._sockets.append(socket.socket(fileno=os.dup(connection.fileno())))
            self.step()
            if settings:
                connection.execute(session.statement(settings))
                if not connection.autocommit:
                    connection.commit()
            self.step()
        except BaseException:
            connection.close()
            raise
        return connection

    def cut(self) -> None:
        """Ends the work. May be called from any thread."""
        with self._lock:
            self._over = True
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        if self._result is not None and not self._result.done():
            self._result.get_loop().call_soon_threadsafe(self._settle, None, Cut())

    @classmethod
    async def ended(cls, seconds: float) -> None:
        """Waits for the threads of all works, at most so long: one whose server is silent may take minutes."""
        until = time.monotonic() + seconds
        for work in list(cls._alive):
            if work._thread:
                await asyncio.to_thread(work._thread.join, max(0.0, until - time.monotonic()))

    async def run(self, work: Callable[..., Any], *given: Any) -> Any:
        """Runs work(self, *given) on the thread."""
        if len(Work._alive) >= MOST:
            raise Crowded
        self._result = asyncio.get_running_loop().create_future()
        Work._alive.add(self)
        self._thread = threading.Thread(target=self._work, args=(work, given), name="elsewhere", daemon=True)
        self._thread.start()
        while not self._result.done():
            left = self._moved + self.step_s - time.monotonic()
            if left <= 0:
                self.cut()
                raise TimeoutError
            await asyncio.wait([self._result], timeout=left)
        return self._result.result()

    def _work(self, work: Callable[..., Any], given: tuple[Any, ...]) -> None:
        result, error = None, None
        try:
            result = work(self, *given)
        except Exception as raised:
            error = raised
        finally:
            Work._alive.discard(self)
            with self._lock:
                for one in self._sockets:
                    one.close()
                self._sockets = []
        assert self._result
        with contextlib.suppress(RuntimeError):      # the loop has ended
            self._result.get_loop().call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        assert self._result
        if self._result.done():
            return
        if error:
            self._result.set_exception(error)
        else:
            self._result.set_result(result)
