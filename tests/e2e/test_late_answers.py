"""An answer of the database that arrives late: what was changed since, and is known already, is not undone by it. For
each statement that a daemon sends and each change that somebody makes beside it: the answer is held back until the
change is known, and all that the group has not consumed by then comes to a pop that names no partition."""
from __future__ import annotations

import json
import select
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest
from support.client import Client, ack_of, pop_target
from support.daemon import Daemon
from support.postgres import running
from support.proxy import Proxy
from support.wait import PATIENCE, until

PAST = "2020-01-01T00:00:00Z"

# Of a queue and the group g: the partitions with messages that are not consumed (leases last a second).
LEFT = """
SELECT p.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
  LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = 'g'
  LEFT JOIN queend.cursors c ON c.partition_id = p.id AND c.group_id = g.id
 WHERE q.name = %s AND COALESCE(c.committed, -1) + 1 < (SELECT max(l.base + l.n) FROM queend.log l
  WHERE l.partition_id = p.id)"""


class Holder:
    """Between daemon and server: the answer to the next `statement` waits for `release`; other connections go on."""

    def __init__(self, proxy: Proxy):
        self.proxy = proxy
        proxy.rule = self.rule
        self.arm("")

    def arm(self, statement: str) -> None:
        with self.proxy.lock:
            self.statement = b"\0" + statement.encode() + b"\0" if statement else b""
            self.held = None
            self.answered, self.released = threading.Event(), threading.Event()

    def rule(self, to_server: bool, piece: bytes) -> list:
        if to_server and self.held is None and self.statement and self.statement in piece:
            self.held = self.proxy.speaks
        if not to_server and self.held is self.proxy.speaks and not self.released.is_set():
            self.answered.set()
            return [self.released.wait, piece]
        return [piece]


