"""One database copied into another: all that queend keeps, from one snapshot, counted on both sides.

The target's schemas `queend` and `queen` are dropped and made anew by the migrations; then table after table goes over two connections
as binary COPY. Runs in a thread of its own: it blocks.
"""
from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from .. import session
from .migrate import migrate

# names that clients know → tables left empty
EXCLUDABLE = {
    "messages": ("log", "late_ids", "holes", "addressed", "unlisted", "outbox"), "dead_letter_queue": ("dead_letters", "dead_bodies"), "message_traces": ("traces", "trace_names"),
    "message_trace_names": (), "messages_consumed": (), "stats": (), "stats_history": (), "retention_history": ("retention_history",),
    "system_metrics": (), "worker_metrics": (), "worker_metrics_summary": (), "queue_lag_metrics": ()}
# what is counted, under the names that clients know; others under their own
COUNTED = {
    "queues": "SELECT count(*) FROM queend.queues", "partitions": "SELECT count(*) FROM queend.partitions",
    "messages": "SELECT COALESCE(sum(n), 0)::bigint FROM queend.log", "partition_consumers": "SELECT count(*) FROM queend.cursors",
    "consumer_groups_metadata": "SELECT count(*) FROM queend.consumer_groups", "dead_letter_queue": "SELECT count(*) FROM queend.dead_letters",
    "retention_history": "SELECT count(*) FROM queend.retention_history", "message_traces": "SELECT count(*) FROM queend.traces"}
# all that is kept: no figures that are computed anew, no notes of the migrations
TABLES = """SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'queend'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p'
               AND c.relname <> 'schema_migrations' ORDER BY c.relname"""
COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"
SEQUENCES = """SELECT s.seqrelid::regclass::text, a.attrelid::regclass::text, a.attname FROM pg_sequence s JOIN pg_depend d ON d.objid = s.seqrelid AND d.deptype IN ('a', 'i')
  JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'queend'::regnamespace"""
# Offsets are never given twice: where the messages stay behind, the target goes on where the source is.
FLOORS = "COPY (SELECT p.id, queend.head(p.id) FROM queend.partitions p WHERE queend.head(p.id) > 0) TO STDOUT (FORMAT binary)"
SESSION = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c timezone=UTC"


# What an address may lead to: libpq's errors, and those of looking up a name that is none.
UNREACHABLE = (psycopg.Error, OSError, ValueError)


class TransferError(Exception):
    """What cannot be done, in words for whoever asked."""


@dataclass(frozen=True)
class Address:
    """A database as the dashboard gives it."""

    host: str
    port: str
    database: str
    user: str
    password: str
    ssl: bool

    def conninfo(self) -> str:
        return make_conninfo(host=self.host, port=self.port, dbname=self.database, user=self.user, password=self.password, connect_timeout=5,
                             sslmode="require" if self.ssl else "disable", application_name="queend transfer", client_encoding="UTF8")


def version_of(target: Address) -> str:
    """What the server says it is. Raises one of UNREACHABLE."""
    with psycopg.connect(target.conninfo()) as connection:
        return connection.execute("SELECT version()").fetchone()[0]


def compare(source: str, target: Address) -> list[dict]:
    """Rows counted on both sides, -1 where that fails: table, sourceCount, targetCount, match. Raises TransferError."""
    counts = []
    for side, conninfo in (("source", source), ("target", target.conninfo())):
        try:
            with session.connect(conninfo, autocommit=True, options=SESSION) as connection:
                counts.append([_count(connection, text) for text in COUNTED.values()])
        except UNREACHABLE as error:
            raise TransferError(f"Failed to connect to {side}: {str(error).strip()}") from None
    return [{"table": name, "sourceCount": there, "targetCount": here, "match": there == here and there >= 0} for name, there, here in zip(COUNTED, *counts, strict=True)]


def _count(connection: psycopg.Connection, text: str) -> int:
    try:
        return connection.execute(text).fetchone()[0]
    except psycopg.Error:
        return -1


