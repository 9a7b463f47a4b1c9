"""Restores a backup into a database in one transaction: all of it, or the database stays as it was.

One psql session holds the transaction: it drops the schemas to be replaced, then runs the SQL that pg_restore makes of
the dump. pg_restore writes COMMIT last. If pg_restore dies before, psql sees the end of its input without a COMMIT; if
psql dies, the server rolls back. Both die with the command that started them.
"""
from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from ..disk import reason
from ..postgres import foreign_locks, migrate
from ..postgres.binaries import Binaries
from ..postgres.edition import NUMBERS, Edition
from ..postgres.identity import identity_of
from ..postgres.stale_processes import dying_with
from . import adopt, crossing
from .backup import SURFACE, TABLES, BackupError, Heard, chunks, clients, schemas_of, words, written
from .buffer import FolderError
from .buffer_restore import Copied

ENTRY = re.compile(r"\d+; \d+ \d+ ([A-Z][A-Z ]*[A-Z]) (\S+) (.*)")
LOCK_S, GONE_S = 30, 5.0
BUSY = "a queend daemon uses this database; stop it, then restore again"
# The sessions of daemons and of other commands of queend. A pooler keeps the name on a session that it has reset.
SESSIONS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND application_name IN ('queend', 'queend control') AND query IS DISTINCT FROM 'DISCARD ALL')"""
ALONE = f"DO $$ BEGIN IF ({SESSIONS}) THEN RAISE EXCEPTION '{BUSY}'; END IF; END $$"
LZ4 = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
FILLED = """
SELECT EXISTS (SELECT FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = %s::regnamespace
    AND deptype = 'n' AND classid <> 'pg_default_acl'::regclass)"""


class Entry(NamedTuple):
    """A line of the list of a dump's contents. schema: `-` for objects of no schema."""

    line: str
    kind: str
    schema: str
    tag: str

    def belongs_to(self, schemas: tuple[str, ...] | list[str]) -> bool:
        """Returns True for objects in one of these schemas, and for the schemas themselves."""
        if self.schema != "-":
            return self.schema in schemas
        tag = self.tag if self.kind == "SCHEMA" else self.tag.removeprefix("SCHEMA ")
        return (self.kind == "SCHEMA" or tag != self.tag) and tag.split(" ")[0] in schemas


@dataclass
class Plan:
    """The steps of a restore. drops: schemas to drop; cleans: drops the other objects of the dump, too; entries: of the
    dump; left_out: schemas of the dump that stay out."""

    dump: Path
    conninfo: str
    programs: Binaries
    entries: list[Entry]
    cleans: bool
    lz4: bool
    drops: list[str] = field(default_factory=list)
    left_out: tuple[str, ...] = ()


