"""/api/v1/system/live and /api/v1/system/session: what a live page polls, in one request; and the caller's identity."""
from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg
from fastapi import Request

from ... import __version__
from ...auth.levels import ADMIN, MANAGE, POP, PUSH, READ, READS, WRITE
from ...services.metrics import memory
from ..database import rows
from ..http.answer import Json
from ..http.moments import age_s, now_us, ts3
from ..http.route import Routes
from ..http.schema import FLAG, INTEGER, MAYBE, NUMBER, SOME_INTEGER, SOME_TIME, TEXT, TIME, array, whole
from ..http.schemas import integers
from ..metrics.backlogs import OLDEST
from .health import DOUBTS
from .maintenance import NONE, database_answers

router = Routes("system")

JOBS = ("push", "pop", "ack", "transaction")
JOB = ("requests", "items", "errors", "latencySumUs")
COUNTED = ("deadLettered", "duplicates", "emptyPops", "dbErrors")
SUMS = ("queues", "partitions", "pending", "processing", "deadLetters")
# The least time between two looks; how many times a look's duration; the pause after a failure.
LOOK_S, SHARE, AWAY_S = 1.0, 20, 2.0
FAR_US = 4_000_000_000_000_000            # an end so far away means "none"
LEVELS = {READ: "read-only", WRITE: "read-write", ADMIN: "admin"}
VERBS = {"push": PUSH, "pop": POP, "read": READS, "manage": MANAGE}

BACKLOG = f"""
SELECT count(*) AS queues, coalesce(sum(s.partitions), 0)::bigint AS partitions,
       coalesce(sum(s.pending), 0)::bigint AS pending,
       coalesce(sum(s.processing), 0)::bigint AS processing, coalesce(sum(s.dead), 0)::bigint AS dead,
       (SELECT (queend.now_us() - x.looked_at) / 1000000 FROM queend.stats x) AS age,
       min({OLDEST}) AS oldest, queend.now_us() AS now
  FROM queend.queues q LEFT JOIN queend.stat_queues s ON s.queue_id = q.id"""


@dataclass
class Backlog:
    """Sums over all queues: one look serves all current requests, and the next one follows after twenty times its
    duration at the earliest."""

    known: dict[str, Any] | None = None
    _next: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def now(self, request: Request) -> dict[str, Any] | None:
        """Returns the sums; None while the database does not answer."""
        async with self._lock:
            began = time.monotonic()
            if began >= self._next:
                try:
                    await request.app.state.control.stats.fresh()
                    (row,) = await rows(request, BACKLOG)
                    self.known = {
                        **{name: getattr(row, name) for name in SUMS[:-1]}, "deadLetters": row.dead,
                        "oldestSeconds": None if row.oldest is None else age_s(row.oldest, row.now),
                        "statsAge": -1 if row.age is None else row.age}
                    self._next = time.monotonic() + max(LOOK_S, SHARE * (time.monotonic() - began))
                except psycopg.Error:
                    self.known, self._next = None, time.monotonic() + AWAY_S
            return self.known


@router.declare("GET /api/v1/system/live", READ,
                whole(at=TIME, startedAt=TIME, host=TEXT, version=TEXT, ready=FLAG, doubts=DOUBTS,
                      jobs=whole(**dict.fromkeys(JOBS, whole(**integers(*JOB), latencyBuckets=array(INTEGER)))),
                      **integers(*COUNTED, "connections", "parked", "residentBytes"), cpuSeconds=NUMBER,
                      maintenance=whole(push=FLAG, pop=FLAG),
                      buffer=whole(**integers("pending", "failed"), dbHealthy=FLAG),
                      backlog={"oneOf": [{"type": "null"}, whole(**integers(*SUMS, "statsAge"),
                                                                 oldestSeconds=SOME_INTEGER)]}), own=True)
async def live(request: Request) -> Json:
    """Returns the data of a dashboard page in one request. Counters start with the daemon: their differences are rates.
    Bucket i of a latency counts requests below 2**i microseconds. `backlog` is of the whole database and shared by all
    concurrent requests; null while the database does not answer."""
    control = request.app.state.control
    stats, on, buffer = control.core.stats(), control.maintenance.on, control.core.buffer() or NONE
    workers, used = stats["workers"], time.process_time()
    doubts = control.core.database()["doubts"]
    return Json({
        "at": ts3(now_us()), "startedAt": ts3(int(control.started * 1e6)), "host": socket.gethostname(),
        "version": __version__, "ready": control.core.unserved() is None and control.core.unready() is None,
        "doubts": doubts,
        "jobs": {name: {"requests": job["requests"], "items": job["items"], "errors": job["errors"],
                        "latencySumUs": job["latency_sum_us"], "latencyBuckets": job["latency_us_buckets"]}
                 for name, job in ((name, stats["jobs"][name]) for name in JOBS)},
        "deadLettered": sum(one["dead_lettered"] for one in workers),
        "duplicates": sum(one["duplicates"] for one in workers),
        "emptyPops": sum(one["empty_pops"] for one in workers), "dbErrors": sum(one["db_errors"] for one in workers),
        "connections": stats["clients"]["connections"], "parked": sum(one["parked"] for one in workers),
        "residentBytes": memory()[1], "cpuSeconds": round(used, 3),
        "maintenance": {"push": on["push"], "pop": on["pop"]},
        "buffer": {"pending": buffer["pending"], "failed": buffer["failed"],
                   "dbHealthy": database_answers(control, buffer)},
        "backlog": None if control.pulse.silent else await control.backlog.now(request)})


@router.declare("GET /api/v1/system/session", READ,
                whole(tokens=FLAG, level={"enum": list(LEVELS.values())}, subject=MAYBE, expiresAt=SOME_TIME,
                      queues={"oneOf": [{"type": "null"}, {"type": "object", "additionalProperties": array(TEXT)}]},
                      version=TEXT), where="itself", own=True)
async def session(request: Request) -> Json:
    """Returns the rights of the caller's token: level, subject, expiry, and the queues that it is limited to (null:
    all). Without tokens every caller is `admin`."""
    grant = getattr(request.state, "grant", None)
    if grant is None:
        return Json({"tokens": False, "level": "admin", "subject": None, "expiresAt": None, "queues": None,
                     "version": __version__})
    queues: dict[str, list[str]] = {}
    for pattern, verbs, groups in grant.rules or ():
        queues.setdefault(pattern.decode(errors="replace"), []).extend(
            name if groups is None else f"{name}:{groups.decode(errors='replace')}"
            for name, verb in VERBS.items() if verbs & verb)
    return Json({"tokens": True, "level": LEVELS[grant.level], "subject": grant.subject or None,
                 "expiresAt": ts3(grant.expires_us) if 0 < grant.expires_us < FAR_US else None,
                 "queues": None if grant.rules is None else queues, "version": __version__})
