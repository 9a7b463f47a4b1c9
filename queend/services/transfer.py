"""Copies one database into another: all that queend keeps, from one snapshot, counted on both sides.

The target's schemas `queend` and `queen` are dropped and created by the migrations. Then table after table goes over
two connections as binary COPY, on a thread of its own.
"""
from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import psycopg
from psycopg import sql

from .. import log
from ..postgres import session
from ..postgres.migrate import MigrationError, migrate_over
from .copy_target import UNREACHABLE, Address, Crowded, Cut, Work

# names that clients know → tables left empty
EXCLUDABLE = {"messages": ("log", "late_ids", "holes", "addressed", "schedule", "unlisted", "outbox"),
              "dead_letter_queue": ("dead_letters", "dead_bodies"), "message_traces": ("traces", "trace_names"),
              "message_trace_names": (), "messages_consumed": (), "stats": (), "stats_history": (),
              "retention_history": ("retention_history",), "system_metrics": (), "worker_metrics": (),
              "worker_metrics_summary": (), "queue_lag_metrics": ()}
# counted tables, under the names that clients know; others under their own
COUNTED = {"queues": "SELECT count(*) FROM queend.queues", "partitions": "SELECT count(*) FROM queend.partitions",
           "messages": "SELECT COALESCE(sum(n), 0)::bigint FROM queend.log",
           "partition_consumers": "SELECT count(*) FROM queend.cursors",
           "consumer_groups_metadata": "SELECT count(*) FROM queend.consumer_groups",
           "dead_letter_queue": "SELECT count(*) FROM queend.dead_letters",
           "retention_history": "SELECT count(*) FROM queend.retention_history",
           "message_traces": "SELECT count(*) FROM queend.traces"}
# Tables that are copied. Figures are computed again, and records of migrations belong to the target. A copy replaces
# the rows of name_counts, so it comes after the tables whose triggers count names.
TABLES = """SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'queend'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p'
        AND c.relname <> 'schema_migrations' ORDER BY c.relname = 'name_counts', c.relname"""
COLUMNS = """SELECT attname FROM pg_attribute
     WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum"""
SEQUENCES = """SELECT s.seqrelid::regclass::text, a.attrelid::regclass::text, a.attname
     FROM pg_sequence s JOIN pg_depend d ON d.objid = s.seqrelid AND d.deptype IN ('a', 'i')
     JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid JOIN pg_class c ON c.oid = a.attrelid
     WHERE c.relnamespace = 'queend'::regnamespace"""
# Offsets are never reused: if the messages stay behind, the target goes on where the source is.
FLOORS = """COPY (SELECT p.id, queend.head(p.id), queend.now_us() FROM queend.partitions p
        WHERE queend.head(p.id) > 0) TO STDOUT (FORMAT binary)"""
SESSION = f"{session.UNHURRIED} -c timezone=UTC"
OCCUPIED = """SELECT n.nspname FROM pg_namespace n
     WHERE n.nspname IN ('queend', 'queen') AND EXISTS (SELECT FROM pg_depend d
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid) ORDER BY 1"""
LAST_S = 1.0             # for threads to end when the daemon stops
CHECK_S = 10.0           # for a server to answer a check
CONFIRM_S = 600.0        # how long a refused request may be confirmed
ASKED_MOST = 16


class TransferError(Exception):
    """A transfer that cannot be done; the message is for the client."""


class Occupied(TransferError):
    """The target has data that would be lost."""


def reachable(work: Work, target: Address) -> None:
    with work.connect(target.conninfo()):
        pass


def occupied(work: Work, target: Address) -> list[str]:
    """Returns schemas of the target that would be dropped and are not empty."""
    with work.connect(target.conninfo(), autocommit=True) as connection:
        return [name for (name,) in connection.execute(OCCUPIED)]


