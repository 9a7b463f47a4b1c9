"""Workers against a daemon: what handlers do and raise, and what becomes of their messages."""
from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.daemon import Daemon
from support.ports import free_port
from support.tokens import SECRET, token
from support.wait import PATIENCE, until
from support.workers import KINDS, LONG, consumed, handler_of, pending

from queend.client import (
    App,
    Backoff,
    BatchContext,
    CallNext,
    Context,
    Dead,
    File,
    Forbidden,
    Later,
    Message,
    Skip,
    TypedMessage,
    Unauthorized,
    Unavailable,
)

@KINDS
def test_messages_are_handled_in_the_order_of_their_partition(app: App, client: Plain, queue: str, form: str) -> None:
    got: dict[str, list[int]] = defaultdict(list)
    app.worker(queue, group="g", concurrency=3, poll=1, name="w")(
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

    app.worker(queue, poll=1, name="w")(handler_of(form, body))
    client.push(queue, 1, 2, 3)
    with app.running():
        consumed(client, queue)
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [2, -1, 6]


def test_partitions_are_handled_side_by_side(app: App, client: Plain, queue: str) -> None:
    meeting = threading.Barrier(3)

    @app.worker(queue, concurrency=3, poll=1)
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

    @app.worker(queue, group="g", concurrency=5, poll=1, dead=[LookupError], on_dead=buried)
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

    @app.worker(queue, lease=600, poll=1)
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

    @app.worker(queue, poll=1, backoff=Backoff(initial=3600, max=7200, jitter=0))
    def handle(message: Message) -> None:
        failed.set()
        raise RuntimeError("for an hour")

    client.push(queue, 1)
    with app.running():
        assert failed.wait(PATIENCE)
    assert client.pop(queue) == [] and pending(client, queue) == 1


def test_batches(app: App, client: Plain, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    sizes: list[int] = []

    @app.worker(queue, group="g", batch=100, partitions=5, poll=1)
    async def handle(messages: list[Message], context: BatchContext) -> None:
        sizes.append(len(messages))
        context.push(f"{queue}-out", [one.data for one in messages])
        for one in messages:
            if one.data == 3:
                context.fail(one, "three is bad")
            if one.data == 4:
                context.dead(one, "four is worse")
            if one.data == 5 and one.attempt == 1:
                context.later(one)

    for n in range(10):
        client.push(queue, n, partition=f"p{n}")
    with app.running():
        consumed(client, queue, "g")
    assert sum(sizes) == 11
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert {one["data"]: one["errorMessage"] for one in letters} == {3: "three is bad", 4: "four is worse"}
    stored = [n for one in client.pop(f"{queue}-out", batch=99) for n in one["data"]]
    assert sorted(stored) == sorted([*range(10), 5])


def test_a_batch_that_fails_comes_again_as_a_whole(app: App, client: Plain, queue: str) -> None:
    attempts: list[list[int]] = []

    @app.worker(queue, batch=3, poll=1)
    def handle(messages: list[Message]) -> None:
        attempts.append([one.data for one in messages])
        if len(attempts) == 1:
            raise RuntimeError("the first time")

    client.push(queue, 1, 2, 3)
    with app.running():
        consumed(client, queue)
    assert attempts == [[1, 2, 3], [1, 2, 3]] and client.dead(queue) == 0


def test_a_batch_of_verdicts_alone_stores_nothing_after_its_lease(app: App, daemon: Daemon, client: Plain,
                                                                  queue: str) -> None:
    attempts: list[int] = []

    @app.worker(queue, group="g", batch=5, lease=600, poll=1)
    def handle(messages: list[Message], context: BatchContext) -> None:
        attempts.append(messages[0].attempt)
        context.push(f"{queue}-out", len(attempts))
        for one in messages:
            context.dead(one, "no")
        if len(attempts) == 1:
            with daemon.client() as other:      # the test uses its client meanwhile
                seek(other, queue)

    client.push(queue, 1, 2)
    with app.running():
        consumed(client, queue, "g")
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [2]


def test_a_verdict_is_of_a_message_of_the_batch() -> None:
    with pytest.raises(ValueError, match="not of this batch"):
        BatchContext([]).fail(Message("q", "p", "t", 1, None, 1, 0, "l", "pid", "mid", None), "x")  # type: ignore


@pytest.mark.parametrize("data", [{1, 2}, float("inf"), "\ud800"], ids=str)
def test_what_cannot_be_stored_is_an_error_in_the_handler(data: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Context().push("q", data)


def test_a_queue_that_is_full_has_the_message_come_again(app: App, client: Plain, queue: str) -> None:
    client.configure(f"{queue}-out", maxSize=1)
    client.push(f"{queue}-out", 0)
    handled = threading.Event()

    @app.worker(queue, poll=1)
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
    app.worker(queue, poll=1, batch=batch, name="w")(handler)
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
    app.worker(queue, poll=1, name="w")(lambda message: None)
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert client.dead(queue) == 1


def test_an_on_dead_that_was_not_run_is_told(app: App, client: Plain, queue: str,
                                             caplog: pytest.LogCaptureFixture) -> None:
    async def buried(message: Message, error: Exception) -> None:
        raise AssertionError("it ran")

    app.worker(queue, poll=1, name="w", dead=[RuntimeError], on_dead=plainly(buried))(unrun)
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

    @app.worker(queue, lease=600, poll=1)
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

    @app.worker(queue, lease=600, poll=1, batch=batch)
    def handle(message: Any) -> None:
        attempts.append((message if batch is None else message[0]).attempt)
        raise error

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert attempts == [1, 2] and client.dead(queue) == 1


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

    @app.worker(queue, lease=3, poll=1)
    def handle(message: Message, context: Context) -> None:
        missing.set()
        for _ in range(4):      # longer than the lease
            assert extensions.acquire(timeout=20)
        ends.append((message.attempt, context.lost))
        missing.set()

    client.push(queue, 1)
    missing.set()
    with app.running():
        consumed(client, queue)
    assert ends == [(1, False)] and asked.count(True) == 3


@pytest.mark.parametrize("path", [b"POST /api/v1/ack/batch", b"POST /api/v1/transaction", b"GET /api/v1/pop"],
                         ids=["ack", "transaction", "pop"])
def test_a_server_that_asks_to_wait_is_not_asked_in_a_loop(daemon: Daemon, network: Lossy, client: Plain, queue: str,
                                                           path: bytes) -> None:
    """It asks for more time than the deadline has left, so the request fails at once."""
    asked: list[float] = []
    busy: list[Any] = []

    def rule(to_server: bool, data: bytes) -> list[Any]:
        if to_server and data.startswith(path):
            asked.append(time.monotonic())
            if len(asked) < 3:
                busy.append(network.speaks)
        if not to_server and network.speaks in busy:
            busy.remove(network.speaks)
            return [b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 27\r\n\r\n"
                    b'{"error":"try again later"}']
        return [data]

    network.rule = rule
    app = App(network.url, deadline=1, timeout=LONG)

    @app.worker(queue, lease=6 if b"pop" in path else 60, poll=1)
    def handle(message: Message, context: Context) -> None:
        if b"transaction" in path:
            context.push(f"{queue}-out", 1)

    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
        until(lambda: len(asked) > 1, "it is asked again")
    assert all(later - earlier > 1.9 for earlier, later in pairwise(asked[:3]))


def test_a_token_that_is_missing_is_no_answer(kind: type, tmp_path: Any) -> None:
    def none() -> str:
        raise RuntimeError("the vault is sealed")

    for source, told in ((File(tmp_path / "token"), "No such file"), (none, "the vault is sealed")):
        one = kind("http://127.0.0.1:1", token=source)
        with pytest.raises(Unavailable, match=told) as raised:
            one.push("q", 1)
        assert not raised.value.may_be_done
        one.close()


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

    app.worker(queue, lease=2, poll=1, name="w")(handler_of(form, body))
    client.push(queue, 1)
    with app.running():
        consumed(client, queue)
    assert attempts == [1]


def seek(client: Plain, queue: str) -> None:
    """Ends the leases of the group, and has everything delivered again."""
    answer = client.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", {"offset": 0})
    assert answer.status == 200, answer.body


def test_a_lost_lease_cancels_a_coroutine(app: App, client: Plain, queue: str) -> None:
    begun, told = threading.Event(), []

    @app.worker(queue, group="g", lease=1, poll=1)
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

    @app.worker(queue, group="g", lease=1, poll=1)
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

    @app.worker(queue, lease=600, poll=1)
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

    app.worker(queue, lease=600, poll=1, name="w")(waits if form == "coroutine" else blocks)
    client.push(queue, 1, 2)
    with app.running(grace=0):
        assert begun.wait(PATIENCE)
    forever.set()
    assert [one["data"] for one in client.pop(queue, batch=9)] == [1, 2]


def test_a_network_that_loses_answers_stops_no_worker(network: Lossy, client: Plain, queue: str) -> None:
    app = App(network.url, deadline=LONG, timeout=LONG)
    handled: list[int] = []

    @app.worker(queue, lease=2, poll=1, batch=1)
    def handle(messages: list[Message], context: Context) -> None:
        handled.extend(one.data for one in messages)
        context.push(f"{queue}-out", messages[0].data)
        if len(handled) == 1:
            network.lose("POST /api/v1/transaction", answers=True)
        if len(handled) == 2:
            network.lose("GET /api/v1/pop", answers=True)

    client.push(queue, *range(5))
    network.lose("GET /api/v1/pop", answers=False, times=3)
    with app.running():
        consumed(client, queue)
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == list(range(5))


def test_a_server_that_comes_later(app: App, daemon: Daemon, client: Plain, queue: str) -> None:
    late = App(f"http://127.0.0.1:{free_port()}", deadline=0.2)
    late.worker(queue, poll=1)(lambda message: None)
    with late.running():
        pass        # it is stopped while it waits for the server, and no error is raised


def test_a_worker_that_is_refused_ends(start_daemon: Callable[..., Daemon], queue: str) -> None:
    guarded = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    for shown, error in ((None, Unauthorized), (token(role="read-only"), Forbidden)):
        app = App(guarded.url, token=shown, deadline=LONG, timeout=LONG)
        app.worker(queue)(lambda message: None)
        assert app.run(signals=False) == 1
        with pytest.raises(error):
            with app.running():
                pass


def test_the_lifespan_is_around_everything(daemon: Daemon, client: Plain, queue: str) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        seen.append(asyncio.get_running_loop())
        yield
        seen.append("left")

    app = App(daemon.url, deadline=LONG, timeout=LONG, lifespan=lifespan)

    @app.worker(queue, poll=1)
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


def test_the_server_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("QUEEND_URL", "http://there:1")
    assert App().client().settings.url == "http://there:1"
    assert App("http://here:2").client().settings.url == "http://here:2"
