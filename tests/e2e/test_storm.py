"""Many clients, and those that leave in the middle: what is acknowledged is delivered in order, and nothing is
leaked."""
from __future__ import annotations

import json
import random
import threading

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone, Wire, request
from support.wait import until


def test_eight_connections_push_to_one_partition(daemon: Daemon, client: Client, queue: str) -> None:
    """Their commits interleave; consumers read meanwhile. Nothing is skipped, nothing comes twice, offsets have no
    gap."""
    pushes = 150
    acknowledged: dict[str, tuple[int, int]] = {}
    delivered: list[dict] = []
    complete = threading.Event()
    turn = threading.Lock()

    def produce(number: int) -> None:
        chance = random.Random(number)
        with daemon.client() as own:
            for first in range(pushes):
                results = own.push(queue, *({"by": number, "n": first, "i": i} for i in range(chance.randint(1, 4))),
                                   partition="one")
                assert {one["status"] for one in results} == {"queued"}
                with turn:
                    acknowledged.update({one["message_id"]: (number, first) for one in results})

    def consume(number: int) -> None:
        chance = random.Random(100 + number)
        with daemon.client() as own:
            while not (complete.is_set() and len(delivered) >= len(acknowledged)):
                messages = own.pop(queue, batch=chance.randint(1, 60), wait=True, timeout=500)
                with turn:  # while we hold the lease nobody else can be here with later ones
                    delivered.extend(messages)
                assert all(one["success"] for one in own.ack_batch([ack_of(m) for m in messages]))

    with Crowd() as consumers:
        consumers.all(consume, range(3))
        with Crowd() as producers:
            producers.all(produce, range(8))
        complete.set()
    assert [m["offset"] for m in delivered] == list(range(len(acknowledged)))
    assert [m["id"] for m in delivered] == sorted(m["id"] for m in delivered)
    assert {m["id"] for m in delivered} == acknowledged.keys()
    for number in range(8):
        mine = [(m["data"]["n"], m["data"]["i"]) for m in delivered if m["data"]["by"] == number]
        assert mine == sorted(mine), "the order of each producer is kept"


def test_clients_that_leave_in_the_middle(start_daemon) -> None:
    """200 clients push, wait and vanish at random places; afterwards nothing of theirs is left."""
    daemon = start_daemon()
    queue, quiet = "left", "quiet"
    stored: set[str] = set()
    lock = threading.Lock()
    with daemon.client() as client:
        client.configure(queue, leaseTime=1)
        slots = until(lambda: client.metric("queend_worker_slots"), "connections to PostgreSQL")

    def misbehave(number: int) -> None:
        chance = random.Random(number)
        for round_ in range(12):
            body = json.dumps({"items": [{"queue": queue, "partition": str(chance.randrange(20)),
                                          "payload": f"{number}.{round_}"}]}).encode()
            whole = request("POST", "/api/v1/push", body)
            wire = Wire(daemon.address)
            kind = chance.randrange(8)
            if kind == 0:  # a whole push, and the answer
                wire.send(whole)
                assert wire.receive().status == 201
                with lock:
                    stored.add(f"{number}.{round_}")
            elif kind == 1:  # in the middle of head or body
                wire.send(whole[:chance.randrange(1, len(whole))])
            elif kind == 2:  # in the middle of a long poll that nobody will answer
                wire.send(request("GET", pop_target(quiet, wait=True, timeout=60000)))
            elif kind == 3:  # the same, with more behind it
                wire.send(request("GET", pop_target(quiet, "p", wait=True, timeout=60000, consumerGroup="g"))
                          + whole[:-1])
            elif kind == 4:  # an answer on its way that nobody reads; its lease ends by itself
                wire.send(request("GET", pop_target(queue, batch=5, partitions=3, consumerGroup="lost")))
            elif kind == 5:  # a push nobody waits for: stored or not
                wire.send(whole)
            elif kind == 6:  # in the middle of a chunk
                wire.send(request("POST", "/api/v1/push", headers={"Transfer-Encoding": "chunked"}) + b"1000\r\n{")
            else:  # half an ack and a pipeline of pops
                wire.send(request("GET", pop_target(quiet)) * 3 + request("POST", "/api/v1/ack", b"{}")[:-1])
            (wire.abort if chance.random() < 0.5 else wire.close)()

    with Crowd() as crowd:
        crowd.all(misbehave, range(200))
    with daemon.client() as client:
        for name, left in (("connections", 1), ("parked", 0), ("jobs", 0), ("requests", 1)):
            until(lambda name=name, left=left: client.metric(f"queend_worker_{name}") <= left,
                  f"{name} go down to {left}")
        assert client.metric("queend_worker_slots") == slots
        # No pop that was left took a lease: what is pushed now is delivered at once, on the first attempt.
        client.push_items([{"queue": quiet, "partition": str(n), "payload": n} for n in range(50)])
        client.push(quiet, "p", partition="p")
        messages = client.pop(quiet, batch=100, partitions=100)
        assert len(messages) == 51 and {m["deliveryAttempt"] for m in messages} == {1}
        assert data(client.pop(quiet, "p", consumerGroup="g")) == ["p"]
        # Everything acknowledged is there, for every group, the one with the lost answers included.
        for group in ("fresh", "lost"):
            seen: list[str] = []
            while not stored <= set(seen):
                seen += data(until(lambda group=group: client.pop(queue, batch=1000, partitions=20, consumerGroup=group,
                                                                  autoAck=True), "more messages"))
            assert len(seen) == len(set(seen))
    daemon.stop()


