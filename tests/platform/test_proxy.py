"""The nginx of docs/production.md in front of a daemon: TLS, large bodies, pops that wait."""
from __future__ import annotations

import http.client
import socket
import ssl
import threading
import urllib.request
from pathlib import Path

import pytest
from support.nginx import documented
from support.wait import PATIENCE, until


@pytest.fixture
def proxied(daemon, tmp_path: Path):
    """Its URL, and what trusts it."""
    with documented(daemon.port, tmp_path) as (url, authority):
        trust = ssl.create_default_context()
        authority.configure_trust(trust)
        yield url, trust


def test_push_and_a_pop_that_waits(proxied, client, queue) -> None:
    url, trust = proxied

    def ask(path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=trust, timeout=60) as answer:
            return answer.read()

    text = "x" * (4 << 20)
    pushed = ask("/api/v1/push", b'{"items":[{"queue":"%s","payload":"%s"}]}' % (queue.encode(), text.encode()))
    assert b'"status":"queued"' in pushed
    assert client.pop(queue, autoAck=True)[0]["data"] == text
    found: list[bytes] = []
    waiting = threading.Thread(target=lambda: found.append(ask(f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000")))
    waiting.start()
    until(lambda: b"\nqueend_worker_parked" in client.get("/metrics/prometheus").body and any(
        line.endswith(b" 1.0") for line in client.get("/metrics/prometheus").body.splitlines()
        if line.startswith(b"queend_worker_parked{")), "it waits")
    client.push(queue, "woken")
    waiting.join(PATIENCE)
    assert b'"woken"' in found[0]


def test_a_web_socket_opens(proxied, queue) -> None:
    url, trust = proxied
    port = int(url.rpartition(":")[2])
    with (socket.create_connection(("127.0.0.1", port), PATIENCE) as plain,
          trust.wrap_socket(plain, server_hostname="localhost") as wire):
        wire.sendall(f"GET /api/v1/stream/{queue} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: Upgrade\r\n"
                     "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
        assert wire.recv(1024).startswith(b"HTTP/1.1 101 ")


def test_its_own_pages_are_served_and_those_of_others_refused(proxied) -> None:
    """The daemon compares the page's origin with `Host`, port included: nginx has to pass on what the browser sent."""
    url, trust = proxied
    for origin, status in ((url, 200), ("https://elsewhere.example", 403)):
        connection = http.client.HTTPSConnection("localhost", int(url.rpartition(":")[2]), context=trust)
        connection.request("GET", "/api/v1/resources/queues", headers={"Origin": origin})
        assert connection.getresponse().status == status, origin
        connection.close()
