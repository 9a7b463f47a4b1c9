"""queend restore brings back the whole backup or changes nothing, on each major version of PostgreSQL that is here."""
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from support.cli import Cli
from support.client import data
from support.daemon import Daemon
from support.postgres import running
from support.wait import until

from queend.postgres import binaries
from queend.postgres.embedded import Embedded
from queend.postgres.migrate import LOCK, migrate

MAJORS = (15, 16, 17, 18)
COUNT = "SELECT sum(n)::int FROM queend.log"


def found(major):
    """Skips the test if no server of this version is here; a folder of one on the PATH is enough."""
    try:
        binaries.find(binaries.account_for(Path("/none")), major)
    except binaries.BinariesError:
        pytest.skip(f"PostgreSQL {major} is not here: put a folder with its programs on the PATH")


@pytest.fixture(scope="module", params=MAJORS)
def server(request):
    found(request.param)
    with running(request.param, tcp=True) as one:
        yield one


def rows(conninfo, statement, *values):
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else None


def at(conninfo, home, **more) -> Cli:
    """The command line for a configured database; it keeps its data below `home`."""
    return Cli(None, home, QUEEND_DSN=conninfo, QUEEND_DATA_DIR=str(home / "data"), **more)


def refused(done, *words):
    assert done.status == 1 and all(word in done.err for word in words), done


@pytest.fixture
def database(postgres):
    """A database of queend's tables, and one more for a mark."""
    conninfo = postgres.database()
    rows(conninfo, "CREATE TABLE queend.mark AS SELECT 1 AS n")
    return conninfo


def marks(conninfo):
    return rows(conninfo, "SELECT n FROM queend.mark")


# -- on every version ------------------------------------------------------------------------------------------------


def test_a_configured_server_of_each_version(server, start_daemon, tmp_path):
    conninfo = server.database()
    daemon = start_daemon(conninfo)
    with daemon.client() as client:
        client.push("orders", *range(10))
    daemon.stop()
    server.execute("DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN END $$")
    rows(conninfo, "GRANT SELECT ON queen.messages TO reader")
    rows(conninfo, "CREATE TABLE public.others AS SELECT 1 AS n")
    rows(conninfo, "CREATE VIEW public.watched AS SELECT * FROM queen.messages")
    cli = at(conninfo, tmp_path)
    cli.ok("backup", str(tmp_path / "all"), "--all")
    cli.ok("backup", str(tmp_path / "ours"))
    rows(conninfo, "TRUNCATE queend.log")
    rows(conninfo, "DELETE FROM public.others")

    cli.ok("restore", str(tmp_path / "all"), "--replace", "--yes")
    assert rows(conninfo, COUNT) == [(10,)] and rows(conninfo, "SELECT n FROM public.others") == [(1,)]
    assert rows(conninfo, "SELECT count(*) FROM public.watched") == [(10,)]
    assert rows(conninfo, "SELECT has_table_privilege('reader', 'queen.messages', 'SELECT')") == [(True,)]
    assert rows(conninfo, "SELECT count(*) FROM queen_streams.queries") == [(0,)]

    rows(conninfo, "TRUNCATE queend.log")
    refused(cli("restore", str(tmp_path / "ours"), "--replace", "--yes"), "public.watched", "would be lost")
    rows(conninfo, "DROP VIEW public.watched")
    cli.ok("restore", str(tmp_path / "ours"), "--replace", "--yes")
    assert rows(conninfo, COUNT) == [(10,)] and rows(conninfo, "SELECT n FROM public.others") == [(1,)]

    server.execute("CREATE ROLE little LOGIN")
    little = at(server.dsn(user="little", dbname=psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]), tmp_path)
    refused(little("restore", str(tmp_path / "ours"), "--replace", "--yes"), "nothing was changed", "must be owner of")
    assert rows(conninfo, COUNT) == [(10,)]

    empty = server.empty_database()
    at(empty, tmp_path).ok("restore", str(tmp_path / "ours"))
    assert rows(empty, COUNT) == [(10,)] and migrate(empty) == []


