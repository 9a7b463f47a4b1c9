"""GET /api/v1/system/doctor: problems, present or approaching, with the observation and the remedy.

A check is a function that yields findings. Each queries the database once, for figures that are kept anyway. A check
that fails is a finding itself, and the others go on."""
from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from typing import Any

import psycopg
from fastapi import Request
from psycopg.rows import dict_row
from psycopg_pool import PoolTimeout

from ... import log
from ...auth.levels import READ
from ...duration import span
from ...plural import many
from ...postgres.session import told
from ...services.surroundings import SETTINGS, TABLES as FOREIGN, of_settings, of_tables
from ...settings.origins import uses_embedded
from ..database import QUEUE_MODE
from ..http.answer import Json
from ..http.moments import now_us, ts3
from ..http.route import Routes
from ..http.schema import TEXT, TIME, array, whole
from .health import FATAL
from .maintenance import NONE
from .plans import lanes, plans
from .sessions import FORGOTTEN_S, horizon, locks, statements
from .standbys import standbys

router = Routes("system")
LEVELS = ("ok", "notice", "warning", "critical")
Ask = Callable[[str], Awaitable[list[dict[str, Any]]]]
# A check whose table is locked fails after this time: the check of locks then names the holder.
BRIEFLY = "SET LOCAL lock_timeout = '500ms'"
Finding = tuple[str, ...]      # values of MEMBERS; `run` may be absent
MEMBERS = ("level", "title", "evidence", "advice", "run")
RELOAD = "SELECT pg_reload_conf()"
SKEW_S = 1.0
MOST = 20      # findings of one check
EVIDENCE_MOST = 2000      # letters of an error that a finding tells
REASONS = {"read_only", "refused", "crowded"}      # why a database is away
TITLES = {"away": "the database is not reachable", "silent": "the database does not answer",
          "disk_full": "the database has no space on its disk", "read_only": "the database is read-only",
          "refused": "the database refuses connections", "crowded": "the database has no connection left",
          "commits_hang": "the database commits nothing",
          "buffer_full": "the failover buffer is full or cannot be written"}

SLOTS = """
SELECT s.slot_name AS name, s.active, s.wal_status AS status, s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL AS holds,
       CASE WHEN pg_is_in_recovery() THEN 0
            ELSE coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0) END::bigint AS kept
  FROM pg_replication_slots s ORDER BY 5 DESC LIMIT 20"""
TABLES = """
SELECT s.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead, s.n_tup_upd AS updates, s.n_tup_hot_upd AS hot,
       coalesce(to_char(greatest(s.last_vacuum, s.last_autovacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'),
                'never') AS vacuumed,
       pg_relation_size(s.relid) AS bytes
  FROM pg_stat_user_tables s WHERE s.schemaname = 'queend'"""
SERVER = """
SELECT current_setting('autovacuum') = 'on' AS autovacuum, current_setting('max_connections')::int AS most,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.backend_type = 'client backend')::int AS used,
       age(d.datfrozenxid)::bigint AS age, pg_database_size(d.oid) AS bytes,
       extract(epoch FROM clock_timestamp())::float8 AS clock, current_setting('max_wal_size') AS wal,
       current_setting('server_version_num')::int / 10000 AS major
  FROM pg_database d WHERE d.datname = current_database()"""
CHECKPOINTS = """SELECT num_timed AS timed, num_requested AS requested FROM pg_stat_checkpointer"""
CHECKPOINTS_OLD = """SELECT checkpoints_timed AS timed, checkpoints_req AS requested FROM pg_stat_bgwriter"""
# Commands that take back a setting of the database or the role: ALTER SYSTEM does not change what these set.
SET_BY = """
SELECT split_part(c.setting, '=', 1) AS name,
       format(CASE WHEN s.setrole = 0 THEN 'ALTER DATABASE %1$I RESET %3$I'
                   WHEN s.setdatabase = 0 THEN 'ALTER ROLE %2$I RESET %3$I'
                   ELSE 'ALTER ROLE %2$I IN DATABASE %1$I RESET %3$I' END,
              current_database(), current_user, split_part(c.setting, '=', 1)) AS run
  FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS c (setting)
 WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
   AND s.setrole IN (0, (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user))
 ORDER BY s.setrole = 0, s.setdatabase = 0"""
