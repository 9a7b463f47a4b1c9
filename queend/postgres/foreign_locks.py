"""Finds and ends sessions without rights that hold advisory locks of queend.

PostgreSQL lets every role that can connect take any advisory lock, and everyone reads the keys in `pg_locks`. A role is
foreign if neither the role nor one that it is a member of has USAGE on the schema queend. Superusers are never foreign.
The role is the one that logged in: PostgreSQL shows to nobody what `SET ROLE` made of a session.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from .. import log
from ..wording import many

LANES = 1903519076
# Locks of two numbers that the SQL functions take: the first number, and what the lock is for.
CLASSES = {LANES: "lanes", 1903519077: "outbox", 1903519078: "names", 1903519079: "dead letters"}
# A query of streams has locks of its number and one of any partition. Programs that share the database may use the same
# numbers, so these locks count only while a session of ours waits for them.
OF_STREAMS = """
        WHEN (l.class, l.objid) IN (SELECT w.class, w.objid FROM locks w JOIN pg_stat_activity a ON a.pid = w.pid
                                      JOIN queend.stream_queries q ON q.id = w.class
                                     WHERE NOT w.granted AND w.objsubid = 1 AND a.usesysid = (
                                         SELECT m.oid FROM pg_roles m WHERE m.rolname = session_user)) THEN 'streams'"""
# Locks that are requested count as well: later requests wait behind them. A prepared transaction has locks and no
# session; the lock of its own number says which one it is. Before the schema exists, who may create it is not foreign.
HOLDERS = """
WITH locks AS MATERIALIZED (
    SELECT l.pid, l.virtualtransaction AS vxid, l.granted, l.classid::bigint AS class, l.objid::bigint AS objid,
           l.objsubid, l.transactionid AS xid
      FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.pid IS NULL OR l.locktype = 'advisory'
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())),
named AS (
    SELECT l.pid, l.vxid, COALESCE(k.name, CASE
        WHEN l.objsubid = 2 THEN (%(classes)s::jsonb ->> l.class::text){of_streams}
        END) AS name
      FROM locks l LEFT JOIN unnest(%(keys)s::bigint[], %(names)s::text[]) AS k(key, name)
        ON l.objsubid = 1 AND k.key = (l.class << 32 | l.objid)),
counted AS MATERIALIZED (      -- before any join: such a role may hold as many locks as the server has room for
    SELECT n.pid, n.vxid, n.name, count(*) AS locks FROM named n WHERE n.name IS NOT NULL GROUP BY 1, 2, 3),
of_roles AS (
    SELECT n.pid, p.gid, COALESCE(a.usesysid, o.oid) AS role, n.name, n.locks
      FROM counted n LEFT JOIN pg_stat_activity a ON a.pid = n.pid
      LEFT JOIN locks x ON n.pid IS NULL AND x.xid IS NOT NULL AND x.vxid = n.vxid
      LEFT JOIN pg_prepared_xacts p ON p.transaction = x.xid
      LEFT JOIN pg_roles o ON o.rolname = p.owner),
holders AS MATERIALIZED (
    SELECT c.pid, c.gid, c.role, string_agg(c.name || ' (' || c.locks || ')', ', ' ORDER BY c.name) AS held
      FROM of_roles c WHERE c.role IS NOT NULL GROUP BY 1, 2, 3)
SELECT h.pid, h.gid, h.role::bigint, COALESCE((SELECT r.rolname FROM pg_roles r WHERE r.oid = h.role), h.role::text),
       h.held, (SELECT m.rolsuper FROM pg_roles m WHERE m.rolname = current_user) OR h.gid IS NULL AND (
           pg_has_role(current_user, h.role, 'USAGE') OR pg_has_role(current_user, 'pg_signal_backend', 'USAGE')),
       quote_ident(current_user), quote_ident(current_database())
  FROM holders h
 WHERE NOT EXISTS (SELECT FROM pg_roles r
                    WHERE COALESCE(has_schema_privilege(r.oid, to_regnamespace('queend'), 'USAGE'),
                                   has_database_privilege(r.oid, current_database(), 'CREATE'))
                      AND pg_has_role(h.role, r.oid, 'MEMBER'))
 ORDER BY h.role, h.pid LIMIT 1000"""
END = "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.pid = %s AND a.usesysid = %s::oid"


@dataclass(frozen=True)
class Holder:
    """A session of a foreign role, or a prepared transaction of it. held: its locks, by what they are for."""

    pid: int | None
    gid: str | None          # of the prepared transaction
    role_id: int
    role: str
    held: str
    may_end: bool            # this session has the right to end it
    me: str
    database: str

    @property
    def seen(self) -> str:
        what = f"session {self.pid}" if self.gid is None else f"the prepared transaction {self.gid!r}"
        return (f"{what} of the role {self.role}, which has no USAGE on the schema queend, holds advisory locks of "
                f"queend: {self.held}")

    @property
    def advice(self) -> str:
        keep_out = f"REVOKE CONNECT ON DATABASE {self.database} FROM PUBLIC"
        if self.gid is not None:
            return f"ROLLBACK PREPARED as a superuser, and {keep_out}"
        return (f"GRANT pg_signal_backend TO {self.me}, so that the daemon ends such sessions; or {keep_out}, and end "
                f"the session as a superuser")

    def ending(self) -> tuple[Any, Sequence[Any] | None]:
        """Returns the statement that ends it, and its values."""
        if self.gid is not None:
            return sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(self.gid)), None
        return END, (self.pid, self.role_id)


def question(keys: Mapping[int, str], classes: Mapping[int, str], streams: bool) -> tuple[Any, dict[str, Any]]:
    """Returns the query for holders, whose rows are the fields of Holder, and its values. keys: locks of one number and
    what they are for; classes: of two numbers, by the first. streams: also locks of streams; requires the schema."""
    return (HOLDERS.replace("{of_streams}", OF_STREAMS if streams else ""),
            {"keys": list(keys), "names": list(keys.values()),
             "classes": "{" + ", ".join(f'"{number}": "{name}"' for number, name in classes.items()) + "}"})


def ended(connection: psycopg.Connection, keys: Mapping[int, str]) -> str | None:
    """Ends foreign holders of these locks. Returns what is to be done about one that the role of the connection may not
    end; None if there is none. Requires autocommit."""
    for holder in (Holder(*row) for row in connection.execute(*question(keys, {}, False)).fetchall()):
        if not holder.may_end:
            return f"{holder.seen}. {holder.advice}"
        connection.execute(*holder.ending())
        tell([holder])
    return None


def tell(holders: Sequence[Holder]) -> None:
    """Logs that these holders, of one role, were ended."""
    first = holders[0]
    others = f", and {many(len(holders) - 1, 'other session')} of the role" if len(holders) > 1 else ""
    log.line("warn", "foreign_lock_ended", f"{first.seen}. It was ended{others}", role=first.role, pid=first.pid,
             held=first.held, ended=len(holders))
