"""Workers against a daemon: handlers of batches, and what becomes of messages with and without a verdict."""
from __future__ import annotations

import pytest
from support.client import Client as Plain
from support.daemon import Daemon
from support.wait import until
from support.workers import consumed, seek

from queend.client import App, BatchContext, Message, TypedMessage


def test_batches(app: App, client: Plain, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    sizes: list[int] = []

    @app.worker(queue, group="g", batch=100, partitions=5, poll=0.1)
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

    @app.worker(queue, batch=3, poll=0.1)
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

    @app.worker(queue, group="g", batch=5, lease=600, poll=0.1)
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


@pytest.mark.parametrize("decided", [2, 1], ids=["all", "one"])
def test_a_batch_comes_again_if_its_pushes_are_refused(app: App, client: Plain, queue: str, decided: int,
                                                       caplog: pytest.LogCaptureFixture) -> None:
    """decided: how many of its two messages have a verdict of the handler."""
    attempts: list[list[int]] = []

    @app.worker(queue, group="g", batch=2, poll=0.1)
    def handle(messages: list[Message], context: BatchContext) -> None:
        attempts.append([one.data for one in messages])
        context.push(f"{queue}-out", attempts[-1], partition="p" * (1 if len(attempts) > 1 else 300))
        for one in messages[:decided]:
            context.dead(one, "no")

    client.push(queue, 1, 2)
    with app.running():
        consumed(client, queue, "g")
    assert attempts == [[1, 2], [1, 2]] and client.dead(queue) == decided
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [[1, 2]]
    assert "partition" in caplog.text


def test_a_batch_of_verdicts_alone_waits_for_a_full_queue(app: App, client: Plain, queue: str,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queend.client.job.FULL", 0.05)
    client.configure(queue, retryLimit=0)
    client.configure(f"{queue}-out", maxSize=1)
    client.push(f"{queue}-out", 0)
    attempts: list[int] = []

    @app.worker(queue, group="g", batch=2, poll=0.1)
    def handle(messages: list[TypedMessage[int]], context: BatchContext) -> None:
        attempts.append(len(messages))
        context.push(f"{queue}-out", [one.data for one in messages])
        for one in messages:
            context.dead(one, "no")

    client.push(queue, 1, "a text")
    with app.running():
        until(lambda: len(attempts) > 1 or client.dead(queue) > 1, "the handler is called again")
        (first,) = client.pop(f"{queue}-out")
        client.ack(first)
        consumed(client, queue, "g")
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert {one["data"]: "does not fit" in one["errorMessage"] for one in letters} == {1: False, "a text": True}
    assert [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [[1]]


def test_a_verdict_is_of_a_message_of_the_batch() -> None:
    with pytest.raises(ValueError, match="not of this batch"):
        BatchContext([]).fail(Message("q", "p", "t", 1, None, 1, 0, "l", "pid", "mid", None), "x")  # type: ignore


def test_newest_messages(app: App, client: Plain, queue: str) -> None:
    seen: list[int] = []

    @app.worker(queue, group="g", conflation=True, poll=0.1)
    def handle(message: Message) -> None:
        seen.append(message.data)

    for n in range(12):
        client.push(queue, n, partition=f"p{n % 3}")
    with app.running():
        consumed(client, queue, "g")
    assert sorted(seen) == [9, 10, 11]
    with pytest.raises(ValueError, match="conflation requires a group"):
        app.worker(queue, conflation=True, name="other")(handle)
