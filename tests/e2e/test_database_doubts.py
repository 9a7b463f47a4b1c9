"""A database that is there and does not serve: /readyz, /health and the metrics say so, and connections to it are
replaced."""
from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.proxy import MUTE, Proxy, pass_on
from support.wait import until


@pytest.fixture(scope="module")
def cluster(request) -> Iterator[Postgres]:
    """Another than the others' one: its settings change, and it is stopped."""
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


@pytest.fixture
def read_only(cluster):
    def switch(on: bool) -> None:
        with psycopg.connect(cluster.conninfo, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM SET default_transaction_read_only = on"
                               if on else "ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")
    yield switch
    switch(False)


def connections(conninfo: str) -> set[int]:
    with psycopg.connect(conninfo) as connection:
        return {pid for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name ="
                                                     " 'queend' AND datname = current_database()")}


def ready(client: Client) -> tuple[int, str]:
    answer = client.get("/readyz")
    return answer.status, answer.json.get("error", answer.json.get("reason", ""))


def doubts(client: Client) -> tuple[int, list[str]]:
    answer = client.get("/health")
    return answer.status, answer.json["doubts"]


def test_a_server_that_became_read_only_is_left(start_daemon, cluster, read_only, queue, tmp_path):
    database = cluster.database()
    daemon = start_daemon(database, QUEEND_BUFFER_BYTES=64 << 20, FILE_BUFFER_DIR=tmp_path)
    with daemon.client() as client:
        assert client.push(queue, 1, partition="p")[0]["status"] == "queued"
        before = connections(database)
        read_only(True)
        pushed = iter(range(2, 1000))
        last = until(lambda: (n := next(pushed)) and client.push(queue, n, partition="p")[0]["status"] == "buffered"
                     and n, "a push is buffered")
        until(lambda: ready(client) == (200, "The database is read-only"), "it buffers: a worker has no connection")
        until(lambda: doubts(client) == (503, ["away", "read_only"]), "no worker has one")
        assert client.metric("queend_database_doubts") == 2
        told = {one["title"]: one["level"] for one in client.get("/api/v1/system/doctor").json["findings"]
                if one["check"] == "daemon"}
        assert told["the database is read-only"] == "critical" and "the database is not reachable" not in told
        read_only(False)
        until(lambda: ready(client) == (200, ""), "ready again")
        assert not before & connections(database)
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        assert data(client.pop(queue, "p", batch=1000, autoAck=True)) == list(range(1, last + 1))
        assert doubts(client) == (200, [])


def test_of_several_hosts_the_one_that_can_be_written_to(start_daemon, cluster, postgres, read_only, queue):
    """The first one becomes read-only, as a primary that was demoted: the daemon goes to the second."""
    first, second = cluster.database(), postgres.database()
    there, here = (psycopg.conninfo.conninfo_to_dict(one) for one in (first, second))
    name = there["dbname"]
    if here["dbname"] != name:
        postgres.execute(f"ALTER DATABASE {here['dbname']} RENAME TO {name}_of_{there['port']}")
        cluster.execute(f"ALTER DATABASE {name} RENAME TO {name}_of_{there['port']}")
        name = f"{name}_of_{there['port']}"
    daemon = start_daemon(psycopg.conninfo.make_conninfo(host=f"{there['host']},{here['host']}",
                                                         port=f"{there['port']},{here.get('port', 5432)}",
                                                         user="postgres", dbname=name))
    with daemon.client() as client:
        client.push(queue, "at the first", partition="p")
        read_only(True)
        def push() -> bool:      # the order to be read-only may reach the sessions a moment later
            client.post("/api/v1/push", {"items": [{"queue": queue, "partition": "p", "payload": "meanwhile"}]})
            return daemon.line("server_changed") is not None
        until(push, "the daemon has gone to the second")
        until(lambda: client.pop(queue, "p", batch=1000, autoAck=True) == [], "what was pushed meanwhile is taken")
        client.push(queue, "at the second", partition="p")
        assert data(client.pop(queue, "p", batch=10)) == ["at the second"]
        until(lambda: client.get("/health").status == 200, "the control plane is there too")


