"""Requests that attack a real daemon, as they stand in requests.toml: each answered as it says, whole and byte by byte,
and nothing that stands behind what was refused is ever a request."""
from __future__ import annotations

import socket

import pytest
from support import hostile
from support.daemon import Daemon
from support.http import Gone, Wire

CASES = list(hostile.cases())
NEXT = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
BYTEWISE = 1000       # longer ones are sent in two halves


@pytest.fixture(scope="module")
def attacked(start_daemon) -> Daemon:
    return start_daemon(QUEEND_MAX_BODY_BYTES=1 << 20, QUEEND_HOSTS="h,example.com")


def pieces(data: bytes, whole: bool) -> list[bytes]:
    if whole:
        return [data]
    step = 1 if len(data) <= BYTEWISE else len(data) // 2
    return [data[at:at + step] for at in range(0, len(data), step)]


def talk(daemon: Daemon, case: hostile.Case, whole: bool) -> tuple[list[int], bytes, bool]:
    """The statuses, the body of the last, and whether the connection ended behind them."""
    with Wire(daemon.address) as wire:
        statuses, body = [], b""
        try:
            for piece in pieces(case.data, whole):
                wire.send(piece)
            if case.then == "cut":
                wire.socket.shutdown(socket.SHUT_WR)
            else:
                wire.send(NEXT)
        except (BrokenPipeError, ConnectionResetError):
            pass      # it has closed already; what it said is still to be read
        try:
            while len(statuses) < len(case.answers):
                answer = wire.receive()
                if answer.status != 100 or 100 in case.answers:
                    statuses.append(answer.status)
                    body = answer.body
            if case.then == "open":
                while (answer := wire.receive()).status == 100:
                    pass
                return statuses, body, answer.status != 200 or answer.json != {"status": "alive"}
            return statuses, body, wire.ended()
        except Gone:
            return statuses, body, True


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "bytes"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_request_is_answered_as_it_says(attacked: Daemon, case: hostile.Case, whole: bool) -> None:
    statuses, body, ended = talk(attacked, case, whole)
    assert (statuses, ended) == (list(case.answers), case.then != "open"), (case.clause, case.data[:200], body[:300])
    assert case.says in body.decode()
    if statuses and statuses[-1] >= 400:
        assert b'"error":"' in body


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 250 and sum(case.name.startswith("h1spec-") for case in CASES) == 33
    assert len({(case.data, case.then) for case in CASES}) == len(CASES), "one stands there twice"
