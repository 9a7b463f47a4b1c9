"""Clients that leave: their end is noticed whatever they have in hand, and what was claimed for them goes to others. A
client that only shut its sending side gets the answers to what it sent."""
from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.parked import answer_of, claims_wait, settle, waiting
from support.http import Wire, request
from support.wait import until


PIPELINE = 64      # requests of one connection in hand: then it is not read


def poll(queue: str, **query: object) -> bytes:
    return request("GET", pop_target(queue, wait=True, timeout=110000, **query))


def push(queue: str, *payloads: object, partition: str = "Default") -> bytes:
    items = [{"queue": queue, "partition": partition, "payload": one} for one in payloads]
    return request("POST", "/api/v1/push", json.dumps({"items": items}).encode())


def parked(client: Client) -> float:
    return client.parked()


def leave(wire: Wire, how: str) -> None:
    if how == "reset":
        wire.abort()
    else:
        wire.close()


def heard(client: Client) -> None:
    """What the worker (there is one) had received before this is done with."""
    for _ in range(2):
        assert client.get("/livez").status == 200


@pytest.fixture(scope="module")
def lone(start_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon with one worker."""
    return start_daemon(NUM_WORKERS=1)


@pytest.fixture(scope="module")
def logged(start_daemon: Callable[..., Daemon]) -> Daemon:
    """One that delivers nothing from memory."""
    return start_daemon(NUM_WORKERS=1, QUEEND_CACHE_BYTES=0)


# -- the end is noticed ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("more", [0, 1, 40], ids=["as many as are read", "one more", "many more"])
def test_polls_of_a_client_that_left_are_withdrawn(daemon: Daemon, client: Client, queue: str,
                                                   how: str, more: int) -> None:
    client.push(queue, "first")
    assert data(client.pop(queue, autoAck=True)) == ["first"]
    before = parked(client)
    wire = Wire(daemon.address)
    wire.send(poll(queue, autoAck=True) * (PIPELINE + more))
    until(lambda: parked(client) == before + PIPELINE, "its polls wait")
    leave(wire, how)
    until(lambda: parked(client) == before, "they are withdrawn", 100)      # the polls would last 110 s
    client.push(queue, *range(10))
    assert data(client.pop(queue, batch=20, autoAck=True)) == list(range(10))


def test_their_descriptors_come_back(daemon: Daemon, client: Client, queue: str) -> None:
    before, accepted = client.metric("queend_worker_connections"), client.metric("queend_worker_accepted_total")
    for _ in range(100):
        with Wire(daemon.address) as wire:
            wire.send(poll(queue) * PIPELINE)
    until(lambda: client.metric("queend_worker_accepted_total") == accepted + 100, "all have come")
    until(lambda: client.metric("queend_worker_connections") <= before, "all are closed", 100)
    assert parked(client) == 0


def test_half_a_request_is_forgotten(daemon: Daemon, client: Client, queue: str) -> None:
    with waiting(daemon, client, queue) as (waiter,):
        before = parked(client)
        waiter.wire.send(b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        waiter.wire.socket.shutdown(socket.SHUT_WR)
        assert answer_of(waiter) == [] and waiter.wire.ended()
        until(lambda: parked(client) == before - 1, "its poll is over")


# -- a client that reads on --------------------------------------------------------------------------------------------

def test_who_shuts_its_sending_side_gets_its_answers(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    with Wire(daemon.address) as wire:
        wire.send(push(queue, 3) + request("GET", pop_target(queue, batch=10))
                  + request("GET", "/api/v1/resources/queues/" + queue) + poll(queue))
        wire.socket.shutdown(socket.SHUT_WR)
        pushed, popped, shown, polled = [wire.receive() for _ in range(4)]
        assert pushed.status == 201 and data(popped.json["messages"])[:2] == [1, 2] and shown.json["name"] == queue
        assert polled.status in (200, 204) and (not polled.body or polled.json["messages"] == [])
        assert wire.ended()


def test_more_than_are_read_at_once(daemon: Daemon, client: Client, queue: str) -> None:
    """What stands behind the limit is read after the end was seen, and done."""
    with Wire(daemon.address) as wire:
        before = parked(client)
        wire.send(poll(queue) * PIPELINE + b"".join(push(queue, n) for n in range(PIPELINE + 10))
                  + poll(queue, batch=200, autoAck=True))
        until(lambda: parked(client) == before + PIPELINE, "the polls wait")
        wire.socket.shutdown(socket.SHUT_WR)
        answers = [wire.receive() for _ in range(2 * PIPELINE + 11)]
        assert wire.ended()
        assert [one.status for one in answers[PIPELINE:-1]] == [201] * (PIPELINE + 10)
        taken = data(answers[-1].json["messages"])      # the last poll does not wait: it has what is there
    assert taken + data(client.pop(queue, batch=200, autoAck=True)) == list(range(PIPELINE + 10))


def test_as_http_1_0_has_it(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, 1)
    with Wire(daemon.address) as wire:
        wire.send(f"GET {pop_target(queue)} HTTP/1.0\r\n\r\n".encode())
        wire.socket.shutdown(socket.SHUT_WR)
        assert data(wire.receive().json["messages"]) == [1] and wire.ended()


# -- what was claimed for it -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("auto", [False, True], ids=["leased", "acknowledged at once"])
@pytest.mark.parametrize("kind", ["lone", "logged"], ids=["from memory", "from the log"])
def test_a_claim_on_its_way(request: pytest.FixtureRequest, queue: str, how: str, auto: bool, kind: str) -> None:
    daemon: Daemon = request.getfixturevalue(kind)
    with daemon.client() as client:
        settle(client, queue, "p")
        client.push(queue, 1, 2, 3, partition="p")
        wire = Wire(daemon.address)
        with claims_wait(daemon) as claimed:
            wire.send(poll(queue, batch=2, autoAck=auto))
            until(claimed, "the claim waits in the database")
            leave(wire, how)
            heard(client)
        assert data(client.pop(queue, batch=10, wait=True, timeout=100_000)) == [1, 2, 3]


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("kind", ["lone", "logged"], ids=["from memory", "from the log"])
@pytest.mark.parametrize("auto", [False, True], ids=["leased", "acknowledged at once"])
def test_an_answer_that_waits_for_the_one_before_it(request: pytest.FixtureRequest, queue: str, how: str,
                                                    auto: bool, kind: str) -> None:
    daemon: Daemon = request.getfixturevalue(kind)
    with daemon.client() as client:
        settle(client, queue, "p")
        client.push(queue, 1, 2, partition="p")
        before = parked(client)
        wire = Wire(daemon.address)
        wire.send(poll(queue + "-other") + poll(queue, batch=2, autoAck=auto))
        until(lambda: parked(client) == before + 1 and client.pop(queue) == [], "its answer is written, and waits")
        leave(wire, how)
        assert data(client.pop(queue, batch=10, wait=True, timeout=100_000)) == [1, 2]


@pytest.mark.parametrize("auto", [False, True], ids=["leased", "acknowledged at once"])
def test_delivered_by_the_push_behind_another_answer(lone: Daemon, queue: str, auto: bool) -> None:
    with lone.client() as client:
        settle(client, queue, "p")
        before = parked(client)
        wire = Wire(lone.address)
        wire.send(poll(queue + "-other") + poll(queue, batch=2, autoAck=auto))
        until(lambda: parked(client) == before + 2, "its polls wait")
        client.push(queue, 1, partition="p")
        assert parked(client) == before + 1 and client.pop(queue) == []
        wire.abort()
        assert data(client.pop(queue, batch=10, wait=True, timeout=100_000)) == [1]


def test_another_daemon_hears_of_what_was_taken_back(lone: Daemon, start_daemon: Callable[..., Daemon],
                                                     queue: str) -> None:
    with lone.client() as client, start_daemon(lone.conninfo).client() as other:
        settle(client, queue, "p")
        client.push(queue, 1, partition="p")
        wire = Wire(lone.address)
        wire.send(poll(queue + "-other") + poll(queue, autoAck=True))
        heard(client)
        until(lambda: parked(client) == 1 and client.pop(queue) == [], "it is taken")
        other.send("GET", pop_target(queue, wait=True, timeout=100_000))
        wire.abort()
        assert data(answer_of(other)) == [1]


def test_what_was_read_on_behind_it_stays(lone: Daemon, queue: str) -> None:
    """Taken back only where nobody went on: a message is never delivered behind those that follow it."""
    with lone.client() as client:
        settle(client, queue, "p")
        client.push(queue, 1, 2, partition="p")
        wire = Wire(lone.address)
        before = parked(client)
        wire.send(poll(queue + "-other") + poll(queue, batch=1, autoAck=True))
        until(lambda: parked(client) == before + 1 and data(client.pop(queue, autoAck=True)) == [2],
              "the next one is taken by another client")
        wire.abort()
        until(lambda: parked(client) == before, "it left")
        client.push(queue, 3, partition="p")
        assert data(client.pop(queue, batch=10, wait=True, timeout=100_000)) == [3]
