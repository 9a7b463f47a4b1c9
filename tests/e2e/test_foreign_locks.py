"""Advisory locks of queend that a role without rights holds: nothing waits for them, and no other session is ended."""
from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.forked import queend
from support.guides import blocks
from support.log import stored
from support.postgres import Postgres, running
from support.wait import until

from queend.postgres import migrate
from queend.postgres.foreign_locks import LANES
from queend.services import retention, stats

ALL_LANES = f"SELECT count(pg_advisory_lock({LANES}, lane)) FROM generate_series(0, 63) AS lane"
HELD = f"""SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = {LANES} AND granted AND pid <> ALL(%s)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY pid HAVING count(*) = 64"""
USAGE = "GRANT USAGE ON SCHEMA queen, queend TO clerk"
TABLES = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA queend, queen TO clerk"
WAITS = b'{"items": [{"queue": "q", "payload": "waits"}]}'
OFTEN = {"RETENTION_INTERVAL": 200, "EVICTION_INTERVAL": 200, "STATS_INTERVAL_MS": 200}


class Server:
    """A server at which roles log in. `ender` may end sessions of other roles, `plain` may not."""

    def __init__(self, server: Postgres):
        self.server = server
        self.names = (f"d{number}" for number in itertools.count(1))
        server.execute("CREATE ROLE nogrant LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE plain LOGIN; "
                       "CREATE ROLE ender LOGIN; GRANT pg_signal_backend TO ender; "
                       "CREATE ROLE member LOGIN NOINHERIT; GRANT clerk TO member")

    def database(self, owner: str) -> str:
        """Creates a database and returns how its owner connects."""
        name = next(self.names)
        self.server.execute(f"CREATE DATABASE {name} OWNER {owner}")
        return self.server.dsn(user=owner, dbname=name)

    def login(self, daemon: Daemon | str, role: str, name: str = "") -> psycopg.Connection:
        conninfo = daemon if isinstance(daemon, str) else daemon.conninfo
        return psycopg.connect(conninfo, user=role, autocommit=True, application_name=name)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(request.config.getoption("--postgres"), tcp=True, max_prepared_transactions=5) as one:
        yield Server(one)


Start = Callable[..., Daemon]


@pytest.fixture
def start(server: Server) -> Iterator[Start]:
    with contextlib.ExitStack() as all_:
        yield lambda conninfo, **settings: all_.enter_context(Daemon(conninfo, **settings))


def is_over(connection: psycopg.Connection) -> bool:
    """Whether the server has ended this session, which does nothing."""
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


@contextlib.contextmanager
def held_again(server: Server, daemon: Daemon) -> Iterator[Callable[[], int]]:
    """A role without rights takes all lanes, and again as soon as its session was ended. Yields a function that waits
    until another session of it has all lanes."""
    over, seen = threading.Event(), [0]

    def attack() -> None:
        while not over.is_set():
            with contextlib.suppress(psycopg.OperationalError), server.login(daemon, "nogrant", "attack") as connection:
                connection.execute(ALL_LANES)
                connection.execute("SELECT pg_sleep(3600)")

    def another() -> int:
        with server.login(daemon, "postgres") as connection:
            seen.append(until(lambda: connection.execute(HELD, (seen,)).fetchone(), "it has all lanes")[0])
        return seen[-1]

    thread = threading.Thread(target=attack)
    thread.start()
    try:
        yield another
    finally:
        over.set()
        with server.login(daemon, "postgres") as connection:
            until(lambda: connection.execute("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE"
                                             " application_name = 'attack'") and not thread.is_alive(), "it ends")
        thread.join()


def test_pushes_are_stored_while_a_role_takes_all_lanes(server, start):
    daemon = start(server.database("ender"))
    with daemon.client() as client, server.login(daemon, "nogrant") as bystander:
        client.push("q", "before", partition="0")
        bystander.execute(f"SELECT pg_advisory_lock(7), pg_advisory_lock({LANES + 4}, 1), pg_advisory_lock(1 << 20, 2)")
        with held_again(server, daemon) as another:
            first = another()
            for number in range(4):
                client.push("q", *range(5), partition=str(number))
                if number == 0:
                    line = daemon.told("foreign_lock_ended")
                    assert (line["level"], line["role"], line["pid"]) == ("warn", "nogrant", first)
                    assert line["held"] == "lanes (64)" and str(first) in line["detail"]
                another()
        assert stored(client, "q", "0") == ["before", *range(5)]
        assert not is_over(bystander), "its locks are none of queend's"


