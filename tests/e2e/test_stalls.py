"""A daemon that stood still between a statement and its answer: leases are over by then, clients have left. It delivers
nothing under such a lease, extends none, and gives nothing to a client that is gone."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.feed import Feed
from support.postgres import running, stand
from support.proxy import Proxy
from support.socket_feed import SocketFeed
from support.wait import PATIENCE, until

SHORT, LONG = 2, 600
LEASES = """
SELECT min(c.lease_until - queend.now_us()) FROM queend.cursors c JOIN queend.partitions p ON p.id = c.partition_id
  JOIN queend.queues q ON q.id = p.queue_id JOIN queend.consumer_groups g ON g.id = c.group_id
 WHERE q.name = %s AND g.name = %s AND c.lease_until > 0"""

CONSUMED = """
SELECT c.committed FROM queend.cursors c JOIN queend.partitions p ON p.id = c.partition_id
  JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s"""


def half_closed(local: int, remote: int) -> bool:
    """Returns True if the other side has closed a connection between these ports (state CLOSE_WAIT)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(line[1].endswith(f":{local:04X}") and line[2].endswith(f":{remote:04X}") and line[3] == "08"
               for line in lines)


class Stage:
    """A daemon whose answer to one of some statements is kept back."""

    def __init__(self, daemon: Daemon, proxy: Proxy, session: psycopg.Connection):
        self.daemon, self.proxy, self.session = daemon, proxy, session
        self.names: list[bytes] = []
        self.free()
        proxy.rule = self.rule

    def hold(self, *statements: str) -> None:
        with self.proxy.lock:
            self.held = None
            self.kept, self.released, self.sent = threading.Event(), threading.Event(), threading.Event()
            self.names = [b"\0" + name.encode() + b"\0" for name in statements]

    def free(self) -> None:
        with self.proxy.lock:
            self.names, self.held = [], None
        getattr(self, "released", threading.Event()).set()

    def rule(self, to_server: bool, piece: bytes) -> list:
        if to_server and self.held is None and any(name in piece for name in self.names):
            self.held = self.proxy.speaks
        if not to_server and self.held is self.proxy.speaks and not self.released.is_set():
            self.kept.set()
            return [self.released.wait, piece, self.sent.set]
        return [piece]

    def left(self, queue: str, group: str) -> int | None:
        """µs until the group's lease ends."""
        return self.session.execute(LEASES, (queue, group)).fetchone()[0]

    def lease_is_over(self, queue: str) -> None:
        """Returns when the lease has ended whose claim is kept back; the next ones last."""
        until(lambda: self.held is not None and (left := self.left(queue, "g")) is not None and left < 0,
              "the lease is over")
        with self.daemon.client() as client:
            client.configure(queue, leaseTime=LONG)
            for number in range(1000):
                client.pop(queue, "p", consumerGroup=f"probe{number}")
                if (self.left(queue, f"probe{number}") or 0) > SHORT * 1_000_000:
                    return
        raise AssertionError("leases stay short")


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        proxy = Proxy(server.port)
        daemon = Daemon(server.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"))
        with psycopg.connect(server.conninfo, autocommit=True) as session:
            stage = Stage(daemon, proxy, session)
            yield stage
        stage.free()
        daemon.stop()
        proxy.close()


@pytest.fixture
def client(stage: Stage) -> Iterator[Client]:
    with stage.daemon.client() as client:
        yield client
    stage.free()


def prepared(client: Client, queue: str, way: str) -> None:
    """The next pop of the group g claims that way."""
    client.configure(queue, leaseTime=SHORT)
    client.push(queue, 1, partition="p")
    if way != "pop":
        (message,) = client.pop(queue, consumerGroup="g", wait=True, timeout=100_000)
        assert client.ack(message, group="g")["leaseReleased"]
    if way == "claim":
        client.push(queue, 2, partition="p")


@pytest.mark.parametrize("way", ["pop", "claim", "push"])
def test_a_pop(stage: Stage, client: Client, queue: str, way: str) -> None:
    prepared(client, queue, way)
    with stage.daemon.client() as waiting, stage.daemon.client() as pushing:
        target = pop_target(queue, consumerGroup="g", wait=True, timeout=100_000)
        if way == "push":
            waiting.send("GET", target)
            until(lambda: client.parked() > 0, "it waits")
            stage.hold("push", "push_one")
            pushing.send("POST", "/api/v1/push",
                         b'{"items":[{"queue":"%b","partition":"p","payload":2}]}' % queue.encode())
        else:
            stage.hold("pop", "claim", "turn")
            waiting.send("GET", target)
        stage.lease_is_over(queue)
        stage.free()
        (message,) = waiting.receive().json["messages"]
        assert message["data"] == (1 if way == "pop" else 2)
        assert client.ack(message, group="g")["success"], "it was delivered under a lease that is over"


@pytest.mark.parametrize("kind", [Feed, SocketFeed], ids=["events", "socket"])
def test_a_stream(stage: Stage, client: Client, queue: str, kind: type) -> None:
    prepared(client, queue, "pop")
    stage.hold("pop", "claim", "turn")
    with kind(stage.daemon.address, queue, consumerGroup="g", credit=1) as feed:
        stage.lease_is_over(queue)
        stage.free()
        message = feed.message()
        assert message["data"] == 1
        assert client.ack(message, group="g")["success"], "it was delivered under a lease that is over"


def test_an_extension(stage: Stage, client: Client, queue: str) -> None:
    prepared(client, queue, "pop")
    (message,) = client.pop(queue, consumerGroup="g", wait=True, timeout=100_000)
    with stage.daemon.client() as asking:
        stage.hold("renew")
        asking.send("POST", f"/api/v1/lease/{message['leaseId']}/extend", b'{"seconds":2}')
        stage.lease_is_over(queue)
        stage.free()
        answer = asking.receive().json
        assert (answer["success"], answer["error"]) == (False, "Lease already expired")


@pytest.mark.parametrize("way", ["pop", "claim", "push"])
def test_a_client_that_left_meanwhile(stage: Stage, client: Client, queue: str, way: str) -> None:
    """What was acknowledged at once for it is delivered to another."""
    prepared(client, queue, way)
    target = pop_target(queue, consumerGroup="g", wait=True, timeout=100_000, autoAck=True)
    waiting, pushing = stage.daemon.client(), stage.daemon.client()
    if way == "push":
        waiting.send("GET", target)
        until(lambda: client.parked() > 0, "it waits")
        stage.hold("push", "push_one")
        pushing.send("POST", "/api/v1/push",
                     b'{"items":[{"queue":"%b","partition":"p","payload":2}]}' % queue.encode())
    else:
        stage.hold("pop", "claim", "turn")
        waiting.send("GET", target)
    claimed = 0 if way == "pop" else 1
    until(lambda: stage.session.execute(CONSUMED, (queue,)).fetchone() == (claimed,), "it is consumed")
    assert stage.kept.wait(PATIENCE), "its answer, which may come after others see the commit, is kept back"
    stand(stage.daemon.pid)
    try:
        stage.free()
        assert stage.sent.wait(PATIENCE)
        port = waiting.wire.socket.getsockname()[1]
        waiting.close()
        until(lambda: half_closed(stage.daemon.port, port), "the kernel has told the daemon's side")
    finally:
        os.kill(stage.daemon.pid, signal.SIGCONT)
    if way == "push":
        assert pushing.receive().status == 201
    pushing.close()
    assert data(client.pop(queue, consumerGroup="g", wait=True, timeout=100_000)) == [1 if way == "pop" else 2]