def compare(work: Work, source: str, target: Address) -> list[dict]:
    """Returns rows counted on both sides, -1 if that fails: table, sourceCount, targetCount, match. Raises
    TransferError."""
    counts = []
    for side, conninfo in (("source", source), ("target", target.conninfo())):
        try:
            connection = work.connect(conninfo, autocommit=True, options=SESSION)
        except UNREACHABLE:
            raise TransferError(f"Failed to connect to {side}") from None
        with connection:
            counts.append([_count(work, connection, text) for text in COUNTED.values()])
    return [{"table": name, "sourceCount": there, "targetCount": here, "match": there == here and there >= 0}
            for name, there, here in zip(COUNTED, *counts, strict=True)]


def _count(work: Work, connection: psycopg.Connection, text: str) -> int:
    work.step()
    try:
        return connection.execute(text).fetchone()[0]
    except psycopg.Error:
        return -1


class Transfer:
    """Runs at most one transfer at a time. All of it belongs to the loop; blocking work has threads of its own."""

    def __init__(self, source: str, step_s: float):
        self.source, self.step_s = source, step_s
        self.state, self.step, self.error, self.lines = "idle", "", "", []
        self._since = self._until = 0.0
        # targets whose contents were reported, and until when they may be overwritten
        self._asked: dict[Address, float] = {}
        self._works: set[Work] = set()
        self._task: asyncio.Task | None = None
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

    async def answers(self, target: Address) -> bool:
        """Returns whether the target can be reached, as this user. Raises Crowded."""
        try:
            await self._run(CHECK_S, reachable, target)
        except (*UNREACHABLE, TimeoutError, Cut):
            return False
        return True

    async def compare(self, target: Address) -> list[dict]:
        """Compares the row counts of source and target. Raises TransferError, Crowded."""
        try:
            return await self._run(self.step_s, compare, self.source, target)
        except (TimeoutError, Cut):
            raise TransferError("Counting rows took too long") from None

    async def start(self, target: Address, without: list[str], overwrite: bool) -> None:
        """Starts a copy, and returns when it has begun. Raises Occupied if the target is not empty: `overwrite` counts
        from the second request on."""
        try:
            found = await self._run(CHECK_S, occupied, target)
        except (*UNREACHABLE, TimeoutError, Cut):
            raise TransferError("Failed to connect to target") from None
        now = time.monotonic()
        told = self._asked.pop(target, 0.0) > now
        if found and not (overwrite and told):
            self._asked = {one: until for one, until in self._asked.items() if until > now}
            if len(self._asked) < ASKED_MOST:
                self._asked[target] = now + CONFIRM_S
            raise Occupied(f"The target's schema {' and '.join(found)} is not empty, and all its data would be lost; "
                           "repeat the request with overwrite: true within ten minutes to confirm")
        if self.running or self._stopped:
            raise TransferError("Migration already in progress")
        self.state, self.step, self.error, self.lines = "dumping", "connecting", "", []
        self._since = now
        log.line("info", "transfer_started", f"to {target.host}:{target.port}/{target.database} as {target.user}",
                 overwritten=found)
        self._task = asyncio.create_task(self._copied(target, without, bool(found)))

    def reset(self) -> None:
        self.state, self.step, self.error, self.lines = "idle", "", "", []
        self._since = self._until = 0.0

    def stop(self) -> None:
        """Stops for the end of the daemon. A running copy is left as it is, and the target is unusable until a transfer
        has completed."""
        self._stopped = True
        for work in list(self._works):
            work.cut()

    async def close(self) -> None:
        """Stops, and waits for the threads that were cut off, so that none writes to the log when the daemon has
        stopped."""
        self.stop()
        if self._task:
            await asyncio.wait([self._task])
        await Work.ended(LAST_S)

    async def _run(self, step_s: float, *what: Any) -> Any:
        work = Work(step_s)
        self._works.add(work)
        try:
            return await work.run(*what)
        finally:
            self._works.discard(work)

    async def _copied(self, target: Address, without: list[str], overwrite: bool) -> None:
        why = ""
        try:
            await self._run(self.step_s, self._copy, target, without, overwrite)
        except (TransferError, MigrationError) as error:
            why = str(error)
        except Cut:
            why = "the daemon was stopped"
        except TimeoutError:
            why = f"{self.step}: no progress for {self.step_s:g} s"
        except Crowded:
            why = "other connection checks are running"
        except psycopg.Error as error:
            why = f"{self.step}: {error.diag.message_primary or 'the connection failed'}"
        except Exception as error:
            why = f"{self.step}: {type(error).__name__}"
        self._until = time.monotonic()
        if why:
            self.state, self.error = "error", why
            log.line("warn", "transfer_failed", why)
        else:
            self.state, self.step = "complete", "complete"
            log.line("info", "transfer_complete")

    def _copy(self, work: Work, target: Address, without: list[str], overwrite: bool) -> None:
        # Runs on the thread of the work.
        with work.connect(self.source, options=SESSION) as there, work.connect(
            target.conninfo(), options=SESSION) as here:
            there.isolation_level, there.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
            if _same(there, here):
                raise TransferError("the target is the source database")
            tables = [name for (name,) in there.execute(TABLES)]
            self.step = "creating the schema"
            for name in ("queend", "queen"):      # without the word, anything added since ends the copy
                work.step()
                here.execute(f"DROP SCHEMA IF EXISTS {name} {'CASCADE' if overwrite else 'RESTRICT'}")
            here.commit()
            with work.connect(target.conninfo(), options=SESSION, autocommit=True) as other:
                migrate_over(other, patience_s=self.step_s / 2)
            self.state = "restoring"
            left = {table for name in without for table in EXCLUDABLE[name]}
            for name in tables:
                work.step()
                if name in left:
                    continue
                self.step = f"copying {name}"
                size = _table(work, there, here, name, FLOORS if name == "floors" and "log" in left else None)
                self.lines.append(f"{name}: {size} bytes")
            self.step = "setting sequences"
            for sequence, table, column in here.execute(SEQUENCES).fetchall():
                work.step()
                here.execute(sql.SQL("SELECT setval(%s, GREATEST((SELECT max({}) FROM {}), 1))").format(
                    sql.Identifier(column), sql.SQL(table)), (sequence,))
            here.execute("SELECT queend.catalog_raise()")
            work.step()
            here.commit()