class Transfer:
    """At most one at a time. `status` may be read from anywhere; the rest belongs to one thread."""

    def __init__(self, source: str):
        self.source = source
        self.state, self.step, self.error, self.lines = "idle", "", "", []
        self._since = self._until = 0.0
        self._connections: list[psycopg.Connection] = []
        self._thread: threading.Thread | None = None
        self._stopped = False

    @property
    def running(self) -> bool:
        return self.state in ("dumping", "restoring")

    def status(self) -> dict:
        elapsed = (time.monotonic() if self.running else self._until) - self._since if self._since else 0.0
        more = {"error": self.error} if self.error else {}
        if self.lines:
            more["restoreOutput"] = "\n".join(self.lines)
        return {"status": self.state, "currentStep": self.step, "elapsedSeconds": round(elapsed, 3), **more}

    def start(self, target: Address, without: list[str]) -> None:
        self.state, self.step, self.error, self.lines = "dumping", "connecting", "", []
        self._since = time.monotonic()
        self._thread = threading.Thread(target=self._run, args=(target, without), name="transfer", daemon=True)
        self._thread.start()

    def reset(self) -> None:
        self.state, self.step, self.error, self.lines = "idle", "", "", []
        self._since = self._until = 0.0

    def stop(self) -> None:
        """The daemon ends: what is under way is left as it is, the target unusable until a transfer has run through."""
        self._stopped = True
        for connection in list(self._connections):
            connection.cancel()
        if self._thread:
            self._thread.join(10)

    def _run(self, target: Address, without: list[str]) -> None:
        try:
            self._copy(target, without)
            self.state, self.step = "complete", "complete"
        except (TransferError, *UNREACHABLE) as error:
            self.state, self.error = "error", str(error).strip()
        finally:
            self._until = time.monotonic()

    def _copy(self, target: Address, without: list[str]) -> None:
        with session.connect(self.source, options=SESSION) as there, session.connect(target.conninfo(), options=SESSION) as here:
            self._connections = [there, here]
            there.isolation_level, there.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
            if _same(there, here):
                raise TransferError("the target is the database that is to be copied")
            tables = [name for (name,) in there.execute(TABLES)]
            self.step = "making the schema"
            here.execute("DROP SCHEMA IF EXISTS queend CASCADE")
            here.execute("DROP SCHEMA IF EXISTS queen CASCADE")
            here.commit()
            migrate(make_conninfo(target.conninfo(), options=SESSION))
            self.state = "restoring"
            left = {table for name in without for table in EXCLUDABLE[name]}
            for name in tables:
                if self._stopped:
                    raise TransferError("the daemon was stopped")
                if name in left:
                    continue
                self.step = f"copying {name}"
                self.lines.append(f"{name}: {_table(there, here, name, FLOORS if name == 'floors' and 'log' in left else None)} bytes")
            self.step = "setting sequences"
            for sequence, table, column in here.execute(SEQUENCES).fetchall():
                here.execute(sql.SQL("SELECT setval(%s, GREATEST((SELECT max({}) FROM {}), 1))").format(sql.Identifier(column), sql.SQL(table)), (sequence,))
            here.execute("SELECT queend.catalog_raise()")
            here.commit()
            self._connections = []


def _same(there: psycopg.Connection, here: psycopg.Connection) -> bool:
    """One database under two addresses: a lock of the one is seen in the other."""
    key = secrets.randbits(62)
    there.execute("SELECT pg_advisory_lock_shared(%s)", (key,))
    found = here.execute("SELECT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())"
                         " AND l.classid = %s::bigint::oid AND l.objid = %s::bigint::oid)", (key >> 32, key & 0xFFFFFFFF)).fetchone()[0]
    there.execute("SELECT pg_advisory_unlock_shared(%s)", (key,))
    return found


def _table(there: psycopg.Connection, here: psycopg.Connection, name: str, select: str | None) -> int:
    """Empties a table of the target (the migrations put rows into some) and fills it; bytes copied."""
    table = sql.Identifier("queend", name)
    columns = sql.SQL(", ").join(sql.Identifier(column) for (column,) in there.execute(COLUMNS, (f"queend.{name}",)))
    size = 0
    here.execute(sql.SQL("DELETE FROM {}").format(table))
    with (there.cursor().copy(select or sql.SQL("COPY {} ({}) TO STDOUT (FORMAT binary)").format(table, columns)) as out,
          here.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, sql.SQL("partition_id, floor") if select else columns)) as into):
        for block in out:
            size += len(block)
            into.write(block)
    return size
