"""queend doctor: each fault is made, found, and no longer found when it is over."""
import asyncio
import json
import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from types import SimpleNamespace

import psycopg
import pytest
from support.cli import Cli
from support.wait import until

from queend.control.routes import doctor, sessions
from queend.control.routes.doctor import CHECKS
from queend.control.routes.plans import LANES
from queend.services import running
from queend.services.running import Running


def found(cli, check):
    done = cli("doctor", "-o", "json")
    assert done.status in (0, 1), done
    return [one for one in done.json if one["check"] == check]


def waiting(cli):
    return [one for one in found(cli, "daemon") if one["title"] == "messages wait in the failover buffer"]


def test_nothing_is_wrong_with_a_new_one_but_the_cluster_of_tests(cli):
    done = cli("doctor")
    assert done.status == 1 and "fsync is not on" in done.out, done
    assert "=# ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()" in done.out
    # each database that the cluster of tests drops requests a checkpoint
    findings = [one for check in CHECKS for one in found(cli, check)
                if one["title"] != "checkpoints are requested too often"]
    assert {one["evidence"] for one in findings} == {"fsync is not on"}


def test_who_waits_for_a_lock(cli, daemon):
    waiter = psycopg.connect(daemon.conninfo)
    with psycopg.connect(daemon.conninfo) as holder:
        holder.execute("CREATE TABLE public.held ()")
        holder.commit()
        holder.execute("LOCK TABLE public.held")
        waiter.pgconn.send_query(b"BEGIN; LOCK TABLE public.held")
        (one,) = until(lambda: found(cli, "locks"), "the wait is long enough to be told")
        assert str(holder.info.backend_pid) in one["evidence"] and one["level"] == "warning"
        with psycopg.connect(daemon.conninfo) as other:
            assert other.execute(one["run"]).fetchone()[0] == holder.info.backend_pid
        holder.rollback()
    waiter.close()
    assert not found(cli, "locks")


def test_who_locks_a_table_while_pages_wait_for_it(start_daemon, tmp_path):
    """Pages have every connection of the control plane, and wait for the lock without an end."""
    daemon = start_daemon(DB_POOL_SIZE=40, DB_LOCK_TIMEOUT=0, DB_STATEMENT_TIMEOUT=0)
    cli = Cli(daemon.url, tmp_path)
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as holder, ExitStack() as pages:
        client.push("q", 1)
        client.pop("q", consumerGroup="g")
        holder.execute("LOCK TABLE queend.consumer_groups")
        for _ in range(4):
            pages.enter_context(page := daemon.client())
            page.send("GET", "/api/v1/resources/queues/q")
        one = until(lambda: found(cli, "locks"), "the waits are long enough to be told")[0]
        assert str(holder.info.backend_pid) in one["evidence"]
        holder.rollback()


def test_a_statement_that_takes_long(start_daemon, tmp_path):
    """A trigger of somebody else delays a push. It waits for no lock, and the database answers everything else."""
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.push("q", 1)
        database.execute("CREATE TABLE public.slow AS SELECT 1; CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE "
                         "plpgsql AS 'BEGIN WHILE EXISTS (SELECT FROM public.slow) LOOP PERFORM pg_sleep(0.05); END "
                         "LOOP; RETURN NEW; END'; CREATE TRIGGER slow BEFORE INSERT ON queend.log FOR EACH ROW EXECUTE "
                         "FUNCTION public.slow()")
        client.send("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":2}]}')
        (one,) = until(lambda: found(cli, "statements"), "the statement takes long enough")
        assert one["level"] == "warning" and "Timeout: PgSleep" in one["evidence"], one
        assert "queend.push" in database.execute(one["run"]).fetchone()[3]
        assert not found(cli, "locks")
        database.execute("DELETE FROM public.slow")
        assert client.receive().status == 201
        assert not found(cli, "statements")


