"""Acknowledgments of what the daemon itself delivered need no look into the log; every answer is the one the log would
give."""
from __future__ import annotations

import re
import uuid

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.frames import KIND, form_b, framed_group, read_pop
from support.parked import settle, waiting
from support.postgres import Postgres


def by_lease(client: Client) -> float:
    return client.metric("queend_worker_acked_by_lease_total")


def success(results: list[dict]) -> list[bool]:
    assert all(one["error"] is None for one in results if one["success"])
    return [one["success"] for one in results]


def change(daemon: Daemon, queue: str, statement: str) -> None:
    """statement: over `k`, a cursor of the queue."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute(f"UPDATE queend.cursors k SET {statement} FROM queend.partitions p JOIN queend.queues q"
                           " ON q.id = p.queue_id"
                           " WHERE p.id = k.partition_id AND q.name = %s", (queue,))


def lease_of(client: Client, queue: str, n: int = 5, **query) -> list[dict]:
    client.push(queue, *range(n), partition="p")
    messages = client.pop(queue, batch=n, **query)
    assert len(messages) == n
    return messages


@pytest.mark.parametrize("memory", [False, True], ids=["from the log", "from memory"])
def test_a_whole_lease(client: Client, queue: str, memory: bool) -> None:
    if memory:
        settle(client, queue, "p")
    before = by_lease(client)
    messages = lease_of(client, queue)
    results = client.ack_batch([ack_of(m) for m in messages])
    assert success(results) == [True] * 5 and [one["leaseReleased"] for one in results] == [False] * 4 + [True]
    assert {(one["queueName"], one["partitionName"], one["dlq"]) for one in results} == {(queue, "p", False)}
    assert by_lease(client) == before + 5
    assert client.pop(queue) == [] and client.extend(messages[0]["leaseId"])["success"] is False
    again = client.ack_batch([ack_of(m) for m in messages])
    assert {one["error"] for one in again} == {"Invalid or expired lease"} and by_lease(client) == before + 5
    assert success(client.ack_batch([ack_of(m, lease=False) for m in messages])) == [True] * 5
    client.push(queue, "next", partition="p")
    assert data(client.pop(queue)) == ["next"]


def test_one_after_the_other(client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    for message in messages[:4]:
        assert client.ack(message)["leaseReleased"] is False
    assert client.pop(queue) == []
    assert client.ack(messages[4])["leaseReleased"] is True and by_lease(client) == before + 5


def test_several_partitions_and_rows(client: Client, queue: str) -> None:
    for n in range(3):
        client.push_items([{"queue": queue, "partition": p, "payload": f"{p}{n}{i}"} for p in "abc" for i in range(3)])
    before = by_lease(client)
    first = client.pop(queue, batch=20, partitions=3)
    assert len({m["leaseId"] for m in first}) == 1 and len({m["partition"] for m in first}) == 3 and len(first) == 20
    results = client.ack_batch([ack_of(m) for m in first])
    assert success(results) == [True] * 20 and sum(one["leaseReleased"] for one in results) == 3
    assert by_lease(client) == before + 20
    rest = client.pop(queue, batch=20, partitions=3)
    assert sorted(data(first + rest)) == sorted(f"{p}{n}{i}" for p in "abc" for n in range(3) for i in range(3))


def test_groups_of_their_own(client: Client, queue: str) -> None:
    one = lease_of(client, queue, consumerGroup="one")
    two = client.pop(queue, batch=5, consumerGroup="two")
    before = by_lease(client)
    assert success(client.ack_batch([ack_of(m) for m in one], "two")) == [False] * 5 and by_lease(client) == before
    assert success(client.ack_batch([ack_of(m) for m in two], "two")) == [True] * 5 and by_lease(client) == before + 5
    assert success(client.ack_batch([ack_of(m) for m in one], "one")) == [True] * 5 and by_lease(client) == before + 10


def test_delivered_by_the_push(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    before, handed = by_lease(client), client.metric("queend_worker_handed_over_total")
    with waiting(daemon, client, queue, batch=10) as (popper,):
        client.push(queue, *range(5), partition="p")
        messages = popper.receive().json["messages"]
    assert client.metric("queend_worker_handed_over_total") == handed + 5
    assert success(client.ack_batch([ack_of(m) for m in messages])) == [True] * 5 and by_lease(client) == before + 5
    client.push(queue, "next", partition="p")
    assert data(client.pop(queue)) == ["next"]


@pytest.mark.parametrize("wait", [False, True], ids=["taken", "delivered by the push"])
def test_a_part_of_what_came_as_one(daemon: Daemon, client: Client, queue: str, wait: bool) -> None:
    """Frames as a client sent them, delivered in two leases."""
    settle(client, queue, "p")
    before = by_lease(client)
    body = form_b(framed_group(queue, "p", list(range(6)))[0])
    if wait:
        with waiting(daemon, client, queue, batch=4) as (popper,):
            assert client.request("POST", "/api/v1/push", body, KIND).status == 201
            first = popper.receive().json["messages"]
    else:
        assert client.request("POST", "/api/v1/push", body, KIND).status == 201
        first = client.pop(queue, batch=4)
    assert data(first) == [0, 1, 2, 3] and success(client.ack_batch([ack_of(m) for m in first])) == [True] * 4
    rest = client.pop(queue, batch=4)
    assert data(rest) == [4, 5] and success(client.ack_batch([ack_of(m) for m in rest])) == [True] * 2
    assert by_lease(client) == before + 6


def test_by_the_place_that_the_claim_told(postgres: Postgres, start_daemon, queue: str) -> None:
    conninfo = postgres.database()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET log_min_duration_statement = 0")
    daemon, log = start_daemon(conninfo), postgres.cluster.log
    begin = log.stat().st_size

    def places() -> list[str]:
        """Of the acknowledgments by lease so far; NULL where there is none."""
        told = log.read_bytes()[begin:].decode()
        return re.findall(r"execute (?:ack_leased|turn):[^\n]*\n[^\n]* \$9 = (NULL|'[^']*')", told)

    with daemon.client() as client:
        settle(client, queue, "p")
        with waiting(daemon, client, queue, batch=10) as (popper,):
            client.push(queue, "by the push", partition="p")
            handed = popper.receive().json["messages"]
        assert success(client.ack_batch([ack_of(m) for m in handed])) == [True]
        settled = by_lease(client)
        messages = lease_of(client, queue, 1)
        assert success(client.ack_batch([ack_of(m) for m in messages])) == [True]
        messages = lease_of(client, queue, 2)
        for message in messages:      # the first one leaves the lease where it is
            assert success(client.ack_batch([ack_of(message)])) == [True]
        assert by_lease(client) == settled + 3
    # each is logged before it is answered; the first one settled
    assert [place if place == "NULL" else re.fullmatch(r"""'\{"\(\d+,\d+\)"\}'""", place) is not None
            for place in places()] == ["NULL", True, True, "NULL", "NULL"]


# -- what goes the whole way -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("order, released", [((4, 3, 2, 1, 0), [True] + [False] * 4),
                                             ((0, 2, 1, 3, 4), [False] * 4 + [True]), ((0, 0, 1, 2, 3), [False] * 5)],
                         ids=["backwards", "mixed up", "twice"])
def test_another_order(client: Client, queue: str, order: tuple, released: list) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    results = client.ack_batch([ack_of(messages[i]) for i in order])
    assert success(results) == [True] * 5 and [one["leaseReleased"] for one in results] == released
    assert by_lease(client) == before


def test_not_from_the_beginning(client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    assert success(client.ack_batch([ack_of(m) for m in messages[2:4]])) == [True] * 2
    assert client.ack(messages[0])["success"] is True
    assert client.ack(messages[4])["leaseReleased"] is False
    assert client.ack(messages[1])["leaseReleased"] is True and by_lease(client) == before
    assert client.pop(queue) == []


def test_one_that_failed(client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    results = client.ack_batch([ack_of(m, "failed" if i == 2 else "completed") for i, m in enumerate(messages)])
    assert success(results) == [True] * 5 and by_lease(client) == before
    again = client.pop(queue, batch=5)
    assert data(again) == [2, 3, 4]
    assert success(client.ack_batch([ack_of(m) for m in again])) == [True] * 3 and by_lease(client) == before + 3


def test_no_lease_another_lease_an_unknown_message(client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    wrong = [{**ack_of(m), "leaseId": str(uuid.uuid4())} for m in messages]
    assert {one["error"] for one in client.ack_batch(wrong)} == {"Invalid or expired lease"}
    results = client.ack_batch([ack_of(messages[0]), {**ack_of(messages[0]), "transactionId": "nobody"}])
    assert [one["error"] for one in results] == [None, "Message not found"] and by_lease(client) == before
    results = client.ack_batch([ack_of(m, lease=False) for m in messages])
    assert results[4]["leaseReleased"] is True and by_lease(client) == before


@pytest.mark.parametrize("what",
                         ["lease_until = 1", "lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000'",
                          "lease_id = gen_random_uuid()"],
                         ids=["expired", "given back", "taken by another"])
def test_a_lease_that_was_lost(daemon: Daemon, client: Client, queue: str, what: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    change(daemon, queue, what)
    assert {one["error"] for one in client.ack_batch([ack_of(m) for m in messages])} == {"Invalid or expired lease"}
    assert by_lease(client) == before


@pytest.mark.parametrize("to", [-1, 1], ids=["the same place", "further on"])
def test_a_cursor_that_was_set(daemon: Daemon, client: Client, queue: str, to: int) -> None:
    messages = lease_of(client, queue)
    change(daemon, queue, f"committed = {to}")
    results = client.ack_batch([ack_of(m) for m in messages])
    assert success(results) == [True] * 5 and results[4]["leaseReleased"] is True
    client.push(queue, "next", partition="p")
    assert data(client.pop(queue, "p")) == ["next"]


def test_what_fell_to_retention(daemon: Daemon, client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        part = "(SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s)"
        connection.execute(f"INSERT INTO queend.floors VALUES ({part}, 5)", (queue,))
        connection.execute(f"DELETE FROM queend.log WHERE partition_id = {part}", (queue,))
    results = client.ack_batch([ack_of(m) for m in messages])
    assert {(one["success"], one["error"]) for one in results} == {(True, None)}      # what is gone is done
    assert by_lease(client) == before


def test_an_extended_lease(client: Client, queue: str) -> None:
    messages = lease_of(client, queue)
    assert client.extend(messages[0]["leaseId"])["renewed"] == 1
    results = client.ack_batch([ack_of(m) for m in messages])
    assert success(results) == [True] * 5 and results[4]["leaseReleased"] is True


def test_a_queue_that_was_deleted(client: Client, queue: str) -> None:
    messages, before = lease_of(client, queue), by_lease(client)
    client.delete(queue)
    results = client.ack_batch([ack_of(m) for m in messages])
    assert {(one["success"], one["error"]) for one in results} == {(True, None)}      # what is gone is done
    assert by_lease(client) == before


def test_leases_of_another_daemon(daemon: Daemon, client: Client, start_daemon, queue: str) -> None:
    peer = start_daemon(daemon.conninfo)
    with peer.client() as other:
        messages = lease_of(client, queue)
        assert success(other.ack_batch([ack_of(m) for m in messages[:2]])) == [True] * 2 and by_lease(other) == 0
        before = by_lease(client)
        results = client.ack_batch([ack_of(m) for m in messages])         # what it remembers is out of date
        assert success(results) == [True] * 5 and results[4]["leaseReleased"] is True and by_lease(client) == before
        client.push(queue, "next", partition="p")
        assert data(other.pop(queue, "p")) == ["next"]


def test_what_came_meanwhile_is_delivered_at_once(client: Client, daemon: Daemon, start_daemon, queue: str) -> None:
    """Pushed elsewhere while the lease was held: the acknowledgment tells, no waiting pop is needed."""
    peer = start_daemon(daemon.conninfo)
    with peer.client() as other:
        client.push(queue, *range(3), partition="p")
        messages = other.pop(queue, batch=3, wait=True, timeout=100_000)
        client.push(queue, "more", partition="p")
        assert success(other.ack_batch([ack_of(m) for m in messages])) == [True] * 3 and by_lease(other) == 3
        assert data(other.pop(queue)) == ["more"]


def test_framed_pops(client: Client, queue: str) -> None:
    """They name a partition by its number."""
    client.push(queue, *range(3), partition="p")
    before = by_lease(client)
    messages = read_pop(client.get(pop_target(queue, batch=3, frames=True)).body)["messages"]
    results = client.ack_batch([ack_of(m) for m in messages])
    assert success(results) == [True] * 3 and results[2]["leaseReleased"] is True and by_lease(client) == before + 3
