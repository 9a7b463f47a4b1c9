"""A database copied into another one over HTTP, as the dashboard does it."""
from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from support.client import Client, data
from support.postgres import Postgres, running
from support.wait import until

from queend.services.copy_target import MOST, Address, Cut, Work
from queend.services.transfer import Transfer
from queend.settings.lists import targets_read

BASE = "/api/v1/migration"


@pytest.fixture(scope="module")
def postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """One that listens on a port: nothing is copied over a socket in a folder."""
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


@pytest.fixture(scope="module")
def listed(postgres: Postgres) -> dict[str, str]:
    return {"QUEEND_MIGRATION_TARGETS": f"127.0.0.1:{postgres.port}/*, silent.example/any, 127.0.0.1:1/*"}


@pytest.fixture(scope="module")
def daemon(start_daemon, listed):
    return start_daemon(**listed)


@pytest.fixture
def to(postgres: Postgres):
    """A database as a request names it."""
    def address(conninfo: str, **more: Any) -> dict[str, Any]:
        parts = conninfo_to_dict(conninfo)
        return {"host": "127.0.0.1", "port": str(postgres.port), "database": parts["dbname"], "user": parts["user"],
                "password": "", **more}
    return address


def ended(client: Client) -> dict[str, Any]:
    return until(lambda: (now := client.get(f"{BASE}/status").json)["status"] in ("complete", "error")
                 and now, "the copy ended")


def fill(client: Client) -> None:
    client.configure("q", leaseTime=77)
    for part in ("a", "b"):
        client.push("q", *range(50), partition=part)
    assert data(client.pop("q", "a", consumerGroup="g", batch=20, autoAck=True)) == [*range(20)]
    (message,) = client.pop("q", "b", consumerGroup="g")
    assert client.ack(message, "dlq", group="g")["success"]
    client.push("wide", {"text": "x" * 5000})


def test_a_database_is_copied(client: Client, daemon, postgres, start_daemon, to) -> None:
    fill(client)
    there = to(postgres.empty_database())
    conninfo = daemon.conninfo.replace(f"dbname={conninfo_to_dict(daemon.conninfo)['dbname']}",
                                       f"dbname={there['database']}")
    assert client.post(f"{BASE}/test-connection", there).json == {"success": True, "message": "Connection successful"}
    assert client.post(f"{BASE}/start", there).status == 202
    status = ended(client)
    assert status["status"] == "complete" and "log: " in status["restoreOutput"], status
    found = client.post(f"{BASE}/validate", there).json
    assert found["success"] and found["allMatch"], found
    assert {one["table"]: one["targetCount"] for one in found["tables"]} | {
        "messages": 101, "queues": 2,
        "dead_letter_queue": 1} == {one["table"]: one["targetCount"] for one in found["tables"]}
    with psycopg.connect(conninfo) as copy:
        assert dict(copy.execute("SELECT kind, sum(n)::int FROM queend.name_counts GROUP BY 1").fetchall()) == dict(
            copy.execute("SELECT 'queue', count(*) FROM queend.queues UNION ALL SELECT 'partition', count(*) FROM "
                         "queend.partitions UNION ALL SELECT 'group', count(*) FROM queend.consumer_groups").fetchall())
    with start_daemon(conninfo).client() as other:
        assert data(other.pop("q", "a", consumerGroup="g", batch=100, autoAck=True)) == [*range(20, 50)]
        assert data(other.pop("q", "b", consumerGroup="g", batch=100, autoAck=True)) == [*range(1, 50)]
        assert other.dead("q") == 1
        other.push("q", "new", partition="a")
        other.push("new", "queue", partition="new")
        assert data(other.pop("q", "a", consumerGroup="g")) == ["new"] and data(other.pop("new", "new")) == ["queue"]
    assert client.post(f"{BASE}/validate", there).json["allMatch"] is False
    assert client.post(f"{BASE}/reset").json["status"] == "idle"
    assert client.get(f"{BASE}/status").json == {"status": "idle", "currentStep": "", "elapsedSeconds": 0.0}


