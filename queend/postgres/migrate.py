"""Brings a database to the schema of this version: numbered migrations, each once; then functions and the public
surface when they changed.

All work happens under one advisory lock, so any number of daemons may start at once. A database that is up to date
costs a few small queries and no lock. Parts installed by a newer release are never replaced (postgres/edition).

A step that changes a table needs a lock that waits for every transaction which has even read it, and blocks all later
ones meanwhile. So it waits at most LOCK_MS for the lock, and tries again after PAUSE_S.
"""
from __future__ import annotations

import hashlib
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from . import foreign_locks, session
from .edition import Edition, edition_in, edition_of

# Session lock of migrations; an arbitrary number ("queend" in ASCII).
LOCK = 0x717565656E64
OLDEST_SERVER = 150000
# Rows of schema_migrations below 1 hold the checksum of a part that is created again as a whole.
SURFACE = -1
RECREATED = {0: ("function", "former"), SURFACE: ("queen",)}
LOCK_MS = 300
PAUSE_S = (0.2, 1.0)      # between two tries
PATIENCE_S = 600.0
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION\s+(\w+)\.(\w+)", re.M | re.I)
STATEMENT = re.compile(r"^(?=CREATE OR REPLACE )", re.M)
MIGRATION = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(RuntimeError):
    """The database cannot be brought to this version; nothing of the failing step was kept."""


class MigrationBusy(MigrationError):
    """A lock was not available in time; nothing of that step was kept. A later attempt may succeed."""


@dataclass(frozen=True)
class Step:
    version: int
    name: str
    checksum: str
    files: tuple[Path, ...]