def test_a_server_that_says_nothing(start_daemon, cluster, queue):
    daemon = start_daemon(cluster.database())
    with daemon.client() as client:
        client.push(queue, 1)
        assert ready(client)[0] == 200
        with cluster.frozen():
            until(lambda: ready(client) in ((503, "The database does not answer"),
                                            (503, "The database is not reachable")), "not ready")
            assert "silent" in client.get("/health").json["doubts"]
        until(lambda: doubts(client) == (200, []) and ready(client)[0] == 200, "ready again")


def test_a_statement_that_waits_is_seen_after_others_were_answered(start_daemon, cluster, queue):
    """The daemon's look at what was stored waits for a lock, a lease is renewed meanwhile, and then it is quiet."""
    database = cluster.database()
    daemon = start_daemon(database, NUM_WORKERS=1, DB_STATEMENT_TIMEOUT=0, DB_LOCK_TIMEOUT=0,
                          LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    waits = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queend' AND wait_event_type = 'Lock'"
             " AND datname = current_database()")
    with daemon.client() as client, psycopg.connect(database, autocommit=True) as look:
        client.push(queue, 1)
        (message,) = client.pop(queue)
        with psycopg.connect(database) as holder:
            holder.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
            look.execute("CREATE TABLE something_new ()")
            until(lambda: look.execute(waits).fetchone()[0] > 0, "the look waits")
            assert client.extend(message["leaseId"], {"seconds": 600})["success"]
            until(lambda: ready(client) == (503, "The database does not answer"), "not ready")
            holder.rollback()
        until(lambda: ready(client)[0] == 200, "ready again")


def test_a_full_disk_is_told_until_something_is_stored(start_daemon, cluster, queue):
    database = cluster.database()
    daemon = start_daemon(database)
    with daemon.client() as client, psycopg.connect(database, autocommit=True) as connection:
        client.push(queue, 1, transactionId="one")
        connection.execute("""CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
                              $$BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100';
                               END$$""")
        connection.execute("CREATE TRIGGER full_disk BEFORE INSERT ON queend.log EXECUTE FUNCTION full_disk()")
        refused = client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 2}]})
        assert refused.status == 503 and refused.json["error"] == (
            "Nothing is known to be stored: the database has no space on its disk; try again")
        assert ready(client) == (503, "The database has no space on its disk")
        assert doubts(client) == (503, ["disk_full"])
        (one,) = (one for one in client.get("/api/v1/system/doctor").json["findings"]
                  if one["evidence"] == "doubts: disk_full")
        assert one["title"] == "the database has no space on its disk"
        twin = {"type": "push", "items": [{"queue": queue, "payload": 1, "transactionId": "one"}]}
        assert not client.transaction(twin)["success"]
        assert doubts(client) == (503, ["disk_full"]), "the transaction was refused: nothing was stored"
        connection.execute("DROP TRIGGER full_disk ON queend.log")
        client.push(queue, 2)
        assert ready(client)[0] == 200 and doubts(client) == (200, [])


def test_a_buffer_without_room(start_daemon, cluster, queue, tmp_path):
    daemon = start_daemon(cluster.database(), QUEEND_BUFFER_BYTES=4096, FILE_BUFFER_DIR=tmp_path)
    with daemon.client() as client, cluster.away():
        until(lambda: client.post("/api/v1/push", {"items": [{"queue": queue, "payload": "x" * 500}]}).status == 503,
              "the buffer is full")
        until(lambda: "buffer_full" in doubts(client)[1], "it is told")


@pytest.mark.parametrize(("settings", "risks"), [
    ({"synchronous_commit": "off"}, ["synchronous_commit"]),
    ({"synchronous_commit": "on"}, []),
    ({"synchronous_commit": "local"}, []),
])
def test_settings_that_lose_commits_are_told(start_daemon, cluster, settings, risks):
    database = cluster.database()
    for name, value in settings.items():
        cluster.execute(f"ALTER DATABASE {psycopg.conninfo.conninfo_to_dict(database)['dbname']} SET {name} = {value}")
    daemon = start_daemon(database)
    with daemon.client() as client:
        assert client.get("/health").json["commitsMayBeLost"] == [*risks, "fsync"]      # no test waits for the disk
        assert client.metric("queend_commits_may_be_lost") == 1
        told = [line["detail"] for line in daemon.log if line["event"] == "commits_may_be_lost"
                and line["level"] == "error"]
        assert any("synchronous_commit is off" in one for one in told) == bool(risks)
        assert any("fsync is off" in one for one in told)


