"""Brings a database to the schema of this version: numbered migrations, each once; then functions and the public surface when they changed.

All work happens under one advisory lock, so any number of daemons may start at once. A database that is up to date costs
one small query and no lock.
"""
from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import psycopg

from .. import session

# Session lock of migrations; any number nobody else takes ("queend" in ASCII).
LOCK = 0x717565656E64
OLDEST_SERVER = 150000
# Rows of schema_migrations below 1 hold the checksum of what is re-created as a whole.
RECREATED = {0: "function", -1: "queen"}
FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION\s+(\w+)\.(\w+)", re.M | re.I)
MIGRATION = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


class MigrationError(RuntimeError):
    """The database cannot be brought to this version; nothing of the failing step was kept."""


@dataclass(frozen=True)
class Step:
    version: int
    name: str
    checksum: str
    files: tuple[Path, ...]


def sql_folder() -> Path:
    """Where the SQL files are: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "migrate").is_dir():
            return folder
    raise MigrationError("the SQL files of queend are missing from this installation")


def steps(folder: Path) -> list[Step]:
    """The migrations in order, then the functions, then the public surface (views and functions of the schema queen)."""
    found = []
    for path in sorted((folder / "migrate").glob("*.sql")):
        match = MIGRATION.fullmatch(path.name)
        if not match or int(match[1]) < 1:
            raise MigrationError(f"{path.name} is no migration name (NNNN_name.sql)")
        found.append(Step(int(match[1]), match[2], _checksum([path]), (path,)))
    if len({step.version for step in found}) != len(found):
        raise MigrationError("two migrations share a number")
    for version, name in RECREATED.items():
        files = tuple(sorted((folder / name).glob("*.sql")))
        if files:
            found.append(Step(version, name, _checksum(files), files))
    return found


def migrate(conninfo: str, folder: Path | None = None) -> list[str]:
    """Applies what is missing and returns the names of the steps applied (empty: nothing to do).

    Raises MigrationError if an applied migration was changed since, if the database is newer than this version, of too
    old a PostgreSQL or not in UTF-8, or if a step fails; psycopg.OperationalError if the server cannot be reached.
    """
    wanted = steps(folder or sql_folder())
    with session.connect(conninfo, autocommit=True) as connection:
        if connection.info.server_version < OLDEST_SERVER:
            raise MigrationError(f"PostgreSQL 15 or later is needed, this is {connection.info.server_version // 10000}")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise MigrationError(f"the database {connection.info.dbname} is encoded in {encoding}, which cannot hold every name; "
                                 "queend needs one made with ENCODING 'UTF8'")
        if connection.execute(FOREIGN).fetchone() != (None,):
            # Somebody else's tables: the daemon works without its surface in SQL.
            wanted = [step for step in wanted if step.name != "queen"]
        if not _missing(connection, wanted):
            return []
        # The lock may be waited for as long as another daemon migrates.
        connection.execute("SET lock_timeout = 0; SET statement_timeout = 0; SET client_min_messages = warning")
        connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        try:
            connection.execute(BOOK)
            missing = _missing(connection, wanted)
            for step in missing:
                _apply(connection, step)
            return [f"{step.version:04d}_{step.name}" if step.version > 0 else step.name for step in missing]
        finally:
            if not connection.broken:
                connection.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))


def identity_of(conninfo: str) -> str:
    """Which database this is: another text for every other one, also for a copy. Raises psycopg.OperationalError if it cannot be reached."""
    with session.connect(conninfo, autocommit=True) as connection:
        return connection.execute(IDENTITY).fetchone()[0]


IDENTITY = """
SELECT encode(sha256(c.seed || int8send(s.system_identifier) || int8send(d.oid::bigint)), 'hex')
  FROM queend.catalog c, pg_control_system() s, pg_database d WHERE d.datname = current_database()"""
# A table of the reference server stands where a view of ours would: it has that schema in this database.
FOREIGN = "SELECT min(c.relname) FROM pg_class c WHERE c.relnamespace = to_regnamespace('queen') AND c.relkind IN ('r', 'p')"
BOOK = """
CREATE SCHEMA IF NOT EXISTS queend;
CREATE TABLE IF NOT EXISTS queend.schema_migrations (
    version int PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)"""


def _missing(connection: psycopg.Connection, wanted: list[Step]) -> list[Step]:
    if connection.execute("SELECT to_regclass('queend.schema_migrations')").fetchone() == (None,):
        return wanted
    applied = dict(connection.execute("SELECT version, checksum FROM queend.schema_migrations"))
    for step in wanted:
        if step.version > 0 and applied.get(step.version, step.checksum) != step.checksum:
            raise MigrationError(f"migration {step.version:04d}_{step.name} was applied with other contents")
    newest = max((step.version for step in wanted), default=0)
    if unknown := [version for version in applied if version > newest]:
        raise MigrationError(f"the database has migration {max(unknown):04d}: it belongs to a newer queend")
    return [step for step in wanted if applied.get(step.version) != step.checksum]


def _apply(connection: psycopg.Connection, step: Step) -> None:
    with connection.transaction():
        for path in step.files:
            try:
                if step.version > 0:
                    connection.execute(path.read_text())
                else:
                    connection.execute("SET LOCAL check_function_bodies = off")
                    _recreate(connection, path)
            except psycopg.Error as error:
                raise MigrationError(f"{path.parent.name}/{path.name}: {error}") from error
        connection.execute(
            "INSERT INTO queend.schema_migrations (version, name, checksum) VALUES (%s, %s, %s)"
            " ON CONFLICT (version) DO UPDATE SET checksum = excluded.checksum, applied_at = now()",
            (step.version, step.name, step.checksum))


def _recreate(connection: psycopg.Connection, path: Path) -> None:
    """Runs a file of `CREATE OR REPLACE`, also where a signature or a result type changed since."""
    text = path.read_text()
    names = sorted(set(FUNCTION.findall(text)))
    before = _functions_named(connection, names)
    try:
        with connection.transaction():
            connection.execute(text)
    except psycopg.errors.InvalidFunctionDefinition:  # the result type changed: CREATE OR REPLACE cannot do that
        for signature in before.values():
            connection.execute(f"DROP FUNCTION {signature}")
        connection.execute(text)
        return
    # A new signature leaves the old function behind, untouched, and a call could mean either.
    after = _functions_named(connection, names)
    for row in before.keys() & after.keys():
        connection.execute(f"DROP FUNCTION {before[row]}")


def _functions_named(connection: psycopg.Connection, names: list[tuple[str, str]]) -> dict[str, str]:
    """Place of the catalogue row (it moves when the function is replaced) → signature."""
    return dict(connection.execute(
        "SELECT p.ctid::text, p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace"
        " WHERE s.nspname || '.' || p.proname = ANY(%s) AND p.prokind = 'f'", ([".".join(name) for name in names],)))


def _checksum(files) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
