"""A publication FOR ALL TABLES (change data capture) in the database: nothing of the daemon stops, and what fails is
told."""
from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from support.cli import Cli
from support.client import Client
from support.daemon import Daemon
from support.wait import until

WITHOUT_IDENTITY = """SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relnamespace IN (SELECT n.oid FROM pg_namespace n WHERE n.nspname IN ('queend', 'queen', 'queen_streams'))
   AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
   AND NOT (c.relreplident = 'f' OR c.relreplident = 'd'
            AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))"""


@pytest.fixture(scope="module")
def daemon(start_daemon) -> Daemon:
    return start_daemon(RETENTION_INTERVAL=100)


@pytest.fixture
def database(daemon: Daemon) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        yield connection
        connection.execute("DROP PUBLICATION everything")


def test_every_logged_table_has_a_replica_identity(database: psycopg.Connection) -> None:
    assert database.execute(WITHOUT_IDENTITY).fetchall() == []


def test_leases_are_tidied(client: Client, database: psycopg.Connection, queue: str) -> None:
    for partition in ("a", "b"):
        client.push(queue, 1, partition=partition)
    client.pop(queue, batch=10, partitions=2, autoAck=True)
    database.execute("INSERT INTO queend.leases VALUES (gen_random_uuid(), 1, '{1, 2}')")
    until(lambda: database.execute("SELECT count(*) FROM queend.leases").fetchone() == (0,), "they are tidied")


def test_a_service_that_fails_is_told_until_it_succeeds(daemon: Daemon, database: psycopg.Connection, tmp_path
                                                        ) -> None:
    cli = Cli(daemon.url, tmp_path)

    def told() -> list[dict]:
        return [one for one in cli("doctor", "-o", "json").json if one["check"] == "services"]

    assert told() == []
    database.execute("ALTER TABLE queend.leases REPLICA IDENTITY NOTHING")
    database.execute("INSERT INTO queend.leases VALUES (gen_random_uuid(), 1, '{1}')")
    (one,) = until(told, "the doctor tells of the service")
    assert one["level"] == "warning" and one["title"] == "the service retention fails: retention_failed"
    assert "replica identity" in one["evidence"], one
    database.execute("ALTER TABLE queend.leases REPLICA IDENTITY FULL")
    until(lambda: not told(), "the doctor no longer tells of it")
