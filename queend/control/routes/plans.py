"""Two checks of the doctor: whether the look-ups of the hot functions still use their indexes, and whether pushes wait
for each other's lanes."""
from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ...postgres.conninfo import HOT_PLANS
from ...postgres.foreign_locks import LANES

LOOKS, PAUSE_S = 20, 0.01
# Look-ups as the functions make them (sql/README.md, Plans): purpose, types, look-up, arguments, index, table.
LOOKUPS = (
    ("the newest row of a partition", "int",
     "SELECT l.base FROM queend.log l WHERE l.partition_id = $1 ORDER BY l.base DESC LIMIT 1", "0", "log_pkey", "log"),
    ("rows of a partition from an offset on", "int, bigint",
     "SELECT l.base FROM queend.log l WHERE l.partition_id = $1 AND l.base >= $2 ORDER BY l.base", "0, 0", "log_pkey",
     "log"),
    ("the cursor of a group in a partition", "int, int",
     "SELECT k.committed FROM queend.cursors k WHERE k.partition_id = $1 AND k.group_id = $2", "0, 0", "cursors_pkey",
     "cursors"),
    ("the log start offset of a partition", "int", "SELECT f.floor FROM queend.floors f WHERE f.partition_id = $1", "0",
     "floors_pkey", "floors"),
    ("a partition by its id", "int", "SELECT p.queue_id FROM queend.partitions p WHERE p.id = $1", "0",
     "partitions_pkey", "partitions"),
    ("a partition by its name", "int, text",
     "SELECT p.id FROM queend.partitions p WHERE p.queue_id = $1 AND p.name >= $2 AND p.name <= $2 ORDER BY p.name "
     "LIMIT 1", "0, ''", "partitions_queue_id_name_key", "partitions"),
)
INVALID = """
SELECT c.relname AS name, t.relname AS of FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
 WHERE c.relnamespace = to_regnamespace('queend') AND NOT (i.indisvalid AND i.indisready) ORDER BY 1 LIMIT 20"""
WAITING = f"""
SELECT k.objid::int AS lane, count(*) FILTER (WHERE NOT k.granted)::int AS waiting,
       min(k.pid) FILTER (WHERE k.granted) AS holder,
       (SELECT h.usename FROM pg_stat_activity h WHERE h.pid = min(k.pid) FILTER (WHERE k.granted)) AS role
  FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid AND a.wait_event = 'SyncRep'
  JOIN pg_database d ON d.oid = k.database AND d.datname = current_database()
 WHERE k.locktype = 'advisory' AND k.classid = {LANES} AND k.objsubid = 2
 GROUP BY k.objid HAVING count(*) FILTER (WHERE NOT k.granted) > 0 AND count(a.pid) = 0"""
SETTINGS = "; ".join(f"SET LOCAL {name} = {value}" for name, value in (
    word.split("=") for word in (HOT_PLANS.replace("-c ", "") + " lock_timeout=500").split()))


async def plans(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    for row in await ask(INVALID):
        yield ("critical", f"the index {row['name']} is not used", f"it is invalid; its table is {row['of']}",
               f"REINDEX INDEX queend.{row['name']}", f"REINDEX INDEX queend.{row['name']}")
    async with control.pool.connection() as connection, connection.transaction(force_rollback=True):
        await connection.execute(SETTINGS)
        for what, types, query, values, index, table in LOOKUPS:
            await connection.execute(f"PREPARE queend_doctor ({types}) AS {query}")
            (plan,) = await (await connection.execute(
                f"EXPLAIN (FORMAT JSON) EXECUTE queend_doctor({values})", prepare=False)).fetchone()
            await connection.execute("DEALLOCATE queend_doctor")
            for node in scans((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]):
                if node.get("Index Name") != index or "Index Cond" not in node:
                    by = f" by {node['Index Name']}" if "Index Name" in node else ""
                    yield ("warning", f"PostgreSQL does not use the expected index to find {what}",
                           f"{node['Node Type']} on {table}{by} instead of {index}",
                           f"Run ANALYZE queend.{table}; if that does not help, REINDEX INDEX queend.{index}. Every "
                           "push and pop runs this query", f"ANALYZE queend.{table}")


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the nodes of a plan that read a table."""
    if "Relation Name" in node:
        yield node
    for inner in node.get("Plans", []):
        yield from scans(inner)


async def lanes(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    """Looks several times within a fifth of a second: a lane with waiting sessions in most looks is crowded. A lane
    whose holder waits for a synchronous standby does not count: the check standbys reports that."""
    seen: dict[int, int] = {}
    most: dict[int, tuple[int, int, str]] = {}
    for _ in range(LOOKS):
        for row in await ask(WAITING):
            seen[row["lane"]] = seen.get(row["lane"], 0) + 1
            most[row["lane"]] = max(most.get(row["lane"], (0, 0, "")),
                                    (row["waiting"], row["holder"] or 0, row["role"] or ""))
        await asyncio.sleep(PAUSE_S)
    for lane, times in sorted(seen.items(), key=lambda one: -one[1]):
        if times > LOOKS // 2:
            waiting, holder, role = most[lane]
            held = f"; session {holder} of the role {role} held it" if holder else ""
            yield ("warning", f"pushes wait for each other in lane {lane}",
                   f"in {times} of {LOOKS} looks, at most {waiting} waiting{held}",
                   "A lane is locked until the commit. A program that pushes from SQL must commit soon. Partitions "
                   f"whose id modulo 64 is {lane} share the lane: push larger batches, or spread messages over more "
                   "partitions. The daemon ends sessions of roles without USAGE on the schema queend if its own "
                   "role has pg_signal_backend. If the role should not use the database, end its session "
                   "(pg_terminate_backend) and REVOKE CONNECT")
