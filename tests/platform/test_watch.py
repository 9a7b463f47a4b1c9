"""The watchdog is fed while all workers turn, whatever the control plane does; who stands still is seen."""
from __future__ import annotations

import re
import socket

import pytest
from support.daemon import Daemon
from support.frozen import frozen, thread_named
from support.http import Gone
from support.wait import PATIENCE, until


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        yield manager


@pytest.fixture
def watched(start_daemon, manager, tmp_path) -> Daemon:
    return start_daemon(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="600000", QUEEND_STUCK_MS=3000,
                        QUEEND_CONTROL_STUCK_MS=15000)


def heard(manager: socket.socket) -> list[bytes]:
    """What has come and was not read yet."""
    told = []
    manager.setblocking(False)
    try:
        while True:
            told.append(manager.recv(1000))
    except BlockingIOError:
        return told
    finally:
        manager.settimeout(PATIENCE)


def livez(daemon: Daemon) -> set[int]:
    """What workers that turn answer; one that does not answers nothing."""
    seen = set()
    for _ in range(2):
        with daemon.client(1) as client:
            try:
                seen.add(client.request("GET", "/livez").status)
            except (TimeoutError, Gone):
                pass
    return seen


def test_a_busy_control_plane_ends_no_healthy_data_plane(watched, manager):
    with watched.client() as client:
        client.push("q", 1)
        with frozen(watched.pid):
            heard(manager)
            for _ in range(10):      # as often as the whole period has three times
                assert manager.recv(1000) == b"WATCHDOG=1"
            client.push("q", 2)
            assert len(client.pop("q", batch=10, autoAck="true")) == 2
            assert watched.await_event("control_plane_busy")["level"] == "error"
            # far beyond all patience it counts as well
            until(lambda: livez(watched) == {503}, "it is stuck")
            heard(manager)
        until(lambda: livez(watched) == {200}, "it runs again")
        watched.await_event("control_plane_runs_again")
        assert b"WATCHDOG=1" in [manager.recv(1000) for _ in range(2)]


def test_a_stuck_worker_is_seen(watched, manager):
    until(lambda: livez(watched) == {200}, "all is well")
    with frozen(thread_named(watched.pid, "worker 1")):
        line = watched.await_event("worker_stuck")
        stood, = re.findall("worker 1 has not turned for ([0-9]+) ms", line["detail"])
        assert line["level"] == "error" and 3000 <= int(stood) < 30_000, "the default is 30 s"
        until(lambda: livez(watched) == {503}, "the other one tells")
        # one word that was on its way may come late; then nobody tells systemd that all is well
        until(lambda: not any(heard(manager) or livez(watched) != {503} for _ in range(20)), "it hears nothing more")
    watched.await_event("worker_turns_again")
    until(lambda: b"WATCHDOG=1" in heard(manager), "the watchdog is fed again")
    until(lambda: livez(watched) == {200}, "all is well")
