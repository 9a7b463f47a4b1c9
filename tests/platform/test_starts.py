"""Starts that cannot be: each ends with one clear sentence and its status, and no traceback."""
from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import data
from support.command import command
from support.daemon import ROOT, Daemon
from support.forked import queend
from support.pair import Pair
from support.ports import free_port
from support.wait import until

PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE = 24, 10


def serve(folder: Path, **more: Any) -> subprocess.CompletedProcess:
    """`queend serve` to its end, with nothing in its environment but what is given."""
    before = more.pop("preexec_fn", None)
    command = [sys.executable, "-m", "queend"] if before else queend()
    settings = {"QUEEND_DATA_DIR": folder, "PORT": 0, **more}
    return subprocess.run([*command, "serve"], capture_output=True, text=True, cwd="/", preexec_fn=before,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT),
                               **{name: str(value) for name, value in settings.items() if value is not None}})


def said(done: subprocess.CompletedProcess, status: int = 1) -> str:
    """The sentence it ended with."""
    assert done.returncode == status and "Traceback" not in done.stderr, done.stderr
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert len(sentences) == 1 and sentences[0].startswith("queend: "), done.stderr
    return sentences[0].removeprefix("queend: ")


@pytest.fixture(scope="module")
def conninfo(postgres) -> str:
    return postgres.database()


@pytest.mark.parametrize("mode", ["acceptor", "reuseport"])
@pytest.mark.parametrize("host, told", [
    ("999.1.1.1", "HOST: 999.1.1.1 is no address of this machine: "),
    ("no-such-host.invalid", "HOST: no-such-host.invalid is no address of this machine: "),
    ("192.0.2.1", "HOST: 192.0.2.1 is no address of this machine: Cannot assign requested address")])
def test_a_host_that_is_not_ours(conninfo, tmp_path, host, mode, told):
    done = serve(tmp_path, QUEEND_DSN=conninfo, HOST=host, QUEEND_LISTEN_MODE=mode, NUM_WORKERS=2)
    assert said(done).startswith(told)


def test_a_port_that_is_taken(conninfo, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve(tmp_path, QUEEND_DSN=conninfo, PORT=port)
        assert said(done) == f"PORT: 127.0.0.1 port {port} is taken: Address already in use"


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_is_taken_is_told_before_a_server_is_made(tmp_path, host):
    folder = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve(folder, PORT=port, HOST=host)
    assert said(done) == f"PORT: {host} port {port} is taken: Address already in use"
    assert not folder.exists()


def test_a_port_that_is_not_allowed(conninfo, tmp_path):
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if first == 0:
        pytest.skip("here everybody may have every port")

    def drop() -> None:      # of no effect for who is not root, and lacks the right anyway
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, 0, 0, 0)

    done = serve(tmp_path, QUEEND_DSN=conninfo, PORT=first - 1, preexec_fn=drop)
    assert said(done) == (f"PORT: 127.0.0.1 port {first - 1} needs a right that this account lacks: Permission denied")


@pytest.mark.parametrize("host, told", [
    ("999.1.1.1", "HOST: 999.1.1.1 is no address of this machine: "),
    ("192.0.2.1", "HOST: cannot receive notices on UDP port ")])
def test_a_host_where_peers_cannot_be_heard(conninfo, tmp_path, host, told):
    done = serve(tmp_path, QUEEND_DSN=conninfo, HOST=host, QUEEN_UDP_PEERS="127.0.0.1")
    assert said(done).startswith(told)