def holds(conninfo: str) -> bool:
    """Returns True if the database has objects in a schema of queend."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return bool(_filled(connection))


def plan(source: Path, made: dict[str, Any], conninfo: str, replace: bool) -> Plan:
    """Decides how a backup goes into a database, and changes nothing. Raises BackupError if it cannot go there."""
    dump = source / "database.dump"
    with psycopg.connect(conninfo, autocommit=True) as connection:
        _usable(connection)
        programs = clients(connection.info.server_version // 10000, int(made.get("program") or 0))
        entries = _entries(programs, dump)
        _known(programs, dump)
        cleans = replace and any(not entry.belongs_to((TABLES, *SURFACE)) for entry in entries)
        found = Plan(dump, conninfo, programs, entries, cleans, connection.execute(LZ4).fetchone() == (True,))
        ours = schemas_of(connection)
        if not cleans and connection.execute(migrate.FOREIGN).fetchone() != (None,):
            found.left_out = SURFACE      # another program's tables stand there
        filled = _filled(connection)
        found.drops = ours if replace else [name for name in ours if name not in filled]
        lost = [one for one in crossing.lost(connection, found.drops) if not _returns(one.words, entries)]
        if lost:
            raise BackupError("objects outside of queend's schemas depend on them and would be lost: "
                              f"{crossing.listed(lost)}; drop these objects first, or restore into another database")
    return found


def run(plan: Plan, buffers: Copied, heard: Heard) -> int:
    """Carries out a plan in one transaction, places the copies of the failover buffer, then brings the tables to this
    version. Returns the number of folders of the buffer. Raises BackupError; then the database is as it was, unless
    the text says that it was restored."""
    _await_alone(plan.conninfo)
    address, environment = words(plan.conninfo)
    begin = ["BEGIN", f"SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '{LOCK_S}s'",
             "SET LOCAL client_min_messages = error", f"SELECT pg_advisory_xact_lock({migrate.LOCK})",
             *(f"DROP SCHEMA {name} CASCADE" for name in plan.drops), ALONE,
             *(["SET LOCAL default_toast_compression = 'lz4'"] if plan.lz4 else [])]
    psql = [str(plan.programs.folder / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", address,
            *(word for statement in begin for word in ("-c", statement)), "-f", "-"]
    with tempfile.TemporaryDirectory(prefix="queend-restore-") as folder, tempfile.TemporaryFile() as restored, \
            tempfile.TemporaryFile() as errors:
        chosen = Path(folder) / "list"
        try:
            chosen.write_text("".join(one.line + "\n" for one in plan.entries if not one.belongs_to(plan.left_out)))
        except OSError as error:
            raise BackupError(f"nothing was changed: cannot write {chosen}: {reason(error)}; set TMPDIR to another "
                              "directory for temporary files") from None
        restore = [str(plan.programs.folder / "pg_restore"), "--exit-on-error", "--single-transaction", "--no-owner",
                   "-f", "-", *(["--clean", "--if-exists"] if plan.cleans else []), "-L", str(chosen)]
        dying = dying_with(os.getpid(), signal.SIGKILL)
        with subprocess.Popen(restore, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=restored,
                              preexec_fn=dying) as reader, \
                subprocess.Popen(psql, stdin=reader.stdout, stdout=subprocess.DEVNULL, stderr=errors, env=environment,
                                 preexec_fn=dying) as writer:
            assert reader.stdin and reader.stdout
            reader.stdout.close()      # psql has it: pg_restore must see when psql ends
            try:
                for chunk in chunks(plan.dump):
                    reader.stdin.write(chunk)
                    heard(len(chunk))
                reader.stdin.close()
            except BrokenPipeError:
                pass      # one of the two ended and says why
            except BaseException:
                reader.kill()
                writer.kill()
                raise
        if writer.returncode or reader.returncode:
            text = written(errors) if writer.returncode else written(restored)
            raise BackupError(f"nothing was changed: {_first_error(text)}{_advice(text)}")
    placed = buffers.place()
    try:
        migrate.migrate(plan.conninfo)
        with psycopg.connect(plan.conninfo, autocommit=True) as connection:
            connection.execute(FITTED)
    except (migrate.MigrationError, psycopg.Error) as error:
        later = f"; then run `queend failover adopt`: {_named(placed)} hold messages of the backup" if placed else ""
        raise BackupError(f"the backup was restored, but not migrated to this version: {error}; the next daemon that "
                          f"starts tries again{later}") from None
    if placed:
        _adopt(plan.conninfo, buffers.root, placed)
    return len(placed)


def _adopt(conninfo: str, root: Path, placed: list[Path]) -> None:
    """Marks these folders of the failover buffer as the database's, for the next daemon to drain."""
    try:
        identity = identity_of(conninfo)
        for found in adopt.find(root, identity):
            if found.path in placed:
                adopt.adopt(found, identity)
    except (OSError, FolderError, psycopg.Error) as error:
        why = reason(error) if isinstance(error, OSError) else error
        raise BackupError("the backup was restored, but the next daemon will not store the failover buffer in "
                          f"{_named(placed)}: {why}; run `queend failover adopt`") from None


def _named(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))


# Sets the columns of the log as migrations 1 and 3 do for a new database: one of the two servers may lack lz4.
FITTED = f"""
DO $$ BEGIN
    IF ({LZ4}) THEN
        ALTER TABLE queend.log ALTER COLUMN body SET STORAGE EXTENDED, ALTER COLUMN ids SET STORAGE EXTENDED,
            ALTER COLUMN body SET COMPRESSION lz4, ALTER COLUMN ids SET COMPRESSION lz4;
    ELSE
        ALTER TABLE queend.log ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN ids SET STORAGE EXTERNAL;
    END IF;
END $$"""


