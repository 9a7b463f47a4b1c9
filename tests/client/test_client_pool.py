"""The connections of the asynchronous client: how many are opened, used and looked at."""
from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import httpx
import pytest
from httpcore._backends.auto import AutoBackend
from httpcore._utils import is_socket_readable
from support.daemon import Daemon
from support.workers import LONG

from queend.client import AsyncClient, Unavailable
from queend.client.link import KEPT, Settings
from queend.client.pool import Pool

MANY = 16
OPENS, LOOKS = AutoBackend.connect_tcp, is_socket_readable


@pytest.fixture
def run(daemon: Daemon) -> Callable[..., Any]:
    """Runs a coroutine function with a client of the daemon."""
    def run(body: Callable[[AsyncClient], Awaitable[Any]], **settings: Any) -> Any:
        async def main() -> Any:
            async with AsyncClient(daemon.url, **{"deadline": LONG, "timeout": LONG, **settings}) as client:
                return await body(client)
        return asyncio.run(main())
    return run


@contextmanager
def calls(*functions: Callable[..., Any]) -> Iterator[dict[FrameType, Any]]:
    """Collects the calls of functions in this thread. A coroutine is called once, however often it goes on."""
    found: dict[FrameType, Any] = {}
    codes = {one.__code__: one for one in functions}

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            found[frame] = codes[frame.f_code]

    sys.setprofile(seen)
    try:
        yield found
    finally:
        sys.setprofile(None)


def pushes(client: AsyncClient, queue: str, count: int) -> Awaitable[Any]:
    return asyncio.gather(*(client.push(queue, n, partition=str(n)) for n in range(count)))


def test_a_request_looks_at_one_connection_only(run: Callable[..., Any], queue: str) -> None:
    """However many are open. The pool of httpx looks at all, twice."""
    async def body(client: AsyncClient) -> None:
        with calls(OPENS) as opened:
            await pushes(client, queue, MANY)
        assert len(opened) == MANY
        with calls(OPENS, LOOKS) as found:
            await client.push(queue, 7)
        assert 0 < len(found) <= 2 and OPENS not in found.values()
    run(body)


def test_connections_are_used_again(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        with calls(OPENS) as opened:
            for _ in range(3):
                await pushes(client, queue, 4)
            await client.call("GET", f"/api/v1/resources/queues/{queue}")
        assert len(opened) == 4
    run(body)


def test_requests_wait_for_a_connection(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        with calls(OPENS) as opened:
            assert len(await pushes(client, queue, MANY)) == MANY
        assert len(opened) == 2
    run(body, connections=2)


async def parked(client: AsyncClient, queue: str) -> asyncio.Task[Any]:
    """Returns a pop that has a connection."""
    pop = asyncio.create_task(client.pop(queue, wait=100))
    while not client._http._transport._busy:        # type: ignore[attr-defined]
        await asyncio.sleep(0)
    return pop


def test_a_request_that_gets_no_connection_was_not_sent(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        pop = await parked(client, queue)
        with pytest.raises(Unavailable, match="all connections of the client are busy") as caught:
            await client.push(queue, 7)
        assert not caught.value.may_be_done
        pop.cancel()
    run(body, connections=1, deadline=0.3)


def test_a_cancelled_request_gives_its_connection_back(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(3):
            pop = await parked(client, queue)
            pop.cancel()
            await asyncio.wait([pop])
            assert pop.cancelled()
        assert (await client.push(queue, 7)).new
    run(body, connections=1)


def test_requests_that_are_cancelled_anywhere_leave_no_trace(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        for steps in range(100):
            push = asyncio.create_task(client.push(queue, steps))
            for _ in range(steps % 25):
                await asyncio.sleep(0)
            push.cancel()
            await asyncio.wait([push])
        await pushes(client, queue, 4)
        pool = client._http._transport
        assert not pool._busy and not pool._room.locked()   # type: ignore[attr-defined]
    run(body, connections=2)


def test_a_stream_gives_its_connection_back(run: Callable[..., Any], queue: str) -> None:
    async def body(client: AsyncClient) -> None:
        await client.push(queue, 7)
        for _ in range(3):
            async with client.stream(queue, release=True) as messages:
                assert (await anext(messages)).data == 7
        assert (await client.push(queue, 8)).new
    run(body, connections=1)


def test_connections_without_requests_are_closed(daemon: Daemon) -> None:
    """By the next request after their time."""
    moment = 100.0

    async def main() -> None:
        nonlocal moment
        pool = Pool(Settings(daemon.url), now=lambda: moment)
        async with httpx.AsyncClient(transport=pool) as http:
            async def ask() -> None:
                assert (await http.get(f"{daemon.url}/health")).status_code == 200
            await asyncio.gather(*(ask() for _ in range(3)))
            assert len(pool._idle) == 3
            moment += KEPT + 1
            with calls(OPENS) as opened:
                await ask()
                await ask()
                await ask()
            assert len(pool._idle) == 1 and not opened and not pool._busy
    asyncio.run(main())


def test_a_connection_that_the_server_closed_is_opened_again(daemon: Daemon, network: Any, queue: str) -> None:
    async def main() -> None:
        async with AsyncClient(network.url, deadline=LONG) as client:
            await client.push(queue, 1)
            network.cut()
            assert (await client.push(queue, 2)).new
    asyncio.run(main())


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")

        async def main() -> bytes:
            async with AsyncClient("http://queend.test:6632") as client:
                push = asyncio.create_task(client.push("orders", 7))
                speaks, _ = await asyncio.to_thread(server.accept)
                with speaks:
                    line = await asyncio.to_thread(speaks.recv, 100)
                push.cancel()
                return line

        assert asyncio.run(main()).startswith(b"POST http://queend.test:6632/api/v1/push HTTP/1.1")
