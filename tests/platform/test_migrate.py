"""Migrations: once each, together, checksummed; functions follow their files."""
import threading

import psycopg
import pytest

from queend.service.embedded import Embedded
from queend.service.migrate import MigrationError, migrate, sql_folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    cluster = Embedded(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def conninfo(server):
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS queend CASCADE; DROP SCHEMA IF EXISTS queen CASCADE")
    return server


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "migrate").mkdir()
    (tmp_path / "function").mkdir()
    (tmp_path / "migrate" / "0001_first.sql").write_text("CREATE TABLE queend.first (n int);")
    (tmp_path / "function" / "f.sql").write_text(function("int", "1"))
    return tmp_path


def function(result: str, value: str, arguments: str = "") -> str:
    return f"CREATE OR REPLACE FUNCTION queend.f({arguments}) RETURNS {result} LANGUAGE sql AS 'SELECT {value}';"


def rows(conninfo: str, query: str):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def test_each_step_runs_once(conninfo, folder):
    assert migrate(conninfo, folder) == ["0001_first", "function"]
    assert migrate(conninfo, folder) == []
    (folder / "migrate" / "0002_second.sql").write_text("CREATE TABLE queend.second (n int);")
    assert migrate(conninfo, folder) == ["0002_second"]
    assert rows(conninfo, "SELECT version, name FROM queend.schema_migrations ORDER BY 1") == [
        (0, "function"), (1, "first"), (2, "second")]


def test_many_daemons_at_once_apply_each_step_once(conninfo, folder):
    (folder / "migrate" / "0002_count.sql").write_text("CREATE TABLE queend.count AS SELECT pg_backend_pid() AS pid;")
    applied, threads = [], []
    for _ in range(6):
        threads.append(threading.Thread(target=lambda: applied.extend(migrate(conninfo, folder))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(applied) == ["0001_first", "0002_count", "function"]


def test_a_changed_function_is_created_again_and_leaves_no_old_one(conninfo, folder):
    path = folder / "function" / "f.sql"
    migrate(conninfo, folder)
    for text, call, expected in [
        (function("int", "2"), "queend.f()", 2),
        (function("text", "''two''"), "queend.f()", "two"),       # another result type
        (function("int", "a", "a int"), "queend.f(3)", 3),         # another signature
        (function("int", "a", "a int, b int DEFAULT 0"), "queend.f(4)", 4),  # would be ambiguous with the last
    ]:
        path.write_text(text)
        assert migrate(conninfo, folder) == ["function"]
        assert rows(conninfo, f"SELECT {call}") == [(expected,)]
        assert len(rows(conninfo, "SELECT 1 FROM pg_proc WHERE pronamespace = 'queend'::regnamespace")) == 1


def test_an_applied_migration_must_not_change(conninfo, folder):
    migrate(conninfo, folder)
    (folder / "migrate" / "0001_first.sql").write_text("CREATE TABLE queend.other (n int);")
    with pytest.raises(MigrationError, match="0001_first was applied with other contents"):
        migrate(conninfo, folder)


def test_a_newer_database_is_refused(conninfo, folder):
    migrate(conninfo, folder)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO queend.schema_migrations (version, name, checksum) VALUES (99, 'later', '')")
    with pytest.raises(MigrationError, match="newer queend"):
        migrate(conninfo, folder)


def test_a_failing_step_leaves_nothing_and_names_the_file(conninfo, folder):
    (folder / "migrate" / "0002_broken.sql").write_text("CREATE TABLE queend.half (n int); SELECT nonsense;")
    with pytest.raises(MigrationError, match="migrate/0002_broken.sql: .*nonsense"):
        migrate(conninfo, folder)
    assert rows(conninfo, "SELECT to_regclass('queend.half'), to_regclass('queend.first')::text") == [(None, "queend.first")]


def test_the_schema_of_this_version_installs(conninfo):
    assert migrate(conninfo, sql_folder())[0].startswith("0001_")
    assert migrate(conninfo, sql_folder()) == []


def test_tables_of_somebody_else_in_the_schema_queen_are_left_alone(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA queen; CREATE TABLE queen.messages (id uuid)")
    assert migrate(conninfo, sql_folder())[-1] == "function" and migrate(conninfo, sql_folder()) == []
    assert rows(conninfo, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'queen'::regnamespace") == [(0,)]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE queen.messages")
    assert migrate(conninfo, sql_folder()) == ["queen"]


def test_a_database_that_is_not_in_utf8_is_refused(server, folder):
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(MigrationError, match="the database latin is encoded in LATIN1"):
        migrate(server.replace("dbname=postgres", "dbname=latin"), folder)
