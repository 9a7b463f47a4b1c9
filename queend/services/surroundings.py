"""Objects or settings of other programs in the database that disable a part of queend, and a server that is a standby.
Logged at the start, and shown by the doctor."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from psycopg.rows import dict_row, tuple_row

from ..plural import many
from ..postgres import session


class Notice(NamedTuple):
    """A finding. event: of the log. level: of the doctor's finding."""

    event: str
    level: str
    title: str
    seen: str
    advice: str


# Tables in the schemas of queend's views and functions: Queen MQ's own, or another program's (migrate.FOREIGN).
TABLES = """
SELECT n.nspname AS schema, count(*)::int AS tables, sum(pg_total_relation_size(c.oid))::bigint AS bytes,
       min(c.relname) FILTER (WHERE c.relname = 'messages') AS messages
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname IN ('queen', 'queen_streams') AND c.relkind IN ('r', 'p') GROUP BY n.nspname ORDER BY n.nspname"""
# Settings that a session cannot set back by itself (session_replication_role needs a superuser), or that some versions
# do not know (transaction_timeout).
SETTINGS = """
SELECT current_setting('session_replication_role') AS triggers,
       coalesce(nullif(current_setting('transaction_timeout', true), '0'), '') AS limit"""


STANDBY = Notice("server_is_standby", "critical", "this server is a standby", "pg_is_in_recovery() is true",
                 "Promote it, or set QUEEND_DSN to the primary: a standby cannot store messages")


def of_tables(rows: list[dict[str, Any]]) -> Iterator[Notice]:
    """Takes the rows of TABLES."""
    for row in rows:
        what = "messages of Queen MQ" if row["messages"] else "tables of another program"
        yield Notice("schema_of_another", "warning", f"the schema {row['schema']} belongs to another program",
                     f"{many(row['tables'], 'table')}, {row['bytes'] / (1 << 20):.1f} MiB: {what}, which queend does "
                     "not serve",
                     "queend serves HTTP, but its SQL views and functions are not available. See “Queen MQ's "
                     "tables in the same database” in docs/migration.md")


def of_settings(rows: list[dict[str, Any]]) -> Iterator[Notice]:
    """Takes the row of SETTINGS."""
    for row in rows:
        if row["triggers"] != "origin":
            yield Notice("session_without_triggers", "critical", "triggers do not fire in the daemon's sessions",
                         f"session_replication_role = {row['triggers']}",
                         "Reset it for the database and for the daemon's role (ALTER DATABASE … RESET "
                         "session_replication_role). Without triggers, queues and partitions are not counted, and "
                         "their limits are not enforced")
        if row["limit"]:
            yield Notice("session_with_limit", "warning", "the server ends long transactions",
                         f"transaction_timeout = {row['limit']}",
                         "Reset it for the daemon's role (ALTER ROLE … SET transaction_timeout = 0). It closes the "
                         "connection of a migration, a copy or a retention pass that takes longer")


def surroundings(conninfo: str) -> list[Notice]:
    """Returns the findings to log at the start. Raises psycopg.OperationalError if the database cannot be reached."""
    with session.connect(conninfo, autocommit=True, row_factory=dict_row) as connection:
        ((standby,),) = connection.cursor(row_factory=tuple_row).execute("SELECT pg_is_in_recovery()").fetchall()
        return [*([STANDBY] if standby else []), *of_tables(connection.execute(TABLES).fetchall()),
                *of_settings(connection.execute(SETTINGS).fetchall())]
