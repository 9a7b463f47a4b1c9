"""Workers against a daemon: what handlers do and raise, and what becomes of their messages."""
from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.client import Client as Plain
from support.daemon import Daemon
from support.wait import PATIENCE, until
from support.workers import KINDS, LONG, consumed, handler_of, pending

from queend.client import App, Backoff, BatchContext, CallNext, Context, Dead, Later, Message, Skip, TypedMessage


@KINDS
def test_messages_are_handled_in_the_order_of_their_partition(app: App, client: Plain, queue: str, form: str) -> None:
    got: dict[str, list[int]] = defaultdict(list)
    app.worker(queue, group="g", concurrency=3, poll=0.1, name="w")(
        handler_of(form, lambda message, context: got[message.partition].append(message.data)))
    for n in range(40):
        client.push(queue, n, partition=f"p{n % 4}")
    with app.running():
        consumed(client, queue, "g")
    assert got == {f"p{part}": list(range(part, 40, 4)) for part in range(4)}


@KINDS
def test_pushes_of_a_handler_come_with_its_acknowledgment(app: App, client: Plain, queue: str, form: str) -> None:
    def body(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", message.data * 2, partition="p", id=f"double-{message.key}")
        context.push(f"{queue}-out", -1, partition="p", id="once")     # stored by the first message alone
        if message.data == 2:
            raise Skip

    app.worker(queue, poll=0.1, name="w")(handler_of(form, body))
    client.push(queue, 1, 2, 3)
    with app.running():
        consumed(client, queue)
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [2, -1, 6]


def test_partitions_are_handled_side_by_side(app: App, client: Plain, queue: str) -> None:
    meeting = threading.Barrier(3)

    @app.worker(queue, concurrency=3, poll=0.1)
    def meet(message: Message) -> None:
        meeting.wait(PATIENCE)

    for part in "abc":
        client.push(queue, part, partition=part)
    with app.running():
        consumed(client, queue)
    assert not meeting.broken


def test_what_exceptions_mean(app: App, client: Plain, queue: str) -> None:
    client.configure(queue, retryLimit=2)
    seen: dict[str, list[int]] = defaultdict(list)
    died: list[tuple[str, str]] = []

    def buried(message: Message, error: Exception, context: Context) -> None:
        died.append((message.data, type(error).__name__))
        context.push(f"{queue}-died", message.data)

    @app.worker(queue, group="g", concurrency=5, poll=0.1, dead=[LookupError], on_dead=buried)
    async def handle(message: Message, context: Context) -> None:
        seen[message.data].append(message.attempt)
        context.push(f"{queue}-out", message.data)
        if message.data == "later" and message.attempt == 1:
            raise Later(0.05)
        if message.data == "dead":
            raise Dead("no such customer")
        if message.data == "listed":
            raise KeyError("listed")
        if message.data == "skip":
            raise Skip
        if message.data == "fails":
            raise ArithmeticError("it is always wrong")
        if message.data == "cancels":
            raise asyncio.CancelledError
        if message.data == "exits":
            raise SystemExit(7)

    words = ["later", "dead", "listed", "skip", "fails", "cancels", "exits"]
    for word in words:
        client.push(queue, word, partition=word)
    with app.running():
        consumed(client, queue, "g")
        until(lambda: len(died) == 5, "on_dead was called for each")
        until(lambda: pending(client, f"{queue}-died") == 5, "what on_dead pushed is stored")
    assert dict(seen) == {"later": [1, 2], "dead": [1], "listed": [1], "skip": [1], "fails": [1, 2, 3],
                          "cancels": [1, 2, 3], "exits": [1, 2, 3]}
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    errors = {one["data"]: one["errorMessage"] for one in letters}
    assert errors["dead"] == "no such customer" and errors["listed"].endswith("KeyError: 'listed'")
    assert "Traceback" in errors["fails"] and errors["fails"].endswith("ArithmeticError: it is always wrong")
    assert sorted(died) == sorted([("dead", "Dead"), ("listed", "KeyError"), ("fails", "ArithmeticError"),
                                   ("cancels", "RuntimeError"), ("exits", "RuntimeError")])
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == ["later"]


def test_messages_behind_a_dead_letter_go_on_at_once(app: App, client: Plain, queue: str) -> None:
    """The lease of a partition goes on when one of its messages becomes a dead letter, by whatever way."""
    client.configure(queue, retryLimit=0)
    got: list[int] = []

    @app.worker(queue, lease=600, poll=0.1)
    def handle(message: Message) -> None:
        if message.data == 0:
            raise Dead("zero")
        if message.data == 1:
            raise RuntimeError("one")
        got.append(message.data)

    client.push(queue, *range(4))
    with app.running():
        consumed(client, queue)
    assert got == [2, 3] and client.dead(queue) == 2


def test_a_failure_waits_as_the_worker_says(app: App, client: Plain, queue: str) -> None:
    failed = threading.Event()

    @app.worker(queue, poll=0.1, backoff=Backoff(initial=3600, max=7200, jitter=0))
    def handle(message: Message) -> None:
        failed.set()
        raise RuntimeError("for an hour")

    client.push(queue, 1)
    with app.running():
        assert failed.wait(PATIENCE)
    assert client.pop(queue) == [] and pending(client, queue) == 1


@pytest.mark.parametrize("data", [{1, 2}, float("inf"), "\ud800"], ids=str)
def test_what_cannot_be_stored_is_an_error_in_the_handler(data: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Context().push("q", data)


def test_a_queue_that_is_full_has_the_message_come_again(app: App, client: Plain, queue: str) -> None:
    client.configure(f"{queue}-out", maxSize=1)
    client.push(f"{queue}-out", 0)
    handled = threading.Event()

    @app.worker(queue, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", message.data)
        handled.set()

    client.push(queue, 1)
    with app.running():
        assert handled.wait(PATIENCE)
    assert pending(client, queue) == 1 and client.dead(queue) == 0


async def unrun(message: Message, context: Context) -> None:
    raise RuntimeError("the handler ran")


async def unrun_batch(messages: list[Message], context: BatchContext) -> None:
    raise RuntimeError("the handler ran")


async def unrun_payload(message: TypedMessage[int], context: Context) -> None:
    raise RuntimeError("the handler ran")


def yields(message: Message, context: Context) -> Any:
    yield message


async def yields_later(message: Message, context: Context) -> Any:
    yield message


async def returns_coroutine(message: Message, context: Context) -> Any:
    return unrun(message, context)


def plainly(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates as those do who think of functions alone."""
    @functools.wraps(handler)
    def wrapper(*arguments: Any) -> Any:
        return handler(*arguments)
    return wrapper


@pytest.mark.parametrize("middleware", [False, True], ids=["bare", "middleware"])
@pytest.mark.parametrize(("handler", "batch", "kind"), [
    (plainly(unrun), None, "coroutine"), (lambda message, context: unrun(message, context), None, "coroutine"),
    (plainly(unrun_batch), 2, "coroutine"), (plainly(unrun_payload), None, "coroutine"),
    (yields, None, "generator"), (yields_later, None, "async_generator"), (returns_coroutine, None, "coroutine"),
], ids=["decorated", "lambda", "batch", "payload", "generator", "async-generator", "returns-coroutine"])
def test_a_handler_that_was_not_run_completes_nothing(app: App, client: Plain, queue: str, handler: Any,
                                                      batch: int | None, kind: str, middleware: bool) -> None:
    client.configure(queue, retryLimit=0)
    if middleware:
        @app.middleware
        async def through(message: Message, call_next: CallNext) -> None:
            await call_next()
    app.worker(queue, poll=0.1, batch=batch, name="w")(handler)
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    (letter,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert letter["errorMessage"].splitlines()[-1].startswith(f"TypeError: the handler returned a value of type {kind}")


def test_a_middleware_that_does_not_await_completes_nothing(app: App, client: Plain, queue: str) -> None:
    client.configure(queue, retryLimit=0)

    @app.middleware
    async def through(message: Message, call_next: CallNext) -> Any:
        return call_next()
    app.worker(queue, poll=0.1, name="w")(lambda message: None)
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert client.dead(queue) == 1


def test_an_on_dead_that_was_not_run_is_told(app: App, client: Plain, queue: str,
                                             caplog: pytest.LogCaptureFixture) -> None:
    async def buried(message: Message, error: Exception) -> None:
        raise AssertionError("it ran")

    app.worker(queue, poll=0.1, name="w", dead=[RuntimeError], on_dead=plainly(buried))(unrun)
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert any("TypeError: the handler returned" in (one.exc_text or "") for one in caplog.records)


@pytest.mark.parametrize("error", [ValueError("\udcff"), Dead("\udcff")], ids=["failed", "dead"])
def test_an_error_that_is_not_utf_8_is_handed_in(app: App, client: Plain, queue: str, error: Exception,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    # pytest would keep the text of the log, which its processes cannot pass on
    monkeypatch.setattr(logging.getLogger("queend.worker"), "propagate", False)
    client.configure(queue, retryLimit=0)

    @app.worker(queue, lease=600, poll=0.1)
    def handle(message: Message) -> None:
        raise error

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    (letter,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert letter["errorMessage"].endswith("\\udcff")


class Unreadable(Dead):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("batch", [None, 5])
@pytest.mark.parametrize("error", [Later(float("inf")), Unreadable()], ids=["delay", "text"])
def test_a_verdict_that_cannot_be_made_counts_as_a_failure(app: App, client: Plain, queue: str, error: Exception,
                                                           batch: int | None) -> None:
    client.configure(queue, retryLimit=1)
    attempts: list[int] = []

    @app.worker(queue, lease=600, poll=0.1, batch=batch)
    def handle(message: Any) -> None:
        attempts.append((message if batch is None else message[0]).attempt)
        raise error

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert attempts == [1, 2] and client.dead(queue) == 1


def test_the_lifespan_is_around_everything(daemon: Daemon, client: Plain, queue: str) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        seen.append(asyncio.get_running_loop())
        yield
        seen.append("left")

    app = App(daemon.url, deadline=LONG, timeout=LONG, lifespan=lifespan)

    @app.worker(queue, poll=0.1)
    async def handle(message: Message) -> None:
        seen.append(asyncio.get_running_loop())

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert seen == [seen[0], seen[0], "left"]


def test_slips() -> None:
    app = App()
    app.worker("q", name="one")(lambda message: None)
    with pytest.raises(ValueError, match="two workers"):
        app.worker("q", name="one")(lambda message: None)
    with pytest.raises(ValueError, match="no worker 'two'; workers are: one"):
        app.run("two")
    with pytest.raises(ValueError, match="no workers"):
        App().run()
    for wrong in ({"concurrency": 0}, {"lease": 0}, {"batch": 0}, {"prefetch": 0}, {"poll": 0}, {"poll": 115.1},
                  {"poll": float("nan")}):
        with pytest.raises(ValueError):
            app.worker("q", name="three", **wrong)(lambda message: None)
    with pytest.raises(ValueError):
        Later(-1)