def test_without_messages_offsets_go_on(client: Client, daemon, postgres, start_daemon, to) -> None:
    client.push("empty", *range(7))
    there = to(postgres.empty_database(), excludeTableData=["messages", "nothing we have"])
    client.post(f"{BASE}/start", there)
    assert ended(client)["status"] == "complete"
    conninfo = daemon.conninfo.replace(f"dbname={conninfo_to_dict(daemon.conninfo)['dbname']}",
                                       f"dbname={there['database']}")
    with psycopg.connect(conninfo) as copy:      # nothing that was written lately counts as idle there
        assert copy.execute("SELECT bool_and(raised_at > 0) FROM queend.floors").fetchone() == (True,)
    with start_daemon(conninfo).client() as other:
        assert other.pop("empty") == []
        other.push("empty", "first")
        (message,) = other.pop("empty")
        assert (message["data"], message["offset"]) == ("first", 7)


def test_without_messages_their_delivery_moments_stay_behind(client: Client, daemon, postgres, to) -> None:
    """One of a message that stays behind would keep all later ones from retention."""
    client.post("/api/v1/push", {"items": [{"queue": "later", "payload": 1, "delayMs": 86_400_000}]})
    there = to(postgres.empty_database(), excludeTableData=["messages"])
    client.post(f"{BASE}/start", there)
    assert ended(client)["status"] == "complete"
    with psycopg.connect(daemon.conninfo.replace(f"dbname={conninfo_to_dict(daemon.conninfo)['dbname']}",
                                                 f"dbname={there['database']}")) as copy:
        copy.execute("SELECT queend.push_items('{later}', '{Default}', '{t}', '{2}', '{NULL}', '{NULL}')")
        found = copy.execute("SELECT t.records FROM queend.queues q, queend.retain(q.id, 0, 10, 10,"
                             " queend.now_us() + 1000000, 0, 0) AS t WHERE q.name = 'later'").fetchall()
        assert found == [(1,), (0,)]


def test_one_at_a_time_and_a_stop_in_the_middle(postgres, start_daemon, listed, to) -> None:
    daemon = start_daemon(**listed)
    there = to(postgres.empty_database())
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder:
        holder.execute("LOCK TABLE queend.traces IN ACCESS EXCLUSIVE MODE")
        assert client.post(f"{BASE}/start", there).status == 202
        until(lambda: client.get(f"{BASE}/status").json["currentStep"] == "copying traces", "it waits for the table")
        assert [client.post(f"{BASE}/{what}", there).status for what in ("start", "reset")] == [409, 409]
        daemon.stop()


@pytest.mark.parametrize("change, text", [
    ({"host": ""}, "are required"), ({"user": None}, "are required"), ({"port": 5432}, "port must be a string"),
    ({"port": "99999"}, "port must be"), ({"port": "x"}, "port must be"),
    ({"ssl": "yes"}, "ssl must be"), ({"password": ["x"]}, "password must be"),
    ({"database": "a\0b"}, "database must be"),
    ({"overwrite": "yes"}, "overwrite must be"), ({"excludeTableData": "messages"}, "excludeTableData must be"),
    ({"schema": "public"}, "schema must be queen")])
def test_bad_input(client: Client, daemon, to, change: dict[str, Any], text: str) -> None:
    before = client.get(f"{BASE}/status").json
    answer = client.post(f"{BASE}/start", to(daemon.conninfo) | change)
    assert answer.status == 400 and text in answer.json["error"], answer.body
    assert client.get(f"{BASE}/status").json == before, "nothing began"