def _usable(connection: psycopg.Connection) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BackupError(f"the database {connection.info.dbname} has the encoding {encoding}; create it with ENCODING "
                          "'UTF8'")
    if connection.info.server_version < migrate.OLDEST_SERVER:
        raise BackupError(f"PostgreSQL 15 or later is required; this is {connection.info.server_version // 10000}")


def _filled(connection: psycopg.Connection) -> list[str]:
    """Returns the schemas of queend that hold anything."""
    return [name for name in schemas_of(connection) if connection.execute(FILLED, (name,)).fetchone() == (True,)]


def _await_alone(conninfo: str) -> None:
    """Raises BackupError if a daemon uses the database. Sessions of a daemon that has just ended get GONE_S seconds to
    close."""
    deadline = time.monotonic() + GONE_S
    with psycopg.connect(conninfo, autocommit=True, application_name="queend restore") as connection:
        while connection.execute(SESSIONS).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise BackupError(BUSY)
            time.sleep(0.05)
        if told := foreign_locks.ended(connection, {migrate.LOCK: "migrations"}):
            raise BackupError(f"nothing was changed: {told}")


def _read(programs: Binaries, dump: Path, *options: str) -> str:
    """Returns what pg_restore prints of a dump."""
    done = subprocess.run([programs.folder / "pg_restore", *options, dump], capture_output=True, text=True,
                          errors="surrogateescape", stdin=subprocess.DEVNULL)
    if done.returncode:
        text = done.stderr.strip()
        later = ("; it was written by a later pg_dump: restore into a later "
                 "PostgreSQL") if "unsupported version" in text else ""
        raise BackupError(f"pg_restore {programs.major} cannot read {dump}: {text}{later}")
    return done.stdout


def _entries(programs: Binaries, dump: Path) -> list[Entry]:
    found = [Entry(match[0], *match.groups()) for line in _read(programs, dump, "-l").splitlines()
             if (match := ENTRY.fullmatch(line))]
    if not any(entry[1:3] == ("TABLE", TABLES) and entry.tag.startswith("catalog ") for entry in found):
        raise BackupError(f"{dump} contains no queend tables")
    return found


def _known(programs: Binaries, dump: Path) -> None:
    """Raises BackupError if the dump is of a newer release that does not serve this one."""
    rows = _read(programs, dump, "--data-only", "-n", TABLES, "-t", "schema_migrations", "-f", "-")
    applied = {int(row[0]): row[2] for line in rows.splitlines()
               if len(row := line.split("\t")) == 4 and row[0].lstrip("-").isdecimal()}
    numbers = NUMBERS.search(_read(programs, dump, "-n", TABLES, "-P", "edition()", "-f", "-"))
    theirs = Edition(int(numbers[1]), int(numbers[2])) if numbers else Edition()
    folder = migrate.sql_folder()
    try:
        migrate.missing(applied, theirs, migrate.steps(folder), folder)
    except migrate.MigrationError as error:
        raise BackupError(f"this version cannot use the backup: {error}") from None


def _returns(words: str, entries: list[Entry]) -> bool:
    """Returns True if the dump has the object that these words name."""
    return any(f"{entry.schema} {entry.tag}".startswith((words + " ", words + "(")) for entry in entries)


def _first_error(text: str) -> str:
    """Returns the first error of a program's output with the lines that belong to it."""
    at = text.find("ERROR:")
    return text[max(at, 0):].partition("\nCONTEXT:")[0].strip() or "the program printed no error"


def _advice(text: str) -> str:
    """Returns what to do about a common error."""
    for sign, advice in ADVICE.items():
        if sign in text:
            return f" ({advice})"
    return ""


ADVICE = {
    "compression method lz4 not supported": "the dump requires lz4; restore it into a PostgreSQL with lz4",
    "lock timeout": "another session holds locks on tables of queend; end it, then restore again",
    '" does not exist': "create it first; roles with grants are not part of a backup",
    "already exists": "the backup contains it, too; use --replace to replace what the backup contains",
}
