"""Migrations: once each, together, checksummed; functions follow their files."""
import shutil
import threading

import psycopg
import pytest
from support.wait import PATIENCE, until

from queend.postgres.embedded import Embedded
from queend.postgres.migrate import FUNCTION, LOCK, MigrationBusy, MigrationError, migrate, sql_folder


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


def test_of_a_file_only_the_function_whose_result_changed_is_dropped(conninfo, folder):
    other = function("int", "7").replace("queend.f", "queend.g")
    path = folder / "function" / "f.sql"
    path.write_text(f"-- Two functions.\n{function('int', '1')}\n\n-- The other.\n{other}\n")
    migrate(conninfo, folder)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE VIEW queend.seven AS SELECT queend.g() AS n")
    path.write_text(f"{other}\n{function('text', chr(39) * 2 + 'one' + chr(39) * 2)}\n")
    assert migrate(conninfo, folder) == ["function"]
    assert rows(conninfo, "SELECT queend.f(), n FROM queend.seven") == [("one", 7)]
    path.write_text(f"{function('nonsense', '1')}\n{other}\n")
    (folder / "function" / "a.sql").write_text("-- nothing yet\n")
    with pytest.raises(MigrationError, match="function/f.sql: .*nonsense"):
        migrate(conninfo, folder)


def test_an_applied_migration_must_not_change(conninfo, folder):
    migrate(conninfo, folder)
    (folder / "migrate" / "0001_first.sql").write_text("CREATE TABLE queend.other (n int);")
    with pytest.raises(MigrationError, match="0001_first was applied with different contents"):
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
    assert rows(conninfo, "SELECT to_regclass('queend.half'), to_regclass('queend.first')::text") == [
        (None, "queend.first")]


def test_the_schema_of_this_version_installs(conninfo):
    assert migrate(conninfo, sql_folder())[0].startswith("0001_")
    assert migrate(conninfo, sql_folder()) == []


def test_functions_that_no_file_has_any_more_go(conninfo):
    migrate(conninfo, sql_folder())
    names = "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'queend'::regnamespace ORDER BY 1"
    before = rows(conninfo, names)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE FUNCTION queend.given_from(p_part int, p_group int,"
                           " p_offset bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'")
        connection.execute("UPDATE queend.schema_migrations SET checksum = '' WHERE version = 0")
    assert migrate(conninfo, sql_folder()) == ["function"]
    assert rows(conninfo, names) == before
    text = "".join(path.read_text() for name in ("function", "former") for path in (sql_folder() / name).glob("*.sql"))
    assert [name for name, in before] == sorted({name for _, name in FUNCTION.findall(text)})


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
    with pytest.raises(MigrationError, match="the database latin has the encoding LATIN1"):
        migrate(server.replace("dbname=postgres", "dbname=latin"), folder)


def edition(number: int, serves: int) -> str:
    return ("CREATE OR REPLACE FUNCTION queend.edition() RETURNS TABLE (edition int,"
            " serves int) LANGUAGE sql IMMUTABLE AS $$\n"
            f"    SELECT {number}, {serves}\n$$;")


@pytest.fixture
def newer(folder, tmp_path_factory):
    """The files of a version after that of `folder`."""
    (folder / "function" / "edition.sql").write_text(edition(5, 5))
    later = tmp_path_factory.mktemp("newer") / "sql"
    shutil.copytree(folder, later)
    (later / "migrate" / "0002_more.sql").write_text("CREATE TABLE queend.more (n int);")
    (later / "function" / "f.sql").write_text(function("int", "2"))
    (later / "function" / "edition.sql").write_text(edition(6, 5))
    return later


def test_functions_of_an_older_version_never_come_back(conninfo, folder, newer):
    assert migrate(conninfo, folder) == ["0001_first", "function"]
    assert migrate(conninfo, newer) == ["0002_more", "function"]
    assert migrate(conninfo, folder) == [] and migrate(conninfo, newer) == []
    assert rows(conninfo, "SELECT queend.f(), edition, serves FROM queend.edition()") == [(2, 6, 5)]


