"""Workers: which handler gets the messages of which queue, and how."""
from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from .aio import AsyncClient
from .attempts import Backoff
from .handlers import Handler, Middleware, is_coroutine
from .link import TLS, URLs
from .payload import Make, typed
from .pop import LONGEST, Start
from .run import Run
from .token import AsyncToken, File

Decorated = TypeVar("Decorated", bound=Handler)
Wrapping = TypeVar("Wrapping", bound=Middleware)
URL = "http://127.0.0.1:6632"


@dataclass(frozen=True)
class Worker:
    """A handler and how it is fed; the members are the arguments of App.worker."""

    name: str
    queue: str
    handler: Handler
    group: str | None
    concurrency: int
    lease: float
    batch: int | None
    partitions: int | None
    prefetch: int
    poll: float
    backoff: Backoff | None
    dead: tuple[type[Exception], ...]
    on_dead: Handler | None
    start: Start
    conflation: bool

    def __post_init__(self) -> None:
        for name in ("concurrency", "lease", "prefetch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 < self.poll <= LONGEST:
            raise ValueError(f"poll must be above 0 and at most {LONGEST:g} seconds, not {self.poll}")
        if self.batch is not None and self.batch < 1:
            raise ValueError("batch must be at least 1")
        if self.conflation and self.group is None:
            raise ValueError("conflation requires a group")


class App:
    """Workers of a program. url and token: by default those of QUEEND_URL and of QUEEND_TOKEN or QUEEND_TOKEN_FILE;
    deadline, timeout and tls: those of AsyncClient; lifespan: an asynchronous context manager, entered before the first
    message and left after the last one, in the event loop of the handlers."""

    def __init__(self, url: URLs | None = None, *, token: AsyncToken = None, deadline: float = 30.0,
                 timeout: float = 10.0, tls: TLS = True,
                 lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = None):
        self.workers: list[Worker] = []
        self.middlewares: list[Middleware] = []
        self.lifespan = lifespan
        self._url, self._token = url, token
        self._deadline, self._timeout, self._tls = deadline, timeout, tls

    def worker(self, queue: str, *, group: str | None = None, concurrency: int = 1, lease: float = 30.0,
               batch: int | None = None, partitions: int | None = None, prefetch: int = 10, poll: float = 3.0,
               backoff: Backoff | None = None, dead: Iterable[type[Exception]] = (), on_dead: Handler | None = None,
               start: Start = None, conflation: bool = False, payload: Make | None = None,
               name: str | None = None) -> Callable[[Decorated], Decorated]:
        """Decorates a handler of the messages of a queue: a function, which runs in a thread, or a coroutine function.
        It takes the message, and a Context if it has a second parameter. If the message is annotated as
        `TypedMessage[Order]`, it has the `payload`: a dataclass, a pydantic model or a type of JSON. A message of which
        none can be made becomes a dead letter, and the handler is not called for it.

        group: consumer group; concurrency: most partitions, or batches, that are handled at once; the messages of a
        partition are handled one after another; lease: seconds after which others get the messages if this process
        dies: while it lives, leases are extended; batch: the handler gets a list of up to so many messages, of up to
        `partitions` partitions, and a BatchContext; prefetch: messages that one request brings at most, without batch;
        poll: seconds that a request waits for messages, up to 115: so long an idle worker takes to stop; backoff:
        pauses between failures of a message, instead of the queue's; dead: exceptions that make a message a dead
        letter; on_dead: called with message, error and a Context when a message became a dead letter here; start: where
        a new group begins; conflation: a new group gets only the newest message of each partition; payload: a function
        that makes the payload of the data, instead of the annotation; name: by default that of the handler. Raises
        ValueError for numbers that are not possible, for conflation without a group and for a second worker of a name,
        and TypeError for a handler whose parameters or annotations do not fit."""
        def decorated(handler: Decorated) -> Decorated:
            called = name or str(getattr(handler, "__name__", queue))
            if any(one.name == called for one in self.workers):
                raise ValueError(f"there are two workers named {called!r}: give one of them a name")
            self.workers.append(Worker(called, queue, typed(handler, payload), group, concurrency, lease, batch,
                                       partitions, prefetch, poll, backoff, tuple(dead), on_dead, start,
                                       conflation))
            return handler
        return decorated

    def middleware(self, function: Wrapping) -> Wrapping:
        """Decorates a coroutine function that runs around the handlers of all workers; the first one is outermost. It
        gets the message (the list, with `batch`) and a function, `call_next`, to be awaited once: it runs the rest and
        raises what the handler raises. What the middleware raises decides about the message; if it returns, the message
        is completed, also without a call of `call_next`. Raises TypeError for another function."""
        if not is_coroutine(function):
            raise TypeError(f"middleware {getattr(function, '__name__', function)!r} must be a coroutine function")
        self.middlewares.append(function)
        return function

    def client(self, connections: int = 100, url: URLs | None = None) -> AsyncClient:
        """Returns a client of the app's server. connections: most that are open at once; url: another server."""
        token = self._token
        if token is None:
            token = os.environ.get("QUEEND_TOKEN") or None
        if token is None and (path := os.environ.get("QUEEND_TOKEN_FILE")):
            token = File(path)
        server = url or self._url or os.environ.get("QUEEND_URL") or URL
        return AsyncClient(server, token=token, deadline=self._deadline, timeout=self._timeout,
                           connections=connections, tls=self._tls)

    def chosen(self, only: Iterable[str] = ()) -> list[Worker]:
        """Returns the workers with these names, or all. Raises ValueError for an unknown name, or if there are none."""
        names, known = list(only), {worker.name: worker for worker in self.workers}
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"there is no worker {unknown[0]!r}; workers are: {', '.join(known) or 'none'}")
        if not known:
            raise ValueError("the app has no workers")
        return [known[name] for name in names] if names else self.workers

    def run(self, *only: str, grace: float = 25.0, signals: bool = True) -> int:
        """Runs the workers with these names, or all, until SIGTERM or SIGINT. Then no more messages are taken, handlers
        have `grace` seconds to end, and what was not handled is given back. A second signal ends the grace. Returns 0,
        or 1 if the server refused the first request of a worker or handlers were cut off. signals: whether to handle
        them, which only the main thread can. Raises ValueError if there is no such worker."""
        return Run(self, only, grace).run(signals)

    @contextmanager
    def running(self, *only: str, grace: float = 25.0, url: str | None = None) -> Generator[None, None, None]:
        """Runs workers in a thread while the block runs, and stops them at its end; handlers then have `grace` seconds.
        url: a server instead of the app's, for tests. Raises ValueError if there is no such worker."""
        with Run(self, only, grace, url=url).in_thread():
            yield
