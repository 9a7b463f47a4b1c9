"""Removes what queues no longer keep, in the background: expired and completed messages, those that waited too long or
outlived the ttl, traces of removed messages, and cursors of deleted partitions and groups. Records removals in
`queend.retention_history`.

Any number of daemons may run it on one database; one of them works. The others check every interval whether it still
does: its advisory lock belongs to its session and ends with it. Every step is one small transaction of `queend.retain`.
After each the service rests as long as the step took, so it uses at most half of one processor. It skips the rests
while the run is late, so that it keeps up with pushes.
"""
from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psycopg

from .. import log
from ..settings.model import Settings
from .leader import Leader
from .running import Running

LOCK = 0x71756575_01       # session lock of the working daemon
PARTITIONS = 1000          # read per step
CURSORS = 1000             # read per step
KEYS = 1000                # read per step
TRACES = 200               # read per step, with their data
# kept for so long although their message is gone, so that where a redriven message went can be looked up
TRACES_US = 86_400_000_000
# between removals of unreachable cursors, idle partitions and old history; shorter if the retention interval is short
TIDY_S = 3600.0
BUSY_S = 1.0               # until another attempt after the database was away
REASONS = {1: "expired", 2: "completed", 3: "waited"}
# the history's names
KINDS = {"expired": "retention", "completed": "completed_retention", "waited": "max_wait_time_eviction", "ttl": "ttl"}
QUEUES = """SELECT id, name, queend.now_us() AS now, CASE WHEN retention_enabled THEN retention_seconds ELSE 0 END, CASE
        WHEN retention_enabled THEN completed_retention_seconds ELSE 0 END, max_wait_time_seconds, CASE
        WHEN ttl_set THEN ttl ELSE 0 END FROM queend.queues
     WHERE retention_enabled AND (retention_seconds > 0 OR completed_retention_seconds > 0) OR max_wait_time_seconds > 0
        OR ttl_set AND ttl > 0 ORDER BY id"""
HISTORY_ROWS = 1000
FORGET = """WITH gone AS (DELETE FROM queend.retention_history WHERE id IN ( SELECT h.id FROM queend.retention_history h
        WHERE h.executed_at < now() - make_interval(days => %s) ORDER BY h.executed_at LIMIT %s) RETURNING 1)
     SELECT count(*) FROM gone"""
# One step with its history, in one transaction: no crash separates them. A run has one row for each queue and kind. The
# first step that removes messages adds the row, further steps add to it. Its executed_at is the moment of the run.
RETAIN = """WITH told AS MATERIALIZED (SELECT * FROM queend.retain(%(queue)s, %(after)s, %(parts)s, %(rows)s,
            %(expired)s, %(completed)s, %(waited)s)),
    sums AS (SELECT (%(kinds)s::text[])[t.reason] AS kind, sum(t.records)::bigint AS messages,
                    CASE WHEN min(t.partition_id) = max(t.partition_id) THEN min(t.partition_id) END AS partition_id,
                    'epoch'::timestamptz + %(now)s * interval '1 microsecond' AS at
               FROM told t WHERE t.records > 0 GROUP BY 1),
    added AS (UPDATE queend.retention_history h
                 SET messages = h.messages + s.messages,
                     partition_id = CASE WHEN h.partition_id = s.partition_id THEN h.partition_id END
                FROM sums s WHERE h.executed_at = s.at AND h.queue_id = %(queue)s AND h.kind = s.kind
              RETURNING h.kind),
    noted AS (INSERT INTO queend.retention_history (queue_id, partition_id, kind, messages, executed_at)
              SELECT %(queue)s, s.partition_id, s.kind, s.messages, s.at FROM sums s
               WHERE NOT EXISTS (SELECT FROM added a WHERE a.kind = s.kind))
    SELECT * FROM told"""


