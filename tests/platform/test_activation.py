"""Sockets that systemd hands over: nobody's connection is refused while the daemon is started anew."""
from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.activated import Manager
from support.client import Client
from support.http import request
from support.wait import PATIENCE, until

from queend.daemon import activation


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Callable[..., Manager]]:
    made: list[Manager] = []

    def make(*hosts: str, **more: Any) -> Manager:
        made.append(Manager(tmp_path, hosts or ("127.0.0.1",), **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Callers:
    """Clients that connect anew for each push, all the while."""

    def __init__(self, port: int, many: int):
        self.port, self.stop = port, threading.Event()
        self.stored: list[list[str]] = [[] for _ in range(many)]
        self.lost: list[str] = []
        self.threads = [threading.Thread(target=self.call, args=(number,)) for number in range(many)]
        for thread in self.threads:
            thread.start()

    def call(self, number: int) -> None:
        while not self.stop.is_set():
            name = f"{number}-{len(self.stored[number])}"
            try:
                with Client(("127.0.0.1", self.port)) as client:
                    (told,) = client.push("q", name, transactionId=name, partition=str(number))
                assert told["status"] == "queued", told
                self.stored[number].append(name)
            except (OSError, AssertionError, EOFError, ValueError) as error:
                self.lost.append(f"{name}: {error!r}")
                return

    def calls(self) -> int:
        return sum(map(len, self.stored))

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(PATIENCE)


@pytest.mark.parametrize("mode", ["acceptor", "reuseport"])
def test_no_connection_is_lost_while_the_daemon_is_started_anew(postgres, manager, mode):
    systemd, conninfo = manager(), postgres.database()
    daemon = systemd.daemon(conninfo, QUEEND_LISTEN_MODE=mode, NUM_WORKERS=3).await_ready()
    assert daemon.port == systemd.port
    callers = Callers(systemd.port, 6)
    try:
        for _ in range(2):
            now = callers.calls()
            until(lambda now=now: callers.calls() > now + 30 or callers.lost, "they are served")
            daemon.stop()      # everything in hand is answered; nothing leaks
            now = callers.calls()
            daemon = systemd.daemon(conninfo, QUEEND_LISTEN_MODE=mode, NUM_WORKERS=3).await_ready()
            until(lambda now=now: callers.calls() > now + 30 or callers.lost, "the next one serves them")
        callers.end()
        assert not callers.lost
        with daemon.client() as client:
            for number, names in enumerate(callers.stored):
                got: list[str] = []
                while messages := client.pop("q", str(number), batch=1000, autoAck="true"):
                    got += [one["data"] for one in messages]
                assert got == names
    finally:
        callers.end()
        daemon.stop()


def test_the_first_request_of_a_connection_is_served_although_the_daemon_ends(start_daemon):
    """It was accepted before the stop, the request comes after; and so the one that is sent behind it is refused."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as held, socket.create_connection(daemon.address) as late:
        held.push("q", 1)
        held.pop("q", autoAck="true")
        held.send("GET", "/api/v1/pop/queue/q?wait=true&timeout=60000")
        with daemon.client() as other:
            until(lambda: other.parked() == 1, "the pop is parked")
            late.close()
            with socket.create_connection(daemon.address) as late:
                other.get("/livez")      # on a connection accepted before; this one comes in its turn
                daemon.terminate()
                assert held.receive().json["messages"] == []      # the worker drains
                push = request("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":2}]}')
                late.sendall(push + push)
                answers = late.makefile("rb").read()
                assert answers.startswith(b"HTTP/1.1 201 ") and b"connection: close" in answers.lower(), answers
    daemon.ended()


def test_all_sockets_are_served_and_the_settings_of_our_own_have_no_effect(postgres, manager):
    systemd = manager("127.0.0.1", "::1")
    daemon = systemd.daemon(postgres.database(), PORT=1).await_ready()
    assert daemon.port == systemd.port
    assert "HOST and PORT" in daemon.told("sockets_given")["detail"]
    for host in ("127.0.0.1", "::1"):
        with Client((host, systemd.port)) as client:
            assert client.push("q", host)[0]["status"] == "queued"
    daemon.stop()
    assert socket.create_connection(("127.0.0.1", systemd.port)).close() is None      # it waits for the next one


def test_an_address_of_the_network_counts_as_one(postgres, manager):
    """Of several sockets one that others reach is enough: Host is not held against names of this machine."""
    systemd = manager("127.0.0.1", "::")
    daemon = systemd.daemon(postgres.database()).await_ready()
    assert daemon.told("open_to_network")
    with Client(("127.0.0.1", systemd.port)) as client:
        assert client.request("GET", "/livez", headers={"Host": "queue.example"}).status == 200
    daemon.stop()


def test_what_is_no_listening_socket_is_refused(postgres, manager):
    systemd = manager(kind=socket.SOCK_DGRAM)
    daemon = systemd.daemon(postgres.database())
    assert daemon.wait() == 1 and "not a listening TCP socket" in "\n".join(daemon.other)


@pytest.mark.parametrize("number", ["", "0", "x", "65"])
def test_a_number_that_is_none_is_refused(monkeypatch, number):
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", number)
    with pytest.raises(activation.ActivationError, match="from 1 to 64"):
        activation.sockets()


def test_what_was_handed_to_another_process_is_not_ours(monkeypatch):
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "1")
    assert activation.sockets() == []
    assert "LISTEN_FDS" not in os.environ
