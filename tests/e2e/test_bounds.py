"""Bounds that a daemon keeps whoever asks: pops that wait, bodies of routes of the control plane."""
from __future__ import annotations

import contextlib

import psycopg
import pytest
from support.client import data, pop_target
from support.http import Wire, request
from support.parked import first_served, waiting
from support.wait import until


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(QUEEND_MAX_PARKED=3)


@pytest.mark.parametrize("target", [
    lambda queue: pop_target(queue, wait="true", timeout=20000),
    lambda queue: pop_target(queue, "p", wait="true", timeout=20000),
    lambda queue: pop_target("unknown", wait="true", timeout=20000),
    lambda queue: "/api/v1/pop?namespace=nowhere&wait=true&timeout=20000"],
    ids=["queue", "partition", "unknown", "namespace"])
def test_pops_that_wait_have_a_bound(daemon, client, target, request):
    """One more is told when to come back; those that wait are served, and go on waiting after a wake in vain."""
    queue = request.node.name
    client.push(queue, 1, partition="p")
    assert data(client.pop(queue, "p", autoAck="true")) == [1]
    until(lambda: client.parked() == 0, "those of the test before have left")
    with waiting(daemon, client, queue, 3) as clients:
        for _ in range(2):
            answer = client.request("GET", target(queue))
            assert (answer.status, answer.headers["retry-after"],
                    answer.json) == (503, "1", {"error": "Too many pops are waiting; try again"})
        assert client.pop(queue) == []      # one that does not wait finds nothing, as ever
        client.push(queue, 2, partition="p")
        assert data(first_served(clients).receive().json["messages"]) == [2]
        with contextlib.closing(daemon.client()) as fourth:      # there is room for one again
            fourth.send("GET", target(queue))
            until(lambda: client.parked() == 3, "it waits")
            answer = client.request("GET", target(queue))
            assert answer.status == 503
    assert client.metric("queend_worker_not_parked_total") >= 3


def test_one_connection_may_not_park_all_pops(start_daemon):
    """All but an eighth are for connections that wait for one pop each."""
    daemon = start_daemon(QUEEND_MAX_PARKED=16)
    with daemon.client() as many, daemon.client() as client:
        client.push("q", 1)
        for _ in range(8):
            many.send("GET", pop_target("q", "none", wait="true", timeout=20000))
        until(lambda: client.metric("queend_worker_not_parked_total") == 6, "the others are refused")
        assert client.parked() == 2
        with contextlib.closing(daemon.client()) as other:
            other.send("GET", pop_target("q", "none", wait="true", timeout=20000))
            until(lambda: client.parked() == 3, "another's waits")


def test_one_address_leaves_pops_to_others(daemon, client):
    """At the bound, an address that has less than half of the pops may park more."""
    with waiting(daemon, client, "one_address", 3):
        assert client.request("GET", pop_target("one_address", wait="true", timeout=20000)).status == 503
        with Wire(daemon.address, source="127.0.0.2") as other:
            other.send(request("GET", pop_target("one_address", "p", wait="true", timeout=20000)))
            until(lambda: client.parked() == 4, "another's waits")
            client.push("one_address", 1, partition="p")
            assert other.receive().status == 200


def test_one_address_leaves_jobs_to_others(start_daemon):
    """At the bound of requests that wait for PostgreSQL, an address that has less than half of them is served."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_MAX_QUEUED_JOBS=4)
    with contextlib.ExitStack() as opened:
        client, *clients = (opened.enter_context(daemon.client()) for _ in range(5))
        other = opened.enter_context(Wire(daemon.address, source="127.0.0.2"))
        holder = opened.enter_context(psycopg.connect(daemon.conninfo))
        client.push("jobs", 1, partition="p")
        holder.execute("SELECT pg_advisory_xact_lock(1903519076, id & 63) FROM queend.partitions WHERE queue_id ="
                       " (SELECT id FROM queend.queues WHERE name = 'jobs')")
        items = b'{"items":[{"queue":"jobs","partition":"p","payload":2}]}'
        for one in clients:
            one.send("POST", "/api/v1/push", items)
        until(lambda: client.metric("queend_worker_jobs") == 4, "all wait")
        answer = client.request("GET", pop_target("nothing"))
        assert (answer.status, answer.headers["retry-after"], answer.json) == (
            503, "1", {"error": "Too many requests are waiting; try again"})
        other.send(request("GET", pop_target("nothing")))
        assert other.receive().status == 200
        holder.rollback()
        assert [one.receive().status for one in clients] == [201] * 4
        assert client.request("GET", pop_target("nothing")).status == 200


def test_routes_of_the_control_plane_take_less(daemon, client):
    large = {"queue": "q", "options": {}, "more": "x" * (1 << 20)}
    answer = client.request("POST", "/api/v1/configure", large)
    assert (answer.status, answer.json) == (413, {"error": "The request body is too large"})


def test_a_cycle_of_many_values_is_refused(daemon):
    for name, status in (("query_id", 400), ("state_ops", 400), ("nothing", 200)):
        with daemon.client() as client:
            answer = client.request("POST", "/streams/v1/cycle", b'{"query_id":"x","partition_id":"y","%s":[%s[]]}' % (
                name.encode(), b"[]," * 1_000_000))
            assert answer.status == status, answer.body
            assert client.request("GET", "/livez").status == 200
