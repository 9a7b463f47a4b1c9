"""A running core without a daemon: connections, and a control plane that tells what it was asked."""
import http.client
import json
import select
import socket
import threading

import pytest

from queend._core import Core

from .wait import PATIENCE


class Edge:
    """A running core whose control plane echoes requests, on a thread. /hold waits for release(). pair: the certificate
    of its port."""

    def __init__(self, pair=None, **settings):
        self.core = Core({"host": "127.0.0.1", "port": 0, "workers": 2, **settings})
        if pair:
            self.core.secure(pair.cert.read_bytes(), pair.key.read_bytes())
        self.port = self.core.start()
        self.held, self.seen = [], []
        self.arrived = threading.Condition()
        self.ended = False
        self.wake, self.waker = socket.socketpair()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        while not self.ended:
            ready, _, _ = select.select([self.core.bridge_fileno(), self.wake], [], [])
            if self.core.bridge_fileno() not in ready:
                continue
            for request in self.core.bridge_take():
                with self.arrived:
                    self.seen.append(request)
                    if request[2].startswith(b"/hold"):
                        self.held.append(request)
                    self.arrived.notify_all()
                if not request[2].startswith(b"/hold"):
                    self.answer(request)

    def answer(self, request):
        token, method, path, query, headers, body, client = request
        if path.startswith(b"/big/"):
            return self.core.bridge_reply(token, 200, [], b"x" * int(path[5:]))
        told = {"method": method, "path": path.decode("latin-1"), "query": query.decode("latin-1"),
                "body": body.decode("latin-1"), "client": client,
                "headers": [(name.decode(), value.decode("latin-1")) for name, value in headers]}
        self.core.bridge_reply(token, 200, [(b"content-type", b"application/json")], json.dumps(told).encode())

    def wait(self, n, what="seen"):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(getattr(self, what)) >= n, PATIENCE)

    def release(self):
        with self.arrived:
            held, self.held = self.held, []
        for request in held:
            self.answer(request)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.settimeout(PATIENCE)
        return sock

    def stop(self, grace_ms=10_000):
        drained = self.core.stop(grace_ms)
        self.ended = True
        self.waker.send(b"x")
        self.thread.join()
        self.wake.close()
        self.waker.close()
        leaks = self.core.leaks()
        assert not any(leaks.values()), leaks
        return drained


@pytest.fixture
def start():
    edges = []

    def start(**settings):
        edges.append(Edge(**settings))
        return edges[-1]

    yield start
    for edge in edges:
        if not edge.ended:
            edge.release()
            assert edge.stop()


@pytest.fixture
def edge(start):
    return start()


def answers(sock, n=None):
    """The next n answers, or all until the server closes: (status, headers, body)."""
    out = []
    stream = sock.makefile("rb")
    while n is None or len(out) < n:
        line = stream.readline()
        if not line:
            assert n is None, f"closed after {len(out)} of {n} answers"
            break
        status = int(line.split()[1])
        headers = http.client.parse_headers(stream)
        body = stream.read(int(headers.get("content-length", 0)))
        if status >= 200:
            out.append((status, headers, body))
        else:
            out.append((status, headers, b""))
    return out


def body(answer):
    return json.loads(answer[2])