def test_a_version_that_is_not_served_any_more_is_told(conninfo, folder, newer):
    (newer / "function" / "edition.sql").write_text(edition(6, 6))
    migrate(conninfo, newer)
    with pytest.raises(MigrationError, match="belongs to a newer queend: its functions have edition 6 and serve"
                                             " daemons from edition 6 on; this daemon has edition 5"):
        migrate(conninfo, folder)
    assert rows(conninfo, "SELECT queend.f()") == [(2,)]


def test_functions_that_serve_a_former_version_stay_beside_the_new_ones(conninfo, folder):
    migrate(conninfo, folder)
    (folder / "function" / "f.sql").write_text(function("text", "a::text", "a int"))
    (folder / "former").mkdir()
    (folder / "former" / "f.sql").write_text(function("int", "queend.f(1)::int"))
    for text in ("a::text", "'x' || a", "a::text"):      # the second time both are there, and both files are run again
        (folder / "function" / "f.sql").write_text(function("text", text.replace("'", "''"), "a int"))
        assert migrate(conninfo, folder) == ["function"]
        assert len(rows(conninfo, "SELECT 1 FROM pg_proc WHERE pronamespace = 'queend'::regnamespace")) == 2
    assert rows(conninfo, "SELECT queend.f(), queend.f(7)") == [(1, "7")]
    (folder / "former" / "f.sql").unlink()
    (folder / "function" / "f.sql").write_text(function("text", "a::text", "a int DEFAULT 3"))
    assert migrate(conninfo, folder) == ["function"]
    assert rows(conninfo, "SELECT queend.f()") == [("3",)]


def test_a_table_that_somebody_reads_for_long_is_changed_later_and_nobody_queues_meanwhile(conninfo, folder):
    migrate(conninfo, folder)
    (folder / "migrate" / "0002_wider.sql").write_text("ALTER TABLE queend.first ADD COLUMN m int;")
    applied: list[str] = []
    with psycopg.connect(conninfo,
                         autocommit=True) as other, psycopg.connect(conninfo, application_name="a dump") as dump:
        dump.execute("LOCK TABLE queend.first IN ACCESS SHARE MODE")
        with pytest.raises(MigrationBusy,
                           match=r"wider is waiting for a lock: process \d+ \(a dump\) has a transaction "
                                 r"open since 20"):
            migrate(conninfo, folder, patience_s=0)
        worker = threading.Thread(target=lambda: applied.extend(migrate(conninfo, folder)), daemon=True)
        worker.start()
        # it waits and gives up, again and again: what queued behind it passes before the dump has ended
        for _ in range(3):
            until(lambda: other.execute("SELECT FROM pg_locks WHERE NOT granted"
                                        " AND relation = 'queend.first'::regclass").fetchall(), "it asks for its lock")
            other.execute("INSERT INTO queend.first VALUES (1)")
        assert worker.is_alive()
        dump.commit()
    worker.join(PATIENCE)
    assert applied == ["0002_wider"]