@pytest.mark.parametrize("role", ["clerk", "member", "postgres"])
def test_a_program_that_may_use_queend_is_not_ended(server, start, role):
    """It holds all lanes when the guard ends another session that waits for them, and commits later."""
    daemon = start(server.database("ender"))
    with (daemon.client() as client, server.login(daemon, "ender") as owner, server.login(daemon, role) as program,
          server.login(daemon, "nogrant") as foreign):
        owner.execute(USAGE), owner.execute(TABLES)
        client.push("q", "before")
        if role == "member":
            program.execute("SET ROLE clerk")
        program.execute("BEGIN")
        program.execute(f"SELECT pg_advisory_xact_lock({LANES}, lane) FROM generate_series(0, 63) AS lane")
        foreign.pgconn.send_query(ALL_LANES.encode())
        client.send("POST", "/api/v1/push", WAITS)
        assert daemon.told("foreign_lock_ended")["pid"] == foreign.info.backend_pid
        program.execute("""SELECT queen.push_messages_v3('[{"queue": "q", "payload": "program"}]')""")
        program.execute("COMMIT")
        foreign.close()
        assert client.receive().status == 201
        assert stored(client, "q") == ["before", "program", "waits"]


def doctor(client: Client) -> list[dict]:
    return [one for one in client.get("/api/v1/system/doctor").json["findings"] if one["check"] == "services"]


def test_a_daemon_that_may_not_end_it_says_once_what_to_do(server, start):
    daemon = start(server.database("plain"))
    with daemon.client() as client, daemon.client() as other, server.login(daemon, "nogrant") as foreign:
        client.push("q", "before")
        foreign.execute(ALL_LANES)
        client.send("POST", "/api/v1/push", WAITS)
        line = daemon.told("foreign_lock")
        assert (line["level"], line["role"], line["pid"]) == ("error", "nogrant", foreign.info.backend_pid)
        assert "GRANT pg_signal_backend TO plain" in line["detail"]
        assert "REVOKE CONNECT ON DATABASE d" in line["detail"] and "lanes (64)" in line["detail"]
        (finding,) = until(lambda: [one for one in doctor(other) if not one["evidence"].startswith(("1 ", "2 "))],
                           "it has asked three times")
        assert "foreign_lock" in finding["title"] and "role nogrant" in finding["evidence"]
        server.server.execute(blocks("postgresql.md", "sql")[3].replace("queend", "plain"))
        try:
            assert client.receive().status == 201
        finally:
            server.server.execute("REVOKE pg_signal_backend FROM plain")
        assert is_over(foreign) and until(lambda: not doctor(other), "the fault is over")
        assert [one["event"] for one in daemon.log].count("foreign_lock") == 1


@pytest.mark.parametrize("owner", ["postgres", "ender"])
def test_a_prepared_transaction_holds_lanes(server, start, owner):
    """It has no session that could be ended; a superuser can roll it back."""
    daemon = start(server.database(owner))
    with daemon.client() as client, server.login(daemon, "nogrant") as foreign:
        client.push("q", "before")
        foreign.execute("BEGIN")
        foreign.execute(f"SELECT pg_advisory_xact_lock({LANES}, lane) FROM generate_series(0, 63) AS lane")
        foreign.execute("PREPARE TRANSACTION 'it''s kept'")
        client.send("POST", "/api/v1/push", WAITS)
        if owner == "postgres":
            assert "it's kept" in daemon.told("foreign_lock_ended")["detail"]
        else:
            line = daemon.told("foreign_lock")
            assert "ROLLBACK PREPARED" in line["detail"] and "it's kept" in line["detail"] and line["pid"] is None
            foreign.execute("ROLLBACK PREPARED 'it''s kept'")
        assert client.receive().status == 201