def test_a_bounded_queue_refuses_and_recovers(start_daemon) -> None:
    """With the log locked no push can finish: beyond the bound they are refused at once, the others wait and
    succeed."""
    # The page of metrics waits ten seconds for the database; the pushes wait longer.
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_MAX_QUEUED_JOBS=50, QUEEND_PATIENCE_MS=60_000)
    push = request("POST", "/api/v1/push", json.dumps({"items": [{"queue": "bounded", "payload": 1}]}).encode())
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as connection:
        client.push("bounded", 0)
        connection.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
        wires = [Wire(daemon.address) for _ in range(150)]
        for wire in wires:
            wire.send(push)
        until(lambda: client.metric("queend_worker_refused_total"), "pushes are refused")
        assert client.get("/livez").status == 200, "the probes answer under pressure"
        connection.rollback()
        answers = [wire.receive() for wire in wires]
        assert {one.status for one in answers} == {201, 503}
        over = [one for one in answers if one.status == 503]
        assert len(over) == client.metric("queend_worker_refused_total")
        assert all(int(one.headers["retry-after"]) >= 1 and one.json["error"] for one in over)
        assert len(client.pop("bounded", batch=1000)) == 1 + sum(one.status == 201 for one in answers)
        client.push("bounded", "accepted again")
        for wire in wires:
            wire.close()
    daemon.stop()


@pytest.mark.parametrize("bodies", [1, 40])
def test_slow_senders_hold_nothing_up(daemon: Daemon, client: Client, queue: str, bodies: int) -> None:
    """Bodies that arrive byte by byte stand beside quick requests of the same workers."""
    body = json.dumps({"items": [{"queue": queue, "payload": "slow"}]}).encode()
    whole = request("POST", "/api/v1/push", body)
    wires = [Wire(daemon.address) for _ in range(bodies)]
    for position in range(len(whole)):
        for wire in wires:
            wire.send(whole[position:position + 1])
        if position % 50 == 0:
            client.push(queue, "quick")
    assert [wire.receive().status for wire in wires] == [201] * bodies
    for wire in wires:
        wire.close()
    assert data(client.pop(queue, batch=1000)).count("slow") == bodies


def test_a_reader_that_does_not_read(daemon: Daemon, client: Client, queue: str) -> None:
    """Answers that nobody takes are bounded; everybody else is served."""
    client.push(queue, "x" * 500_000)
    wire = Wire(daemon.address)
    target = pop_target(queue, consumerGroup="g", autoAck=True)
    wire.send(b"".join(request("GET", target.replace("=g", f"=g{n}")) for n in range(60)))
    for _ in range(20):
        assert client.get("/livez").status == 200
    sizes = [len(wire.receive().body) for _ in range(60)]
    assert all(size > 500_000 for size in sizes)
    wire.send(request("GET", "/livez"))
    assert wire.receive().status == 200
    wire.close()


def test_a_connection_that_says_nothing_is_closed_at_shutdown(start_daemon) -> None:
    daemon = start_daemon()
    silent = Wire(daemon.address)
    half = Wire(daemon.address)
    half.send(b"POST /api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123")
    daemon.terminate()
    for wire in (silent, half):
        try:
            assert wire.ended() or wire.receive().status == 408
        except Gone:
            pass
        wire.close()
    daemon.ended()
