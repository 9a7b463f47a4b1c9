"""Large bodies come a little at a time and are read beside the loop: who asks for little meanwhile is served.

What was sent in a row stays in order.
"""
from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.http import Gone, Wire, request
from support.sanitizer import PRELOAD
from support.wait import PATIENCE, until

MIB = 1 << 20
SLICE, TURN = 256 << 10, MIB


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(NUM_WORKERS=1)


def most_in_a_turn(client: Client) -> float:
    return client.metric("queend_worker_turn_bytes")


def chunked(path: str, body: bytes, each: int) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    pieces = (body[at:at + each] for at in range(0, len(body), each))
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def side_by_side(daemon: Daemon, all_: list[bytes]) -> list[int]:
    """Each on a connection of its own; the statuses of the answers, 0: closed without one."""
    statuses = [0] * len(all_)

    def work(at: int) -> None:
        with Wire(daemon.address, 120) as wire:
            try:
                wire.send(all_[at])
            except OSError:
                pass                  # refused half-way: the answer tells
            try:
                statuses[at] = wire.receive().status
            except (OSError, Gone):
                pass
    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(all_))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def large(queue: str, size: int) -> bytes:
    return json.dumps({"items": [{"queue": queue, "partition": "p", "payload": "x" * size}]}).encode()


@pytest.mark.parametrize("kind", ["length", "chunked", "refused"])
def test_a_turn_reads_a_bounded_number_of_bytes(daemon: Daemon, queue: str, kind: str) -> None:
    """Of those that send much at once, whether it is taken or refused, each has a slice, and a turn has an end."""
    body = large(queue, 6 * MIB)
    one = {"length": request("POST", "/api/v1/push", body), "chunked": chunked("/api/v1/push", body, 100_000),
           "refused": request("POST", "/api/v1/configure", body)}[kind]
    statuses = side_by_side(daemon, [one] * 8)
    assert set(statuses) <= ({0, 413} if kind == "refused" else {201})
    with daemon.client() as client:
        # a turn that is not full reads one slice more, and the beginning of one from each of the eight with its head
        assert 0 < most_in_a_turn(client) <= TURN + 9 * SLICE


def test_small_requests_are_answered_while_a_large_body_is_read(daemon: Daemon, queue: str) -> None:
    """63 MiB of JSON are not read by the thread that serves."""
    body = b"[" + b"[]," * (21 * MIB - 1) + b"[]]"
    with daemon.client() as client, daemon.client() as other:
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                other.push(queue, 1)
        asks = threading.Thread(target=ask)
        asks.start()

        def answered() -> bool:
            assert client.post("/api/v1/push", body).status == 400
            return client.metric("queend_worker_answered_beside_total") > 0
        try:
            until(answered, "others were answered meanwhile")
        finally:
            over.set()
            asks.join()
        assert client.metric("queend_worker_read_beside_total") > 0


@pytest.mark.parametrize("kind", ["length", "chunked"])
def test_what_comes_behind_a_large_body_stays_behind_it(daemon: Daemon, queue: str, kind: str) -> None:
    body = large(queue, 3 * MIB)
    first = request("POST", "/api/v1/push", body) if kind == "length" else chunked("/api/v1/push", body, 300_000)
    with Wire(daemon.address) as wire, daemon.client() as client:
        wire.send(first + request("POST", "/api/v1/push", large(queue, 1)) + request("GET", "/livez", b""))
        assert [wire.receive().status for _ in range(3)] == [201, 201, 200]
        assert [len(one) for one in data(client.pop(queue, "p", batch=10, autoAck=True))] == [3 * MIB, 1]


def test_a_large_body_is_judged_as_a_small_one(daemon: Daemon, client: Client, queue: str) -> None:
    """Whoever reads it: the same answers."""
    filling = b" " * (2 * MIB)
    for target, body, status, error in (
            ("/api/v1/push", b'{"items":[{"queue":"q","payload":01}]}', 400, "Invalid JSON"),
            ("/api/v1/push", b"[]", 400, "items array is required"), ("/api/v1/ack", b'{"transactionId":1}', 400, None),
            ("/api/v1/ack/batch", b'{"acknowledgments":1}', 400, None),
            ("/api/v1/transaction", b'{"operations":1}', 400, None)):
        small, big = client.post(target, body), client.post(target, filling + body + filling)
        assert small.status == big.status == status
        texts = [answer.json["error"].partition(" at byte")[0] for answer in (small, big)]
        assert texts[0] == texts[1] and (error is None or error in texts[1])
    assert client.post(f"/api/v1/lease/{queue}/extend", filling + b"{}").status == 413