def test_a_cycle_of_a_stream_waits_for_its_query(server, start):
    """The number of its lock may be another program's: one that nothing waits for is left alone."""
    daemon = start(server.database("ender"))
    with daemon.client() as client, server.login(daemon, "nogrant") as foreign, \
            server.login(daemon, "nogrant") as bystander:
        partition = client.push("q", 1)[0]["partition_id"]
        queries = [client.post("/streams/v1/queries", {"name": name, "source_queue": "q", "config_hash": "h"}
                               ).json["query_id"] for name in ("waits", "rests")]
        with server.login(daemon, "ender") as owner:
            numbers = dict(owner.execute("SELECT name, id FROM queend.stream_queries").fetchall())
        for session, name in ((foreign, "waits"), (bystander, "rests")):
            session.execute("SELECT pg_advisory_lock(%s::bigint << 32)", (numbers[name],))
        answer = client.post("/streams/v1/cycle", {
            "query_id": queries[0], "partition_id": partition, "push_items": [],
            "state_ops": [{"type": "upsert", "key": "k", "value": 1}]})
        assert answer.status == 200, answer
        assert is_over(foreign) and not is_over(bystander)
        assert daemon.told("foreign_lock_ended")["held"] == "streams (1)"


def test_a_page_waits_for_dead_letters(server, start):
    daemon = start(server.database("ender"))
    with daemon.client() as client, server.login(daemon, "nogrant") as foreign:
        client.push("q", 1)
        foreign.execute("SELECT pg_advisory_lock(1903519079, part) FROM generate_series(1, 100) AS part")
        assert client.request("DELETE", "/api/v1/queues/q/partitions/Default").status == 200
        assert daemon.told("foreign_lock_ended")["held"] == "dead letters (100)"


def test_services_whose_lock_was_taken_work(server, start):
    """They try their lock and do not wait for it."""
    conninfo = server.database("ender")
    start(conninfo).stop()
    with server.login(conninfo, "nogrant") as foreign:
        foreign.execute("SELECT pg_advisory_lock(%s), pg_advisory_lock(%s)", (retention.LOCK, stats.LOCK))
        daemon = start(conninfo, **OFTEN)
        with daemon.client() as client:
            until(lambda: client.metric("queend_retention_working") == 1, "retention works")
        assert daemon.told("foreign_lock_ended")["held"] == "figures (1), retention (1)"
        assert is_over(foreign)


@pytest.mark.parametrize("owner", ["ender", "plain"])
def test_the_lock_of_migrations_at_the_start(server, start, owner):
    conninfo = server.database(owner)
    with server.login(conninfo, "nogrant") as foreign:
        foreign.execute("SELECT pg_advisory_lock(%s)", (migrate.LOCK,))
        if owner == "ender":
            daemon = start(conninfo)
            assert daemon.told("foreign_lock_ended")["pid"] == foreign.info.backend_pid
        else:
            daemon = Daemon.own("/nowhere", QUEEND_DSN=conninfo)
            line = daemon.await_event("migration_waits")
            assert f"session {foreign.info.backend_pid} of the role nogrant" in line["detail"]
            assert "GRANT pg_signal_backend TO plain" in line["detail"]
            foreign.close()
            daemon.await_event("migrated")
            daemon.stop()


def test_the_lock_of_migrations_at_a_restore(server, tmp_path):
    conninfo = server.database("ender")

    def run(*words: str | Path) -> str:
        done = subprocess.run([*queend(), *map(str, words)], cwd=tmp_path, text=True,
                              capture_output=True, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE),
                                                        "QUEEND_DATA_DIR": str(tmp_path), "QUEEND_DSN": conninfo})
        assert done.returncode == 0, done
        return done.stderr

    run("migrate")
    run("backup", tmp_path / "copy")
    with server.login(conninfo, "nogrant") as foreign:
        foreign.execute("SELECT pg_advisory_lock(%s)", (migrate.LOCK,))
        assert "foreign_lock_ended" in run("restore", tmp_path / "copy", "--replace", "--yes")
        assert is_over(foreign)
