"""Connections of both clients. The pool of httpx looks at all its connections for each request, which takes about half
of a request's CPU when 16 are open; the one here, of the asynchronous client, takes the connection that was used last.
"""
from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from urllib.request import getproxies

import httpx

from .link import KEPT, Settings

PROXIED = {"http", "https", "all"}     # kinds of proxies that the environment may name
LANE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEPT)


def proxied() -> bool:
    """True if the environment names a proxy."""
    return bool(PROXIED & getproxies().keys())


def sync_http(settings: Settings) -> httpx.Client:
    """Returns a client of httpx. Without TLS it reads no certificates: to read those of the system takes 24 ms."""
    return httpx.Client(verify=settings.tls if settings.secure or proxied() else False, limits=settings.limits)


def async_http(settings: Settings) -> httpx.AsyncClient:
    """Returns a client of httpx with this pool; with that of httpx if the environment names a proxy."""
    if proxied():
        return httpx.AsyncClient(verify=settings.tls, limits=settings.limits)
    return httpx.AsyncClient(transport=Pool(settings))


class Pool(httpx.AsyncBaseTransport):
    """Transports with one connection each, for one request at a time."""

    def __init__(self, settings: Settings, now: Callable[[], float] = time.monotonic):
        self._tls = httpx.create_ssl_context(settings.tls) if settings.secure else False
        self._now = now
        self._room = asyncio.Semaphore(settings.connections)
        self._idle: deque[tuple[float, httpx.AsyncHTTPTransport]] = deque()    # since when; the latest is the last
        self._busy: set[httpx.AsyncHTTPTransport] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request. Raises PoolTimeout if all connections stay busy, and what httpx raises."""
        try:
            async with asyncio.timeout(request.extensions.get("timeout", {}).get("pool")):
                await self._room.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections of the client are busy", request=request) from None
        lane = self._idle.pop()[1] if self._idle else httpx.AsyncHTTPTransport(verify=self._tls, limits=LANE)
        self._busy.add(lane)
        try:
            answer = await lane.handle_async_request(request)
        except BaseException:
            await self._ended(lane, False)
            raise
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        return httpx.Response(answer.status_code, headers=answer.headers, extensions=answer.extensions,
                              stream=Body(answer.stream, partial(self._ended, lane)))

    async def _ended(self, lane: httpx.AsyncHTTPTransport, well: bool) -> None:
        """Makes room for another request. It may use the lane if the one before has ended well. Closes the lane that
        was idle longest if it was so for KEPT."""
        self._busy.discard(lane)
        self._room.release()
        if not well:
            await lane.aclose()
            return
        self._idle.append((self._now(), lane))
        if self._idle[0][0] < self._now() - KEPT:
            await self._idle.popleft()[1].aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        lanes = [*self._busy, *(lane for _, lane in self._idle)]
        self._idle.clear()
        for lane in lanes:
            await lane.aclose()


class Body(httpx.AsyncByteStream):
    """The body of an answer. closed: called once when it was read or is not wanted any more, with whether it could be
    closed."""

    def __init__(self, stream: httpx.AsyncByteStream, closed: Callable[[bool], Awaitable[None]]):
        self._stream, self._closed, self._open = stream, closed, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        if not self._open:
            return
        self._open, well = False, False
        try:
            await self._stream.aclose()
            well = True
        finally:
            await self._closed(well)
