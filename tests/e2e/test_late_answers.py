"""An answer of the database that arrives late: what was changed since, and is known already, is not undone by it."""
from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.postgres import running
from support.proxy import Proxy
from support.wait import until

CURSORS = ("SELECT count(*) FROM queend.cursors c JOIN queend.partitions p ON p.id = c.partition_id JOIN queend.queues q ON q.id = p.queue_id"
           " WHERE q.name = %s")


class Holder:
    """Between daemon and server: the answer to the next `statement` waits for `release`; other connections go on."""

    def __init__(self, proxy: Proxy):
        self.proxy = proxy
        self.statement = b""
        self.held = None
        self.sent, self.released = threading.Event(), threading.Event()
        proxy.rule = self.rule

    def arm(self, statement: str) -> None:
        self.statement = b"\0" + statement.encode() + b"\0"

    def release(self) -> None:
        self.released.set()

    def rule(self, to_server: bool, piece: bytes) -> list:
        if to_server and self.held is None and self.statement and self.statement in piece:
            self.held = self.proxy.speaks
            self.sent.set()
        if not to_server and self.held is self.proxy.speaks and not self.released.is_set():
            return [self.released.wait, piece]
        return [piece]


@pytest.fixture
def slow(request: pytest.FixtureRequest) -> Iterator[tuple[Daemon, Holder, psycopg.Connection]]:
    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        holder = Holder(proxy)
        daemon = Daemon(cluster.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"))
        with psycopg.connect(cluster.conninfo, autocommit=True) as db:
            yield daemon, holder, db
        holder.release()
        daemon.stop()
        proxy.close()


def test_a_subscription_moved_beside_a_pop(slow: tuple[Daemon, Holder, psycopg.Connection], queue: str) -> None:
    """The pop made the group's cursor, at the old start. The subscription is moved back, which removes it; the pop's answer comes after."""
    daemon, holder, db = slow
    with daemon.client() as client, daemon.client() as other:
        client.push(queue, "one", partition="a")
        client.push(queue, "two", partition="b")
        new = {"consumerGroup": "g", "subscriptionMode": "new"}
        assert other.pop(queue, "b", **new) == []
        holder.arm("pop")
        client.send("GET", pop_target(queue, "a", wait=False, **new))
        assert holder.sent.wait(30)
        until(lambda: db.execute(CURSORS, (queue,)).fetchone()[0] == 2, "the pop made its cursor")
        hour_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
        moved = other.post("/api/v1/consumer-groups/g/subscription", {"subscriptionTimestamp": hour_ago})
        assert moved.status == 200, moved.body
        assert data(other.pop(queue, "b", wait=True, timeout=20_000, consumerGroup="g")) == ["two"]      # the change is known
        holder.release()
        client.receive()
        assert data(other.pop(queue, "a", wait=True, timeout=5_000, consumerGroup="g")) == ["one"]
