"""The application: its resources, its errors, its pool of connections."""
from __future__ import annotations

import time
from typing import Any

import psycopg
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from .. import __version__, log
from .._core import verdict, verdict_meaning
from ..postgres.conninfo import bounds, with_options
from ..services.buffer import Folder
from ..services.declarations import Declarations
from ..services.erasure import Eraser
from ..services.maintenance import Maintenance
from ..services.metrics import Metrics
from ..services.peers import Peers
from ..services.relay import Relay
from ..services.retention import Retention
from ..services.secured import Secured
from ..services.stats import Stats
from ..services.summary import Summary
from ..services.sweeper import Sweeper
from ..services.timers import Timers
from ..services.tracing import Tracing
from ..services.transfer import Transfer
from ..settings.model import Settings
from .bridge import Bridge
from .http import known, static
from .http.answer import FULL, Json, Refusal, full
from .http.compressed import Compressed
from .http.etag import Tagged
from .lock_guard import LockGuard
from .log_reader import Reader
from .long_reads import Holds
from .pulse import Pool, Pulse
from .routes import routers
from .stream_calls import Streams

# Says why there is no connection to the database, for each doubt of `routes/health`. The first one that holds is
# shown.
AWAY = {"read_only": "the database is read-only", "refused": "the database refuses connections",
        "crowded": "the database has no connection left", "away": "the database is not reachable",
        "silent": "the database does not answer"}


