"""Workers against a daemon: leases that are kept, lost, and given back."""
from __future__ import annotations

import asyncio
import threading
from typing import Any

from support.both import Lossy
from support.client import Client as Plain
from support.daemon import Daemon
from support.wait import PATIENCE, until
from support.workers import KINDS, LONG, consumed, handler_of, seek

from queend.client import App, Context, Message


def test_a_token_that_is_missing_for_a_moment_ends_no_lease(daemon: Daemon, network: Lossy, client: Plain,
                                                            queue: str) -> None:
    """It is missing for a pop, at the first extension, and for the acknowledgment."""
    missing, extensions = threading.Event(), threading.Semaphore(0)
    asked: list[bool] = []
    ends: list[tuple[int, bool]] = []
    forward = network.rule

    def rule(to_server: bool, data: bytes) -> list[Any]:
        if to_server and data.startswith(b"POST /api/v1/lease"):
            extensions.release()
        return forward(to_server, data)

    def shown() -> str:
        asked.append(missing.is_set())
        if asked[-1]:
            missing.clear()
            raise OSError("no such file")
        return "token"

    network.rule = rule
    app = App(network.url, token=shown, deadline=LONG, timeout=LONG)

    @app.worker(queue, lease=3, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        missing.set()
        for _ in range(4):      # longer than the lease
            assert extensions.acquire(timeout=LONG)
        ends.append((message.attempt, context.lost))
        missing.set()

    client.push(queue, 1)
    missing.set()
    with app.running():
        consumed(client, queue)
    assert ends == [(1, False)] and asked.count(True) == 3


@KINDS
def test_a_handler_that_blocks_keeps_its_lease(daemon: Daemon, network: Lossy, client: Plain, queue: str,
                                               form: str) -> None:
    """The coroutine blocks the event loop of the handlers, beyond the length of its lease."""
    app = App(network.url, deadline=LONG, timeout=LONG)
    extensions = threading.Semaphore(0)
    forward = network.rule

    def rule(to_server: bool, data: bytes) -> list[Any]:
        if to_server and data.startswith(b"POST /api/v1/lease"):
            extensions.release()
        return forward(to_server, data)

    network.rule = rule
    attempts: list[int] = []

    def body(message: Message, context: Context) -> None:
        attempts.append(message.attempt)
        for _ in range(9):      # three lengths of the lease
            assert extensions.acquire(timeout=PATIENCE)

    app.worker(queue, lease=2, poll=0.1, name="w")(handler_of(form, body))
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert attempts == [1]


def test_a_lost_lease_cancels_a_coroutine(app: App, client: Plain, queue: str) -> None:
    begun, told = threading.Event(), []

    @app.worker(queue, group="g", lease=1, poll=0.1)
    async def handle(message: Message, context: Context) -> None:
        if not begun.is_set():
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                told.append(context.lost)
        context.push(f"{queue}-out", message.attempt)

    client.push(queue, 1)
    with app.running():
        assert begun.wait(PATIENCE)
        seek(client, queue)
        consumed(client, queue, "g")
    assert told == [True] and len(client.pop(f"{queue}-out", batch=9)) == 1


def test_a_lost_lease_is_shown_to_a_function(app: App, client: Plain, queue: str) -> None:
    begun, told = threading.Event(), threading.Event()

    @app.worker(queue, group="g", lease=1, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", message.attempt)
        if not begun.is_set():
            begun.set()
            until(lambda: context.lost, "the lease is lost")
            told.set()

    client.push(queue, 1)
    with app.running():
        assert begun.wait(PATIENCE)
        seek(client, queue)
        assert told.wait(PATIENCE)
        consumed(client, queue, "g")
    assert len(client.pop(f"{queue}-out", batch=9)) == 1


def test_a_stop_lets_handlers_end_and_gives_the_rest_back(app: App, client: Plain, queue: str) -> None:
    begun, go_on = threading.Event(), threading.Event()
    handled: list[int] = []

    @app.worker(queue, lease=600, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        until(lambda: context.stopping, "the handler sees the stop")
        handled.append(message.data)

    client.push(queue, 1, 2, 3)
    with app.running():
        assert begun.wait(PATIENCE)
        threading.Timer(0, go_on.set).start()
    assert handled == [1]
    assert [(one["data"]) for one in client.pop(queue, batch=9)] == [2, 3], "at once, with a lease of ten minutes"


@KINDS
def test_handlers_that_do_not_end_are_cut_off(app: App, client: Plain, queue: str, form: str) -> None:
    begun = threading.Event()
    forever = threading.Event()

    async def waits(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    def blocks(message: Message) -> None:
        begun.set()
        forever.wait(PATIENCE)

    app.worker(queue, lease=600, poll=0.1, name="w")(waits if form == "coroutine" else blocks)
    client.push(queue, 1, 2)
    with app.running(grace=0):
        assert begun.wait(PATIENCE)
    forever.set()
    assert [one["data"] for one in client.pop(queue, batch=9)] == [1, 2]