def test_the_command_takes_back_what_was_set_for_the_database(postgres, start_daemon, tmp_path):
    """ALTER SYSTEM would not change it."""
    conninfo = postgres.database()

    def risks() -> list[str]:
        cli = Cli(start_daemon(conninfo).url, tmp_path)
        return [one["run"] for one in found(cli, "daemon") if one["evidence"] == "synchronous_commit is not on"]

    with psycopg.connect(conninfo, autocommit=True) as database:
        name = database.info.dbname
        database.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        (run,) = risks()
        assert run == f"ALTER DATABASE {name} RESET synchronous_commit"
        database.execute(run)
        assert not risks()


def test_old_figures_that_could_not_be_removed(postgres, start_daemon, tmp_path):
    """A daemon begins with that. It tries again as soon as the table is free."""
    conninfo = postgres.database()
    with psycopg.connect(conninfo) as holder:
        holder.execute("LOCK TABLE queend.metric_workers")
        daemon = start_daemon(conninfo, DB_LOCK_TIMEOUT=100)
        cli = Cli(daemon.url, tmp_path)
        until(lambda: [one for one in found(cli, "services") if "metrics_not_cleaned" in one["title"]], "it has failed")
        holder.rollback()
        until(lambda: not found(cli, "services"), "it has succeeded")


def test_a_slot_that_nobody_reads(cli, daemon):
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        if connection.execute("SHOW wal_level").fetchone() != ("logical",):
            connection.execute("SELECT pg_create_physical_replication_slot('idle', true)")
            assert not found(cli, "slots")      # it keeps little, and no dead rows
            connection.execute("SELECT pg_drop_replication_slot('idle')")


def test_a_lane_in_which_pushes_wait(cli, daemon):
    """A program that pushed from SQL and does not commit."""
    waiter = psycopg.connect(daemon.conninfo)
    with psycopg.connect(daemon.conninfo) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s, 7)", (LANES,))
        waiter.pgconn.send_query(f"SELECT pg_advisory_xact_lock({LANES}, 7)".encode())
        (one,) = until(lambda: found(cli, "lanes"), "it waits")
        assert "lane 7" in one["title"]
        assert f"session {holder.info.backend_pid} of the role {holder.info.user}" in one["evidence"]
        holder.rollback()
    waiter.close()
    assert not found(cli, "lanes")


@pytest.mark.parametrize("index, table", [("cursors_pkey", "cursors"), ("log_pkey", "log")])
def test_a_look_up_that_goes_another_way(start_daemon, tmp_path, index, table):
    """Its index is there and may not be used, as after a REINDEX CONCURRENTLY that failed."""
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    assert not found(cli, "plans")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        change = "UPDATE pg_index SET indisvalid = %s WHERE indexrelid = %s::regclass"
        connection.execute(change, (False, f"queend.{index}"))
        invalid, *others = found(cli, "plans")
        assert invalid["level"] == "critical" and index in invalid["title"]
        assert others and all(f"instead of {index}" in one["evidence"] and table in one["evidence"] for one in others)
        connection.execute(change, (True, f"queend.{index}"))
    assert not found(cli, "plans")


@pytest.mark.parametrize("query", ["HORIZON", "SLOTS", "TABLES", "SERVER", "NUMBERS", "LOCKED", "SLOW", "SET_BY",
                                   "STANDING", "LAGGING"])
def test_every_question_can_be_asked(daemon, query):
    with psycopg.connect(daemon.conninfo) as connection:
        connection.execute(getattr(doctor, query, None) or getattr(sessions, query))


def test_numbers_of_which_more_than_half_are_in_use(start_daemon, tmp_path):
    daemon = start_daemon()
    cli = Cli(daemon.url, tmp_path)
    assert not found(cli, "numbers")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO queend.name_counts (queue_id, n, kind) VALUES (1, 1100000000, 'partition')")
    (one,) = found(cli, "numbers")
    assert one["level"] == "warning" and "partitions" in one["title"] and "1100000000 of 2147483647" in one["evidence"]


