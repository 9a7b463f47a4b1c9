"""docs/postgresql.md on a server of one's own: its SQL is run by an administrator who is no superuser, its settings are
those of the daemons here."""
from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.client import data
from support.daemon import PACKAGE, Daemon
from support.forked import queend
from support.guides import blocks, settings_in
from support.pair import Pair
from support.postgres import Postgres, running
from support.wait import until

SCHEMAS = ("queen", "queen_streams", "queend")
# Every object in the schemas with its owner; objects that belong to others are their parts.
OWNERS = """
SELECT DISTINCT pg_get_userbyid(owner) FROM (
    SELECT nspowner FROM pg_namespace WHERE nspname = ANY(%(schemas)s)
    UNION ALL SELECT relowner FROM pg_class WHERE relnamespace::regnamespace::text = ANY(%(schemas)s)
    UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace::regnamespace::text = ANY(%(schemas)s)) AS o(owner)"""

VIEWS = """
SELECT c.oid::regclass::text FROM pg_class c
 WHERE c.relkind = 'v' AND c.relnamespace IN ('queen'::regnamespace, 'queen_streams'::regnamespace)"""
PAGE = "postgresql.md"


def settings(block: str, **instead: object) -> dict[str, str]:
    """The settings of a block, with these words of a connection string replaced."""
    found = settings_in(block)
    for word, value in instead.items():
        found = {name: re.sub(rf"\b{word}=\S+", f"{word}={value}", held) for name, held in found.items()}
    return found


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True) as one:
        one.execute("CREATE ROLE administrator LOGIN CREATEDB CREATEROLE")
        yield one


def session(server: Postgres, user: str, database: str) -> psycopg.Connection:
    return psycopg.connect(server.dsn(user=user, dbname=database), autocommit=True)


def run(server: Postgres, database: str, block: str) -> None:
    with session(server, "administrator", database) as connection:
        for statement in block.split(";\n"):
            if statement.strip():
                connection.execute(statement)


def start(server: Postgres, folder: Path, **others: object) -> Daemon:
    """With the settings of the page, but for the address; without TLS, which the embedded server lacks."""
    told = settings(blocks(PAGE, "sh")[0])
    assert told == {"PG_HOST": "db.example", "PG_DB": "queend", "PG_USER": "queend", "PG_PASSWORD": "change-me",
                    "PG_USE_SSL": "true"}
    return Daemon.own(folder, **{**told, "PG_HOST": "127.0.0.1", "PG_PORT": server.port, "PG_USE_SSL": "false",
                                 **others})


def refused(daemon: Daemon) -> str:
    assert daemon.wait() == 1
    return daemon.other[-1]


@pytest.fixture(scope="module")
def made(server: Postgres) -> Postgres:
    """The server with the role and the database of the page."""
    run(server, "postgres", blocks(PAGE, "sql")[0])
    return server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


def served(daemon: Daemon) -> None:
    """Pushes, pops and acknowledges, and ends the daemon."""
    with daemon.client() as client:
        client.push("orders", {"n": 1})
        (message,) = client.pop("orders", consumerGroup="g", subscriptionMode="all")[-1:]
        assert message["data"] == {"n": 1}
        client.ack(message, group="g")
    daemon.stop()


def test_the_rights_of_the_page_suffice(made, folder):
    daemon = start(made, folder).await_ready()
    assert "0001_schema" in daemon.told("migrated")["applied"]
    served(daemon)
    with session(made, "postgres", "queend") as connection:
        assert connection.execute(OWNERS, {"schemas": list(SCHEMAS)}).fetchall() == [("queend",)]
        assert connection.execute("SELECT extname FROM pg_extension").fetchall() == [("plpgsql",)]
        assert connection.execute("SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles"
                                  " WHERE rolname = 'queend'").fetchone() == (False,) * 4
        assert connection.execute("SELECT count(*) FROM pg_auth_members WHERE member = 'queend'::regrole"
                                  ).fetchone() == (0,)


def test_the_right_to_create_is_needed_for_a_new_version_alone(made, folder):
    start(made, folder).await_ready().stop()
    with session(made, "postgres", "queend") as connection:
        connection.execute("REVOKE CREATE ON DATABASE queend FROM queend")
        served(start(made, folder).await_ready())
        # what a new version finds: functions of another one
        connection.execute("UPDATE queend.schema_migrations SET checksum = 'another' WHERE version = 0")
        said = refused(start(made, folder))
        assert "PostgreSQL refuses this daemon: permission denied for database queend" in said
        connection.execute("GRANT CREATE ON DATABASE queend TO queend")
        daemon = start(made, folder).await_ready()
        assert daemon.told("migrated")["applied"] == ["function"]
        daemon.stop()


def test_it_is_refused_without_connect(made, folder):
    with session(made, "postgres", "queend") as connection:
        connection.execute("REVOKE CONNECT ON DATABASE queend FROM queend")
        assert "PostgreSQL refuses this daemon: " in refused(start(made, folder))
        connection.execute("GRANT CONNECT ON DATABASE queend TO queend")


def test_two_rights_suffice_in_a_database_of_another_owner(made, folder):
    with session(made, "administrator", "postgres") as connection:
        connection.execute("CREATE DATABASE app")
        connection.execute("REVOKE ALL ON DATABASE app FROM PUBLIC")
    run(made, "app", blocks(PAGE, "sql")[1])
    served(start(made, folder, PG_DB="app").await_ready())


