"""What the daemon knows of queues, partitions and groups is given back when they are deleted, and never while somebody
still uses it."""
from __future__ import annotations

import json
import random
import threading

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.crowd import Crowd
from support.parked import waiting
from support.remembered import NOTHING, remembered
from support.wait import until


def given_back(client: Client, left: dict[str, int]) -> None:
    until(lambda: remembered(client) == left, f"{left} is left of {remembered(client)}")


def fill(client: Client, queue: str, partitions: int, groups: int, at_once: int = 500) -> None:
    """Every group takes one message of every partition; half of them are acknowledged at once, the others stay
    leased."""
    for first in range(0, partitions, at_once):
        client.push_items([{"queue": queue, "partition": f"p{n}", "payload": n}
                           for n in range(first, min(first + at_once, partitions))])
    for group in range(groups):
        got = 0
        while got < partitions:
            messages = client.pop(queue, batch=1000, partitions=64, consumerGroup=f"g{group}", autoAck=group % 2 == 0)
            assert messages
            got += len(messages)


def test_queues_that_come_and_go(start_daemon) -> None:
    """Round after round the same is remembered, and afterwards as little as before."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("stays", 1)
        before = remembered(client)
        assert before == {"queues": 1, "partitions": 1, "groups": 0, "cursors": 0}
        for _ in range(3):
            for n in range(3):
                fill(client, f"goes{n}", 300, 3)
            there = remembered(client)
            assert there["queues"] == 4 and there["partitions"] == 901 and there["groups"] == 9
            assert there["cursors"] >= 2700
            for n in range(3):
                client.delete(f"goes{n}")
            given_back(client, before)
        assert data(client.pop("stays")) == [1]


def test_who_holds_it_keeps_it(start_daemon) -> None:
    """A pop that waits in another queue was there before the deletion: it may know of what was deleted until it
    ends."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("other", 1)
        with waiting(daemon, client, "quiet") as (waiter,):
            with waiting(daemon, client, "goes") as (lost,):
                fill(client, "goes", 20, 2)
                assert lost.receive().json["messages"]
            client.delete("goes")
            client.push("goes", "anew")
            assert data(client.pop("goes")) == ["anew"]
            client.push("quiet", 1)
            assert data(waiter.receive().json["messages"]) == [1]
        for queue in ("goes", "quiet", "other"):
            client.delete(queue)
        given_back(client, NOTHING)


def test_waiting_clients_hold_nothing_back_for_ever(start_daemon) -> None:
    """Clients that poll without end have a poll under way at any time, but no poll lasts."""
    daemon = start_daemon()
    over = threading.Event()

    def poll(number: int) -> None:
        with daemon.client() as own:
            while not over.is_set():
                own.pop("polled", wait=True, timeout=300 + 20 * number, consumerGroup="g", autoAck=True)

    with daemon.client() as client:
        client.push("polled", 1)
        with Crowd() as crowd:
            crowd.all(poll, range(6))
            for _ in range(3):
                fill(client, "goes", 50, 1)
                client.delete("goes")
                until(lambda: remembered(client)["partitions"] == 1, "the deleted queue's are given back")
            over.set()


def test_woken_polls_hold_nothing_back(start_daemon) -> None:
    """A poll that was woken in vain looks everything up again: what was deleted before is nothing to it."""
    daemon = start_daemon()
    with daemon.client() as client, daemon.client() as waiter:
        client.push("polled", 1)
        assert data(client.pop("polled", autoAck=True)) == [1]
        waiter.send("GET", pop_target("polled", wait=True, timeout=100_000))
        until(lambda: client.parked() == 1, "it waits")
        fill(client, "goes", 50, 1)
        client.delete("goes")

        def woken() -> bool:
            client.configure("polled", windowBuffer=random.randint(0, 1))       # wakes who waits for it
            return remembered(client)["queues"] == 1
        until(woken, "a deleted queue is given back", 90)     # sooner than the poll ends
        client.configure("polled", windowBuffer=0)
        client.push("polled", 2)
        assert data(waiter.receive().json["messages"]) == [2]