def test_its_client_may_leave_while_a_large_body_is_read(daemon: Daemon, queue: str) -> None:
    """What was whole is stored or not, nothing leaks (the daemon is asked when it stops), and others are served."""
    body = b'{"items":[{"queue":"%s","payload":[%s[]]}]}' % (queue.encode(), b"[]," * (5 * MIB))
    for target in ("/api/v1/push", "/api/v1/ack/batch", "/api/v1/transaction", "/streams/v1/cycle"):
        with Wire(daemon.address) as wire:
            wire.send(request("POST", target, body))
            wire.socket.shutdown(socket.SHUT_WR)
            wire.abort()
    with daemon.client() as client:
        until(lambda: client.metric("queend_worker_requests") <= 1, "nothing is in hand")
        client.push(queue, 1)


@pytest.mark.skipif(PRELOAD is not None, reason="a sanitizer keeps what is freed")
@pytest.mark.parametrize("kind", ["length", "chunked"])
def test_the_memory_of_large_bodies_is_given_back(daemon: Daemon, kind: str) -> None:
    body = b"[" + b" " * (16 * MIB) + b"]"
    one = request("POST", "/api/v1/push", body) if kind == "length" else chunked("/api/v1/push", body, 300_000)
    before = daemon.memory()
    with Wire(daemon.address) as wire:
        for _ in range(16):
            wire.send(one)
            assert wire.receive().status == 400
    until(lambda: daemon.memory() < before + 64 * MIB, "the pages of 256 MiB are gone")


@pytest.mark.skipif(PRELOAD is not None, reason="a sanitizer keeps what is freed")
@pytest.mark.parametrize(("kind", "pipelined"), [("random", 1), ("compressible", 4)])
def test_many_large_pops_take_turns(start_daemon: Callable[..., Daemon], queue: str, kind: str, pipelined: int) -> None:
    """Also the first ones after a start, when the daemon has seen no message of the queue yet. Their connections to the
    database, whose buffers have grown, are replaced."""
    first = start_daemon()
    with first.client() as client:
        for i in range(10):
            client.push(queue, os.urandom(MIB // 2).hex() if kind == "random" else "x" * MIB, partition=f"p{i}")
    first.stop()
    daemon = start_daemon(first.conninfo, NUM_WORKERS=2)
    before = daemon.memory()
    Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")      # VmHWM counts from now
    got = []

    def take(number: int) -> None:
        pops = [request("GET", f"/api/v1/pop/queue/{queue}?batch=10&partitions=10&consumerGroup=group-{number}-{i}")
                for i in range(pipelined)]
        with Wire(daemon.address, PATIENCE) as wire:
            wire.send(b"".join(pops))
            got.extend(sum(len(one["data"]) for one in wire.receive().json["messages"]) for _ in pops)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(64 // pipelined)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 64 and min(got) >= 7 * MIB
    assert daemon.memory("VmHWM") < before + 256 * MIB
    until(lambda: daemon.memory() < before + 64 * MIB, "it is given back")


def test_a_daemon_that_stops_answers_for_what_it_is_reading(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1)
    body = b'{"items":[{"queue":"%s","payload":[%s[]]}]}' % (queue.encode(), b"[]," * (15 * MIB))
    with Wire(daemon.address, 120) as wire:
        wire.send(request("POST", "/api/v1/push", body))
        with daemon.client() as client:
            until(lambda: client.metric("queend_worker_bytes_in_total") > len(body), "it has come")
        daemon.stop()
        assert wire.receive().status in (201, 400, 413)


@pytest.mark.parametrize("busy", [False, True])
def test_the_largest_message_is_delivered(daemon: Daemon, queue: str, busy: bool) -> None:
    """Its answer takes more memory than there is for answers that clients have not taken. busy: others pop as well."""
    over = threading.Event()

    def pop_small() -> None:
        with daemon.client() as other:
            while not over.is_set():
                other.push(f"{queue}-small", 1)
                other.pop(f"{queue}-small", autoAck=True)

    threads = [threading.Thread(target=pop_small) for _ in range(4 * busy)]
    text = "x" * (60 * MIB)
    with daemon.client() as client:
        client.push(queue, text)
        for thread in threads:
            thread.start()
        try:
            assert data(client.pop(queue)) == [text]
        finally:
            over.set()
            for thread in threads:
                thread.join()