def test_what_cannot_be(client: Client, daemon, to) -> None:
    nowhere = to(daemon.conninfo, port="1")
    assert client.post(f"{BASE}/test-connection", nowhere).json == {"success": False, "message": "Connection failed"}
    answer = client.post(f"{BASE}/validate", nowhere)
    assert (answer.status, answer.json["success"], answer.json["error"]) == (400, False, "Failed to connect to target")
    answer = client.post(f"{BASE}/start", nowhere)
    assert (answer.status, answer.json["error"]) == (400, "Failed to connect to target")
    here = to(daemon.conninfo)
    assert [client.post(f"{BASE}/start", {**here, "overwrite": True}).status for _ in range(2)] == [409, 202]
    assert "is the source database" in ended(client)["error"]
    client.post(f"{BASE}/reset")


def test_it_is_off_unless_a_target_is_listed(client: Client, daemon, postgres, start_daemon, to) -> None:
    there = to(postgres.empty_database())
    with start_daemon().client() as other:
        for what in ("test-connection", "start", "validate"):
            answer = other.post(f"{BASE}/{what}", there)
            assert (answer.status, answer.json["code"]) == (403, "migration_off")
    for change in ({"host": "localhost"}, {"port": "2"}, {"host": str(postgres.data)}, {"host": "@abstract"},
                   {"host": f"127.0.0.1,{postgres.data}"}, {"host": "silent.example", "port": "5432"}):
        for what in ("test-connection", "start", "validate"):
            answer = client.post(f"{BASE}/{what}", there | change)
            assert (answer.status, answer.json["code"]) == (403, "target_not_listed"), change
    assert targets_read("a/b, [::1]:5433/*,C.example:1/d") == {("a", 5432, "b"), ("::1", 5433, "*"),
                                                               ("c.example", 1, "d")}
    for wrong in ("a", "/var/run/db", "@x/y", "a:b/c", "user@host/db", "a/"):
        with pytest.raises(ValueError, match="is not a target"):
            targets_read(wrong)


def test_what_is_there_is_dropped_by_a_second_request_alone(client: Client, postgres, to) -> None:
    conninfo = postgres.empty_database()
    there = to(conninfo)

    def kept() -> bool:
        with psycopg.connect(conninfo) as connection:
            return connection.execute("SELECT to_regclass('queen.precious')").fetchone() != (None,)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA queend; CREATE SCHEMA queen; CREATE TABLE queen.precious (n int)")
    assert client.post(f"{BASE}/start", {**there, "overwrite": True}).status == 409, "nobody was told of it yet"
    answer = client.post(f"{BASE}/start", there)
    assert (answer.status, answer.json["code"]) == (409, "target_not_empty")
    assert "queen is not empty" in answer.json["error"]
    assert client.post(f"{BASE}/start", {**there, "user": "somebody",
                                         "overwrite": True}).status == 400, "another request confirms nothing"
    assert kept() and client.get(f"{BASE}/status").json["status"] != "dumping"
    assert client.post(f"{BASE}/start", {**there, "overwrite": True}).status == 202
    assert ended(client)["status"] == "complete" and not kept()
    client.post(f"{BASE}/reset")


def test_nothing_of_the_daemon_s_own_is_used(postgres, start_daemon, listed, to, tmp_path) -> None:
    postgres.execute("CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'own-secret'")
    (tmp_path / "pass").write_text("*:*:*:*:own-secret\n")
    (tmp_path / "pass").chmod(0o600)
    there = to(postgres.empty_database(), user="keeper")
    for own in ({"PGPASSWORD": "own-secret"}, {"PGPASSFILE": tmp_path / "pass"}):
        with psycopg.connect(f"host=127.0.0.1 port={postgres.port} user=keeper dbname=postgres",
                             **{"password": "own-secret"}):
            pass
        with start_daemon(**listed, **own).client() as client:
            assert client.post(f"{BASE}/test-connection", there).json["success"] is False
            assert client.post(f"{BASE}/start", there).status == 400
            assert client.post(f"{BASE}/test-connection", {**there, "password": "own-secret"}).json["success"] is True
    for option in psycopg.pq.Conninfo.get_defaults():
        if option.envvar and option.keyword not in (b"service", b"servicefile"):
            assert option.keyword.decode() in conninfo_to_dict(
                Address("h", "1", "d", "u", "", False).conninfo()), "left to the environment"