def test_the_doctor_names_the_setting_that_is_to_be_changed(start_daemon, cluster):
    """Commits wait for the disk here, and not for the standby they should wait for: `synchronous_commit` is local."""
    database = cluster.database()
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    cluster.execute(f"ALTER DATABASE {name} SET synchronous_commit = local")
    cluster.execute("ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'")
    cluster.execute("SELECT pg_reload_conf()")
    try:
        with start_daemon(database).client() as client:
            assert client.get("/health").json["commitsMayBeLost"] == ["synchronous_commit_local", "fsync"]
            told = {one["evidence"]: one["advice"] for one in client.get("/api/v1/system/doctor").json["findings"]
                    if one["check"] == "daemon"}
            assert told == {"synchronous_commit is local": "Set synchronous_commit to on, and restart the daemon: its "
                            "sessions keep the value",
                            "fsync is not on": "Set fsync to on"}
    finally:
        cluster.execute("ALTER SYSTEM RESET synchronous_standby_names")
        cluster.execute("SELECT pg_reload_conf()")


def refused(conninfo: str, **settings: object) -> str:
    """The log of a daemon that ends at its start with status 1."""
    with pytest.raises(AssertionError, match="the daemon ended with 1") as caught:
        Daemon(conninfo, **settings).kill()
    return str(caught.value)


@pytest.fixture
def wrong(cluster):
    """Addresses that lead nowhere until somebody changes something, and what is said about them."""
    if not cluster.execute("SELECT 1 FROM pg_roles WHERE rolname = 'keeper'"):
        cluster.execute("CREATE ROLE keeper LOGIN PASSWORD 'right'")
        cluster.execute("CREATE ROLE nobody LOGIN")
    return {"password": (cluster.dsn(user="keeper", password="wrong"), "password authentication failed"),
            "database": (cluster.dsn(dbname="missing"), 'database (dbname) does not exist'),
            "right": (cluster.dsn(user="nobody", dbname=psycopg.conninfo.conninfo_to_dict(
                cluster.empty_database())["dbname"]), "permission denied"),
            "name": (cluster.dsn(host="no-such-host.invalid"), "host (host)")}


@pytest.mark.parametrize("what", ["password", "database", "right", "name"])
@pytest.mark.parametrize("buffer", [0, 64 << 20])
def test_a_start_that_is_refused_ends(wrong, what, buffer, tmp_path):
    conninfo, reason = wrong[what]
    story = refused(conninfo, QUEEND_BUFFER_BYTES=buffer, FILE_BUFFER_DIR=tmp_path)
    assert reason in story
    assert ("cannot connect to PostgreSQL: " if what == "name" else "PostgreSQL refuses this daemon: ") in story


@pytest.mark.parametrize("what", ["password", "database", "right", "name"])
def test_with_messages_in_its_buffer_it_serves_and_says_why(start_daemon, cluster, wrong, what, queue, tmp_path):
    conninfo, reason = wrong[what]
    buffer = {"QUEEND_BUFFER_BYTES": 64 << 20, "FILE_BUFFER_DIR": tmp_path, "QUEEND_DATA_DIR": tmp_path}
    with cluster.away():
        before = Daemon(conninfo if what != "name" else cluster.dsn(), **buffer)
        with before.client() as client:
            assert client.push(queue, 1)[0]["status"] == "buffered"
        before.kill()
    daemon = start_daemon(conninfo, **buffer)
    with daemon.client() as client:
        assert client.push(queue, 2)[0]["status"] == "buffered"
        line = until(lambda: daemon.line("database_unreachable"), "it says why")
        assert line["level"] == "error" and reason in line["detail"]
        assert client.get("/readyz").json["status"] == "buffering" and client.get("/health").status == 503