def test_answers_that_wait_for_a_poll_hold_nothing_back(start_daemon) -> None:
    """One connection asks for a long poll, then acknowledges: the answer is there, and has to wait for the poll."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client, daemon.client() as waiter:
        client.push("polled", 1)
        assert data(client.pop("polled", autoAck=True)) == [1]
        fill(client, "goes", 50, 1)
        client.push("acked", 1)
        (message,) = client.pop("acked")
        acks = client.metric('queend_calls_total{type="ack"}')
        waiter.send("GET", pop_target("polled", wait=True, timeout=100_000))
        until(lambda: client.parked() == 1, "it waits")
        waiter.send("POST", "/api/v1/ack", json.dumps(ack_of(message)).encode())
        until(lambda: client.metric('queend_calls_total{type="ack"}') > acks, "the other one is done")
        before = remembered(client)["partitions"]
        client.delete("goes")
        until(lambda: remembered(client)["partitions"] == before - 50, "a deleted queue is given back", 60)
        client.push("polled", 2)
        assert data(waiter.receive().json["messages"]) == [2]
        assert waiter.receive().json[0]["success"]


def test_groups_that_are_deleted(start_daemon) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        fill(client, "stays", 100, 1)
        before = remembered(client)
        for round_ in range(3):
            for group in ("a", "b"):
                assert len(client.pop("stays", batch=100, partitions=64, consumerGroup=f"{group}{round_}")) >= 64
            assert remembered(client)["groups"] == before["groups"] + 2
            for group in ("a", "b"):
                assert client.request("DELETE", f"/api/v1/consumer-groups/{group}{round_}/queues/stays").status == 200
            # the others are forgotten with them, and found again by whoever needs them
            until(lambda: remembered(client)["groups"] == 0 and remembered(client)["cursors"] == 0,
                  "forgotten groups are given back")
            assert client.pop("stays", consumerGroup="g0") == []
            assert remembered(client)["groups"] == before["groups"]
        client.push("stays", "more", partition="p7")
        assert data(until(lambda: client.pop("stays", consumerGroup="g0", autoAck=True), "a message")) == ["more"]


@pytest.mark.parametrize("number", [3, 1100])
def test_partitions_that_are_removed(start_daemon, number: int) -> None:
    """A few are told one by one; of more than a thousand daemons hear only that they are gone."""
    daemon = start_daemon(RETENTION_INTERVAL=100, EVICTION_INTERVAL=100, PARTITION_CLEANUP_DAYS=1)
    with daemon.client() as client, daemon.client() as waiter, psycopg.connect(daemon.conninfo, autocommit=True) as db:
        client.configure("q", ttl=600)
        client.push("q", "kept", partition="kept")
        for first in range(0, number, 500):
            client.push_items([{"queue": "q", "partition": f"p{n}", "payload": n}
                               for n in range(first, min(first + 500, number))])
        got = 0
        while got < number + 1:
            got += len(client.pop("q", batch=1000, partitions=64, autoAck=True))
        waiter.send("GET", pop_target("q", "p1", wait=True, timeout=60_000, autoAck=True))
        until(lambda: client.parked() == 1, "it waits for a partition that goes")
        kept, = db.execute("SELECT id FROM queend.partitions WHERE name = 'kept'").fetchone()
        db.execute("UPDATE queend.cursors SET consumed_at = 0 WHERE partition_id <> %s", [kept])
        db.execute("UPDATE queend.log SET created_at = created_at - 3600000000")
        db.execute("UPDATE queend.partitions SET created_at = created_at - interval '3 days'")

        def names() -> int:
            db.execute("UPDATE queend.floors SET raised_at = 0")      # the removal of messages is long ago, too
            return db.execute("SELECT count(*) FROM queend.partitions WHERE name <> 'Default'").fetchone()[0]
        until(lambda: names() == 1, "they are removed")
        client.push("q", "anew", partition="p1")
        assert data(waiter.receive().json["messages"]) == ["anew"]
        until(lambda: remembered(client)["partitions"] <= 3, "they are given back")
        assert remembered(client)["cursors"] <= 3
        client.push("q", "more", partition="kept")
        assert data(until(lambda: client.pop("q", autoAck=True), "what comes is delivered")) == ["more"]
