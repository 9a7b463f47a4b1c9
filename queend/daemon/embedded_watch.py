"""The embedded server while the daemon runs: started, watched, and started again when it ended."""
from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Callable

from .. import log
from ..postgres.embedded import Embedded, EmbeddedError

AGAIN_S = 60.0           # between two lines that say why the server does not start
STEADY_S = 5.0           # a server that served for less is started again after a pause
RESTART_LEAST_S, RESTART_MOST_S = 0.1, 5.0      # the first of these pauses, which doubles, and the longest


class EmbeddedWatch:
    """One server, from its first start on. All of it belongs to the loop's thread, because the server ends with the
    thread that started it. served_at: when it accepted its first connection."""

    def __init__(self, embedded: Embedded):
        self.embedded = embedded
        self.served_at: float | None = None

    async def begin(self, recovery_s: float, enough: Callable[[], bool]) -> str:
        """Starts the server and returns its conninfo when it serves, still recovers after `recovery_s`, or `enough`
        returned true. Raises EmbeddedError."""
        begin = time.monotonic()
        local = self.embedded.begin()
        pid = self.embedded.pid
        there = await asyncio.to_thread(self.embedded.await_ready, recovery=recovery_s, enough=enough)
        log.line("info", "database_started",
                 f"embedded PostgreSQL in {self.embedded.data}{'' if there else ', which recovers'}",
                 pid=pid, ms=round((time.monotonic() - begin) * 1000))
        self.served_at = time.monotonic() if there else None
        return local

    async def watch_database(self) -> None:
        """Starts the embedded server again when it ended: at once if it had served for STEADY_S, else after a pause.
        Logs `database_started` when the new server has accepted a connection. (The core reconnects by itself.)"""
        again, pause, told = False, 0.0, -math.inf
        while True:
            try:
                if again:
                    await self._start_again()
                    told = -math.inf
                elif self.served_at is None:
                    await self._await_served()
                await self._await_end()
                log.line("error", "database_died", f"see {self.embedded.log}")
            except OSError as error:      # no descriptor is left, for example; the server may run
                log.line("error", "database_not_watched", str(error))
                await asyncio.sleep(RESTART_MOST_S)
                continue
            except EmbeddedError as error:
                self.served_at = None
                if time.monotonic() - told >= AGAIN_S:
                    log.line("error", "database_not_started", str(error))
                    told = time.monotonic()
            steady = self.served_at is not None and time.monotonic() - self.served_at >= STEADY_S
            pause = 0.0 if steady else min(max(2 * pause, RESTART_LEAST_S), RESTART_MOST_S)
            await asyncio.sleep(pause)
            again = True

    async def _start_again(self) -> None:
        """Starts the server and returns when it serves. Raises EmbeddedError."""
        begin = time.monotonic()
        self.embedded.begin_again()
        pid = self.embedded.pid
        await self._await_served()
        log.line("info", "database_started", f"embedded PostgreSQL in {self.embedded.data}", pid=pid,
                 ms=round((time.monotonic() - begin) * 1000))

    async def _await_served(self) -> None:
        """Returns when the server has accepted a connection, however long it recovers. Raises EmbeddedError if it
        ended."""
        over = threading.Event()
        try:
            await asyncio.to_thread(self.embedded.await_ready, math.inf, enough=over.is_set)
        finally:
            over.set()      # if this task was cancelled, the thread ends too
        self.served_at = time.monotonic()

    async def _await_end(self) -> None:
        """Returns when the server has ended."""
        if pid := self.embedded.pid:
            loop = asyncio.get_running_loop()
            gone = asyncio.Event()
            handle = os.pidfd_open(pid)  # an ended child can be opened until it was waited for
            loop.add_reader(handle, gone.set)
            try:
                await gone.wait()
            finally:
                loop.remove_reader(handle)
                os.close(handle)
