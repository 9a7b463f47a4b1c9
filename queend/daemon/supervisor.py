"""The life of the daemon: brings the database and its schema up, serves with core and control plane, and ends all of
them in order."""
from __future__ import annotations

import asyncio
import math
import os
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import __version__, log
from .._core import Core, log_write
from ..control.app import Control
from ..postgres.conninfo import PAGES, conninfo, verifies_server
from ..postgres.embedded import Embedded, EmbeddedError
from ..services.buffer import Folder, FolderError, holds_messages
from ..settings.certificates import certificates
from ..settings.keyring import keyring
from ..settings.model import Settings
from ..settings.origins import origins, uses_embedded, without_effect
from . import activation, hardening
from .address import taken
from .core_settings import core_settings
from .database_start import DatabaseStart, StartError
from .embedded_watch import EmbeddedWatch
from .reload import reload
from .systemd import extend_start, notify, notify_address, watchdog_seconds

DATABASE_WAIT_S = 60.0
RECOVERY_S = 5.0         # how long an embedded server may recover before the daemon serves without it
# Limits for writing the last figures of queues at a stop: seconds without progress, and seconds in all.
LAST_MINUTE_S, LAST_MINUTE_MOST_S = 2.0, 15.0
LAST_LINE_MS = 1000      # how long the last line waits for a slow reader of the log


