"""Streams of messages read by clients that others wrote: `websockets`, and `httpx-sse` on httpx."""
from __future__ import annotations

import json
from contextlib import suppress

import httpx
import pytest
from httpx_sse import connect_sse
from support.client import Client, ack_of
from support.daemon import Daemon
from support.feed import stream_target
from support.tokens import SECRET, writer
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect


def at(daemon: Daemon, scheme: str, queue: str, **query: object) -> str:
    host, port = daemon.address
    return f"{scheme}://{host}:{port}{stream_target(queue, **query)}"


def test_websockets_reads_acknowledges_and_extends(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, *range(50), "é" * 70_000)
    with connect(at(daemon, "ws", queue, batch=10, credit=20), max_size=None, open_timeout=60) as socket:
        left = [*range(50), "é" * 70_000]
        answers = 0
        while left or answers < 52:
            said = json.loads(socket.recv(60))
            if "message" in said:
                message = said["message"]
                assert message["data"] == left.pop(0)
                if message["data"] == 7:
                    socket.send(json.dumps({"extend": {"leaseId": message["leaseId"], "seconds": 90}, "ref": 7}))
                socket.send(json.dumps({"ack": ack_of(message), "ref": "a"}))
            else:
                assert said["status"] == 200 and said["ref"] in (7, "a"), said
                answers += 1
        assert socket.ping().wait(60), "it answers a ping"
    assert client.pop(queue, batch=99) == []


def test_websockets_is_told_why_it_is_closed(start_daemon, queue: str) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0")
    with pytest.raises(InvalidStatus) as refused:
        connect(at(daemon, "ws", queue), open_timeout=60)
    assert refused.value.response.status_code == 401
    for life in (2, 8, 32):      # on a slow machine a short one is over before it comes
        with suppress(InvalidStatus):
            socket = connect(at(daemon, "ws", queue), subprotocols=["queend", f"bearer.{writer(exp=life)}"],
                             open_timeout=60)
            break
    with socket:
        assert socket.subprotocol == "queend"
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(60)
        assert closed.value.rcvd.code == 1008 and closed.value.rcvd.reason == "token expired"


def test_httpx_sse_reads_and_comes_back(client: Client, daemon: Daemon, queue: str) -> None:
    """With the id it saw last, as the standard has it. What it was given and did not acknowledge comes again."""
    client.push(queue, *range(4))
    seen, last = [], None
    for _ in range(2):
        with httpx.Client(timeout=60) as http, connect_sse(
                http, "GET", at(daemon, "http", queue, batch=2, credit=2, release=True),
                headers={"Last-Event-ID": last} if last else {}) as stream:
            assert stream.response.headers["content-type"] == "text/event-stream"
            for event in stream.iter_sse():
                assert event.event == "message" and event.retry in (None, 2000)
                if not event.data:      # the first line, which says when to come back
                    continue
                seen.append(event.json()["data"])
                last = event.id
                assert client.ack(event.json())["success"]
                if len(seen) % 2 == 0:
                    break
    assert seen == [0, 1, 2, 3] and last is not None and last.endswith(":3")