def test_a_group_that_nobody_reads(cli, client, daemon, queue):
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="gone")
    assert not found(cli, "unread")      # and the figures are of this moment
    with psycopg.connect(daemon.conninfo) as connection:      # as if they had come two hours ago
        connection.execute("UPDATE queend.stat_cursors SET oldest = oldest - 7200000000 WHERE oldest > 0")
        assert ("gone", queue) not in {row[:2] for row in connection.execute(doctor.LAGGING)}, "it took one just now"
        connection.execute("UPDATE queend.stat_groups SET consumed_at = consumed_at - 7200000000")
        rows = connection.execute(doctor.LAGGING).fetchall()
        connection.rollback()
    assert ("gone", queue) in {row[:2] for row in rows}


def test_what_waits_in_the_failover_buffer(start_daemon, tmp_path):
    daemon = start_daemon(QUEEND_BUFFER_BYTES=64 << 20, FILE_BUFFER_DIR=tmp_path / "buffer")
    cli = Cli(daemon.url, tmp_path)
    with daemon.client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": True})
        client.push("orders", 1)
        (one,) = waiting(cli)
        assert re.match(r"1 pending \(\d+ B\), ", one["evidence"]), one
        assert "failover buffer" in cli("doctor").out
        client.post("/api/v1/system/maintenance", {"enabled": False})
        until(lambda: not waiting(cli), "it is drained")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)      # the daemon ends after the test


def test_a_disk_that_is_almost_full(start_daemon, tmp_path, small_disk):
    """Retention makes no room on the disk of the failover buffer: the advice is another one than for the database."""
    cli = Cli(start_daemon(QUEEND_BUFFER_BYTES=1 << 20, FILE_BUFFER_DIR=small_disk / "buffer").url, tmp_path)
    (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    (one,) = found(cli, "disk")
    assert one["title"] == "the disk of the failover buffer is almost full"
    assert one["advice"] == "Free disk space, or set FILE_BUFFER_DIR to another disk"


def test_a_service_that_fails_says_why_on_one_line():
    class Failed(Running):
        pass

    service = Failed()
    service._failed("relay_failed", psycopg.OperationalError("connection refused\n\tIs the server running?\n"))
    assert service.failing["relay_failed"].error == "connection refused; Is the server running?"


def test_a_long_error_is_told_up_to_a_limit():
    async def told(service):
        return [one async for one in doctor.services(SimpleNamespace(services=[service]), None)]

    service = Running()
    service._failed("relay_failed", "x" * 5000)
    ((_, _, evidence, _),) = asyncio.run(told(service))
    assert evidence.count("x") == doctor.EVIDENCE_MOST == 2000


def test_a_failure_that_stays_the_same_is_logged_once(capfd):
    """A pass of each second would fill the log. Another error, another fact and a success between are told."""
    service = Running()
    for error, role in [("a", "x"), ("a", "x"), ("a", "x"), ("b", "x"), ("b", "y")]:
        service._failed("relay_failed", error, role=role)
    assert service.failing["relay_failed"].passes == 5
    service._done("relay_failed")
    service._failed("relay_failed", "b", role="y")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(one["detail"], one["role"], one.get("passes")) for one in lines] == [
        ("a", "x", None), ("b", "x", 4), ("b", "y", 5), ("b", "y", None)]


def test_a_service_that_breaks_is_told_and_begins_again(capfd, monkeypatch):
    monkeypatch.setattr(running, "AGAIN_S", 0.01)
    lives, third = [], asyncio.Event()

    class Broken(Running):
        async def _run(self):
            lives.append(len(lives))
            if len(lives) < 3:
                raise TypeError("'int' object is not callable")
            third.set()
            await asyncio.Event().wait()

    async def lived():
        service = Broken()
        service.open()
        await third.wait()
        told = [one async for one in doctor.services(SimpleNamespace(services=[service]), None)]
        await service.close()
        return told

    ((level, title, evidence, _),) = asyncio.run(lived())
    assert (level, title) == ("warning", "the service broken fails: service_broken")
    assert "2 failed attempts" in evidence and "TypeError: 'int' object is not callable" in evidence
    (line,) = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert (line["event"], line["service"]) == ("service_broken", "broken")
    assert line["line"].startswith("test_cli_doctor.py:")