# Numbers of 32 bits: how many are in use. Counted like names: a few rows for each queue.
NUMBERS = """
SELECT c.kind, sum(c.n)::bigint AS used FROM queend.name_counts c GROUP BY c.kind
HAVING sum(c.n) > 1073741823 ORDER BY c.kind"""
STANDING = """
SELECT s.queue, s.name, count(*) AS partitions, min(s.since) AS since, max(s.lapses) AS lapses
  FROM queend.standing_list(NULL) AS s GROUP BY 1, 2 ORDER BY 4 LIMIT 20"""
FIGURED = "SELECT FROM queend.queues, queend.partitions, queend.consumer_groups, queend.cursors, queend.log LIMIT 0"
LAGGING = """
SELECT g.name, g.queue, g.lag, g.oldest, g.consumed_at FROM queend.group_list() AS g
 WHERE g.oldest < queend.now_us() - 3600000000
   AND COALESCE(g.consumed_at, 0) < queend.now_us() - 3600000000 ORDER BY g.oldest LIMIT 20"""


def group(name: str) -> str:
    return "consumers without a group" if name == QUEUE_MODE else f"the group {name}"


def size(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


async def slots(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for row in await ask(SLOTS):
        lost = row["status"] in ("unreserved", "lost")
        if lost or not row["active"] and (row["kept"] > 1 << 30 or row["holds"]):
            yield ("critical" if lost or row["kept"] > 16 << 30 else "warning",
                   f"the replication slot {row['name']} {'has lost its WAL' if lost else 'has no reader'}",
                   f"{size(row['kept'])} of WAL retained{', dead rows too' if row['holds'] else ''}",
                   "Start its reader, or drop it: SELECT pg_drop_replication_slot(…)",
                   f"SELECT pg_drop_replication_slot('{row['name']}')")


async def tables(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for row in await ask(TABLES):
        if row["dead"] > 100_000 and row["dead"] > 0.2 * row["live"]:
            yield ("warning", f"the table {row['name']} has many dead rows",
                   f"{row['dead']} dead and {row['live']} live rows, {size(row['bytes'])}, vacuumed {row['vacuumed']}",
                   "Look for old transactions and replication slots that hold the xmin horizon, and for cancelled "
                   "vacuums in the log of PostgreSQL", f"VACUUM (VERBOSE, ANALYZE) queend.{row['name']}")
        if row["updates"] > 100_000 and row["hot"] < 0.8 * row["updates"] and row["name"] == "cursors":
            yield ("notice", f"updates of the table {row['name']} write its indexes",
                   f"{100 * row['hot'] // row['updates']} % of {row['updates']} were HOT",
                   "Dead rows that cannot be removed fill its pages. Look for old transactions and replication slots "
                   "that hold the xmin horizon")


async def server(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    before = time.time()
    (row,) = await ask(SERVER)
    middle = (before + time.time()) / 2
    if not row["autovacuum"]:
        yield ("critical", "autovacuum is off", "autovacuum = off", "Turn it on: without it the tables grow "
               "without limit", f"ALTER SYSTEM SET autovacuum = on; {RELOAD}")
    if row["used"] > 0.8 * row["most"]:
        yield ("critical" if row["used"] >= row["most"] - 3 else "warning", "connections are running out",
               f"{row['used']} of {row['most']} in use", "Raise max_connections, or lower QUEEND_SLOTS and NUM_WORKERS")
    if abs(row["clock"] - middle) > SKEW_S:
        yield ("warning", "the clocks of database and daemon differ", f"{row['clock'] - middle:+.1f} s",
               "Synchronise both clocks with NTP; delays and leases use the clock of the database")
    if row["age"] > 1_000_000_000:
        yield ("critical", "transaction ids are running out", f"the oldest is {row['age']} transactions old; the limit "
               "is 2 000 000 000",
               "Run VACUUM FREEZE, and look for old transactions and replication slots that hold the xmin horizon",
               "VACUUM (FREEZE)")
    (count,) = await ask(CHECKPOINTS if row["major"] >= 17 else CHECKPOINTS_OLD)
    if count["requested"] > 20 and count["requested"] > count["timed"]:
        yield ("notice", "checkpoints are requested too often",
               f"{count['requested']} requested, {count['timed']} by time",
               f"Raise max_wal_size ({row['wal']}): after each checkpoint the first write of a page writes the full "
               "page to WAL")


async def numbers(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for row in await ask(NUMBERS):
        yield ("critical" if row["used"] > 1_932_735_282 else "warning", f"ids of {row['kind']}s are running out",
               f"{row['used']} of 2147483647 are in use",
               "Delete unused queues, or remove idle partitions sooner (PARTITION_CLEANUP_DAYS)")


async def daemon(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    known = control.core.database()
    for doubt in known["doubts"]:
        if doubt == "away" and REASONS.intersection(known["doubts"]):
            continue      # the reason is a finding
        yield ("critical" if doubt in FATAL | REASONS else "warning",
               TITLES[doubt], f"doubts: {doubt}", "See “Faults of the database” in docs/observe.md")
    for risk in known["risks"]:
        name = risk.removesuffix("_local")      # of the setting; with synchronous standbys `local` does not suffice
        narrow = next((one["run"] for one in await ask(SET_BY) if one["name"] == name), None)
        yield ("critical", "a crash may lose messages that were answered as queued",
               f"{name} is {'not on' if name == risk else 'local'}",
               f"Set {name} to on" + (", and restart the daemon: its sessions keep the value" if narrow else ""),
               narrow or f"ALTER SYSTEM SET {name} = on; {RELOAD}")
    buffer = control.core.buffer() or NONE
    if buffer["pending"]:
        age = time.time() - buffer["oldest"]
        yield ("warning", "messages wait in the failover buffer",
               f"{buffer['pending']} pending ({size(buffer['bytes'])}), the oldest waits {span(age)}",
               "They are stored when the database is available and push maintenance is off")
    if buffer["failed"]:
        yield ("critical", "messages of the failover buffer could not be stored", f"in quarantine: {buffer['failed']}",
               "See docs/failover.md")
    if control.folder.foreign:
        yield ("warning", "the failover buffer holds messages for other databases",
               ", ".join(map(str, control.folder.foreign[:MOST])), "Run queend failover adopt to store them in this "
                                                                   "database", "queend failover adopt")


async def disk(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    places = [("of the failover buffer", control.folder.path,
               "Free disk space, or set FILE_BUFFER_DIR to another disk")]
    if uses_embedded(control.settings):
        places.append(("of the database", control.settings.queend_data_dir,
                       "Free disk space, or set the retention of queues"))
    for what, path, advice in places:
        if path is not None:
            used = shutil.disk_usage(path)
            if used.free < 0.1 * used.total:
                yield ("critical" if used.free < 0.03 * used.total else "warning", f"the disk {what} is almost full",
                       f"{size(used.free)} of {size(used.total)} free", advice)


async def standing(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for row in await ask(STANDING):
        yield ("warning", f"partitions of {row['queue']} are blocked for {group(row['name'])}",
               f"{many(row['partitions'], 'partition')}, since {ts3(row['since'])}; {many(row['lapses'], 'lease')} "
               "expired",
               "A message probably crashes its consumers. A lower deliveryLimit or leaseTime moves it to the dead "
               "letters sooner")


async def unread(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    await ask(FIGURED)      # fails while one of them is locked; fresh figures would be awaited for longer
    await control.stats.fresh()
    for row in await ask(LAGGING):
        waiting = many(row["lag"], "message") + (" waits" if row["lag"] == 1 else " wait, the oldest")
        yield ("notice", f"no consumer reads {row['queue']} for {group(row['name'])}",
               f"{waiting} since {ts3(row['oldest'])}; the group "
               + (f"consumed last at {ts3(row['consumed_at'])}" if row["consumed_at"] else "has never consumed a "
                  "message"),
               "Start its consumers, or delete the group. It prevents the removal of messages that the other groups "
               "have completed",
               shlex.join(["queend", "group", "delete", row["name"], "--queue", row["queue"]]))


async def services(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for service in control.services:
        for event, one in service.failing.items():
            seconds = time.time() - one.since
            yield ("critical" if seconds > FORGOTTEN_S else "warning",
                   f"the service {type(service).__name__.lower()} fails: {event}",
                   f"{one.passes} failed {'pass' if one.passes == 1 else 'passes'} in a row, for {span(seconds)}: "
                   f"{one.error[:EVIDENCE_MOST]}",
                   "Correct the cause in the error; the work of this service waits until a pass succeeds")


async def surroundings(control: Any, ask: Ask) -> AsyncIterator[Finding]:
    for one in (*of_tables(await ask(FOREIGN)), *of_settings(await ask(SETTINGS))):
        yield one.level, one.title, one.seen, one.advice


CHECKS = {"horizon": horizon, "slots": slots, "tables": tables, "server": server, "numbers": numbers, "locks": locks,
          "statements": statements,
          "standbys": standbys, "daemon": daemon, "disk": disk, "plans": plans, "lanes": lanes, "standing": standing,
          "unread": unread, "services": services, "surroundings": surroundings}
SHAPE = whole(status={"enum": list(LEVELS)}, timestamp=TIME, checks=array(TEXT),
              findings=array(whole("run", check=TEXT, level={"enum": list(LEVELS[1:])}, title=TEXT, evidence=TEXT,
                                   advice=TEXT, run=TEXT)))


async def examined(control: Any) -> list[dict[str, str]]:
    """Returns the findings of all checks, worst first."""
    findings: list[dict[str, str]] = []
    async with AsyncExitStack() as own:
        lend = control.pool.connection

        async def ask(query: str) -> list[dict[str, Any]]:
            nonlocal lend
            try:
                return await rows(lend, query)
            except PoolTimeout:      # pages that wait hold all of them: the checks go on with a connection of their own
                connection = await own.enter_async_context(await control.pool.apart())
                lend = lambda: nullcontext(connection)  # noqa: E731
                return await rows(lend, query)

        for name, check in CHECKS.items():
            try:
                async for found in check(control, ask):
                    findings.append({"check": name, **dict(zip(MEMBERS, found, strict=False))})
            except (psycopg.Error, OSError) as error:
                locked = isinstance(error, psycopg.errors.LockNotAvailable)
                findings.append({"check": name, "level": "warning", "title": f"the check {name} failed",
                                 "evidence": told(error)[:EVIDENCE_MOST],
                                 "advice": "A table is locked: see the check locks" if locked else "See /health"})
            except Exception as error:      # a fault of the check
                log.line("error", "check_failed", repr(error), check=name)
                findings.append({"check": name, "level": "warning", "title": f"the check {name} failed",
                                 "evidence": repr(error)[:EVIDENCE_MOST],
                                 "advice": "Report this fault of queend. The other checks ran"})
    return sorted(findings, key=lambda one: -LEVELS.index(one["level"]))


async def rows(lend: Callable[[], Any], query: str) -> list[dict[str, Any]]:
    """Returns the rows of a statement on a connection that `lend` lends. Waits briefly for locks."""
    async with lend() as connection, connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(BRIEFLY)
        return await (await cursor.execute(query)).fetchall()


@router.declare("GET /api/v1/system/doctor", READ, SHAPE, own=True)
async def doctor(request: Request) -> Json:
    """Returns problems of the server and its database, most severe first, each with evidence and advice. `run`, if
    present, is a command for psql or a shell that shows or remedies the cause. `checks` lists the checks that ran."""
    findings = await examined(request.app.state.control)
    return Json({"status": findings[0]["level"] if findings else "ok", "timestamp": ts3(now_us()),
                 "checks": list(CHECKS), "findings": findings})
