"""A token is looked at before a large body is read."""
from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.callers import Caller
from support.http import Wire
from support.postgres import stand
from support.tokens import SECRET, bearer, token, writer
from support.wait import until

BODY = json.dumps({"items": [{"queue": "early", "payload": "x" * 200_000}]}).encode()
LENGTH = f"Content-Length: {len(BODY)}\r\n".encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def daemon(start_daemon):
    return start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)


def head(size: bytes, text: str | None, path: bytes = b"/api/v1/push", more: bytes = b"") -> bytes:
    authorization = b"" if text is None else f"Authorization: Bearer {text}\r\n".encode()
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + authorization + size + more + b"\r\n"


def chunks() -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part)
                    for part in (BODY[i:i + 50_000] for i in range(0, len(BODY), 50_000))) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [LENGTH, CHUNKED], ids=["length", "chunked"])
@pytest.mark.parametrize("path", [b"/api/v1/push", b"/api/v1/configure"])
@pytest.mark.parametrize("text, status, error", [
    (None, 401, "Authentication required"), ("", 401, "Empty token"),
    ("x", 401, "Token decode error: no JSON Web Token"),
    (token(key="z" * 40, role="admin"), 401, "Token verification failed: Invalid token signature"),
    (token(exp=-60, role="admin"), 401, "Token verification failed: Token has expired")])
def test_it_is_refused_without_its_body(daemon, size, path, text, status, error) -> None:
    with Wire(daemon.address) as wire:
        wire.send(head(size, text, path))
        answer = wire.receive()
        assert (answer.status, answer.json["error"], answer.headers["connection"]) == (status, error, "close")
    with Wire(daemon.address) as wire:      # what was sent all the same does no harm
        wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" + head(size, text, path) + b"x" * 100_000)
        assert [wire.receive().status for _ in range(2)] == [200, status]
        assert wire.ended()


def test_a_token_that_may_nothing(daemon) -> None:
    for _ in range(2):      # not known yet, and known
        with Wire(daemon.address) as wire:
            wire.send(head(LENGTH, token(sub="nobody")))
            wire.send(BODY)
            assert wire.receive().status == 403


@pytest.mark.parametrize("size, body", [(LENGTH, BODY), (CHUNKED, chunks())], ids=["length", "chunked"])
def test_a_good_token_is_let_in_whatever_the_order_of_the_bytes(daemon, size, body) -> None:
    done = 0
    with Wire(daemon.address) as wire:
        for first in (0, 1, 100_000, len(body)):
            for text in (writer(f"one-{first}-{len(size)}"),) * 2:      # not known yet, and known
                wire.send(head(size, text) + body[:first])
                wire.send(body[first:] + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert [wire.receive().status for _ in range(2)] == [201, 200]
                done += 1
        text = writer(f"many-{len(size)}")
        wire.send((head(size, text) + body) * 3)
        assert [wire.receive().status for _ in range(3)] == [201] * 3
    with Caller(daemon, writer()) as caller:
        assert len(caller.pop("early", batch=100, autoAck=True)) == done + 3


def test_it_is_asked_to_go_on_when_the_token_is_good(daemon) -> None:
    with Wire(daemon.address) as wire:
        wire.send(head(LENGTH, writer("polite"), more=b"Expect: 100-continue\r\n"))
        assert wire.receive().status == 100
        wire.send(BODY)
        assert wire.receive().status == 201
        wire.send(head(LENGTH, "bad", more=b"Expect: 100-continue\r\n"))
        assert wire.receive().status == 401


def test_a_client_that_leaves_meanwhile(daemon) -> None:
    for number in range(20):
        wire = Wire(daemon.address)
        wire.send(head(LENGTH, writer(f"gone-{number}")) + BODY[:number * 1000])
        wire.abort() if number % 2 else wire.close()
    with Caller(daemon, writer()) as caller:
        caller.push("early-after", 1)


def test_an_open_path_is_not_asked(start_daemon) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_SKIP_PATHS="/api/v1/push")
    with daemon.client() as client:
        assert client.request("POST", "/api/v1/push", BODY).status == 201
        assert client.request("POST", "/api/v1/push", BODY, bearer("whatever")).status == 201


@pytest.mark.parametrize("behind", [b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10, None],
                         ids=["more follows", "half closed"])
def test_a_body_that_finds_no_room_while_its_token_is_verified(start_daemon, behind) -> None:
    """Its answer is 503. What follows of the body is not read as requests."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, NUM_WORKERS=1, QUEEND_MAX_BODY_BYTES=1 << 20,
                          QUEEND_MAX_ARRIVING_BYTES=1 << 20)
    with Caller(daemon, writer()) as caller, Wire(daemon.address) as first, Wire(daemon.address) as wire:
        caller.push("early", 1)      # the token is known
        first.send(head(b"Content-Length: 1048576\r\n", writer()) + b"x")
        until(lambda: caller.metric("queend_clients_arriving") == 1 << 20, "the budget is full")
        stand(daemon.pid)      # all is read in one turn
        wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.send(head(LENGTH, writer("verified meanwhile")) + b"x" * 20_000)
        if behind is None:
            wire.socket.shutdown(socket.SHUT_WR)
        os.kill(daemon.pid, signal.SIGCONT)
        caller.token = writer("verified after it")
        caller.push("early", 2)
        if behind is not None:
            wire.send(behind)
        assert wire.receive().status == 200
        answer = wire.receive()
        assert (answer.status, answer.json) == (503, {"error": "Too much is being received; try again"})
        assert wire.ended()


def test_a_refusal_of_a_token_arrives_however_much_of_its_body_is_sent(start_daemon) -> None:
    """Several clients that send what nobody reads take turns."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, NUM_WORKERS=1)
    size = 31 << 17

    def told(number: int) -> int:
        with Wire(daemon.address) as wire:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 << 10)      # what is sent, is read
            wire.send(head(b"Content-Length: %d\r\n" % size, f"bad {number}"))
            wire.send(b"x" * size)
            return wire.receive().status

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(told, range(8))) == [401] * 8
