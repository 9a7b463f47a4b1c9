"""A group that begins `new` begins with its first request, also where it asks for what does not exist yet."""
from __future__ import annotations

from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.feed import Feed
from support.socket_feed import SocketFeed
from support.wait import until

NEW = {"consumerGroup": "g", "subscriptionMode": "new", "autoAck": "true"}


def parked(client: Client, count: int = 1) -> None:
    until(lambda: client.parked() >= count, "the pop waits")


def kinds(queue: str) -> dict[str, tuple[str | None, str | None, dict[str, Any]]]:
    """How a group can ask for messages of a queue whose namespace is the queue's name, and its task `t`."""
    return {"queue": (queue, None, {}), "partition": (queue, "p", {}), "namespace": (None, None, {"namespace": queue}),
            "task": (None, None, {"task": f"t-{queue}"}), "autopilot": (queue, None, {"autopilot": "true"})}


KINDS = list(kinds(""))


def make(client: Client, queue: str) -> None:
    client.configure(queue, namespace=queue, task=f"t-{queue}")


@pytest.mark.parametrize("made", ["configured", "pushed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pusher", ["client", "other"])
def test_a_pop_that_waits(request, daemon: Daemon, client: Client, queue: str, kind: str, made: str,
                          pusher: str) -> None:
    """The queue comes with the push, or before it, at the daemon of the pop or at another."""
    at: Client = request.getfixturevalue(pusher)
    # of a queue that a push makes, namespace and task are parts of the name
    name = f"{queue}.t-{queue}" if made == "pushed" else queue
    of, partition, query = kinds(queue)[kind]
    of = of and name
    with daemon.client() as waiting:
        waiting.send("GET", pop_target(of, partition, wait="true", timeout=100_000, **NEW, **query))
        parked(client)
        if made == "configured":
            make(at, name)
        at.push(name, "first", partition="p")
        assert data(waiting.receive().json["messages"]) == ["first"]
    with psycopg.connect(daemon.conninfo) as connection:
        assert connection.execute("SELECT g.mode FROM queend.consumer_groups g JOIN queend.queues q ON q.id = "
                                  "g.queue_id WHERE q.name = %s AND g.name = 'g'", (name,)).fetchone() == ("new",)


@pytest.mark.parametrize("made", ["configured", "pushed"])
@pytest.mark.parametrize("stream", [Feed, SocketFeed])
def test_a_stream_that_waits(daemon: Daemon, client: Client, queue: str, stream: type, made: str) -> None:
    feed = stream(daemon.address, queue, consumerGroup="g", subscriptionMode="new")
    try:
        parked(client)
        if made == "configured":
            make(client, queue)
        client.push(queue, "first")
        assert feed.message()["data"] == "first"
    finally:
        feed.close()


@pytest.mark.parametrize("kind", KINDS)
def test_between_two_requests(client: Client, queue: str, kind: str) -> None:
    """The first request counts, though it does not wait."""
    of, partition, query = kinds(queue)[kind]
    assert client.pop(of, partition, **NEW, **query) == []
    make(client, queue)
    client.push(queue, "first", partition="p")
    got: list = []
    until(lambda: got.extend(data(client.pop(of, partition, **NEW, **query))) or got, "the first message")
    assert got == ["first"]


def test_a_queue_that_comes_while_others_are_served(client: Client, queue: str) -> None:
    space = {"namespace": queue}
    client.configure(f"{queue}-1", namespace=queue)
    client.push(f"{queue}-1", "before")
    assert client.pop(None, **NEW, **space) == []
    client.push(f"{queue}-1", "after")
    assert data(until(lambda: client.pop(None, **NEW, **space), "after")) == ["after"]
    client.configure(f"{queue}-2", namespace=queue)
    client.push(f"{queue}-2", "first")
    assert data(until(lambda: client.pop(None, **NEW, **space), "first")) == ["first"]


def test_a_group_that_another_daemon_made_later(client: Client, other: Client, queue: str) -> None:
    """Its start is that of the first request at any daemon that still knows it."""
    assert client.pop(queue, **NEW) == []
    other.push(queue, "first")
    assert other.pop(queue, **NEW) == []
    got: list = []
    until(lambda: got.extend(data(client.pop(queue, **NEW))) or got, "the first message")
    assert got == ["first"]


@pytest.mark.parametrize("kind", ["queue", "namespace"])
def test_a_deleted_group_begins_anew(client: Client, queue: str, kind: str) -> None:
    """What its first request was before does not count."""
    of, partition, query = kinds(queue)[kind]
    assert client.pop(of, partition, **NEW, **query) == []
    make(client, queue)
    client.push(queue, "first")
    assert data(until(lambda: client.pop(of, partition, **NEW, **query), "the first message")) == ["first"]
    assert client.request("DELETE", f"/api/v1/consumer-groups/g/queues/{quote(queue, safe='')}").json["existed"] is True
    assert client.pop(of, partition, **NEW, **query) == []
    client.push(queue, "second")
    assert data(until(lambda: client.pop(of, partition, **NEW, **query), "the second message")) == ["second"]


def test_what_was_there_before_is_not_new(client: Client, queue: str) -> None:
    client.push(queue, "before")
    assert client.pop(queue, **NEW) == []
    assert client.pop(None, namespace=queue.partition(".")[0], consumerGroup="h", subscriptionMode="new") == []
