"""A check of the doctor: the standbys that commits wait for, and those that stream.

A role without pg_monitor sees which senders of WAL exist, but not how far they are: the check leaves that out."""
from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from ...plural import many
from ...services.surroundings import STANDBY

LAG_BYTES, LAG_S = 64 << 20, 30.0      # a standby that is further behind, or silent for longer while behind
LONG_S = 1.0                           # a commit takes longer only if no standby confirms it

SETTING = """
SELECT pg_is_in_recovery() AS standby, current_setting('synchronous_standby_names') AS named,
       current_setting('synchronous_commit') AS commits"""
WAITING = f"""
SELECT count(*)::int AS sessions, max(extract(epoch FROM clock_timestamp() - a.query_start))::float8 AS seconds
  FROM pg_stat_activity a
 WHERE a.wait_event = 'SyncRep' AND clock_timestamp() - a.query_start > make_interval(secs => {LONG_S})"""
STREAMING = """
SELECT coalesce(nullif(r.application_name, ''), 'of session ' || r.pid) AS name, r.state, r.sync_state AS sync,
       greatest(0, pg_wal_lsn_diff(pg_current_wal_lsn(), r.flush_lsn))::bigint AS behind,
       extract(epoch FROM clock_timestamp() - r.reply_time)::float8 AS quiet
  FROM pg_stat_replication r WHERE r.state IS DISTINCT FROM 'backup' ORDER BY r.pid LIMIT 20"""


async def standbys(control: Any, ask: Any) -> AsyncIterator[tuple[str, ...]]:
    (setting,) = await ask(SETTING)
    if setting["standby"]:
        yield STANDBY.level, STANDBY.title, STANDBY.seen, STANDBY.advice
        return
    named, there = setting["named"], await ask(STREAMING)
    before = control.maintenance.note_standbys(named)
    (waiting,) = await ask(WAITING)
    stream = ", ".join(f"{one['name']} ({one['sync'] or 'unknown'})" for one in there) or "none"
    seen = f"synchronous_standby_names = '{named}'; streaming standbys: {stream}"
    advice = ("Start the standby, or take it out of synchronous_standby_names (ALTER SYSTEM SET, then SELECT "
              "pg_reload_conf()): an empty value waits for none, and a failover may then lose commits")
    if waiting["sessions"]:
        yield ("critical", "commits wait for a synchronous standby",
               f"{many(waiting['sessions'], 'session')} waiting (SyncRep), the longest for "
               f"{waiting['seconds']:.0f} s; {seen}", advice)
    elif (named and setting["commits"] not in ("off", "local") and all(one["state"] for one in there)
            and not any(one["sync"] in ("sync", "quorum") for one in there)):
        yield ("critical", "no synchronous standby is connected: the next commit will wait for one", seen, advice)
    if not named and before:
        yield ("warning", "synchronous_standby_names was set and is now empty",
               f"it was '{before}' since this daemon started; streaming standbys: {stream}",
               "Set it again when a standby streams: until then a failover may lose messages that were answered as "
               "queued. If this is intended, restart the daemon to clear the finding")
    for one in there:
        if one["state"] and one["behind"] and (one["behind"] > LAG_BYTES or (one["quiet"] or 0) > LAG_S):
            yield ("warning", f"the standby {one['name']} lags",
                   f"{one['behind'] / (1 << 20):.1f} MiB of WAL are not on its disk, last answer "
                   f"{one['quiet'] or 0:.0f} s ago, {one['state']}, {one['sync']}",
                   "Check its disk, its network and its log; if it is synchronous, commits wait for it")
