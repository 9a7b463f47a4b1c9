"""The daemon as people start it: with its own PostgreSQL, alone and side by side, ended in every way."""
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from support.client import Client
from support.daemon import ROOT, Daemon
from support.guides import like, sessions, type_in
from support.prepared import data_folder
from support.wait import PATIENCE, until

from queend.postgres.embedded import Embedded

ITEM = {"items": [{"queue": "kept", "payload": {"n": 1}, "transactionId": "one"}]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a PostgreSQL as the daemon makes it, with the schema."""
    return data_folder(tmp_path / "data")


def push(daemon: Daemon) -> dict:
    status, _, results = daemon.request("POST", "/api/v1/push", ITEM)
    assert status == 201, results
    return results[0]


def pop(daemon: Daemon) -> list[dict]:
    status, _, answer = daemon.request("GET", "/api/v1/pop/queue/kept?autoAck=true")
    return answer["messages"] if status == 200 else []


def test_serves_on_when_nobody_reads_its_log(data):
    """Whoever took the lines was restarted, as journald may be: each of them fails from then on."""
    settings = {"QUEEND_DATA_DIR": str(data), "HOST": "127.0.0.1", "PORT": "0", "LOG_LEVEL": "debug",
                "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "queend", "serve"], env={**os.environ, **settings}, cwd="/",
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        port = next(line["port"] for line in map(json.loads, process.stderr) if line["event"] == "ready")
        process.stderr.close()
        with Client(("127.0.0.1", port)) as client:
            for n in range(5):
                client.push("kept", n)
                assert client.get("/api/v1/resources/queues").status == 200
                assert client.get("/health").json["status"] == "healthy"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_stops_cleanly_and_keeps_the_messages(tmp_path, number):
    with Daemon.own(tmp_path, alone=True) as daemon:
        daemon.await_ready()
        assert push(daemon)["status"] == "queued"
        database = next(line["pid"] for line in daemon.log if line["event"] == "database_started")
        assert daemon.end(number) == 0
        stopped = daemon.log[-1]
        assert stopped["event"] == "stopped" and stopped["drained"] is True and not any(stopped["leaks"].values())
        assert not os.path.exists(f"/proc/{database}") and daemon.other == []
    with Daemon.own(tmp_path) as again:
        again.await_ready()
        assert [message["transactionId"] for message in pop(again)] == ["one"]
        assert again.end() == 0


def test_greets_with_lines_that_work(data):
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        until(lambda: "Ctrl-C" in "".join(daemon.greeting), "it has greeted")
        text = "".join(daemon.greeting)
        commands = "\n".join(line for line in text.splitlines() if line.startswith("  "))
        assert f"http://127.0.0.1:{daemon.port}" in text
        done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True)
        pushed, popped, acked = [line for line in done.stdout.replace("][", "]\n[").replace("]{", "]\n{")
                                 .splitlines() if line]
        assert '"status":"queued"' in pushed and '"hello":"world"' in popped and '"success":true' in acked


def test_the_session_of_the_readme_is_what_happens(data, tmp_path):
    found = sessions("../README.md")
    assert len(found) == 5
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        for command, promised in found:
            assert promised and like(type_in(daemon, tmp_path, command), promised), command


def test_two_side_by_side(data, tmp_path):
    with Daemon.own(data) as a, Daemon.own(tmp_path / "b") as b:
        a.await_ready()
        b.await_ready()
        assert push(a)["status"] == push(b)["status"] == "queued"
        assert a.end() == 0
        assert len(pop(b)) == 1


def test_a_killed_daemon_loses_nothing_and_leaves_nothing(data):
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        push(daemon)
        daemon.kill()
    with Daemon.own(data) as again:
        again.await_ready()
        assert push(again)["status"] == "duplicate"
        assert len(pop(again)) == 1


def test_two_started_at_once_on_one_folder_do_not_meet(tmp_path):
    with Daemon.own(tmp_path) as one, Daemon.own(tmp_path) as two:
        until(lambda: one.process.poll() is not None or two.process.poll() is not None, "one of them gives up")
        loser, winner = (one, two) if one.process.poll() is not None else (two, one)
        assert loser.wait() == 1
        assert (f"{tmp_path} is in use by another queend (pid {winner.pid}): stop it, or set QUEEND_DATA_DIR"
                in "".join(loser.other))
        winner.await_ready()
        assert push(winner)["status"] == "queued"
        assert winner.end() == 0


def test_a_database_that_recovers_for_long_is_one_that_is_away(data):
    """A standby recovers until it is promoted."""
    (data / "pg" / "standby.signal").touch()
    with open(data / "pg" / "postgresql.auto.conf", "a") as settings:
        settings.write("hot_standby = off\n")
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        assert daemon.told("database_started")["detail"].endswith("which recovers")
        until(lambda: daemon.line("without_database"), "it says so")
        assert push(daemon)["status"] == "buffered"
        (data / "pg" / "promote").touch()
        os.kill(daemon.line("database_started")["pid"], signal.SIGUSR1)
        daemon.await_event("database_taken_up")
        until(lambda: daemon.request("GET", "/api/v1/status/buffers")[2]["pending"] == 0, "the buffer is empty")
        assert [message["transactionId"] for message in pop(daemon)] == ["one"]
        assert daemon.end() == 0


def test_a_taken_port_is_told(data):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with Daemon.own(data, PORT=str(taken.getsockname()[1])) as daemon:
            assert daemon.wait() == 1
            assert "address already in use" in daemon.other[-1].lower()


def test_a_taken_folder_is_told(data):
    cluster = Embedded(data)
    cluster.start()
    try:
        with Daemon.own(data) as daemon:
            assert daemon.wait() == 1
            assert "in use by another queend" in daemon.other[-1]
    finally:
        cluster.stop()


def test_a_configured_server_is_used_and_waited_for(tmp_path, data):
    cluster = Embedded(data)
    conninfo = cluster.start()
    cluster.stop()
    with Daemon.own(tmp_path / "own", PG_HOST=str(cluster.data), PG_USER="postgres", QUEEND_BUFFER_BYTES="0") as daemon:
        daemon.await_event("database_unreachable")
        cluster.start()
        try:
            daemon.await_ready()
            push(daemon)
            with psycopg.connect(conninfo) as connection:
                assert connection.execute("SELECT name FROM queend.queues").fetchall() == [("kept",)]
            assert daemon.end() == 0
            assert not (tmp_path / "own" / "pg").exists(), "no PostgreSQL of its own was made"
        finally:
            cluster.stop()


def test_sigterm_while_waiting_for_the_server_ends_it(tmp_path):
    with Daemon.own(tmp_path, PG_HOST=str(tmp_path), PG_USER="postgres", QUEEND_BUFFER_BYTES="0") as daemon:
        daemon.await_event("database_unreachable")
        assert daemon.end() == 0


def test_the_embedded_server_is_started_again_when_it_dies(data):
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        push(daemon)
        os.kill(next(line["pid"] for line in daemon.log if line["event"] == "database_started"), signal.SIGKILL)
        daemon.await_event("database_died")
        daemon.await_event("database_started")
        until(lambda: daemon.request("POST", "/api/v1/push", ITEM)[0] == 201, "the core has connections again")
        assert len(pop(daemon)) == 1
        assert daemon.end() == 0


def failing(daemon: Daemon, data: Path) -> Path:
    """Has the daemon's PostgreSQL end, and no other start. Returns where the file is that it lacks."""
    control, away = data / "pg/global/pg_control", data / "away"
    control.rename(away)
    os.kill(daemon.told("database_started")["pid"], signal.SIGKILL)
    return away


def starts(data: Path) -> int:
    """How often PostgreSQL was started without that file."""
    return (data / "postgres.log").read_text().count("could not find the database system")


def test_an_embedded_server_that_cannot_start_is_started_at_growing_intervals(data):
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        push(daemon)
        begin = time.monotonic()
        away = failing(daemon, data)
        until(lambda: starts(data) >= 6, "it was tried six times")
        # slower is no fault; sooner is one
        assert time.monotonic() - begin >= 0.1 + 0.2 + 0.4 + 0.8 + 1.6
        told = [line for line in daemon.log if line["event"] == "database_not_started"]
        assert len(told) == 1 and "/pg/global/pg_control" in told[0]["detail"] and told[0]["detail"].isprintable()
        assert sum(line["event"] == "database_started" for line in daemon.log) == 1
        away.rename(data / "pg/global/pg_control")
        daemon.await_event("database_not_started")
        assert daemon.await_event("database_started")["pid"]
        (message,) = until(lambda: pop(daemon), "the core has connections again")
        assert message["transactionId"] == "one"
        assert daemon.end() == 0


def test_a_daemon_whose_embedded_server_cannot_start_ends_cleanly(data):
    with Daemon.own(data) as daemon:
        daemon.await_ready()
        failing(daemon, data)
        until(lambda: starts(data) >= 3, "it was tried three times")
        assert daemon.end() == 0


def test_systemd_hears_ready_watchdog_and_stopping(tmp_path, data):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        with Daemon.own(data, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="300000") as daemon:
            assert manager.recv(1000).startswith(b"READY=1\n")
            assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            assert daemon.end() == 0
            heard = b""
            while heard != b"STOPPING=1":
                heard = manager.recv(100)


def test_migrate_prepares_the_database_the_daemon_would_use(tmp_path):
    def migrate() -> str:
        done = subprocess.run([sys.executable, "-m", "queend", "migrate"], cwd=ROOT, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "QUEEND_DATA_DIR": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert migrate().startswith("applied 0001_schema\n")
    assert migrate() == "up to date\n"
    with Daemon.own(tmp_path) as daemon:
        daemon.await_ready()
        assert "migrated" not in [line["event"] for line in daemon.log]
        assert daemon.end() == 0


def test_health_tells_when_the_database_is_gone_and_back(tmp_path, data):
    cluster = Embedded(data)
    cluster.start()
    try:
        with Daemon.own(tmp_path, PG_HOST=str(cluster.data), PG_USER="postgres", DB_CONNECTION_TIMEOUT="500") as daemon:
            daemon.await_ready()
            assert daemon.request("GET", "/health")[0] == 200
            cluster.stop()
            status, _, answer = daemon.request("GET", "/health")
            assert (status, answer["status"], answer["database"]) == (503, "unhealthy", "disconnected")
            status, headers, answer = daemon.request("GET", "/api/v1/resources/queues")
            assert (status, headers["retry-after"], answer["code"]) == (503, "1", "database_unavailable")
            assert daemon.request("GET", "/metrics/prometheus")[0] == 200
            cluster.start()
            until(lambda: daemon.request("GET", "/health")[0] == 200, "the control plane has a connection again")
            until(lambda: daemon.request("GET", "/readyz")[2] == {"status": "ready"}, "the core has connections again")
            assert push(daemon)["status"] == "queued"
            assert daemon.end() == 0
    finally:
        cluster.stop()


def test_a_plain_role_that_owns_its_database_is_enough(tmp_path, data):
    cluster = Embedded(data)
    try:
        with psycopg.connect(cluster.start(), autocommit=True) as connection:
            connection.execute("CREATE ROLE plain LOGIN")
            connection.execute("CREATE DATABASE owned OWNER plain")
        cluster.stop()
        hba = cluster.data / "plain_hba.conf"
        hba.write_text("local all all trust\n")
        hba.chmod(0o644)
        cluster.settings = {"hba_file": "/proc/self/cwd/plain_hba.conf"}
        cluster.start()
        with Daemon.own(tmp_path, PG_HOST=str(cluster.data), PG_USER="plain", PG_DB="owned") as daemon:
            daemon.await_ready()
            assert push(daemon)["status"] == "queued"
            assert len(pop(daemon)) == 1
            assert daemon.end() == 0
    finally:
        cluster.stop()
