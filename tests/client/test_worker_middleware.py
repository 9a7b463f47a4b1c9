"""Middleware of workers: what it sees, what its exceptions mean, and that a handler that failed stores nothing."""
from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from support.client import Client as Plain
from support.wait import PATIENCE
from support.workers import KINDS, consumed, handler_of, pending

from queend.client import App, BatchContext, CallNext, Context, Dead, Later, Message, Skip

PLACE = contextvars.ContextVar("PLACE", default="nowhere")


def stored(client: Plain, queue: str) -> list[Any]:
    """Returns what a queue holds, if there is one."""
    return [one["data"] for one in client.pop(queue, batch=99)]


@KINDS
def test_it_runs_around_the_handler_with_its_variables(app: App, client: Plain, queue: str, form: str) -> None:
    seen: list[Any] = []

    @app.middleware
    async def outer(message: Message, call_next: CallNext) -> None:
        PLACE.set("outer")
        seen.append(("outer", message.data))
        await call_next()
        seen.append("end of outer")

    @app.middleware
    async def inner(message: Message, call_next: CallNext) -> None:
        seen.append(("inner", PLACE.get()))
        PLACE.set("inner")
        await call_next()
        seen.append("end of inner")

    def body(message: Message, context: Context) -> None:
        seen.append(("handler", PLACE.get()))
        context.push(f"{queue}-out", message.data)

    app.worker(queue, poll=0.1, name="w")(handler_of(form, body))
    client.push(queue, 7)
    with app.running():
        consumed(client, queue)
    assert seen == [("outer", 7), ("inner", "outer"), ("handler", "inner"), "end of inner", "end of outer"]
    assert stored(client, f"{queue}-out") == [7]


@KINDS
def test_exceptions_of_handlers_pass(app: App, client: Plain, queue: str, form: str) -> None:
    client.configure(queue, retryLimit=0)
    seen: list[str] = []

    @app.middleware
    async def note(message: Message, call_next: CallNext) -> None:
        try:
            await call_next()
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    errors = {"later": Later(0.05), "dead": Dead("why"), "skip": Skip(), "fails": ArithmeticError("wrong"),
              "exits": SystemExit(7)}

    def body(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", message.data)
        if message.data in errors and message.attempt == 1:
            raise errors[message.data]

    app.worker(queue, concurrency=9, poll=0.1, name="w")(handler_of(form, body))
    for word in [*errors, "returns"]:
        client.push(queue, word, partition=word)
    with app.running():
        consumed(client, queue)
    assert sorted(seen) == ["ArithmeticError", "Dead", "Later", "RuntimeError", "Skip"]
    assert sorted(stored(client, f"{queue}-out")) == ["later", "returns"]
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert sorted(one["data"] for one in letters) == ["dead", "exits", "fails"]


@KINDS
def test_a_handler_that_failed_stores_nothing_although_it_is_completed(app: App, client: Plain, queue: str,
                                                                       form: str) -> None:
    @app.middleware
    async def forgiving(message: Message, call_next: CallNext) -> None:
        try:
            await call_next()
        except ArithmeticError:
            pass

    def body(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", message.data)
        if message.data == 2:
            raise ArithmeticError

    app.worker(queue, poll=0.1, name="w")(handler_of(form, body))
    client.push(queue, 1, 2, 3)
    with app.running():
        consumed(client, queue)
    assert stored(client, f"{queue}-out") == [1, 3] and client.dead(queue) == 0


def test_a_function_that_a_middleware_no_longer_waits_for_stores_nothing(app: App, client: Plain, queue: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.middleware
    async def impatient(message: Message, call_next: CallNext) -> None:
        call = asyncio.ensure_future(call_next())
        await asyncio.to_thread(begun.wait, PATIENCE)
        call.cancel()
        await asyncio.wait([call])

    @app.worker(queue, poll=0.1)
    def handle(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", "early")
        begun.set()
        assert go_on.wait(PATIENCE)

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    go_on.set()
    assert stored(client, f"{queue}-out") == []


def test_what_a_middleware_decides_itself(app: App, client: Plain, queue: str) -> None:
    handled: list[str] = []

    @app.middleware
    async def gate(message: Message, call_next: CallNext) -> None:
        if message.data == "closed" and message.attempt == 1:
            raise Later(0.05)
        if message.data == "bad":
            raise Dead("the gate says no")
        if message.data == "done":
            return
        await call_next()
        if message.data == "twice":
            await call_next()

    client.configure(queue, retryLimit=0)

    @app.worker(queue, concurrency=9, poll=0.1)
    async def handle(message: Message, context: Context) -> None:
        handled.append(message.data)
        context.push(f"{queue}-out", message.data)

    for word in ("closed", "bad", "done", "open", "twice"):
        client.push(queue, word, partition=word)
    with app.running():
        consumed(client, queue)
    assert sorted(handled) == ["closed", "open", "twice"]
    assert sorted(stored(client, f"{queue}-out")) == ["closed", "open"]
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert {one["data"]: "call_next was called twice" in one["errorMessage"] for one in letters} == {
        "bad": False, "twice": True}


def test_a_batch_has_one_call(app: App, client: Plain, queue: str) -> None:
    sizes: list[int] = []

    @app.middleware
    async def counting(messages: list[Message], call_next: CallNext) -> None:
        sizes.append(len(messages))
        await call_next()

    @app.worker(queue, batch=10, poll=0.1)
    def handle(messages: list[Message], context: BatchContext) -> None:
        context.dead(messages[1], "the second")
        context.push(f"{queue}-out", len(messages))

    client.push(queue, 1, 2, 3)
    with app.running():
        consumed(client, queue)
    assert sizes == stored(client, f"{queue}-out") == [3] and client.dead(queue) == 1


def test_a_stop_cuts_off_middleware_too(app: App, client: Plain, queue: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    @app.middleware
    async def closing(message: Message, call_next: CallNext) -> None:
        try:
            await call_next()
        finally:
            ended.set()

    @app.worker(queue, lease=600, poll=0.1)
    async def waits(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    client.push(queue, 1)
    with app.running(grace=0):
        assert begun.wait(PATIENCE)
    assert ended.is_set() and pending(client, queue) == 1
    assert [one["data"] for one in client.pop(queue)] == [1], "at once, with a lease of ten minutes"


def test_a_function_is_no_middleware() -> None:
    with pytest.raises(TypeError, match="'plain' must be a coroutine function"):
        def plain(message: Message, call_next: CallNext) -> None: ...
        App().middleware(plain)     # type: ignore
