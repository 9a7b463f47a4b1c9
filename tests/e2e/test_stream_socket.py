"""Streams of messages over a WebSocket: what flows, what its client says, and nonsense."""
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable

import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.http import Gone, Wire, request
from support.socket_feed import BINARY, CLOSE, PING, PONG, TEXT, SocketFeed, frame, handshake
from support.wait import until


def streams(client: Client) -> float:
    return client.metric("queend_worker_streams")


@pytest.fixture
def socket(daemon: Daemon, queue: str):
    """Opens streams of the test's queue, and closes them."""
    opened = []

    def open_(*where: str, **query: object) -> SocketFeed:
        opened.append(SocketFeed(daemon.address, *(where or (queue,)), **query))
        return opened[-1]
    yield open_
    for one in opened:
        one.wire.close()


# -- messages and acknowledgments --------------------------------------------------------------------------------------

def test_messages_and_acknowledgments(client: Client, queue: str, socket) -> None:
    client.push(queue, *range(3))
    stream = socket()
    for wanted in range(3):
        message = stream.message()
        assert message["data"] == wanted
        assert stream.ack(message)["success"]
    client.push(queue, "later", partition="p")
    message = stream.message()
    assert stream.ack(message)["leaseReleased"]
    assert client.pop(queue, batch=9, partitions=9) == []


@pytest.mark.parametrize("size", [0, 100, 200, 65_000, 66_000, 3_000_000])
def test_sizes(client: Client, queue: str, socket, size: int) -> None:
    stream = socket(autoAck=True)
    client.push(queue, "x" * size, "after", "after that")
    assert data(stream.messages(3)) == ["x" * size, "after", "after that"]


def test_order_and_credit(client: Client, queue: str, socket) -> None:
    stream = socket(credit=5, partitions=3, consumerGroup="g", subscriptionMode="all")
    for n in range(100):
        client.push(queue, n, partition=f"p{n % 3}")
    got: dict[str, list[int]] = {}
    for _ in range(100):
        message = stream.message()
        got.setdefault(message["partition"], []).append(message["data"])
        assert stream.ack(message, consumerGroup="g")["success"]
    assert got == {f"p{p}": list(range(p, 100, 3)) for p in range(3)}


def test_a_batch_of_acknowledgments(client: Client, queue: str, socket) -> None:
    client.push(queue, *range(10))
    stream = socket()
    items = [ack_of(message) for message in stream.messages(10)]
    answer = stream.ask({"ref": {"n": [1]}, "ack": {"acknowledgments": items}})
    assert answer["ref"] == {"n": [1]} and answer["status"] == 200
    assert [one["success"] for one in answer["ack"]] == [True] * 10


def test_what_failed_comes_again(client: Client, queue: str, socket) -> None:
    client.push(queue, "again")
    stream = socket(credit=1)
    assert stream.ack(stream.message(), "failed", error="not today")["success"]
    message = stream.message()
    assert message["data"] == "again"
    stream.ack(message)


def test_an_extended_lease_counts_for_longer(client: Client, queue: str, socket) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
    stream = socket(credit=1, leaseSeconds=5, heartbeat=1)
    message = stream.message()
    answer = stream.ask({"extend": {"leaseId": message["leaseId"], "seconds": 600}, "ref": "x"})
    assert answer["extend"]["success"] and answer["ref"] == "x"
    pings = 0
    while pings < 6:          # longer than the lease was
        op, payload = stream.frame()
        assert op == PING, payload
        stream.wire.send(frame(PONG, payload))
        pings += 1
    assert stream.ack(message)["success"]
    assert stream.message()["data"] != message["data"]


def test_credit(client: Client, queue: str, socket) -> None:
    client.push(queue, *range(10))
    stream = socket(autoAck=True, credit=2)
    assert data(stream.messages(2)) == [0, 1]
    assert stream.ask({"credit": 3}) == {"credit": 3, "status": 200}
    assert data(stream.messages(3)) == [2, 3, 4]
    assert data(client.pop(queue, batch=99, autoAck=True)) == [5, 6, 7, 8, 9]


def test_without_credit_auto_ack_knows_no_bound(client: Client, queue: str, socket) -> None:
    client.push(queue, *range(500))
    assert data(socket(autoAck=True).messages(500)) == list(range(500))


def test_leases_end_with_it(client: Client, queue: str, socket) -> None:
    client.push(queue, "one", "two")
    stream = socket(credit=1)
    first = stream.message()
    stream.wire.close()
    again = until(lambda: client.pop(queue), "the lease is given back")
    assert again[0]["data"] == "one" and not client.ack(first)["success"]