@dataclass
class Figures:
    """What this daemon's service did since it started; the gauges are of its last run."""

    removed: Counter[str]                    # messages, by reason
    rows: int = 0                            # of the log
    partitions: int = 0                      # idle ones
    keys: int = 0                            # expired ones
    runs: int = 0
    working: bool = False                    # this daemon holds the lock
    seconds: float = 0.0                     # the last run, rests included
    # (queue, group) → messages that only wait for this group to consume them
    pinned: dict[tuple[str, str], int] | None = None


class Retention(Running):
    """The background service. Requires `open` and `close` on the same running loop. conninfo: of the control plane."""

    def __init__(self, settings: Settings, conninfo: str):
        self.settings = settings
        self.figures = Figures(Counter(), pinned={})
        # A removal that a crash undoes is repeated. A client that was given an offset above it has flushed it with its
        # own commit.
        self._leader = Leader(conninfo, LOCK, "SET synchronous_commit = off")
        self._late = 0.0      # when the present run stops resting
        self._emptied: set[int] = set()      # partitions with removed rows: their leases are to be looked at

    async def close(self) -> None:
        await super().close()
        await self._leave()

    async def _run(self) -> None:
        due = {job: time.monotonic() + seconds for job, seconds in self._every().items()}
        while True:
            if await self._rest(min(due.values()) - time.monotonic()):
                due = {job: min(due[job], time.monotonic() + seconds) for job, seconds in self._every().items()}
                continue
            jobs = {job for job, at in due.items() if at <= time.monotonic()}
            try:
                if await self._lead():
                    await self._work(jobs)
                self._done("retention_failed")
                for job in jobs:
                    due[job] = time.monotonic() + self._every()[job]
            except psycopg.Error as error:
                self._failed("retention_failed", error)
                await self._leave()
                await asyncio.sleep(BUSY_S)

    def _every(self) -> dict[str, float]:
        return {"retention": self.settings.retention_interval / 1000,
                "eviction": self.settings.eviction_interval / 1000,
                "tidy": min(TIDY_S, 12 * self.settings.retention_interval / 1000)}

    async def _lead(self) -> bool:
        """Returns whether this daemon works: it holds the lock as long as its session lives."""
        self.figures.working = await self._leader.lead()
        return self.figures.working

    async def _leave(self) -> None:
        self.figures.working = False
        await self._leader.leave()

    async def _work(self, jobs: set[str]) -> None:
        began = time.monotonic()
        self._late = began + min(self.settings.retention_interval, self.settings.eviction_interval) / 1000
        pinned: Counter[tuple[int, int | None]] = Counter()
        await self._end_leases()
        if jobs & {"retention", "eviction"}:
            for queue in await self._leader.rows(QUEUES):
                await self._queue(queue, jobs, pinned)
        if "retention" in jobs:
            await self._pinned(pinned)
        lease: object = "00000000-0000-0000-0000-000000000000"
        while lease is not None:
            ((_, lease),) = await self._step("SELECT * FROM queend.leases_tidy(%s, %s)", lease, CURSORS)
        if "retention" in jobs:
            await self._keys()
        if "tidy" in jobs:
            at: tuple[int | None, int] = (0, 0)
            while at[0] is not None:
                ((_, *rest),) = await self._step("SELECT * FROM queend.tidy(%s, %s, %s)", *at, CURSORS)
                at = tuple(rest)
            await self._traces()
            await self._clean()
        self.figures.runs += 1
        self.figures.seconds = time.monotonic() - began

    async def _keys(self) -> None:
        """Removes keys that have expired."""
        at: tuple[object, ...] = ("", "")
        while at[0] is not None:
            ((*rest, gone),) = await self._step("SELECT * FROM queend.kv_sweep(%s, %s, %s)", *at, KEYS)
            at = tuple(rest)
            self.figures.keys += gone

    async def _traces(self) -> None:
        """Removes traces whose message is gone."""
        ((before,),) = await self._leader.rows("SELECT queend.now_us() - %s", TRACES_US)
        at: tuple[object, ...] = (0, b"", 0)
        while at[0] is not None:
            ((_, *rest),) = await self._step(
                "SELECT * FROM queend.traces_tidy(%s, %s, %s, %s, %s)", *at, TRACES, before)
            at = tuple(rest)

    async def _clean(self) -> None:
        """Removes idle partitions, and history that is too old."""
        if self.settings.partition_cleanup_days:
            ((before,),) = await self._leader.rows(
                "SELECT queend.now_us() - %s * 86400000000::bigint", self.settings.partition_cleanup_days)
            after: int | None = 0
            gone = 0
            while after is not None:
                ((removed, after),) = await self._step(
                    "SELECT * FROM queend.partitions_clean(%s, %s, %s)", after, PARTITIONS, before)
                gone += removed
                self.figures.partitions += removed
            if gone:
                log.line("info", "partitions_removed", "partitions were empty and unused", partitions=gone)
        left = HISTORY_ROWS
        while left == HISTORY_ROWS:
            ((left,),) = await self._step(FORGET, self.settings.metrics_retention_days, HISTORY_ROWS)

    async def _queue(self, queue: tuple, jobs: set[str], pinned: Counter) -> None:
        number, name, now, expired_s, completed_s, waited_s, ttl_s = queue

        def before(seconds: int, job: str) -> int:
            return now - seconds * 1_000_000 if seconds > 0 and job in jobs else 0
        expired, ttl = before(expired_s, "retention"), before(ttl_s, "eviction")
        words = ["ttl" if ttl > expired else REASONS[1], REASONS[2], REASONS[3]]
        rows = self.settings.retention_batch_size if "retention" in jobs else self.settings.eviction_batch_size
        removed: Counter[str] = Counter()
        step = {"queue": number, "parts": PARTITIONS, "rows": rows, "now": now, "kinds": [KINDS[one] for one in words],
                "expired": max(expired, ttl), "completed": before(completed_s, "retention"),
                "waited": before(waited_s, "eviction")}
        after: int | None = 0
        while after is not None and (step["expired"] or step["completed"] or step["waited"]):
            *told, last = await self._step(RETAIN, **step, after=after)
            for part, reason, gone, records, waiting, group in told:
                self.figures.rows += gone
                if records:
                    removed[words[reason - 1]] += records
                    self.figures.removed[words[reason - 1]] += records
                if waiting:
                    pinned[number, group] += waiting
                if gone:
                    self._emptied.add(part)
            await self._end_leases()
            after = last[0]
        if removed:
            log.line("debug", "retained", None, queue=name, **removed)

    async def _end_leases(self) -> None:
        """Ends leases that hold only removed messages. Goes on where a pass failed."""
        if self._emptied:
            await self._step("SELECT queend.leases_moot(%s::int[])", list(self._emptied))
            self._emptied.clear()

    async def _pinned(self, pinned: Counter[tuple[int, int | None]]) -> None:
        """Records the groups that hold messages back, and logs each once when it begins."""
        names = {}
        if pinned:
            for queue, name, group, title in await self._leader.rows(
                "SELECT q.id, q.name, g.id, g.name FROM queend.queues q LEFT JOIN queend.consumer_groups g ON "
                "g.queue_id = q.id WHERE q.id = ANY(%s)", [queue for queue, _ in pinned]):
                names[queue, group], names[queue, None] = (name, title), (name, "")
        was, now = self.figures.pinned or {}, {names[key]: count for key, count in pinned.items() if key in names}
        for queue, group in now.keys() - was.keys():
            log.line("warn", "retention_pinned", f"retention keeps messages of {queue}, because "
                     + (f"the group {group} has not consumed them" if group else "no group has consumed them"),
                     queue=queue, group=group, messages=now[queue, group])
        self.figures.pinned = now

    async def _step(self, query: str, *values: Any, **named: Any) -> list[tuple]:
        began = time.monotonic()
        rows = await self._leader.rows(query, *values, **named)
        if time.monotonic() < self._late:
            await asyncio.sleep(time.monotonic() - began)
        return rows