@pytest.mark.parametrize("major", MAJORS)
def test_an_embedded_server_of_each_version(major, tmp_path):
    found(major)
    with tempfile.TemporaryDirectory() as folder:      # not below pytest's own: initdb 15 walks the path
        os.chmod(folder, 0o755)
        data = Path(folder) / "data"
        made = Embedded(data, major=major)
        made.start()
        made.stop()
        with Daemon.own(data) as daemon:
            daemon.await_ready()
            with daemon.client() as client:
                client.push("orders", *range(10))
            assert daemon.end() == 0
        cli = Cli(None, tmp_path, QUEEND_DATA_DIR=str(data))
        cli.ok("backup", str(tmp_path / "kept"))
        assert json.loads((tmp_path / "kept/backup.json").read_text())["postgres"] == major
        cli.ok("restore", str(tmp_path / "kept"), "--replace", "--yes")
        made = Embedded(data)
        conninfo = made.start()
        try:
            assert rows(conninfo, COUNT) == [(10,)] and migrate(conninfo) == []
        finally:
            made.stop()


def test_a_backup_goes_into_a_later_version(server, postgres, tmp_path):
    """The log of the one server may be compressed by a method that the other does not know."""
    source, target = server.database(), postgres.empty_database()
    at(source, tmp_path).ok("backup", str(tmp_path / "kept"))
    at(target, tmp_path).ok("restore", str(tmp_path / "kept"))
    assert migrate(target) == []
    lz4 = rows(target, "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'")[0][0]
    assert rows(target, "SELECT attcompression, attstorage FROM pg_attribute WHERE attname = 'body' AND attrelid ="
                " 'queend.log'::regclass") == [("l", "x") if lz4 else ("", "e")]


# -- all or nothing --------------------------------------------------------------------------------------------------


def test_a_restore_that_fails_changes_nothing(database, postgres, tmp_path):
    """The role that a grant of the backup names is gone: pg_restore notices at the end."""
    postgres.execute("CREATE ROLE passing")
    rows(database, "GRANT SELECT ON queen.messages TO passing")
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    rows(database, "REVOKE SELECT ON queen.messages FROM passing")
    postgres.execute("DROP ROLE passing")
    rows(database, "UPDATE queend.mark SET n = 2")
    done = cli("restore", str(tmp_path / "kept"), "--replace", "--yes")
    refused(done, "nothing was changed", '"passing"', "create it")
    assert marks(database) == [(2,)] and migrate(database) == []


def waits(conninfo):
    return rows(conninfo, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = "
                "'Lock' AND application_name = 'queend backup'")


