"""A run of workers: its two event loops, signals, and the end."""
from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING, Any

from .engine import Engine
from .errors import Refused
from .handlers import Handlers

if TYPE_CHECKING:
    from .worker import App

STOPPED, FAILED = 0, 1
LAST = 5.0      # s: to give messages back after handlers were cut off, and for what is left of these
log = logging.getLogger("queend.worker")


class Run:
    """Runs workers of an app once. only: their names, or none for all. stuck: called with the status if handlers that
    were cut off keep the run from ending, because they block the event loop or ignore that they are cancelled; url: a
    server instead of the app's."""

    def __init__(self, app: App, only: Iterable[str], grace: float, stuck: Callable[[int], None] | None = None,
                 url: str | None = None):
        self._url = url
        self._app, self._workers, self._grace, self._stuck = app, app.chosen(only), grace, stuck
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun, self._left = threading.Event(), threading.Event()
        self._stops = 0
        self.errors: list[Exception] = []      # that ended workers

    def run(self, signals: bool) -> int:
        """Runs until it is stopped. Returns the status."""
        numbers = (signal.SIGTERM, signal.SIGINT) if signals else ()
        former = {number: signal.signal(number, self._signalled) for number in numbers}
        try:
            return asyncio.run(self._main())
        finally:
            self._left.set()
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def in_thread(self) -> Generator[None, None, None]:
        """Runs in a thread while the block runs. Raises at its end what ended the run or a worker."""
        failed: list[BaseException] = []

        def body() -> None:
            try:
                self.run(signals=False)
            except BaseException as error:
                failed.append(error)
            finally:
                self._begun.set()

        thread = threading.Thread(target=body, name="queend-workers")
        thread.start()
        self._begun.wait()
        try:
            yield
        finally:
            self.stop()
            thread.join()
        for error in (*failed, *self.errors):
            raise error

    def stop(self) -> None:
        """Stops the run from any thread or signal handler: the first time with the grace, then without."""
        self._stops += 1
        if self._loop is not None and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._stopped)
            except RuntimeError:        # it has just ended
                pass

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.stop()

    async def _main(self) -> int:
        """Enters the lifespan, and waits for the engines in their thread. It is the loop of the handlers."""
        handlers = Handlers(asyncio.get_running_loop(), self._app.middlewares)
        async with self._app.lifespan() if self._app.lifespan else nullcontext():
            ended: Future[int] = Future()
            thread = threading.Thread(target=self._in_engine_thread, args=(handlers, ended), name="queend-engine",
                                      daemon=True)
            thread.start()
            return await asyncio.wrap_future(ended)

    def _in_engine_thread(self, handlers: Handlers, ended: Future[int]) -> None:
        try:
            status = asyncio.run(self._engines(handlers))
        except BaseException as error:
            ended.set_exception(error)
            return
        ended.set_result(status)
        if self._stuck is not None and status == FAILED and not self._left.wait(LAST):
            self._stuck(status)

    async def _engines(self, handlers: Handlers) -> int:
        """Runs an engine for each worker until the stop. Returns the status."""
        self._loop, self._stop, self._hurry = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        if self._stops:
            self._stopped()
        connections = sum(2 * worker.concurrency + 2 for worker in self._workers)
        async with self._app.client(connections, self._url) as client:
            engines = [Engine(worker, client, handlers, self._stop) for worker in self._workers]
            runs = [asyncio.create_task(engine.run()) for engine in engines]
            self._begun.set()
            log.info("workers: %s", ", ".join(worker.name for worker in self._workers))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait([stopping, *runs], return_when=asyncio.FIRST_COMPLETED)
            self._stop.set()        # also if a worker was refused
            stopping.cancel()
            await self._ended(runs)
            if any(not one.done() for one in runs):
                for engine in engines:
                    engine.cut()
                await asyncio.wait(runs, timeout=LAST)
            for one in runs:
                one.cancel()
            results: list[Any] = await asyncio.gather(*runs, return_exceptions=True)
        self.errors = [error for error in results if isinstance(error, Exception)]
        for error in self.errors:
            log.error("%s", error, exc_info=None if isinstance(error, Refused) else error)
        if self.errors:
            return FAILED
        return FAILED if any(engine.cuts or engine.jobs for engine in engines) else STOPPED

    async def _ended(self, runs: list[asyncio.Task[None]]) -> None:
        """Waits for the runs, as long as the grace allows and no second signal ends it."""
        hurry = asyncio.create_task(self._hurry.wait())
        everything = asyncio.ensure_future(asyncio.wait(runs))
        await asyncio.wait([hurry, everything], timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        everything.cancel()

    def _stopped(self) -> None:
        log.info("stopping")
        if self._stops > 1:
            self._hurry.set()
        self._stop.set()
