"""Thousands of requests that arrive at once do not come before the one of somebody else: each connection has its
turn."""
from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

from support.client import Client
from support.daemon import Daemon
from support.http import Wire, request
from support.wait import until

MANY, EACH = 200, 60


def push(queue: str, text: str) -> bytes:
    return request("POST", "/api/v1/push",
                   json.dumps({"items": [{"queue": queue, "partition": "p", "payload": text}]}).encode())


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def test_a_connection_waits_for_one_request_of_each_other(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1)
    wires = [Wire(daemon.address) for _ in range(MANY + 1)]
    for wire in wires:
        wire.send(push(queue, "first"))
        assert wire.receive().status == 201
    os.kill(daemon.pid, signal.SIGSTOP)
    until(lambda: state(daemon.pid) == "T", "it stands")
    *crowd, other = wires
    for wire in crowd:
        wire.send(push(queue, "crowd") * EACH)
    other.send(push(queue, "other"))
    os.kill(daemon.pid, signal.SIGCONT)
    for wire in wires:
        for _ in range(1 if wire is other else EACH):
            assert wire.receive().status == 201
        wire.close()
    with daemon.client() as client:
        messages: list[dict] = []
        while some := client.pop(queue, "p", batch=1000, autoAck=True):
            messages += some
    texts = [one["data"] for one in messages[MANY + 1:]]
    assert len(texts) == MANY * EACH + 1
    assert texts.index("other") < len(texts) / 2, "its push was stored with the first of the others"


def test_those_that_wait_for_their_turn_may_leave(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """What was sent by those that are gone is done or not, nothing leaks (the daemon is asked when it stops), and
    others are served."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client:
        client.push(queue, "first", partition="p")
        wires = [Wire(daemon.address) for _ in range(MANY)]
        os.kill(daemon.pid, signal.SIGSTOP)
        until(lambda: state(daemon.pid) == "T", "it stands")
        for number, wire in enumerate(wires):
            wire.send(push(queue, "crowd") * EACH)
            if number % 2:
                wire.close()
        os.kill(daemon.pid, signal.SIGCONT)
        client.push(queue, "last", partition="p")
        for wire in wires[::2]:
            for _ in range(EACH):
                assert wire.receive().status == 201
            wire.close()
        until(lambda: Client(daemon.address).get("/livez").status == 200, "it serves")