def reachable(bound: str) -> str:
    """Returns an address under which this machine reaches what listens at `bound`."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(bound, bound)


def tell_end(task: asyncio.Task) -> None:
    """Logs that a task of the daemon ended by an error. What it did is not done any more."""
    if not task.cancelled() and (error := task.exception()):
        log.line("error", "task_ended", repr(error), task=task.get_name())


class Supervisor:
    """One daemon. `run` returns the exit status: 0 after an orderly end in which nothing leaked."""

    def __init__(self, settings: Settings, arguments: dict[str, Any] | None = None):
        self.settings, self.arguments = settings, arguments or {}
        try:
            self.embedded = Embedded(settings.queend_data_dir) if uses_embedded(settings, arguments) else None
        except EmbeddedError as error:
            raise StartError(str(error)) from None
        self.watch = EmbeddedWatch(self.embedded) if self.embedded else None
        self.core: Any = None
        self.fault: Exception | None = None      # found while serving; ends the daemon

    def run(self, greet: Callable[[str], None] | None = None) -> int:
        """Serves until SIGTERM or SIGINT. greet: called with the address once requests are answered. Raises
        StartError."""
        self.greet = greet
        log.level_set(self.settings.log_level)
        log.line("info", "starting", version=__version__)
        try:
            self.sockets = activation.sockets()
        except activation.ActivationError as error:
            raise StartError(str(error)) from None
        if self.sockets and (named := [name.upper() for name in ("host", "port")
                                       if origins(self.settings, self.arguments)[name] != "default"]):
            log.line("warn", "sockets_given", f"{' and '.join(named)} have no effect: systemd passed listening "
                                              "sockets, which the .socket unit configures")
        if not self.sockets and (why := taken(self.settings.address(), self.settings.port,
                                              self.settings.queend_listen_mode == "reuseport")):
            raise StartError(why)
        try:
            certificates(self.settings)
        except ValueError as error:
            raise StartError(str(error)) from None
        # Every parked pop is an open connection: raise the limit as far as allowed.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if keys := [name for name, _ in keyring(self.settings)]:
            log.line("info", "encryption_keys", f"{keys[0]} encrypts; {', '.join(keys)} decrypt")
        if keys or self.settings.jwt_secret or self.settings.queen_sync_secret or self.settings.queend_tls_key:
            hardening.close(self.settings.queend_core_dumps)
        for name, why in without_effect().items():
            log.line("warn", "setting_without_effect", f"{name} is accepted, but has no effect: {why}")
        return asyncio.run(self._run())

    async def _run(self) -> int:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        # the end of a terminal ends the daemon that runs in it
        self.again = asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, (stop if os.isatty(0) else self.again).set)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        self.starting = asyncio.create_task(extend_start())
        try:
            local = await self._embed(stop)
            # Migrations may take longer than a request may.
            target = conninfo(self.settings, local, options="-c statement_timeout=0 -c lock_timeout=0")
            buffers = self.settings.queend_buffer_bytes > 0
            database = DatabaseStart(target)
            identity = await database.reach(
                stop, 0 if buffers else DATABASE_WAIT_S, patient=buffers and holds_messages(self.settings))
            if stop.is_set():
                return 0
            if identity is None and not buffers:
                raise StartError(database.unreachable)
            return await self._serve(local, database, identity, stop)
        finally:
            self.starting.cancel()
            if self.embedded:
                self.embedded.stop()
                log.line("debug", "database_stopped")

    async def _embed(self, stop: asyncio.Event) -> str | None:
        """Starts the embedded server, if there is one, and returns its conninfo. A server that still recovers after
        RECOVERY_S counts as a database that is away."""
        if self.watch:
            try:
                return await self.watch.begin(RECOVERY_S if self.settings.queend_buffer_bytes > 0 else math.inf,
                                              stop.is_set)
            except EmbeddedError as error:
                raise StartError(str(error)) from error
        if not verifies_server(self.settings):
            log.line("warn", "server_not_verified", "TLS does not verify the server's certificate: "
                                                    "PG_SSL_REJECT_UNAUTHORIZED is false, or the connection string "
                                                    "lacks sslmode=verify-full")
        return None

    async def _serve(self, local: str | None, database: DatabaseStart, identity: str | None,
                     stop: asyncio.Event) -> int:
        """Serves until `stop`. identity: of the database. None: it is away, and the daemon buffers pushes until it is
        back."""
        log.through(log_write)
        try:
            folder = Folder(self.settings, identity)
            core = self.core = Core(core_settings(self.settings, local, str(folder.path or ""), self.sockets))
        except (FolderError, OSError) as error:
            raise StartError(str(error)) from None
        control = Control(self.settings, core, conninfo(
            self.settings, local, application_name="queend control", options=PAGES), folder)
        try:
            control.secured.use()
        except ValueError as error:      # the files have changed since `run` read them
            raise StartError(str(error)) from None
        control.open()
        there = identity is not None
        tasks: list[asyncio.Task] = []
        try:
            if there:
                await control.take_up()
            try:
                control.peers.begin()
                port = control.metrics.port = core.start(there, False)
                # until the database answers, connections wait in the kernel: none is told that it is away
                ready = there and await self._await_ready(stop)
                core.accept()
            except OSError as error:
                raise StartError(str(error)) from None
            self.starting.cancel()
            status = f"STATUS=serving on port {port}"
            notify("READY=1", status if ready else f"{status}; the database is unavailable")
            bound, alone = core.address()
            if not alone and not self.settings.jwt_enabled:
                log.line("warn", "open_to_network", f"everyone who reaches {bound} port {port} can read, change and "
                                                    "delete all data, because authentication is off; set JWT_ENABLED, "
                                                    "or HOST=127.0.0.1")
            work: list[Any] = [self._tell(bound, port, ready or not there), self._beat(), self._reload(control),
                               self._adopt(folder), control.secured.watch(),
                               *([self.watch.watch_database()] if self.watch else ())]
            tasks = [asyncio.create_task(one, name=one.__name__.lstrip("_")) for one in work]
            if not there:
                log.line("warn", "without_database",
                         "pushes go into the failover buffer until PostgreSQL is available")
                tasks.append(asyncio.create_task(self._take_up(database, folder, control, stop, status)))
            for task in tasks:
                task.add_done_callback(tell_end)
            await stop.wait()
            notify("STOPPING=1")
            begin = time.monotonic()
            control.release()
            await self._write_last(control)
            log.line("info", "stopping")
            # In a thread, so that the control plane can answer its running requests.
            drained = await asyncio.to_thread(core.stop, self.settings.queend_shutdown_grace_ms)
        finally:
            for task in tasks:
                task.cancel()
            await control.close()
            if isinstance(self.fault, FolderError) and (parted := folder.part()):
                log.line("warn", "buffer_parted", f"pushes taken since the start are in {parted}; the next daemon "
                                                  "stores them")
            folder.close()
        if self.fault:
            raise StartError(str(self.fault)) from self.fault
        leaks = core.leaks()
        clean = drained and not any(leaks.values())
        log.through(partial(log_write, wait_ms=LAST_LINE_MS))
        log.line("info" if clean else "error", "stopped", drained=drained, leaks=leaks,
                 ms=round((time.monotonic() - begin) * 1000))
        return 0 if clean else 1

    async def _write_last(self, control: Control) -> None:
        """Writes the last figures of queues, which are known while the core runs. A database that hangs does not delay
        the stop."""
        last, steps, most = asyncio.create_task(control.metrics.close()), -1, time.monotonic() + LAST_MINUTE_MOST_S
        while not last.done() and steps != control.metrics.steps and time.monotonic() < most:
            steps = control.metrics.steps
            await asyncio.wait({last}, timeout=LAST_MINUTE_S)
        last.cancel()
        await asyncio.wait({last})
        if not last.cancelled() and (error := last.exception()):
            log.line("error", "metrics_not_kept", str(error).strip())

    async def _reload(self, control: Control) -> None:
        while True:
            await self.again.wait()
            self.again.clear()
            try:
                await reload(self.settings, self.arguments, control)
            except Exception as error:      # the stop goes on
                log.line("error", "reload_failed", repr(error))

    async def _adopt(self, folder: Folder) -> None:
        """Moves what ended daemons left in their failover buffers into ours."""
        while folder.path is not None and folder.adopt_s:
            await asyncio.sleep(min(1.0, folder.adopt_s))
            try:
                folder.adopt(self.core.adopt)
            except OSError as error:
                log.line("warn", "buffer_not_adopted", str(error))

    async def _take_up(self, database: DatabaseStart, folder: Folder, control: Control, stop: asyncio.Event,
                       status: str) -> None:
        """Waits for the database, and makes both planes use it."""
        try:
            if (identity := await database.reach(stop, math.inf, patient=True)) is not None:
                if not folder.claim(identity):
                    raise FolderError(f"failover buffer: {folder.path} holds messages for another database; they are "
                                      "kept and not stored here")
                await control.take_up()
                self.core.connect()
                log.line("info", "database_taken_up")
                notify(status)
        except Exception as error:      # as at the start: this version cannot work with the database
            self.fault = error
            stop.set()

    async def _await_ready(self, stop: asyncio.Event) -> bool:
        deadline = time.monotonic() + 10
        while not stop.is_set() and time.monotonic() < deadline:
            if self.core.ready():
                return True
            await asyncio.sleep(0.005)
        return stop.is_set()

    async def _tell(self, bound: str, port: int, ready: bool) -> None:
        """Logs `ready` with the address. If the database is there but stores nothing, as a standby, that is logged
        first, and `ready` once it does."""
        serving = dict(port=port, workers=self.settings.num_workers)
        scheme = self.settings.scheme()
        url = f"{scheme}://{bound}:{port}"
        if not ready:
            log.line("warn", "not_ready", f"{url} serves, but the database stores nothing yet",
                     **serving)
            while not self.core.ready():
                await asyncio.sleep(0.1)
        log.line("info", "ready", url, **serving)
        if self.greet:
            self.greet(f"{scheme}://{reachable(bound)}:{port}")

    async def _beat(self) -> None:
        """Tells the core's watchdog thread that this loop runs, and where systemd listens. That thread feeds systemd's
        watchdog, even while this loop is busy."""
        if (period := watchdog_seconds()) and (address := notify_address()):
            self.core.feed(address, max(1, round(period * 1000)))
        while True:
            self.core.beat()
            await asyncio.sleep(1)