def _same(there: psycopg.Connection, here: psycopg.Connection) -> bool:
    """Returns whether two addresses lead to one database: a lock taken through one is seen through the other."""
    key = secrets.randbits(62)
    there.execute("SELECT pg_advisory_lock_shared(%s)", (key,))
    found = here.execute("SELECT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.database = (SELECT "
                         "d.oid FROM pg_database d WHERE d.datname = current_database()) AND l.classid = "
                         "%s::bigint::oid AND l.objid = %s::bigint::oid)", (key >> 32, key & 0xFFFFFFFF)).fetchone()[0]
    there.execute("SELECT pg_advisory_unlock_shared(%s)", (key,))
    return found


def _table(work: Work, there: psycopg.Connection, here: psycopg.Connection, name: str, select: str | None) -> int:
    """Empties a table of the target (the migrations put rows into some) and fills it. Returns the bytes copied."""
    table = sql.Identifier("queend", name)
    columns = sql.SQL(", ").join(sql.Identifier(column) for (column,) in there.execute(COLUMNS, (f"queend.{name}",)))
    size = 0
    here.execute(sql.SQL("DELETE FROM {}").format(table))
    with (there.cursor().copy(
        select or sql.SQL("COPY {} ({}) TO STDOUT (FORMAT binary)").format(table, columns)) as out,
          here.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
              table, sql.SQL("partition_id, floor, raised_at") if select else columns)) as into):
        for block in out:
            work.step()
            size += len(block)
            into.write(block)
    return size
