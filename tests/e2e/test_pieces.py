"""Requests that come in pieces have turns, too: many such clients do not delay a request of somebody else."""
from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable

from support.client import data
from support.daemon import Daemon
from support.http import Wire, request
from support.postgres import stand
from support.wait import until

MANY, PIECE = 500, 1024
READ = "queend_worker_bytes_in_total"
MOST = 256 << 10      # bytes of a turn: 128 pieces, and what else is read


def test_a_turn_reads_a_bounded_number_of_pieces(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1)
    body = json.dumps({"items": [{"queue": queue, "payload": "x" * 3 * PIECE}]}).encode()
    head = request("POST", "/api/v1/push", body, headers={"Expect": "100-continue"}).removesuffix(body)
    with daemon.client() as client, contextlib.ExitStack() as opened:
        wires = [opened.enter_context(Wire(daemon.address)) for _ in range(MANY)]
        for wire in wires:
            wire.send(head)
            assert wire.receive().status == 100
        before = client.metric(READ)
        stand(daemon.pid)
        for wire in wires:
            wire.send(body[:PIECE])
        os.kill(daemon.pid, signal.SIGCONT)
        until(lambda: client.metric(READ) >= before + MANY * PIECE, "all pieces are read")
        assert client.metric("queend_worker_turn_bytes") < MOST
        for wire in wires:
            wire.send(body[PIECE:])
        for wire in wires:
            assert wire.receive().status == 201
        assert len(data(client.pop(queue, batch=MANY + 1))) == MANY
