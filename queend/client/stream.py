"""Streams: messages as they are committed, until the caller leaves.

A stream that breaks is opened again. Leases outlive it, so a message that was delivered can still be acknowledged,
unless the stream was asked for with `release`."""
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType

import httpx

from .call import Call
from .errors import Unavailable
from .events import Ended, Events
from .message import Message, seconds
from .pop import Start, consumer, target

SILENT = 3      # heartbeats that may be missing


def opening(queue: str, *, group: str | None, partition: str | None, credit: int | None, batch: int | None,
            partitions: int | None, lease: float | None, auto_ack: bool, release: bool, heartbeat: float,
            start: Start, conflation: bool) -> Call:
    """Returns the request for a stream."""
    query = {**consumer(group, partitions, batch, lease, auto_ack, start, conflation), "credit": credit,
             "heartbeat": seconds(heartbeat), "release": True if release else None}
    return Call("GET", target("/api/v1/stream", queue, partition), query)


class Breaks:
    """Bounds how long a stream stays broken. deadline: seconds."""

    def __init__(self, deadline: float):
        self.deadline = deadline
        self.since: float | None = None

    def again(self, now: float, error: Exception, pause: float) -> float:
        """Returns the pause before the stream is opened again. Raises Unavailable if it is broken for too long."""
        self.since = now if self.since is None else self.since
        if now + pause - self.since > self.deadline:
            raise Unavailable(f"the stream is broken: {error or type(error).__name__}") from error
        return pause


class Stream:
    """A stream as a context manager, whose `with` block gets an iterator over its messages. Leaving the block ends
    the stream. opened: opens it and gives its bytes."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Iterator[bytes]]], deadline: float):
        self._opened, self._deadline = opened, deadline
        self._messages: Generator[Message, None, None] | None = None

    def __enter__(self) -> Iterator[Message]:
        self._messages = self._read()
        return self._messages

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if self._messages is not None:
            self._messages.close()

    def _read(self) -> Generator[Message, None, None]:
        breaks = Breaks(self._deadline)
        while True:
            events = Events()
            try:
                with self._opened() as pieces:
                    for piece in pieces:
                        breaks.since = None
                        yield from events.feed(piece)
                raise Ended("its connection was closed")
            except (httpx.RequestError, Ended) as error:
                pause = breaks.again(time.monotonic(), error, events.retry)
            time.sleep(pause)


class AsyncStream:
    """The same for `async with` and `async for`."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[AsyncIterator[bytes]]], deadline: float):
        self._opened, self._deadline = opened, deadline
        self._messages: AsyncGenerator[Message, None] | None = None

    async def __aenter__(self) -> AsyncIterator[Message]:
        self._messages = self._read()
        return self._messages

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        if self._messages is not None:
            await self._messages.aclose()

    async def _read(self) -> AsyncGenerator[Message, None]:
        breaks = Breaks(self._deadline)
        while True:
            events = Events()
            try:
                async with self._opened() as pieces:
                    async for piece in pieces:
                        breaks.since = None
                        for message in events.feed(piece):
                            yield message
                raise Ended("its connection was closed")
            except (httpx.RequestError, Ended) as error:
                pause = breaks.again(time.monotonic(), error, events.retry)
            await asyncio.sleep(pause)