def test_or_outlive_it(client: Client, queue: str, socket) -> None:
    client.push(queue, "one")
    open_ = streams(client)
    stream = socket(release=False)
    message = stream.message()
    stream.wire.abort()
    until(lambda: streams(client) == open_, "it is noticed")
    assert client.pop(queue) == [] and client.ack(message)["success"]


def test_many_acknowledgments_at_once(client: Client, queue: str, socket) -> None:
    """More than are read before some are answered."""
    client.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(300)])
    stream = socket(credit=300, partitions=50)
    messages = stream.messages(300)
    for n, message in enumerate(messages):
        stream.say({"ack": ack_of(message), "ref": n})
    answers = [stream.answer() for _ in messages]
    assert sorted(one["ref"] for one in answers) == list(range(300))
    assert all(one["ack"][0]["success"] for one in answers)


def test_an_acknowledgment_whose_client_left_is_done(client: Client, queue: str, socket) -> None:
    client.push(queue, 1)
    stream = socket(release=False)
    stream.say({"ack": ack_of(stream.message())})
    stream.wire.close()
    until(lambda: client.show(queue).json["totals"]["completed"] == 1, "it is done")


def test_reconnecting_a_hundred_times(client: Client, queue: str, daemon: Daemon) -> None:
    sent, done = 0, []
    for turn in range(100):
        with SocketFeed(daemon.address, queue, credit=4) as stream:
            client.push(queue, *range(sent, sent + 3), partition=f"p{turn % 3}")
            sent += 3
            for _ in range(1 + turn % 3):
                message = stream.message()
                assert stream.ack(message)["success"]
                done.append(message["data"])
            if turn % 2:
                stream.wire.abort()
    with SocketFeed(daemon.address, queue) as stream:
        while len(done) < sent:
            message = stream.message()
            assert stream.ack(message)["success"]
            done.append(message["data"])
    assert sorted(done) == list(range(sent)), "each once"


# -- the protocol ------------------------------------------------------------------------------------------------------

def test_pings_are_answered(socket) -> None:
    stream = socket()
    stream.wire.send(frame(PING, b"x" * 125) + frame(PONG, b"unasked") + frame(PING))
    assert stream.frame() == (PONG, b"x" * 125)
    assert stream.frame() == (PONG, b"")


def test_a_message_in_parts(socket) -> None:
    stream = socket()
    text = b'{"credit": 1, "ref": "' + "é".encode() * 60 + b'"}'
    parts = [text[i:i + 7] for i in range(0, len(text), 7)]
    for n, part in enumerate(parts):
        stream.wire.send(frame(TEXT if n == 0 else 0, part, last=n + 1 == len(parts)) + frame(PING, b"p"))
    frames = [stream.frame() for _ in range(len(parts) + 1)]
    (answer,) = [json.loads(payload) for op, payload in frames if op == TEXT and b"ref" in payload]
    assert answer["ref"] == "é" * 60 and frames.count((PONG, b"p")) == len(parts)


@pytest.mark.parametrize("piece", [1, 3, 4096])
def test_bytes_that_come_in_pieces(socket, piece: int) -> None:
    stream = socket()
    text = frame(TEXT, b'{"credit":1,"ref":"%s"}' % (b"x" * 200)) * (1 if piece == 1 else 20)
    for at in range(0, len(text), piece):
        stream.wire.send(text[at:at + piece])
    for _ in range(1 if piece == 1 else 20):
        assert stream.answer()["ref"] == "x" * 200


@pytest.mark.parametrize("sent, code", [
    (frame(TEXT, b"{}", masked=False), 1002),
    (frame(TEXT, b"{}", reserved=0x40), 1002),
    (frame(3, b"{}"), 1002),
    (frame(11), 1002),
    (frame(0, b"{}"), 1002),
    (frame(TEXT, b"{", last=False) + frame(TEXT, b"}"), 1002),
    (frame(PING, b"", last=False), 1002),
    (frame(PING, b"x" * 126), 1002),
    (frame(TEXT, b"{}", wide=2), 1002),
    (frame(TEXT, b"{}" + b" " * 200, wide=8), 1002),
    (frame(BINARY, b"{}"), 1003),
    (frame(TEXT, b'{"ref":"\xff"}'), 1007),
    (frame(TEXT, b"\xc3", last=False) + frame(0, b"("), 1007),
    (bytes([0x81, 0xff]) + (1 << 40).to_bytes(8) + b"mask", 1009),
    (frame(TEXT, b" " * (256 * 1024 + 1)), 1009),
    ((frame(TEXT, b" " * 100_000, last=False) + frame(0, b" " * 100_000, last=False)
      + frame(0, b" " * 100_000, last=False)), 1009),
    (frame(CLOSE, b"\x03"), 1002),
    (frame(CLOSE, (999).to_bytes(2)), 1002),
    (frame(CLOSE, (1005).to_bytes(2)), 1002),
    (frame(CLOSE, (1000).to_bytes(2) + b"\xff"), 1007),
    (frame(CLOSE), 1000),
    (frame(CLOSE, (1000).to_bytes(2) + b"done"), 1000),
    (frame(CLOSE, (4711).to_bytes(2)), 4711),
], ids=["unmasked", "reserved bit", "unknown", "unknown control", "goes on with nothing", "begins again",
        "ping in parts", "long ping", "length too wide", "length much too wide", "binary", "no UTF-8",
        "no UTF-8 across parts", "2^40", "large", "large in parts", "close of one byte", "close 999", "close 1005",
        "close without UTF-8", "close", "close done", "close 4711"])