class Control:
    """The control plane of one daemon. Requires `open`, `take_up` and `close` on the same running loop."""

    def __init__(self, settings: Settings, core: Any, conninfo: str, folder: Folder):
        # here: routes are listed in the order in which their modules are imported (`routers`)
        from .metrics.rounds import Rounds
        from .routes.live import Backlog
        from .routes.search import Searches

        self.settings = settings
        self.core = core
        self.started, self.began = time.time(), time.monotonic()
        self.pulse = Pulse(core, conninfo)
        self.pool = Pool(
            self.pulse, with_options(conninfo, bounds(settings)), min_size=0,
            max_size=max(2, settings.db_pool_size // 20), open=False, timeout=settings.db_connection_timeout / 1000,
            reconnect_timeout=0, name="queend-control")
        self.lock_guard = LockGuard(core, conninfo, self.pulse)
        self.sweeper = Sweeper(self.pool)
        self.eraser = Eraser(self.pool, settings)
        self.retention = Retention(settings, conninfo)
        self.relay = Relay(conninfo, core)
        self.timers = Timers(conninfo, core)
        self.stats = Stats(settings, conninfo)
        self.metrics = Metrics(settings, core, self.pool)
        for one in (self.stats, self.metrics):
            one.stores_nothing, one.writing = self.pulse.stores_nothing, self.pulse.writing
        self.summary = Summary(self.pool)
        self.holds = Holds(self.pool)
        self.backlog = Backlog()
        self.doctor = Rounds(self)
        self.tracing = Tracing(settings, core)
        self.maintenance = Maintenance(core, self.pool, folder.path)
        self.declarations = Declarations(core, self.pool)
        self.peers = Peers(settings, self.maintenance)
        self.maintenance.switched = lambda: self.peers.tell(maintenance=True)
        self.secured = Secured(settings, core)
        self.folder = folder
        self.reader = Reader(self.pool)
        self.searches = Searches()
        self.streams = Streams(settings, conninfo, self.pulse)
        self.services = (self.pulse, self.lock_guard, self.sweeper, self.eraser, self.retention, self.relay,
                         self.timers, self.summary, self.stats, self.metrics, self.tracing, self.declarations,
                         self.peers)
        self.transfer = Transfer(conninfo, settings.queend_migration_step_ms / 1000)
        self.app = application(self)
        self.guard = None
        if settings.jwt_enabled:
            from ..auth.guard import Guard  # here: its libraries load only if tokens are used

            self.guard = Guard(settings, core, self.app, static.open_files(settings), self.holds.cut)
        self.bridge = Bridge(core, self.guard or self.app, (settings.host or "", settings.port),
                             self.guard.hold if self.guard else None)

    def open(self) -> None:
        """Answers requests from now on. Until `take_up` the pools are closed, which every route treats as a database
        that is away."""
        self.maintenance.open()
        if self.guard:
            self.guard.open()
        self.bridge.open()

    async def take_up(self) -> None:
        """Opens the pools. Requires that the database is reachable, with the schema of this version."""
        await self.pool.open()
        try:      # before the data plane takes the free connections; a wait of the pool's own would close it
            async with self.pool.connection():
                pass
        except PoolTimeout as error:
            log.line("warn", "control_without_connection", str(error))
        await self.streams.open()
        for service in self.services:
            service.open()

    async def changed(self, names: set[str]) -> None:
        """Applies settings that have changed while the daemon runs."""
        self.retention.wake()
        self.stats.wake()
        self.metrics.wake()
        if self.guard and any("jwt" in name for name in names):
            await self.guard.change(self.settings)

    def reload(self) -> None:
        """Fetches again what the settings only name: the key set."""
        if self.guard:
            self.guard.refresh()

    def release(self) -> None:
        """Answers requests that only wait, because the daemon is about to stop."""
        self.holds.release()
        self.transfer.stop()

    async def close(self) -> None:
        self.release()
        await self.bridge.close()
        for one in (*([self.guard] if self.guard else []), self.doctor, *reversed(self.services), self.transfer,
                    self.streams, self.maintenance, self.pool):
            await one.close()


class RawPath:
    """Matches routes on the path as it was sent; resources decode their parameters themselves, once."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].partition(b"?")[0].decode("latin-1")}
        await self.app(scope, receive, send)


def application(control: Control) -> FastAPI:
    app = FastAPI(title="queend", version=__version__, description="A message queue on PostgreSQL.", docs_url=None,
                  redoc_url=None, openapi_url=None, redirect_slashes=False, default_response_class=Json)
    app.state.control = control
    for router in routers():
        app.include_router(router, dependencies=[Depends(known.query_names)])
    static.serve(app, control.settings)
    app.add_middleware(Compressed)
    app.add_middleware(Tagged)
    app.add_middleware(RawPath)
    app.add_exception_handler(Refusal, lambda request, error: error.answer())
    app.add_exception_handler(HTTPException, _no_such_route)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(psycopg.Error, _database)
    return app


async def _no_such_route(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return known.wrong_method(request).answer()
    return Refusal(error.status_code, str(error.detail), "refused").answer()


async def _invalid(request: Request, error: Exception) -> Json:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return Refusal(400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}", "invalid_request").answer()


async def _database(request: Request, error: Exception) -> Json:
    refusal = _refusal(request, error)
    refusal.done = getattr(error, "done", {})
    return refusal.answer()


def _refusal(request: Request, error: Exception) -> Refusal:
    # deep inside JSON that is passed on unchanged
    if isinstance(error, psycopg.errors.UntranslatableCharacter):
        return Refusal(400, "A text contains a character that cannot be stored (NUL)", "invalid_text")
    if getattr(error, "sqlstate", None) == FULL:
        return full(error)
    if isinstance(error, psycopg.errors.InvalidParameterValue):      # a function refuses its arguments
        return Refusal(400, error.diag.message_primary or "Invalid request", "invalid_request")
    # An error that the request did not cause: a retry may succeed.
    unreachable = isinstance(error, PoolTimeout) or verdict(getattr(error, "sqlstate", None)) in ("again", "away",
        "unfit")
    log.line("warn" if unreachable else "error", "control_query_failed", str(error).strip(), path=request.url.path)
    if unreachable:
        return Refusal(503, f"Database unavailable: {_why(request, error)}", "database_unavailable",
                       {"retry-after": "1"})
    return Refusal(500, f"Database error: {_why(request, error)}", "database_error")


def _why(request: Request, error: Exception) -> str:
    """Returns what is wrong with the database, for the client: without the server's own words, which may quote data."""
    if code := getattr(error, "sqlstate", None):
        return verdict_meaning(code)
    doubts = request.app.state.control.core.database()["doubts"]
    return next((text for doubt, text in AWAY.items() if doubt in doubts),
                "no connection became free in time" if isinstance(error, PoolTimeout) else verdict_meaning(None))