def sql_folder() -> Path:
    """Returns the folder of the SQL files: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "migrate").is_dir():
            return folder
    raise MigrationError("the SQL files are missing from this installation of queend")


def steps(folder: Path) -> list[Step]:
    """Returns the migrations in order, then the functions (those that serve former releases last), then the public
    surface (views and functions of the schema queen)."""
    found = []
    for path in sorted((folder / "migrate").glob("*.sql")):
        match = MIGRATION.fullmatch(path.name)
        if not match or int(match[1]) < 1:
            raise MigrationError(f"invalid migration name {path.name} (expected NNNN_name.sql)")
        found.append(Step(int(match[1]), match[2], _checksum([path]), (path,)))
    if len({step.version for step in found}) != len(found):
        raise MigrationError("two migrations have the same number")
    for version, names in RECREATED.items():
        files = tuple(path for name in names for path in sorted((folder / name).glob("*.sql")))
        if files:
            found.append(Step(version, names[0], _checksum(files), files))
    return found


def migrate(conninfo: str, folder: Path | None = None, patience_s: float = PATIENCE_S) -> list[str]:
    """Applies missing steps and returns their names (empty: nothing to do, or a newer release has done it and serves
    this one too).

    Raises MigrationError if an applied migration was changed since, if the database is newer than this version and does
    not serve it, of too old a PostgreSQL or not in UTF-8, or if a step fails; MigrationBusy if other sessions kept a
    lock for `patience_s` seconds; psycopg.OperationalError if the server cannot be reached.
    """
    with session.connect(conninfo, autocommit=True) as connection:
        return migrate_over(connection, folder, patience_s)


def migrate_over(connection: psycopg.Connection, folder: Path | None = None,
                 patience_s: float = PATIENCE_S) -> list[str]:
    """Migrates over an open connection, which must be in autocommit mode. Result and errors are those of `migrate`."""
    folder = folder or sql_folder()
    wanted = steps(folder)
    deadline = time.monotonic() + patience_s
    if connection.info.server_version < OLDEST_SERVER:
        raise MigrationError(f"PostgreSQL 15 or later is required; this is {connection.info.server_version // 10000}")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise MigrationError(f"the database {connection.info.dbname} has the encoding {encoding}, which cannot store "
                             "all names; create it with ENCODING 'UTF8'")
    if connection.execute(FOREIGN).fetchone() != (None,):
        # Tables of another program: the daemon works without its surface in SQL.
        wanted = [step for step in wanted if step.name != "queen"]
    if not _missing(connection, wanted, folder):
        return []
    connection.execute("SET lock_timeout = 0; SET statement_timeout = 0; SET client_min_messages = warning")
    _take_turn(connection, deadline)
    try:
        connection.execute(BOOK)
        lacking = _missing(connection, wanted, folder)
        for step in lacking:
            _apply(connection, step, deadline)
        return [f"{step.version:04d}_{step.name}" if step.version > 0 else step.name for step in lacking]
    finally:
        if not connection.broken:
            connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))


def editions(conninfo: str) -> tuple[Edition, Edition]:
    """Returns the editions of this version's functions and of those in the database. Raises psycopg.OperationalError if
    it cannot be reached."""
    with session.connect(conninfo, autocommit=True) as connection:
        return edition_in(sql_folder()), edition_of(connection)


# Finds a table of the reference server in the place of one of our views: it has one of those schemas in this database.
FOREIGN = """
SELECT min(c.relname) FROM pg_class c
 WHERE c.relnamespace IN (to_regnamespace('queen'), to_regnamespace('queen_streams')) AND c.relkind IN ('r', 'p')"""
BOOK = """
CREATE SCHEMA IF NOT EXISTS queend;
CREATE TABLE IF NOT EXISTS queend.schema_migrations (
    version int PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)"""


# Finds what a step probably waits for: the transaction that has kept a lock in our schemas for longest.
HOLDER = """
SELECT format('process %s (%s) has a transaction open since %s', a.pid, coalesce(nullif(a.application_name, ''),
    a.usename), to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND a.pid <> pg_backend_pid()
    AND l.granted AND c.relnamespace IN (to_regnamespace('queend'), to_regnamespace('queen')) ORDER BY a.xact_start
 LIMIT 1"""


def _missing(connection: psycopg.Connection, wanted: list[Step], folder: Path) -> list[Step]:
    if connection.execute("SELECT to_regclass('queend.schema_migrations')").fetchone() == (None,):
        return wanted
    applied: dict[int, str] = dict(connection.execute("SELECT version, checksum FROM queend.schema_migrations"))
    if connection.execute("SELECT to_regnamespace('queen_streams')").fetchone() == (None,):
        applied.pop(SURFACE, None)      # a restore of a backup by an earlier release left the schema out
    return missing(applied, edition_of(connection), wanted, folder)


def missing(applied: dict[int, str], theirs: Edition, wanted: list[Step], folder: Path) -> list[Step]:
    """Returns the steps of `wanted` that a database lacks. applied: checksums of its migrations by version; theirs: the
    edition of its functions. Raises MigrationError if the database is of a newer release that does not serve this one,
    or a migration was changed."""
    ours = edition_in(folder)
    if theirs.number > ours.number:
        if theirs.serves_daemon(ours):
            return []
        raise MigrationError(f"the database belongs to a newer queend: its functions have edition {theirs.number} and "
                             f"serve daemons from edition {theirs.serves} on; this daemon has edition {ours.number}")
    for step in wanted:
        if step.version > 0 and applied.get(step.version, step.checksum) != step.checksum:
            raise MigrationError(f"migration {step.version:04d}_{step.name} was applied with different contents")
    newest = max((step.version for step in wanted), default=0)
    if unknown := [version for version in applied if version > newest]:
        raise MigrationError(f"the database has migration {max(unknown):04d}: it belongs to a newer queend")
    return [step for step in wanted if applied.get(step.version) != step.checksum]


def _take_turn(connection: psycopg.Connection, deadline: float) -> None:
    """Takes the lock of migrations. One session migrates at a time; the others wait until their deadline."""
    while connection.execute("SELECT pg_try_advisory_lock(%s)", (LOCK,)).fetchone() == (False,):
        _wait(deadline, foreign_locks.ended(connection, {LOCK: "migrations"}) or "another queend is migrating the "
                                                                                 "database")


def _apply(connection: psycopg.Connection, step: Step, deadline: float) -> None:
    while True:
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                _run(connection, step)
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            holder = connection.execute(HOLDER).fetchone()
            _wait(deadline, f"{step.name} is waiting for a lock" + (f": {holder[0]}" if holder else ""))


def _wait(deadline: float, reason: str) -> None:
    if time.monotonic() >= deadline:
        raise MigrationBusy(reason)
    time.sleep(random.uniform(*PAUSE_S))


def _run(connection: psycopg.Connection, step: Step) -> None:
    path = step.files[0]
    try:
        if step.version > 0:
            connection.execute(path.read_text())
        else:
            connection.execute("SET LOCAL check_function_bodies = off")
            if step.version == SURFACE:      # an operator dropped it, with the tables of another program
                connection.execute("CREATE SCHEMA IF NOT EXISTS queen")
            texts = {path: path.read_text() for path in step.files}
            everything = sorted({name for text in texts.values() for name in FUNCTION.findall(text)})
            before = _functions_named(connection, everything)
            for path, text in texts.items():
                _recreate(connection, text, before)
            # A new signature leaves the old function in place, and a call could mean either.
            for row in before.keys() & _functions_named(connection, everything).keys():
                connection.execute(f"DROP FUNCTION {before[row]}")
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        raise
    except psycopg.Error as error:
        raise MigrationError(f"{path.parent.name}/{path.name}: {error}") from error
    connection.execute("INSERT INTO queend.schema_migrations (version, name, checksum) VALUES (%s, %s, %s) ON CONFLICT "
                       "(version) DO UPDATE SET checksum = excluded.checksum, applied_at = now()",
                       (step.version, step.name, step.checksum))


def _recreate(connection: psycopg.Connection, text: str, before: dict[str, str]) -> None:
    """Runs the `CREATE OR REPLACE` statements of a file together. If one of its functions cannot be replaced, runs them
    one by one and drops only that function first, because views may depend on the others. before: the functions that
    the step has not replaced yet."""
    try:
        with connection.transaction():
            connection.execute(text)
    except psycopg.errors.InvalidFunctionDefinition:  # the result type changed: CREATE OR REPLACE cannot do that
        head, *statements = STATEMENT.split(text)
        if len(statements) > 1:
            for statement in (head, *statements):
                _recreate(connection, statement, before)
            return
        for row in before.keys() & _functions_named(connection, sorted(set(FUNCTION.findall(text)))).keys():
            connection.execute(f"DROP FUNCTION {before[row]}")
        connection.execute(text)


def _functions_named(connection: psycopg.Connection, names: list[tuple[str, str]]) -> dict[str, str]:
    """Returns place of the catalogue row (it moves when the function is replaced) → signature."""
    return dict(connection.execute(
        "SELECT p.ctid::text, p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace"
        " WHERE s.nspname || '.' || p.proname = ANY(%s) AND p.prokind = 'f'", ([".".join(name) for name in names],)))


def _checksum(files) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
