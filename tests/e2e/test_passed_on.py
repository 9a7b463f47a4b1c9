"""What a pop had in hand that ends without it: the others that wait are told, at once."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.faults import Faults
from support.http import Wire, request
from support.parked import answer_of, settle
from support.postgres import Postgres
from support.wait import until

LONG = 30_000       # ms; who was not told would wait for so long


@pytest.fixture(scope="module")
def shop(postgres: Postgres, start_daemon: Callable[..., Daemon]) -> Iterator[tuple[Daemon, Faults]]:
    """A daemon that delivers nothing from memory, and statements of its database that fail on demand."""
    daemon = start_daemon(postgres.database(), QUEEND_CACHE_BYTES=0, NUM_WORKERS=1)
    with daemon.client() as client:
        client.push("warm", 1)
    faults = Faults(daemon.conninfo, "pop", "take_back")
    yield daemon, faults
    faults.close()


def store(daemon: Daemon, queue: str, *payloads: str) -> None:
    """Without the pops that wait: a push would claim for them."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as other:
        for payload in payloads:
            other.execute("SELECT queen.push(%s, 'p', %s)", (queue, payload))


def parked(client: Client) -> float:
    return client.parked()


@pytest.mark.parametrize("partition", [None, "p"], ids=["any partition", "one partition"])
@pytest.mark.parametrize("how", ["runs out", "leaves"])
def test_a_pop_that_ends_while_the_database_refuses(shop: tuple[Daemon, Faults], queue: str, how: str,
                                                    partition: str | None) -> None:
    daemon, faults = shop
    with daemon.client() as client, daemon.client() as other:
        settle(client, queue, "p")
        wire = Wire(daemon.address)
        wire.send(request("GET", pop_target(queue, partition, wait=True, timeout=1500 if how == "runs out" else LONG)))
        until(lambda: parked(client) == 1, "the first waits")
        other.send("GET", pop_target(queue, partition, wait=True, timeout=LONG))
        until(lambda: parked(client) == 2, "the second waits")
        faults.plant("pop", "55P03")
        try:
            store(daemon, queue, "1")
            until(lambda: faults.met("pop"), "the first is told, and refused")
            if how == "leaves":
                wire.close()
                until(lambda: client.metric("queend_worker_connections") == 2, "it has left")
            else:
                assert wire.receive().json["messages"] == []
        finally:
            faults.clear("pop")
        assert data(answer_of(other)) == [1]


def test_what_was_consumed_for_a_client_that_left_is_taken_back_once_it_can_be(shop: tuple[Daemon, Faults],
                                                                              queue: str) -> None:
    daemon, faults = shop
    with daemon.client() as client:
        settle(client, queue, "p")
        client.push(queue, 1, partition="p")
        wire = Wire(daemon.address)
        wire.send(request("GET", pop_target(queue + "-other", wait=True, timeout=LONG))
                  + request("GET", pop_target(queue, autoAck=True)))
        until(lambda: parked(client) == 1 and client.pop(queue) == [], "it is taken")
        faults.plant("take_back", "55P03", 3)
        wire.abort()
        until(lambda: faults.met("take_back") > 3, "it is taken back")
        assert data(client.pop(queue, wait=True, timeout=LONG)) == [1]