@pytest.mark.parametrize("killed", ["the command", "its session"])
def test_a_restore_that_is_killed_changes_nothing(database, tmp_path, killed):
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    rows(database, "UPDATE queend.mark SET n = 2")
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE queend.mark IN SHARE MODE")
        process = cli.process("restore", str(tmp_path / "kept"), "--replace", "--yes", stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        session = until(lambda: waits(database), "the restore waits for a lock")[0][0]
        if killed == "the command":
            process.send_signal(signal.SIGKILL)
        else:
            rows(database, "SELECT pg_terminate_backend(%s)", session)
        told = process.communicate()[1]
        assert process.returncode == (-signal.SIGKILL if killed == "the command" else 1), told
        assert killed == "the command" or "nothing was changed" in told
    until(lambda: not rows(database, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", session), "its session is over")
    assert marks(database) == [(2,)]


def test_a_database_with_a_daemon_is_refused(start_daemon, tmp_path, monkeypatch):
    daemon = start_daemon()
    cli = at(daemon.conninfo, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    with monkeypatch.context() as at_once:
        at_once.setattr("queend.services.restore.GONE_S", 0.0)
        refused(cli("restore", str(tmp_path / "kept"), "--replace", "--yes"), "a queend daemon uses this database")
    daemon.stop()      # its sessions end later than its process
    cli.ok("restore", str(tmp_path / "kept"), "--replace", "--yes")


# -- what is around the tables -----------------------------------------------------------------------------------------


def test_tables_of_another_program_in_a_schema_of_that_name_stay(postgres, tmp_path):
    conninfo = postgres.empty_database()
    rows(conninfo, "CREATE SCHEMA queen")
    rows(conninfo, "CREATE TABLE queen.queues AS SELECT 7 AS n")
    migrate(conninfo)
    source = postgres.database()
    at(source, tmp_path).ok("backup", str(tmp_path / "whole"))      # it holds a schema queen
    cli = at(conninfo, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    for kept in ("kept", "whole"):
        cli.ok("restore", str(tmp_path / kept), "--replace", "--yes")
        assert rows(conninfo, "SELECT n FROM queen.queues") == [(7,)] and migrate(conninfo) == []


def test_what_an_earlier_release_left_behind(database, postgres, tmp_path):
    """Its restore dropped two of three schemas, and its backup had two of three."""
    at(database, tmp_path).ok("backup", str(tmp_path / "kept"))
    left = postgres.empty_database()
    rows(left, "CREATE SCHEMA queen_streams")
    at(left, tmp_path).ok("restore", str(tmp_path / "kept"))
    assert marks(left) == [(1,)]
    rows(left, "DROP SCHEMA queen_streams CASCADE")
    assert migrate(left) == ["queen"]
    assert rows(left, "SELECT count(*) FROM queen_streams.queries") == [(0,)] and migrate(left) == []


def test_a_backup_that_could_not_be_restored_is_refused(database, tmp_path):
    rows(database, "CREATE TABLE public.customers AS SELECT 1 AS n")
    rows(database, "CREATE VIEW queen.customers AS SELECT * FROM public.customers")
    cli = at(database, tmp_path)
    refused(cli("backup", str(tmp_path / "kept")), "table public.customers", "--all")
    assert not (tmp_path / "kept").exists()
    cli.ok("backup", str(tmp_path / "kept"), "--all")
    cli.ok("restore", str(tmp_path / "kept"), "--replace", "--yes")
    assert rows(database, "SELECT n FROM queen.customers") == [(1,)]


def test_members_of_publications_and_triggers_are_named(database, tmp_path):
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    rows(database, "CREATE PUBLICATION changes FOR TABLE queend.mark")
    rows(database, "CREATE TABLE public.follows (id bigint REFERENCES queend.outbox (id))")
    rows(database, "CREATE VIEW public.first AS SELECT * FROM queen.messages")
    rows(database, "CREATE VIEW public.second AS SELECT * FROM public.first")
    done = cli("restore", str(tmp_path / "kept"), "--replace", "--yes")
    refused(done, "publication changes", "follows_id_fkey on public.follows", "view public.first", "view public.second")
    assert marks(database) == [(1,)] and "rule" not in done.err


def test_a_backup_of_a_newer_release_is_refused_before_anything_is_dropped(database, tmp_path):
    rows(database, "INSERT INTO queend.schema_migrations (version, name, checksum) VALUES (9999, 'later', 'x')")
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    rows(database, "UPDATE queend.mark SET n = 2")
    refused(cli("restore", str(tmp_path / "kept"), "--replace", "--yes"), "migration 9999", "newer queend")
    assert marks(database) == [(2,)]


# -- the folder of a backup --------------------------------------------------------------------------------------------


def test_links_in_a_backup_are_refused(database, postgres, tmp_path):
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    target = at(postgres.empty_database(), tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("not of the backup")
    folder = tmp_path / "kept/buffer/0"
    folder.mkdir(parents=True)

    def tried(path, make):
        make(path)
        refused(target("restore", str(tmp_path / "kept")), str(path))
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    tried(folder / "1.seg", lambda path: path.symlink_to(secret))
    tried(folder / "1.seg", lambda path: path.hardlink_to(secret))
    tried(folder / "1.seg", os.mkfifo)
    tried(folder / "inner", os.mkdir)
    tried(folder.parent / "1", lambda path: path.symlink_to(tmp_path))
    shutil.rmtree(folder.parent)
    tried(folder.parent, lambda path: path.symlink_to(tmp_path))
    dump = tmp_path / "kept/database.dump"
    dump.rename(tmp_path / "moved")
    tried(dump, lambda path: path.symlink_to(tmp_path / "moved"))
    tried(dump, os.mkfifo)
    (tmp_path / "moved").rename(dump)
    target.ok("restore", str(tmp_path / "kept"))


def test_a_damaged_description_is_told(database, tmp_path):
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    file = tmp_path / "kept/backup.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sha256": None}))
    refused(cli("restore", str(tmp_path / "kept"), "--replace", "--yes"), "damaged: sha256")


@pytest.mark.parametrize("text, told", [
    ('{"program": "x"}', "damaged: program"), ('{"program": 1e400}', "damaged: program"),
    ('{"program": true}', "damaged: program"), ('{"bytes": -5}', "damaged: bytes"),
    ('{"bytes": NaN}', "damaged: bytes"),
    ('{"buffers": null}', "damaged: buffers"), ('{"buffer": {}}', "damaged: buffer"),
    ('{"buffer": [{"file": "0/1.seg"}]}', "damaged: buffer"), ("[" * 200_000, "nested too deeply")],
    ids=lambda value: value[:40])
def test_each_damaged_description_is_told(database, tmp_path, text, told):
    cli = at(database, tmp_path)
    cli.ok("backup", str(tmp_path / "kept"))
    file = tmp_path / "kept/backup.json"
    file.write_text(text if text.startswith("[") else json.dumps({**json.loads(file.read_text()), **json.loads(text)}))
    refused(cli("restore", str(tmp_path / "kept"), "--replace", "--yes"), str(file), told)


def test_a_file_in_the_wrong_place_is_named(database, tmp_path):
    cli = at(database, tmp_path)
    kept = tmp_path / "kept"
    cli.ok("backup", str(kept))

    def told(*words):
        done = cli("restore", str(kept), "--replace", "--yes")
        refused(done, *words)
        assert "Errno" not in done.err

    (kept / "buffer").write_text("a file")
    told(str(kept / "buffer"), "is not a directory")
    (kept / "buffer").unlink()
    (kept / "database.dump").unlink()
    told("cannot read", str(kept / "database.dump") + ": No such file")
    (kept / "database.dump").mkdir()
    told(str(kept / "database.dump"), "is a directory")
    for target, words in ((kept / "backup.json/x", ("backup.json is not a directory",)),
                          (kept / "backup.json/x/y", ("backup.json is not a directory",)),
                          (Path("/proc/x"), ("cannot create /proc/x",))):
        done = cli("backup", str(target))
        refused(done, str(target), *words)
        assert "Errno" not in done.err
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    refused(cli("backup", str(tmp_path / "link")), "already exists")


# -- the failover buffer -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def buffered(start_daemon, tmp_path_factory):
    """A backup with one message in the database and one in the failover buffer."""
    folder = tmp_path_factory.mktemp("buffered")
    with_buffer = {"FILE_BUFFER_DIR": str(folder / "buffer")}
    daemon = start_daemon(QUEEND_BUFFER_BYTES=256 << 20, **with_buffer)
    with daemon.client() as client:
        client.push("orders", "stored")
        client.post("/api/v1/system/maintenance", {"enabled": True})
        assert client.push("orders", "buffered", partition="b")[0]["status"] == "buffered"
    Cli(None, folder, QUEEND_DSN=daemon.conninfo, **with_buffer).ok("backup", str(folder / "kept"))
    return folder / "kept"


def cut(path):
    os.truncate(path, path.stat().st_size - 10)


def flip(path):
    changed = bytearray(path.read_bytes())
    changed[60] ^= 0xff
    path.write_bytes(changed)


@pytest.mark.parametrize("damage, told", [
    (lambda folder, segment: shutil.rmtree(folder), "is missing"),
    (lambda folder, segment: segment.unlink(), "is missing"),
    (lambda folder, segment: cut(segment), "is damaged"),
    (lambda folder, segment: flip(segment), "is damaged"),
    (lambda folder, segment: (folder / "0/2.seg").write_bytes(b""), "is not listed")],
    ids=["no folder", "no segment", "cut", "flipped", "added"])
def test_a_buffer_that_is_not_as_it_was_written_is_refused(buffered, postgres, tmp_path, damage, told):
    kept = shutil.copytree(buffered, tmp_path / "kept")
    damage(kept / "buffer", next(kept.glob("buffer/0/*.seg")))
    target = postgres.database()
    rows(target, "CREATE TABLE queend.mark AS SELECT 2 AS n")
    refused(at(target, tmp_path)("restore", str(kept), "--replace", "--yes"), str(kept / "buffer/0"), told)
    assert marks(target) == [(2,)] and not (tmp_path / "data/buffer").exists()


def test_a_backup_without_a_list_must_have_its_folders(buffered, postgres, tmp_path):
    """As earlier releases made them."""
    kept = shutil.copytree(buffered, tmp_path / "kept")
    made = json.loads((kept / "backup.json").read_text())
    assert made["buffers"] == 1 and made.pop("buffer")
    (kept / "backup.json").write_text(json.dumps(made))
    (kept / "buffer").rename(tmp_path / "moved")
    cli = at(postgres.empty_database(), tmp_path)
    refused(cli("restore", str(kept)), "0 directories", "lists 1")
    (tmp_path / "moved").rename(kept / "buffer")
    assert "1 folder of the failover buffer" in cli.ok("restore", str(kept)).out


def test_a_buffer_that_cannot_be_written_changes_nothing(buffered, postgres, start_daemon, tmp_path):
    """RLIMIT_FSIZE stands for a full disk: the write fails half-way."""
    target = postgres.database()
    rows(target, "CREATE TABLE queend.mark AS SELECT 2 AS n")
    cli, root = at(target, tmp_path), tmp_path / "data/buffer"
    root.parent.mkdir()
    root.write_text("a file")
    words = "restore", str(buffered), "--replace", "--yes"
    refused(cli(*words), "nothing was changed", f"{root} is not a directory", "FILE_BUFFER_DIR")
    root.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most, place in ((30, str(root)), (1000, tempfile.gettempdir())):      # of the buffer, of a list for pg_restore
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
        try:
            done = cli(*words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        refused(done, "nothing was changed", place, "File too large")
    assert marks(target) == [(2,)] and list(root.iterdir()) == []

    left = root / ".restored-by-one-that-was-killed"
    left.mkdir()
    cli.ok(*words)
    assert [one.name for one in root.iterdir()] == ["0"]
    with start_daemon(target, QUEEND_BUFFER_BYTES=256 << 20, FILE_BUFFER_DIR=root).client() as client:
        client.post("/api/v1/system/maintenance", {"enabled": False})
        assert data(until(lambda: client.pop("orders", "b"), "the buffer is drained")) == ["buffered"]


def test_a_restore_that_fails_leaves_no_buffer_behind(buffered, postgres, tmp_path):
    """The copy is complete before the transaction begins, and removed when it fails."""
    target = postgres.empty_database()
    cli = at(target, tmp_path)
    with psycopg.connect(target) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        process = cli.process("restore", str(buffered), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        session = until(lambda: waits(target), "the restore waits for a lock")[0][0]
        hidden = list((tmp_path / "data/buffer").glob(".restored-*/0/*.seg"))
        assert len(hidden) == 1
        rows(target, "SELECT pg_terminate_backend(%s)", session)
        assert "nothing was changed" in process.communicate()[1] and process.returncode == 1
    assert list((tmp_path / "data/buffer").iterdir()) == []


# -- programs ----------------------------------------------------------------------------------------------------------


def programs(folder, *majors):
    """Folders of client programs that tell these versions."""
    for major in majors:
        (folder / str(major)).mkdir()
        for name in binaries.CLIENTS:
            (folder / str(major) / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {major}.3'\n")
            (folder / str(major) / name).chmod(0o755)
    return [folder / str(major) for major in majors]


def test_programs_of_the_servers_own_version_come_first(tmp_path, monkeypatch):
    only = programs(tmp_path, 18)
    monkeypatch.setattr(binaries, "_embedded", lambda: only)
    monkeypatch.setattr(binaries, "_system", lambda: [])
    assert binaries.clients(18).major == 18 and binaries.clients(17).major == 18
    for server in (15, 16, 19):
        with pytest.raises(binaries.BinariesError, match=f"PostgreSQL {server} requires .* of version {server}; found: "
                           f"18 in .*postgresql-client-{server}"):
            binaries.clients(server)
    others = programs(tmp_path, 17, 15, 16)
    monkeypatch.setattr(binaries, "_system", lambda: others)
    for server in MAJORS:
        assert binaries.clients(server) == binaries.Binaries(tmp_path / str(server), server)
    assert binaries.clients(17, written_by=18).major == 18
    with pytest.raises(binaries.BinariesError, match="written by pg_dump 18, which PostgreSQL 15 cannot restore"):
        binaries.clients(15, written_by=18)
    (tmp_path / "16/psql").unlink()
    with pytest.raises(binaries.BinariesError, match="postgresql-client-16"):
        binaries.clients(16)


def test_programs_on_the_path_are_found(tmp_path, monkeypatch):
    folder = programs(tmp_path, 16)[0]
    monkeypatch.setenv("PATH", str(folder))
    assert folder in binaries._system()
