"""PgBouncer between the daemon and PostgreSQL: served in session mode as it comes, refused in its other modes."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.client import ack_of, data
from support.daemon import Daemon
from support.ports import free_port
from support.postgres import Postgres, running
from support.wait import until

PROGRAM = "/usr/sbin/pgbouncer"


@pytest.fixture(scope="module")
def cluster(request) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


@contextmanager
def bouncer(cluster: Postgres, mode: str, **settings: object) -> Iterator[tuple[int, subprocess.Popen]]:
    """A PgBouncer in front of the cluster, with Debian's defaults but for the mode."""
    port = free_port()
    owner = cluster.data.stat()
    with TemporaryDirectory(prefix="queend-bouncer-") as folder:
        path = Path(folder)
        lines = {"listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any",
                 "pool_mode": mode, **settings}
        (path / "ini").write_text(f"[databases]\n* = host=127.0.0.1 port={cluster.port} user=postgres\n[pgbouncer]\n"
                                  + "".join(f"{name} = {value}\n" for name, value in lines.items()))
        path.chmod(0o755)
        account = {} if os.geteuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        with (path / "log").open("w") as log:
            process = subprocess.Popen([PROGRAM, path / "ini"], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, **account)

            def up() -> bool:
                try:
                    psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres").close()
                except psycopg.OperationalError:
                    assert process.poll() is None, (path / "log").read_text()
                    return False
                return True
            try:
                until(up, "PgBouncer serves")
                yield port, process
            finally:
                process.kill()
                process.wait()


def through(conninfo: str, port: int) -> str:
    return make_conninfo(host="127.0.0.1", port=port, user="postgres", dbname=conninfo_to_dict(conninfo)["dbname"])


def test_session_mode_as_it_comes(start_daemon, cluster, queue):
    """Pushes, pops, acknowledgments, pages; settings are those of a direct connection; connections that PgBouncer ends
    come back."""
    database = cluster.database()
    with bouncer(cluster, "session", default_pool_size=40) as (port, _):
        daemon = start_daemon(through(database, port), NUM_WORKERS=1)
        assert daemon.told("pooler")
        with daemon.client() as client, daemon.client() as waiter:
            client.push(queue, *range(100), partition="p")
            messages = client.pop(queue, "p", batch=60)
            assert data(messages) == list(range(60))
            assert all(one["success"] for one in client.ack_batch([ack_of(one) for one in messages]))
            assert data(client.pop(queue, "p", batch=60, autoAck=True)) == list(range(60, 100))
            waiter.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000")
            until(lambda: client.parked() == 1, "it waits")
            client.push(queue, "awaited", partition="p")
            assert data(waiter.receive().json["messages"]) == ["awaited"]
            assert client.get("/api/v1/resources/queues").status == 200 and client.get("/health").status == 200
            cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                            (conninfo_to_dict(database)["dbname"],))
            until(lambda: client.post("/api/v1/push", {
                "items": [{"queue": queue, "partition": "q", "payload": "after"}]}).status == 201, "pushes go on")
            assert "after" in data(client.pop(queue, "q", batch=100))
        daemon.stop()


def test_sessions_have_their_settings(cluster):
    """As they are given for a direct connection: one of the hot plans, one of the limits."""
    from queend.postgres import session
    from queend.postgres.conninfo import HOT_PLANS
    with bouncer(cluster, "session") as (port, _):
        target = make_conninfo(through(cluster.database(), port), options=f"{HOT_PLANS} -c lock_timeout=1234")
        with session.connect(target) as connection:
            assert [connection.execute(f"SHOW {name}").fetchone()[0]
                    for name in ("plan_cache_mode", "enable_seqscan", "lock_timeout")] == [
                "force_generic_plan", "off", "1234ms"]


@pytest.mark.parametrize(("mode", "settings"),
                         [("transaction", {}), ("transaction", {"server_round_robin": 1}), ("statement", {})])
def test_other_modes_are_refused(cluster, mode, settings):
    database = cluster.database()
    with bouncer(cluster, mode, **settings) as (port, _):
        with pytest.raises(AssertionError, match="the daemon ended with 1") as caught:
            Daemon(through(database, port)).kill()
        assert "pool_mode = session" in str(caught.value) and "shares server connections" in str(caught.value)


def test_a_direct_connection_is_no_pooler(daemon):
    assert daemon.line("pooler") is None