def test_one_waits_for_another_that_migrates_as_far_as_it_is_patient(conninfo, folder):
    with psycopg.connect(conninfo, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        with pytest.raises(MigrationBusy, match="another queend is migrating"):
            migrate(conninfo, folder, patience_s=0)
    assert migrate(conninfo, folder) == ["0001_first", "function"]


def test_names_compare_by_byte_and_what_shows_them_stays(conninfo, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(sql_folder(), before)
    (before / "migrate" / "0023_names_by_byte.sql").unlink()
    migrate(conninfo, before)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("""
            DROP ROLE IF EXISTS reader;
            CREATE ROLE reader;
            GRANT SELECT ON queen.queues TO reader WITH GRANT OPTION;
            CREATE VIEW queen.own WITH (security_barrier = true) AS SELECT name FROM queen.queues;
            GRANT SELECT ON queen.own TO PUBLIC;
            COMMENT ON VIEW queen.own IS 'somebody''s own';
            INSERT INTO queend.queues (name) VALUES ('b'), ('a'), ('B')""")
    assert migrate(conninfo, sql_folder()) == ["0023_names_by_byte"]
    by_locale = rows(conninfo, """
        SELECT i.indexrelid::regclass FROM pg_index i
         JOIN pg_class c ON c.oid = i.indrelid, unnest(i.indcollation::oid[]) o
         WHERE c.relnamespace = 'queend'::regnamespace AND o NOT IN (0, '"C"'::regcollation)""")
    assert by_locale == []
    assert rows(conninfo, "SELECT name FROM queen.own ORDER BY name") == [("B",), ("a",), ("b",)]
    assert rows(conninfo, "SELECT has_table_privilege('reader', 'queen.queues', 'SELECT WITH GRANT OPTION'),"
                          " has_table_privilege('reader', 'queen.own', 'SELECT')") == [(True, True)]
    assert rows(conninfo, "SELECT reloptions, obj_description(oid) FROM pg_class"
                          " WHERE oid = 'queen.own'::regclass") == [(["security_barrier=true"], "somebody's own")]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("DELETE FROM queen.queues WHERE name = 'a'")      # by the trigger of the view
        connection.execute("DROP VIEW queen.own; REVOKE ALL ON queen.queues FROM reader; DROP ROLE reader")
    assert rows(conninfo, "SELECT count(*) FROM queend.queues") == [(2,)]


def test_a_materialized_view_of_names_is_told(conninfo, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(sql_folder(), before)
    (before / "migrate" / "0023_names_by_byte.sql").unlink()
    migrate(conninfo, before)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE MATERIALIZED VIEW queen.rows AS SELECT name FROM queend.queues")
    with pytest.raises(MigrationError, match="queen.rows shows names of queend, and is more than a view"):
        migrate(conninfo, sql_folder())


def test_names_that_were_there_before_are_counted(conninfo, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(sql_folder(), before)
    later = ["0031_name_counts", "0050_numbers_begin_anew"]      # the second changes what the first makes
    for name in later:
        (before / "migrate" / f"{name}.sql").unlink()
    migrate(conninfo, before)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("INSERT INTO queend.queues (id, name) VALUES (11, 'a'), (12, 'b')")
        connection.execute("INSERT INTO queend.partitions (queue_id, name) VALUES (11, 'a'), (11, 'b'), (12, 'a')")
        connection.execute("INSERT INTO queend.consumer_groups (queue_id, name, mode) VALUES (12, 'g', 'all')")
    assert migrate(conninfo, sql_folder()) == later
    counted = "SELECT queue_id, kind, sum(n)::int FROM queend.name_counts GROUP BY 1, 2 ORDER BY 1, 2"
    assert rows(conninfo, counted) == [(0, "queue", 2), (11, "partition", 2), (12, "group", 1), (12, "partition", 1)]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        # as a daemon of the version before does
        connection.execute("INSERT INTO queend.queues (name) VALUES ('c')")
    assert rows(conninfo, counted)[0] == (0, "queue", 3)


def test_backlogs_are_counted_again(conninfo, tmp_path):
    """A walk that is under way ends, and one for what lies behind it follows."""
    before = tmp_path / "sql"
    shutil.copytree(sql_folder(), before)
    (step,) = before.glob("migrate/*_stat_overlap.sql")
    text = step.read_text()
    step.unlink()
    migrate(conninfo, before)
    rows(conninfo, "INSERT INTO queend.stat_queues (queue_id, pending, processing, visit_after, visit_stop)"
                   " VALUES (1, 9, 10, NULL, NULL), (2, 9, 10, 7, 8) RETURNING 1")
    step.write_text(text)
    assert migrate(conninfo, before) == [step.stem]
    assert rows(conninfo, "SELECT queue_id, pending, processing, overlap, visit_after, visit_stop, visit_rest"
                          " FROM queend.stat_queues ORDER BY 1") == [(1, 9, 10, 0, 0, None, None),
                                                                     (2, 9, 10, 0, 7, None, 7)]