def test_a_password_that_is_changed_while_it_serves(start_daemon, cluster, queue, wrong):
    cluster.execute("ALTER ROLE keeper PASSWORD 'right' SUPERUSER")
    daemon = start_daemon(cluster.dsn(user="keeper", password="right",
                                      dbname=psycopg.conninfo.conninfo_to_dict(cluster.database())["dbname"]),
                          QUEEND_PATIENCE_MS=100, DB_CONNECTION_TIMEOUT=100)
    with daemon.client() as client:
        client.push(queue, 1)
        cluster.execute("ALTER ROLE keeper PASSWORD 'other'")
        # Again and again: one that was about to be made belongs to nobody yet.
        until(lambda: cluster.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                      " WHERE usename = 'keeper'")
              and ready(client) == (503, "The database refuses connections"), "not ready")
        until(lambda: "refused" in doubts(client)[1], "told")
        until(lambda: any(line["level"] == "error" and "28P01" in line.get("detail", "") for line in daemon.log),
              "said as an error")
        # Where the server is slower than DB_CONNECTION_TIMEOUT it is "not reachable" until the next try.
        for ask, text in (
                (lambda: client.pop_answer(queue, "p"), "The database refuses connections"),
                (lambda: client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 2}]}),
                 "The database refuses connections; nothing is known to be stored, try again"),
                (lambda: client.get("/api/v1/resources/queues"),
                 "Database unavailable: the database refuses connections")):
            until(lambda ask=ask, text=text: (answer := ask()).status == 503 and answer.json["error"] == text, text)
        cluster.execute("ALTER ROLE keeper PASSWORD 'right'")
        until(lambda: doubts(client) == (200, []), "ready again")


def test_the_control_plane_is_let_in_late(cluster, queue):
    """Its first connections take longer than DB_CONNECTION_TIMEOUT. The daemon starts, and pages are shown once the
    server lets it in."""
    proxy = Proxy(cluster.port)
    proxy.rule = lambda to_server, data: [MUTE] if to_server and b"queend control" in data else [data]
    database = psycopg.conninfo.conninfo_to_dict(cluster.database())["dbname"]
    daemon = Daemon(cluster.dsn(port=proxy.port, dbname=database), DB_CONNECTION_TIMEOUT=500)
    try:
        with daemon.client() as client:
            assert daemon.line("control_without_connection")
            client.push(queue, 1)
            assert client.get("/api/v1/resources/queues").status == 503
            proxy.rule = pass_on
            until(lambda: client.get("/api/v1/resources/queues").status == 200, "pages are shown")
            until(lambda: client.get("/health").status == 200, "health says so")
    finally:
        daemon.end()
        proxy.close()


def test_the_control_plane_is_let_in_and_not_heard(cluster, queue):
    """Its first connections are accepted, and what it says on them is lost: others are made in their place."""
    proxy = Proxy(cluster.port)
    # a setting that its sessions alone have
    proxy.rule = lambda to_server, data: [MUTE] if b"client_connection_check_interval" in data else [data]
    database = psycopg.conninfo.conninfo_to_dict(cluster.database())["dbname"]
    daemon = Daemon(cluster.dsn(port=proxy.port, dbname=database), DB_CONNECTION_TIMEOUT=500, DB_STATEMENT_TIMEOUT=500)
    try:
        with daemon.client() as client:
            assert daemon.line("control_without_connection")
            assert client.get("/api/v1/resources/queues").status == 503
            proxy.rule = pass_on
            client.push(queue, 1)
            until(lambda: client.get("/api/v1/resources/queues").status == 200, "pages are shown")
    finally:
        daemon.kill()
        proxy.close()


def test_the_control_plane_keeps_a_connection(request, queue):
    """Fewer connections than the daemon would like, at the start and after the server was away."""
    with running(request.config.getoption("--postgres"), max_connections=10, superuser_reserved_connections=0,
                 reserved_connections=0) as server:
        daemon = Daemon(server.database(), NUM_WORKERS=2)
        try:
            with daemon.client() as client:
                for again in range(3):
                    until(lambda: client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 1}]}).status
                          == 201, "pushes are stored")
                    until(lambda: client.get("/api/v1/resources/queues").status == 200, "pages are shown")
                    if again < 2:
                        server.restart()
        finally:
            daemon.kill()


def test_pages_after_their_sessions_were_ended(start_daemon, queue):
    """By a restart of the server, or a firewall: the daemon's idle connections are closed, the database is there."""
    own = start_daemon()
    with own.client() as client, psycopg.connect(own.conninfo, autocommit=True) as connection:
        client.push(queue, 1)
        with ThreadPoolExecutor(6) as threads:
            assert set(threads.map(lambda _: own.client().get("/api/v1/resources/queues").status, range(60))) == {200}
        ended = connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE"
                                   " application_name = 'queend control' AND datname = current_database()")
        assert ended.rowcount > 1
        assert [client.get("/api/v1/resources/queues").status for _ in range(20)] == [200] * 20