def test_a_udp_port_that_is_taken(conninfo, tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = serve(tmp_path, QUEEND_DSN=conninfo, QUEEN_UDP_PEERS="127.0.0.1", QUEEN_UDP_NOTIFY_PORT=port)
    assert said(done) == (f"QUEEN_UDP_NOTIFY_PORT: cannot receive notices on UDP port {port}: Address already in use")


def test_folders_that_cannot_be(conninfo, tmp_path):
    (tmp_path / "file").touch()
    assert said(serve(tmp_path / "file")) == (
        f"QUEEND_DATA_DIR: cannot use {tmp_path / 'file'} as a data directory: it is not a directory")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert said(serve(tmp_path / "circle")).startswith("QUEEND_DATA_DIR: ")
    (tmp_path / "own" / "lock").mkdir(parents=True)
    assert said(serve(tmp_path / "own")) == f"QUEEND_DATA_DIR: {tmp_path / 'own' / 'lock'}: Is a directory"
    assert said(serve(tmp_path, QUEEND_DSN=conninfo, FILE_BUFFER_DIR=tmp_path / "file")) == (
        f"failover buffer: {tmp_path / 'file'} is not a directory; set FILE_BUFFER_DIR to another directory, "
        "or disable the buffer with QUEEND_BUFFER_BYTES=0")


def test_an_embedded_server_that_cannot_start(tmp_path):
    """What it wrote last says why; the rest is in its log."""
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    why = "insufficient file descriptors available to start server process"
    assert said(serve(tmp_path, preexec_fn=few)) == f"initdb failed in {tmp_path}/pg: {why}"
    assert command("migrate", QUEEND_DATA_DIR=str(tmp_path)).returncode == 0
    assert said(serve(tmp_path, preexec_fn=few)) == (
        f"PostgreSQL did not start in {tmp_path}/pg: {why}; see {tmp_path}/postgres.log")


def test_a_server_that_is_not_there(tmp_path):
    port = free_port()
    lost = "failed to resolve host 'no-such-host.invalid': Name or service not known"
    assert said(serve(tmp_path, PG_HOST="no-such-host.invalid")) == (
        f"cannot connect to PostgreSQL: {lost}; check the host name in PG_HOST or QUEEND_DSN")
    for words in (["migrate"], ["backup", str(tmp_path / "backup")]):
        assert said(command(*words, PG_HOST="127.0.0.1", PG_PORT=str(port)), 6).startswith(
            f'connection failed: connection to server at "127.0.0.1", port {port} failed: Connection refused')
        assert said(command(*words, PG_HOST="no-such-host.invalid"), 6) == lost


@pytest.mark.parametrize("embedded", [True, False])
def test_a_current_folder_that_is_gone(conninfo, tmp_path, embedded):
    def go() -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    done = serve(Path("data"), preexec_fn=go, **({} if embedded else {"QUEEND_DSN": conninfo}))
    assert said(done).startswith("QUEEND_DATA_DIR: cannot resolve data: " if embedded
                                 else "failover buffer: No such file or directory; set FILE_BUFFER_DIR")


def test_a_database_that_is_read_only_and_empty(postgres, tmp_path):
    """As a standby: it may be promoted, so the daemon waits for it, and says why."""
    conninfo = postgres.empty_database()
    name = conninfo_to_dict(conninfo)["dbname"]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with Daemon.own(tmp_path, QUEEND_DSN=conninfo) as daemon:
        told = daemon.await_event("migration_waits")["detail"]
        assert told.startswith("the database is read-only: cannot execute CREATE SCHEMA in a read-only transaction")
        daemon.await_ready()
        with daemon.client() as client:
            assert client.push("q", 1)[0]["status"] == "buffered"
        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        daemon.await_event("database_taken_up")
        assert daemon.end() == 0


def test_a_standby_as_the_only_server(request, tmp_path):
    """It has the schema already. It is told as an error and is not ready, until it is promoted."""
    with tempfile.TemporaryDirectory(prefix="queend-pair-") as name:
        os.chmod(name, 0o755)
        pair = Pair(Path(name), request.config.getoption("--postgres"))
        try:
            dsn = pair.primary.database()
            with Daemon(dsn) as one, one.client() as client:
                client.push("q", 1)
            ((place,),) = pair.primary.execute("SELECT pg_current_wal_flush_lsn()")
            until(lambda: pair.standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (place,)) == [(True,)],
                  "the standby has it")
            dsn = pair.standby.dsn(dbname=conninfo_to_dict(dsn)["dbname"])
            with Daemon.own(tmp_path, QUEEND_DSN=dsn, QUEEND_BUFFER_BYTES="0") as daemon:
                told = daemon.await_event("server_is_standby")
                assert told["level"] == "error" and "set QUEEND_DSN to the primary" in told["detail"]
                daemon.port = daemon.await_event("not_ready")["port"]
                with daemon.client() as client:
                    answer = client.get("/readyz")
                    assert answer.status == 503 and b"read-only" in answer.body, answer.body
                    assert client.get("/api/v1/resources/queues").status == 503
                    assert not [line for line in daemon.log if line["event"] == "ready"]
                    pair.standby.execute("SELECT pg_promote()")
                    daemon.await_ready()
                    client.push("q", 2)
                    assert data(client.pop("q", batch=10)) == [1, 2]
        finally:
            pair.stop()


def test_a_database_that_is_half_there(postgres, tmp_path):
    conninfo = postgres.database()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE queend.catalog CASCADE")
    done = serve(tmp_path, QUEEND_DSN=conninfo)
    assert said(done).startswith('the database is not usable: relation "queend.catalog" does not exist')