def test_backup_and_restore_need_no_more(made, folder, tmp_path):
    start(made, folder).await_ready().stop()
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "QUEEND_DATA_DIR": str(folder),
                   "QUEEND_DSN": made.dsn(user="queend", dbname="queend")}
    for words in (["backup", f"{tmp_path}/backup"], ["restore", f"{tmp_path}/backup", "--replace", "--yes"]):
        done = subprocess.run([*queend(), *words], cwd=tmp_path, env=environment, text=True,
                              capture_output=True)
        assert done.returncode == 0, done
    served(start(made, folder).await_ready())


def test_a_reader_reads_and_changes_nothing(made, folder):
    daemon = start(made, folder).await_ready()
    with daemon.client() as client:
        client.push("orders", {"n": 2})
        for message in client.pop("orders", consumerGroup="dead", subscriptionMode="all", batch=100):
            client.ack(message, "dlq", "dead")
    run(made, "queend", blocks(PAGE, "sql")[2])
    with session(made, "queend", "queend") as owner:
        owner.execute("CREATE TABLE queend.of_a_later_version AS SELECT 1 AS one")
    with session(made, "reader", "queend") as reader:
        views = reader.execute(VIEWS).fetchall()
        assert len(views) >= 13
        found = {view: reader.execute(f"SELECT * FROM {view}").fetchall() for (view,) in views}
        assert all(found[view] for view in ("queen.queues", "queen.partitions", "queen.messages",
                                            "queen.dead_letter_queue", "queen.partition_consumers"))
        assert reader.execute("SELECT payload FROM queen.messages WHERE queue = 'orders' LIMIT 1").fetchone()
        assert reader.execute("SELECT one FROM queend.of_a_later_version").fetchall() == [(1,)]
        assert reader.execute("SHOW statement_timeout").fetchone() == ("30s",)
        for statement in ("SELECT queen.push('orders', NULL, '1')", "DELETE FROM queen.queues",
                          "DELETE FROM queen.messages WHERE queue = 'orders'",
                          """SELECT queen.push_messages_v3('[{"queue": "orders", "payload": 1}]')""",
                          """SELECT queen.pop_unified_batch_v4('[{"queue_name": "orders", "batch_size": 1}]')""",
                          "SELECT queen.delete_queue_v1('orders')", "CREATE TABLE queend.own (n int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement)
    with session(made, "queend", "queend") as owner:
        owner.execute("DROP TABLE queend.of_a_later_version")
    daemon.stop()


def test_a_password_that_changes(server, folder, tmp_path):
    """`keeper` needs a password over TCP."""
    server.execute("CREATE ROLE keeper LOGIN PASSWORD 'first'")
    server.execute("CREATE DATABASE kept OWNER keeper")
    file = tmp_path / "pgpass"
    file.touch(0o600)
    file.write_text("127.0.0.1:*:kept:keeper:first\n")
    daemon = Daemon.own(folder, **settings(blocks(PAGE, "sh")[2], host=f"127.0.0.1 port={server.port}", dbname="kept",
                                           user="keeper", passfile=file)).await_ready()
    with daemon.client() as client:
        client.push("orders", 1)
        server.execute("ALTER ROLE keeper PASSWORD 'second'")
        file.write_text("127.0.0.1:*:kept:keeper:second\n")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'")
        client.push("orders", 2)      # `buffered`, if it comes before a connection
        popped: list[int] = []
        until(lambda: popped.extend(data(client.pop("orders", autoAck="true", batch=10))) or len(popped) == 2, "both")
        assert popped == [1, 2]
    daemon.stop()


def test_a_database_that_is_not_in_utf8(server, folder):
    server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    server.execute("GRANT ALL ON DATABASE latin TO PUBLIC")
    assert "ENCODING 'UTF8'" in refused(start(server, folder, PG_DB="latin", PG_USER="postgres"))


def test_a_reader_reads_from_a_standby(request, folder):
    """What the page says of read replicas."""
    with tempfile.TemporaryDirectory(prefix="queend-pair-") as name:
        os.chmod(name, 0o755)
        pair = Pair(Path(name), request.config.getoption("--postgres"))
        try:
            primary, standby = pair.primary, pair.standby
            primary.execute("CREATE ROLE administrator LOGIN CREATEDB CREATEROLE")
            run(primary, "postgres", blocks(PAGE, "sql")[0])
            daemon = start(primary, folder).await_ready()
            with daemon.client() as client:
                client.push("orders", {"n": 1})
                client.pop("orders", consumerGroup="g", subscriptionMode="all")
            run(primary, "queend", blocks(PAGE, "sql")[2])
            with session(primary, "postgres", "queend") as connection:
                (place,) = connection.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            until(lambda: standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (place,)) == [(True,)],
                  "the standby has all of it")
            with session(standby, "reader", "queend") as reader:
                assert reader.execute("SELECT payload FROM queen.messages WHERE queue = 'orders'").fetchall() == [
                    ({"n": 1},)]
                for (view,) in reader.execute(VIEWS).fetchall():
                    reader.execute(f"SELECT * FROM {view}")
            daemon.stop()
        finally:
            pair.stop()