def test_frames(client: Client, socket, sent: bytes, code: int) -> None:
    stream = socket()
    try:
        stream.wire.send(sent + frame(TEXT, b"{}"))
    except ConnectionError:
        pass                  # it is closed already
    assert stream.closed()[0] == code
    assert client.get("/livez").status == 200


@pytest.mark.parametrize("said, text", [
    (b"", "object"), (b"[]", "object"), (b"{}", "object"), (b'{"ack":1}', "ack"), (b'{"ack":{}', "JSON"),
    (b'{"ack":{},"extend":{}}', "one of"), (b'{"other":1}', "one of"), (b'{"credit":0}', "credit"),
    (b'{"credit":10001}', "credit"), (b'{"credit":"1"}', "credit"), (b'{"extend":{}}', "leaseId"),
    (b'{"extend":{"leaseId":"../../../../../../../../../../../x"}}', "leaseId"), (b'{"ack":{}}', "transactionId"),
    (b'{"ack":{"acknowledgments":[{}]}}', "transactionId"), (b'{"ref":"%s"}' % (b"x" * 300), "256"),
    (b'{"credit":1}x', "JSON"), (b'{"extend":{"leaseId":"%s","seconds":-1}}' % (b"0" * 36), "seconds"),
], ids=range(17))
def test_what_is_no_request(socket, said: bytes, text: str) -> None:
    stream = socket()
    answer = stream.ask(said)
    (error,) = [value["error"] for value in answer.values() if isinstance(value, dict)]
    assert answer["status"] == 400 and text.lower() in error.lower()
    assert stream.ask({"credit": 1})["status"] == 200, "it goes on"


def test_noise(client: Client, socket) -> None:
    for _ in range(50):
        stream = socket()
        try:
            stream.wire.send(os.urandom(3000))
            while True:
                stream.wire._more()
        except (Gone, ConnectionError):
            pass
    assert client.get("/livez").status == 200


@pytest.mark.parametrize("headers, status", [
    ({"Sec-WebSocket-Version": "8"}, 426), ({"Sec-WebSocket-Version": None}, 426), ({"Sec-WebSocket-Key": None}, 400),
    ({"Sec-WebSocket-Key": "short"}, 400), ({"Sec-WebSocket-Key": "?" * 22 + "=="}, 400), ({"Connection": None}, 400),
    ({"Connection": "close"}, 400), ({"Origin": "https://evil.example"}, 403)], ids=range(8))
def test_handshakes(daemon: Daemon, queue: str, headers: dict, status: int) -> None:
    with Wire(daemon.address) as wire:
        wire.send(handshake(queue, headers=headers)[0])
        answer = wire.receive()
        assert answer.status == status and answer.json["error"]
        assert status != 426 or answer.headers["sec-websocket-version"] == "13"


def test_a_client_that_does_not_answer_pings_is_closed(client: Client, socket) -> None:
    open_ = streams(client)
    stream = socket(heartbeat=1)
    until(lambda: streams(client) == open_ + 1, "it is there")
    with pytest.raises(Gone):
        while True:
            assert stream.frame()[0] == PING
    until(lambda: streams(client) == open_, "it is gone")


def test_half_a_frame(client: Client, socket) -> None:
    stream = socket(heartbeat=1)
    stream.wire.send(frame(TEXT, b"{}")[:3])
    with pytest.raises(Gone):
        while True:
            stream.frame()


