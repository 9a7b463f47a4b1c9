"""The nginx of docs/production.md in front of a daemon: TLS, large bodies, pops that wait."""
from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
import trustme
from support.daemon import ROOT
from support.ports import free_port
from support.wait import PATIENCE, until


@pytest.fixture
def proxied(daemon, tmp_path: Path):
    """Its port, and what trusts it."""
    page = (ROOT / "docs/production.md").read_text()
    (server,) = re.findall(r"^```nginx\n(.*?)^```", page, re.M | re.S)
    authority = trustme.CA()
    certificate = authority.issue_cert("queue.example", "localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key")
    port = free_port()
    for told, ours in (("listen 443", f"listen 127.0.0.1:{port}"),
                       ("/etc/ssl/queue.example.pem", str(tmp_path / "pem")),
                       ("/etc/ssl/queue.example.key", str(tmp_path / "key")),
                       ("127.0.0.1:6632", f"127.0.0.1:{daemon.port}")):
        assert told in server
        server = server.replace(told, ours)
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in (
        "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\ndaemon off;\nerror_log stderr;\nevents {{}}\n"
                                         f"http {{\naccess_log off;\n{folders}{server}}}\n")
    with subprocess.Popen(["/usr/sbin/nginx", "-p", tmp_path, "-c", tmp_path / "nginx.conf"],
                          stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: process.poll() is not None or socket.socket().connect_ex(("127.0.0.1", port)) == 0,
                  "nginx listens")
            assert process.poll() is None, process.stderr.read()
            trust = ssl.create_default_context()
            authority.configure_trust(trust)
            yield f"https://localhost:{port}", trust
        finally:
            process.terminate()


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