class Silent:
    """A server that lets everybody in and then says nothing more. `now`: connections that are open."""

    def __init__(self, server: socket.socket):
        self.server, self.port, self.now = server, server.getsockname()[1], 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        connection.recv(struct.unpack(">I", connection.recv(4))[0])
        connection.sendall(b"R" + struct.pack(">II", 8, 0) + b"Z" + struct.pack(">I", 5) + b"I")
        self.now += 1
        with connection:
            while connection.recv(4096):
                pass
        self.now -= 1


@pytest.fixture
def silent() -> Iterator[Silent]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Silent(server)
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_goes_silent_holds_nobody_up(start_daemon, silent: Silent) -> None:
    daemon = start_daemon(QUEEND_MIGRATION_TARGETS=f"127.0.0.1:{silent.port}/a", QUEEND_MIGRATION_STEP_MS="600000")
    there = {"host": "127.0.0.1", "port": str(silent.port), "database": "a", "user": "b"}
    clients = [daemon.client() for _ in range(MOST)]
    for client in clients:
        client.send("POST", f"{BASE}/validate", json.dumps(there).encode())
    until(lambda: silent.now == MOST, "so many wait")
    with daemon.client() as other:
        for what in ("test-connection", "validate", "start"):
            assert other.post(f"{BASE}/{what}", there).status == 503, "and no more"
        other.push("q", 1)
        assert other.post("/api/v1/fetch", {"entries": [{"queue": "q", "offset": 0}]}).status == 200
    daemon.stop()
    until(lambda: silent.now == 0, "it has left")


def test_a_step_has_an_end(start_daemon, silent: Silent) -> None:
    daemon = start_daemon(QUEEND_MIGRATION_TARGETS=f"127.0.0.1:{silent.port}/a", QUEEND_MIGRATION_STEP_MS="1000")
    there = {"host": "127.0.0.1", "port": str(silent.port), "database": "a", "user": "b"}
    with daemon.client() as client:
        for _ in range(MOST + 1):
            answer = client.post(f"{BASE}/validate", there)
            assert (answer.status, answer.json["error"]) == (400, "Counting rows took too long")
            until(lambda: silent.now == 0, "its connection was closed")


def test_a_copy_that_stands_still_ends(start_daemon, postgres, to) -> None:
    # Long enough for the steps before; on a busy machine one of them may stand still as long.
    daemon = start_daemon(QUEEND_MIGRATION_TARGETS=f"127.0.0.1:{postgres.port}/*", QUEEND_MIGRATION_STEP_MS="10000")
    there = to(postgres.empty_database())
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder:
        holder.execute("LOCK TABLE queend.traces IN ACCESS EXCLUSIVE MODE")
        assert client.post(f"{BASE}/start", there).status == 202
        assert ended(client)["error"].endswith(": no progress for 10 s")


def test_a_stop_waits_for_the_thread_that_it_cuts_off() -> None:
    """The thread has the loss of its connection to log, which must not come after the daemon's last line."""
    runs, ended = threading.Event(), []

    def slow(work: Work) -> None:
        runs.set()
        while True:
            try:
                work.step()
            except Cut:
                time.sleep(0.1)      # stands for a thread that has no turn on a busy machine
                ended.append(True)
                raise

    async def stopped() -> None:
        transfer = Transfer("", 60.0)
        copying = asyncio.create_task(transfer._run(60.0, slow))
        await asyncio.to_thread(runs.wait)
        await transfer.close()
        assert ended
        with pytest.raises(Cut):
            await copying

    asyncio.run(stopped())
