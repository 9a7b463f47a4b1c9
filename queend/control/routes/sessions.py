"""Checks of the doctor: sessions that keep dead rows, that wait for a lock, and statements of the data plane that take
long."""
from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ...duration import span
from ...plural import many

FORGOTTEN_S = 3600
LONG_S = 5.0      # of a statement that waits for a lock, or of one of the data plane

HORIZON = """
SELECT 'session ' || a.pid || coalesce(' of ' || nullif(a.application_name, ''), '') || ', '
       || coalesce(a.state, 'unknown') AS who, extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
       age(a.backend_xmin)::bigint AS xids, 'SELECT pg_terminate_backend(' || a.pid || ')' AS run
  FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()
   AND a.backend_type <> 'autovacuum worker' AND clock_timestamp() - a.xact_start > make_interval(secs => 300)
UNION ALL
SELECT 'prepared transaction ' || p.gid, extract(epoch FROM clock_timestamp() - p.prepared)::float8,
       age(p.transaction)::bigint, 'ROLLBACK PREPARED ' || quote_literal(p.gid)
  FROM pg_prepared_xacts p WHERE clock_timestamp() - p.prepared > make_interval(secs => 300)
 ORDER BY 2 DESC LIMIT 20"""
LOCKED = f"""
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS seconds,
       pg_blocking_pids(a.pid)::text AS by
  FROM pg_stat_activity a WHERE a.datname = current_database() AND a.wait_event_type = 'Lock'
   AND clock_timestamp() - a.query_start > make_interval(secs => {LONG_S}) ORDER BY 2 DESC LIMIT 20"""
# Statements of the data plane take milliseconds. Other checks find those that wait for a lock or a standby.
SLOW = f"""
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS seconds,
       coalesce(a.wait_event_type || ': ' || a.wait_event, 'it computes') AS waits
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.application_name = 'queend' AND a.state = 'active'
   AND a.wait_event_type IS DISTINCT FROM 'Lock' AND a.wait_event IS DISTINCT FROM 'SyncRep'
   AND clock_timestamp() - a.query_start > make_interval(secs => {LONG_S}) ORDER BY 2 DESC LIMIT 20"""


async def horizon(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    for row in await ask(HORIZON):
        yield ("critical" if row["seconds"] > FORGOTTEN_S else "warning",
               f"{row['who']} keeps PostgreSQL from removing dead rows",
               f"open for {span(row['seconds'])}, {many(row['xids'] or 0, 'transaction')} old",
               "End it (pg_terminate_backend, ROLLBACK PREPARED). Set idle_in_transaction_session_timeout to end "
               "forgotten transactions", row["run"])


async def locks(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    for row in await ask(LOCKED):
        yield ("warning", f"session {row['pid']} waits for a lock", f"for {span(row['seconds'])}, held by "
               f"session {row['by'].strip('{}').replace(',', ', ')}",
               "Look at the holder in pg_stat_activity; DDL or LOCK TABLE on tables of queend blocks all traffic",
               "SELECT pid, usename, application_name, state, query FROM pg_stat_activity "
               f"WHERE pid = ANY ('{row['by']}')")


async def statements(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    for row in await ask(SLOW):
        yield ("warning", f"a statement of the data plane runs for {span(row['seconds'])}",
               f"session {row['pid']}, {row['waits']}",
               "Pushes, pops and acknowledgments that share it wait. Look at the load and the disk of the server, and "
               "for triggers on tables of queend",
               f"SELECT pid, wait_event_type, wait_event, query FROM pg_stat_activity WHERE pid = {row['pid']}")