def test_messages_in_parts_have_a_budget(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """What is beyond it is closed; whoever leaves, or ends its message, gives back what it had."""
    daemon = start_daemon(QUEEND_MAX_BODY_BYTES=1 << 20, QUEEND_MAX_ARRIVING_BYTES=1 << 20)
    part = frame(TEXT, b'{"credit":1,' + b" " * 50_000, last=False)
    with contextlib.ExitStack() as opened:
        streams_ = [opened.enter_context(SocketFeed(daemon.address, queue)) for _ in range(5)]
        for stream in streams_[:4]:
            stream.wire.send(part + frame(PING, b"there"))
            assert stream.frame() == (PONG, b"there")
        streams_[4].wire.send(part)
        assert streams_[4].closed()[0] == 1013
        with SocketFeed(daemon.address, queue, source="127.0.0.2") as other:     # of another address
            other.wire.send(part + frame(PING, b"there"))
            assert other.frame() == (PONG, b"there")
        streams_[0].wire.send(frame(0, b'"ref":1}'))
        assert streams_[0].answer()["ref"] == 1
        streams_[1].wire.abort()
        client = opened.enter_context(daemon.client())
        until(lambda: streams(client) == 3, "what two had is given back")
        for _ in range(2):
            stream = opened.enter_context(SocketFeed(daemon.address, queue))
            stream.wire.send(part + frame(PING, b"there"))
            assert stream.frame() == (PONG, b"there")


def test_memory_of_messages_in_parts_is_given_back(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """Free memory goes back to the system also when no other request has taken much."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client:
        client.push(queue, 1)
        with contextlib.ExitStack() as opened:
            for _ in range(80):
                stream = opened.enter_context(SocketFeed(daemon.address, queue, "none"))
                stream.wire.send(frame(TEXT, b" " * 200_000, last=False) + frame(PING, b"there"))
                assert stream.frame() == (PONG, b"there")
        until(lambda: client.metric("queend_worker_trimmed_total") == 1, "free memory goes back to the system")


def long_poll(queue: str) -> bytes:
    """A pop that waits for two seconds. The queue exists and is empty."""
    return request("GET", pop_target(queue, wait=True, timeout=2000))


def test_frames_wait_for_the_begin_of_their_stream(client: Client, daemon: Daemon, queue: str) -> None:
    """Their answers are written behind the head of the stream, which is written behind earlier answers."""
    client.push(queue, 1)
    message = client.pop(queue)[0]
    frames = frame(PING, b"p") + b"".join(frame(TEXT, text) for text in (
        json.dumps({"ack": ack_of(message), "ref": 6}).encode(), b'{"credit":1,"ref":7}'))
    with SocketFeed(daemon.address, queue, first=long_poll(queue), behind=frames) as stream:
        assert stream.frame() == (PONG, b"p")
        answers = [stream.answer(), stream.answer()]
        assert sorted(one["ref"] for one in answers) == [6, 7]
    with SocketFeed(daemon.address, queue, first=long_poll(queue), behind=frame(CLOSE)) as stream:
        assert stream.closed()[0] == 1000


@pytest.mark.parametrize("waits", [False, True], ids=["begun", "not_begun"])
def test_a_frame_that_finds_no_room(start_daemon: Callable[..., Daemon], queue: str, waits: bool) -> None:
    """The stream is closed with 1013. What follows is not read. Its connection is open before the budget is full: a
    handshake of TLS needs room in the budget, too, and the address of the test has none left."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_MAX_BODY_BYTES=1 << 20, QUEEND_MAX_ARRIVING_BYTES=1 << 20)
    with daemon.client() as client, Wire(daemon.address) as body, Wire(daemon.address) as wire:
        client.push(queue, 1)
        client.pop(queue)
        body.send(b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\nx")
        until(lambda: client.metric("queend_clients_arriving") == 1 << 20, "the budget is full")
        part = frame(TEXT, b" " * 50_000)[:20_000]
        sent = {"first": long_poll(queue), "behind": part} if waits else {}
        with SocketFeed(daemon.address, queue, wire=wire, **sent) as stream:
            if not waits:
                wire.send(part)
            assert stream.closed() == (1013, "Too much is being received; try again")


def test_stop(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client, SocketFeed(daemon.address, queue) as stream:
        client.push(queue, 1)
        assert stream.message()["data"] == 1
        daemon.terminate()
        assert stream.closed() == (1001, "shutdown")
    daemon.ended()


def test_a_large_acknowledgment_in_one_frame(client: Client, queue: str, socket) -> None:
    client.push(queue, *range(1000))
    stream = socket(credit=1000)
    items = [ack_of(message) for message in stream.messages(1000)]
    answer = stream.ask({"ack": {"acknowledgments": items}})
    assert answer["status"] == 200 and all(one["success"] for one in answer["ack"])