@pytest.fixture(scope="module")
def slow(request: pytest.FixtureRequest) -> Iterator[tuple[Daemon, Holder, psycopg.Connection]]:
    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        holder = Holder(proxy)
        daemon = Daemon(cluster.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"))
        with psycopg.connect(cluster.conninfo, autocommit=True) as db:
            yield daemon, holder, db
        holder.released.set()
        daemon.stop()
        proxy.close()


def send(client: Client, path: str, body: dict) -> None:
    client.send("POST", path, json.dumps(body).encode())


def consumed(client: Client, queue: str) -> None:
    """The group has cursors, and new messages are in memory."""
    for partition in "abc":
        client.ack_batch([ack_of(one) for one in client.pop(queue, partition, consumerGroup="g", batch=10)], "g")
    client.push_items([{"queue": queue, "partition": p, "payload": "more"} for p in "abc"])


def taken(client: Client, queue: str) -> list[dict]:
    return client.pop(queue, consumerGroup="g", batch=10, partitions=5)


def pops(client: Client, queue: str, _: object, **more: object) -> None:
    client.send("GET", pop_target(queue, consumerGroup="g", batch=10, partitions=5, wait=False, **more))


def acks(client: Client, queue: str, messages: list[dict], status: str = "completed") -> None:
    send(client, "/api/v1/ack/batch",
         {"consumerGroup": "g", "acknowledgments": [ack_of(one, status) for one in messages]})


def transaction(client: Client, queue: str, messages: list[dict]) -> None:
    send(client, "/api/v1/transaction",
         {"operations": [{"type": "push", "items": [{"queue": queue, "partition": "a", "payload": "pushed"}]},
                         *({"type": "ack", "consumerGroup": "g", **ack_of(one)} for one in messages)]})


# What is held back, what is done before, and the request that sends it.
STATEMENTS: dict[str, tuple[str, Callable, Callable]] = {
    "pop": ("pop", lambda *_: None, pops),
    "pop of a group that conflates": ("pop_newest", lambda *_: None, lambda *all: pops(*all, conflation=True)),
    "pop_scan": ("pop_scan", lambda *_: None, pops),
    "group_within": ("group_within", lambda *_: None, pops),
    "claim": ("claim", consumed, pops),
    "claim, acknowledged at once": ("claim", consumed, lambda *all: pops(*all, autoAck=True)),
    "acks of leases": ("ack_leased", taken, acks),
    "acks of one": ("ack", taken, lambda client, queue, messages: acks(client, queue, messages[1:2])),
    "acks that want it again": ("ack", taken, lambda *all: acks(*all, "retry")),
    "transaction": ("transaction", taken, transaction)}

GROUP = "/api/v1/consumer-groups/g"
CHANGES: dict[str, Callable[[Client, str], int]] = {
    "seek to the start": lambda client, queue: client.post(f"{GROUP}/queues/{quote(queue)}/seek",
                                                           {"timestamp": PAST}).status,
    "seek to an offset": lambda client, queue: client.post(f"{GROUP}/queues/{quote(queue)}/seek", {"offset": 1}).status,
    "subscription": lambda client, queue: client.post(f"{GROUP}/subscription", {"subscriptionTimestamp": PAST}).status,
    "deletion": lambda client, queue: client.request("DELETE", f"{GROUP}/queues/{quote(queue)}").status}


def held(client: Client, other: Client, holder: Holder, queue: str, statement: str) -> None:
    """Sends the request until its statement was sent for it, whose answer is held back now. One whose worker has not
    heard yet of what the other's pushed is served by another statement: it is answered, and sent again."""
    name, before, request = STATEMENTS[statement]

    def look() -> bool:
        prepared = before(other, queue)
        holder.arm(name)
        request(client, queue, prepared)
        until(lambda: holder.answered.is_set() or answered(client), "it was sent, or answered otherwise")
        if holder.answered.is_set():
            return True
        assert client.receive().status in (200, 204)
        return False
    until(look, f"{name} is sent")


def answered(client: Client) -> bool:
    return bool(select.select([client.wire.socket], [], [], 0)[0])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_group_is_moved_beside(slow: tuple[Daemon, Holder, psycopg.Connection], queue: str, statement: str,
                                 change: str) -> None:
    daemon, holder, db = slow
    before = STATEMENTS[statement][1]
    with daemon.client() as client, daemon.client() as other:
        other.configure(queue, leaseTime=1)
        other.push_items([{"queue": queue, "partition": p, "payload": n} for n in range(2) for p in "abc"])
        held(client, other, holder, queue, statement)
        assert CHANGES[change](other, queue) == 200
        if before is taken and change != "subscription":
            until(lambda: other.pop(queue, "c", consumerGroup="g", wait=False), "somebody goes on from there")
        holder.released.set()
        assert client.receive().status in (200, 204)

        def come() -> bool:
            other.pop(queue, consumerGroup="g", batch=100, partitions=10, wait=True, timeout=300, autoAck=True)
            return not db.execute(LEFT, (queue,)).fetchall()

        until(come, "all that is left comes", 60)


def test_a_subscription_that_removes_a_cursor(slow: tuple[Daemon, Holder, psycopg.Connection], queue: str) -> None:
    """The pop made the group's cursor where its subscription began, now; the subscription is moved back, which removes
    it."""
    daemon, holder, _ = slow
    with daemon.client() as client, daemon.client() as other:
        other.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
        new = {"consumerGroup": "g", "subscriptionMode": "new", "wait": False}
        assert other.pop(queue, "b", **new) == []
        holder.arm("pop")
        client.send("GET", pop_target(queue, "a", **new))
        assert holder.answered.wait(PATIENCE)
        assert CHANGES["subscription"](other, queue) == 200
        # it is known
        assert [one["data"] for one in other.pop(queue, "b", consumerGroup="g", wait=True, timeout=100_000)] == ["b"]
        holder.released.set()
        assert client.receive().status in (200, 204)
        assert [one["data"] for one in other.pop(queue, "a", consumerGroup="g", wait=True, timeout=100_000)] == ["a"]


def test_a_lease_that_has_ended_meanwhile_is_in_nobodys_way(request: pytest.FixtureRequest, queue: str) -> None:
    """A pop of a partition found it leased; before its answer is here the lease is acknowledged. No look comes to its
    help for half a minute."""
    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        holder = Holder(proxy)
        with Daemon(cluster.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"),
                    POP_WAIT_MAX_INTERVAL_MS=30_000) as daemon, daemon.client() as client, daemon.client() as other:
            client.push(queue, 1, 2, partition="p")
            (message,) = client.pop(queue, "p", batch=1)
            holder.arm("pop")
            other.send("GET", pop_target(queue, "p", wait=True, timeout=10_000))
            assert holder.answered.wait(PATIENCE)
            assert client.ack(message)["success"]
            holder.released.set()
            assert [one["data"] for one in other.receive().json["messages"]] == [2]
        proxy.close()
