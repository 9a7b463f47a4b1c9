"""Ports for those who must be told theirs before they listen. Port 0 is better wherever it will do."""
from __future__ import annotations

import itertools
import os
import socket

FIRST, SLICE = 10_240, 1000
# Each process of a test run has a slice of its own. All are below what the kernel takes for outgoing connections: such
# a port may become one's end at any moment, between two lives of a server, too.
BASE = FIRST + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 20 * SLICE
turns = itertools.count(os.getpid())


def free_port() -> int:
    """One that nobody listens on now, neither by TCP nor by UDP; another one each time."""
    for _ in range(SLICE):
        port = BASE + next(turns) % SLICE
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                with socket.socket(socket.AF_INET, kind) as probe:
                    if kind == socket.SOCK_STREAM:      # as servers do: the ends of old connections are in nobody's way
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return port
    raise AssertionError(f"no free port from {BASE} to {BASE + SLICE - 1}")
