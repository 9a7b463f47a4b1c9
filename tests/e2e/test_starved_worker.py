"""A worker that has no connection to the database, beside one that has: what only the first worker does, and scans that
it took, are done by the other."""
from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.proxy import CUT, Proxy
from support.wait import until

WAITS = {"wait": True, "timeout": 15_000, "autoAck": True}
ALL = 4     # connections of both workers
DATA_PLANE = b"application_name\0queend\0"


class Scarce(Proxy):
    """A server with room for so many connections of the data plane."""

    def __init__(self, target: int):
        super().__init__(target)
        self.room, self.passed = ALL, set()
        self.rule = self.decide

    def decide(self, to_server: bool, piece: bytes) -> list:
        if to_server and DATA_PLANE in piece:
            if len(self.passed & self.sockets) >= self.room:
                return [CUT]
            self.passed.add(self.speaks)
        return [piece]

    def shrink(self, room: int) -> None:
        """Ends all connections of the data plane, and lets so many new ones in."""
        with self.lock:
            self.room = room
            for one in self.passed & self.sockets:
                self._drop(one)


class Stage:
    """A daemon of two workers that reaches its database through a `Scarce`."""

    def __init__(self, server: Postgres):
        self.database = server.database()
        self.proxy = Scarce(server.port)
        name = psycopg.conninfo.conninfo_to_dict(self.database)["dbname"]
        self.daemon = Daemon(server.dsn(port=self.proxy.port, dbname=name), NUM_WORKERS=2, QUEEND_SLOTS=ALL // 2,
                             QUEEND_PATIENCE_MS=300)

    def starved(self) -> str | None:
        """The worker without a connection; the other one has one, or tries to."""
        with self.daemon.client() as client:
            text = client.get("/metrics/prometheus").body.decode()
        return next(iter(re.findall(r'^queend_worker_slots\{worker="(\d)"\} 0', text, re.M)), None)

    def starve_the_first(self) -> None:
        """The workers race for one connection, until the second one gets it."""
        while True:
            self.proxy.shrink(1)
            until(lambda: len(self.proxy.passed & self.proxy.sockets) == 1, "one connection is there")
            if until(self.starved, "one worker has none") == "0":
                return
            self.feed()

    def feed(self) -> None:
        self.proxy.room = ALL
        until(lambda: len(self.proxy.passed & self.proxy.sockets) == ALL, "all connections are there")

    def fed_client(self) -> Client:
        """A connection to a worker that the database answers."""
        def look() -> Client | None:
            client = self.daemon.client()
            if client.post(f"/api/v1/lease/{uuid.uuid4()}/extend", {"seconds": 5}).status != 503:
                return client
            client.close()
            return None
        return until(look, "a worker answers")

    def end(self) -> None:
        self.proxy.room = ALL
        self.daemon.stop()
        self.proxy.close()


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Its first worker has no connection."""
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        stage = Stage(server)
        try:
            stage.starve_the_first()
            yield stage
        finally:
            stage.end()


@pytest.fixture
def fed(stage: Stage) -> Iterator[Client]:
    """A client of the second worker."""
    with stage.fed_client() as client:
        yield client


def store(stage: Stage, queue: str, *payloads: str) -> None:
    """A program commits them without the daemon."""
    with psycopg.connect(stage.database) as session:
        for payload in payloads:
            session.execute("SELECT queen.push_messages_v3(%s::jsonb)", [json.dumps(
                [{"queue": queue, "partition": "p", "payload": payload, "transactionId": payload}])])


def test_a_scan_is_not_kept_by_a_worker_that_cannot_do_it(stage: Stage, fed: Client, queue: str) -> None:
    """A seek has the first worker scan the group."""
    store(stage, queue, "one")
    assert data(fed.pop(queue, consumerGroup="g", subscriptionMode="all", **WAITS)) == ["one"]
    for _ in range(3):
        answer = fed.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", {"offset": 0})
        assert answer.status == 200, answer.body
        assert data(fed.pop(queue, consumerGroup="g", **WAITS)) == ["one"]
        assert data(fed.pop(queue, consumerGroup=str(uuid.uuid4()), subscriptionMode="all", **WAITS)) == ["one"]


@pytest.mark.parametrize("named", ["queue", "namespace"])
def test_what_others_stored_is_found_without_the_first_worker(stage: Stage, fed: Client, queue: str,
                                                              named: str) -> None:
    fed.configure(queue, namespace=f"of-{queue}")
    store(stage, queue, "one")
    target, more = (queue, {}) if named == "queue" else (None, {"namespace": f"of-{queue}"})
    assert data(fed.pop(target, **more, **WAITS)) == ["one"]
    for payload in ("two", "three"):
        store(stage, queue, payload)
        assert data(fed.pop(target, **more, **WAITS)) == [payload]


def test_tokens_of_rates_come_without_the_first_worker(stage: Stage, fed: Client, queue: str) -> None:
    fed.configure(queue, groupRateLimit=1000)
    store(stage, queue, "one")
    assert data(fed.pop(queue, **WAITS)) == ["one"]
