"""/api/v1/resources/queues: list, one with its partitions, delete. All figures are live: read from heads and cursors."""
from __future__ import annotations

import datetime
from typing import Any

from fastapi import APIRouter, Request
from psycopg.rows import dict_row

from .answer import Json, PathName, Refusal

router = APIRouter()

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# One row per partition. Where several groups consume it, each figure is the largest over the groups.
PARTITIONS = """
SELECT p.id, p.name, p.created_at, head.next - f.floor AS total, head.created_at AS newest,
       coalesce(c.pending, head.next - f.floor) AS pending, coalesce(c.processing, 0) AS processing, coalesce(c.completed, 0) AS completed,
       c.consumed
  FROM queend.partitions p
 CROSS JOIN LATERAL (SELECT coalesce((SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id), 0) AS floor) f
 CROSS JOIN LATERAL (SELECT coalesce(max(l.next), f.floor) AS next, max(l.created_at) AS created_at FROM (
           SELECT l.base + l.n AS next, l.created_at FROM queend.log l WHERE l.partition_id = p.id ORDER BY l.base DESC LIMIT 1) l) head
 CROSS JOIN LATERAL (
           SELECT max(head.next - o.next - o.leased) AS pending, max(o.leased) AS processing, max(o.next - f.floor) AS completed,
                  min(o.next) AS consumed
             FROM (SELECT greatest(k.committed + 1, f.floor) AS next,
                          CASE WHEN k.lease_until > queend.now_us() THEN greatest(k.lease_end - greatest(k.committed, f.floor - 1), 0) ELSE 0 END AS leased
                     FROM queend.cursors k WHERE k.partition_id = p.id) o) c
 WHERE p.queue_id = {queue}"""

LIST = f"""
SELECT queend.queue_uuid(q.id)::text AS id, q.name, q.namespace, q.task, q.created_at, s.*
  FROM queend.queues q
 CROSS JOIN LATERAL (SELECT count(*) AS partitions, coalesce(sum(p.total), 0)::bigint AS total, coalesce(sum(p.pending), 0)::bigint AS pending,
                            coalesce(sum(p.processing), 0)::bigint AS processing FROM ({PARTITIONS.format(queue="q.id")}) p) s
 ORDER BY q.created_at DESC, q.id DESC"""

ONE = f"""
SELECT queend.partition_uuid(p.id)::text AS id, p.name, p.created_at, p.total, p.pending, p.processing, p.completed, p.newest,
       (SELECT l.created_at FROM queend.log l WHERE l.partition_id = p.id AND l.base + l.n > coalesce(p.consumed, 0) AND p.pending > 0
         ORDER BY l.base LIMIT 1) AS oldest,
       (SELECT count(DISTINCT d.record_offset) FROM queend.dead_letters d WHERE d.partition_id = p.id) AS dead
  FROM ({PARTITIONS.format(queue="%s")}) p ORDER BY p.name"""


@router.get("/api/v1/resources/queues", tags=["queues"])
async def queue_list(request: Request) -> Json:
    """Every queue, newest first."""
    async with request.app.state.control.pool.connection() as connection:
        rows = await (await connection.cursor(row_factory=dict_row).execute(LIST)).fetchall()
    return Json({"queues": [{
        **_head(row), "partitions": row["partitions"],
        "messages": {"total": row["total"], "pending": row["pending"], "processing": row["processing"]}} for row in rows]})


@router.get("/api/v1/resources/queues/{queue}", tags=["queues"])
async def queue_show(request: Request, queue: PathName) -> Json:
    """One queue and its partitions by name; 404 if there is none."""
    async with request.app.state.control.pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute("SELECT q.id AS key, queend.queue_uuid(q.id)::text AS id, q.name, q.namespace, q.task, q.created_at"
                             " FROM queend.queues q WHERE q.name = %s", (queue,))
        head = await cursor.fetchone()
        if head is None:
            raise Refusal(404, "Queue not found", "queue_not_found")
        rows = await (await cursor.execute(ONE, (head["key"],))).fetchall()
    partitions = [{
        "id": row["id"], "name": row["name"], "createdAt": ts3(row["created_at"]),
        "stats": {"total": row["total"], "pending": row["pending"], "processing": row["processing"], "completed": row["completed"],
                  "failed": 0, "deadLetter": row["dead"]},
        "oldestMessage": ts3(row["oldest"]), "newestMessage": ts3(row["newest"])} for row in rows]
    totals = {key: sum(one["stats"][key] for one in partitions)
              for key in ("total", "pending", "processing", "completed", "failed", "deadLetter")}
    return Json({**_head(head), "partitions": partitions, "totals": totals})


@router.delete("/api/v1/resources/queues/{queue}", tags=["queues"])
async def queue_delete(request: Request, queue: PathName) -> Json:
    """Deletes the queue with everything in it; deleting one that is not there succeeds."""
    control = request.app.state.control
    async with control.pool.connection() as connection:
        row = await (await connection.execute("SELECT queend.queue_delete(%s)", (queue,))).fetchone()
    control.core.notify(queue)
    control.sweeper.wake()
    return Json({"deleted": True, "queue": queue, "existed": row[0]})


def _head(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "name": row["name"], "namespace": row["namespace"], "task": row["task"], "createdAt": ts3(row["created_at"])}


def ts3(moment: datetime.datetime | int | None) -> str | None:
    """UTC with milliseconds, as 2026-01-02T03:04:05.678Z; an int is microseconds since the Unix epoch."""
    if moment is None:
        return None
    if isinstance(moment, int):
        moment = EPOCH + datetime.timedelta(microseconds=moment)
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
