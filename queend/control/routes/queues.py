"""/api/v1/resources/queues: list, one with its partitions, delete, clear.

A list shows kept figures (`services/stats`); the partitions of one queue are live: read from heads and cursors.
"""
from __future__ import annotations

from typing import Any

from fastapi import Request
from psycopg.rows import namedtuple_row

from ..._core import read_partition_id, read_queue_id
from ...auth.levels import ADMIN, READ
from ..database import in_parts, rows, seed_of
from ..http.answer import Json, PathName, not_found
from ..http.moments import ts3
from ..http.paged import Page
from ..http.query import Query
from ..http.route import Paged, Routes
from ..http.schema import ANY, FLAG, ID, INTEGER, MAYBE, SOME_TIME, TEXT, TIME, array, parameter, titled, whole
from ..http.schemas import DONE, HEAD, MESSAGES, PARTITION, SIX_COUNTS
from ..options import BY_NAME, shown
from .groups import tell

router = Routes("queues")
OPTION = titled("QueueOption", whole(value=ANY, inForce=ANY, unit=TEXT, default=ANY, asked=FLAG))

PARTITIONS_PAGE = Paged(500)
CLEAR_PAGE, CLEAR_PARTITIONS = 1000, 1000                   # log rows removed, partitions read per transaction

ROW = """
SELECT q.id, q.name, q.namespace, q.task, q.created_at, coalesce(s.partitions, 0) AS partitions,
    coalesce(s.total, 0) AS total, coalesce(s.pending, 0) AS pending, coalesce(s.processing, 0) AS processing,
    coalesce(s.dead, 0) AS dead, queend.is_paused(q.id, 0) AS paused"""
LIST = f"""{ROW}
 FROM (SELECT x.id FROM queend.queues x ORDER BY x.id DESC LIMIT %s OFFSET %s) AS i JOIN queend.queues q ON q.id = i.id
 LEFT JOIN queend.stat_queues s ON s.queue_id = q.id ORDER BY q.id DESC"""
# Over all queues, or over all paused ones: each is read.
EVERY = "queend.queues q"
PAUSED = "queend.paused x JOIN queend.queues q ON q.id = x.queue_id AND x.group_id = 0"
SEARCH = ROW + """
 FROM {} LEFT JOIN queend.stat_queues s ON s.queue_id = q.id
 WHERE %s::text IS NULL OR strpos(lower(q.name), lower(%s)) > 0 ORDER BY {} LIMIT %s OFFSET %s"""
SORTS = {"newest": "q.id DESC", "name": "q.name", "pending": "coalesce(s.pending, 0) DESC, q.id DESC"}

ONE = """
SELECT q.*, queend.backoff_show(q.retry_backoff) AS backoff, queend.options_in_force(q) AS in_force, s.total,
       s.pending, s.processing, s.completed, s.dead,
       queend.is_paused(q.id, 0) AS paused
  FROM queend.queues q LEFT JOIN queend.stat_queues s ON s.queue_id = q.id WHERE q.name = %s"""

PARTITIONS_BY = """
SELECT p.name, p.created_at, f.*,
       CASE WHEN f.total < f.head - f.floor
            THEN (SELECT n.stored FROM queend.newest_stored(f.partition_id) AS n) ELSE f.newest END AS newest_message,
       (SELECT count(*) FROM queend.dead_letters d WHERE d.partition_id = f.partition_id) AS dead
  FROM queend.partition_figures(ARRAY(SELECT x.id FROM queend.partitions x {} LIMIT %s OFFSET %s)) AS f
  JOIN queend.partitions p ON p.id = f.partition_id ORDER BY {}"""
PARTITIONS = PARTITIONS_BY.format("WHERE x.queue_id = %s ORDER BY x.queue_id, x.name", "p.name")
PARTITIONS_OF_ALL = PARTITIONS_BY.format("ORDER BY x.id", "p.id")

# most partitions for live totals of a queue; those of a larger one are kept figures (`services/stats`)
SUMMED = 5000
SOME = "SELECT p.id FROM queend.partitions p WHERE p.queue_id = %s LIMIT %s"
TOTALS = """
SELECT coalesce(sum(f.total), 0)::bigint AS total, coalesce(sum(f.pending), 0)::bigint AS pending,
    coalesce(sum(f.processing), 0)::bigint AS processing, coalesce(sum(f.completed), 0)::bigint AS completed,
    coalesce(sum((SELECT count(*) FROM queend.dead_letters d
    WHERE d.partition_id = f.partition_id)), 0)::bigint AS dead
 FROM queend.partition_figures(%s) AS f"""

# queend.retain skips partitions that another session has locked. These statements wait for their locks before.
HOLD = "SELECT q.id FROM queend.queues q WHERE q.id = %s FOR NO KEY UPDATE"
HOLD_PARTITIONS = """SELECT count(*) FROM (SELECT FROM queend.partitions p WHERE p.queue_id = %s AND p.id > %s
     ORDER BY p.id LIMIT %s FOR NO KEY UPDATE) AS held"""
MOOT = "SELECT queend.leases_moot(%s::int[])"
CLEAR = "SELECT * FROM queend.retain(%s, %s, %s, %s, -%s::bigint, 0, 0)"      # whatever their delivery moment

COUNTS = ("total", "pending", "processing", "completed", "failed", "deadLetter")


@router.declare("GET /api/v1/resources/queues", READ,
                whole(queues=array(whole("paused", **HEAD, paused=FLAG, partitions=INTEGER, messages=MESSAGES,
                                   deadLetters=INTEGER))),
                [parameter("paused", FLAG, "true: only paused queues")],
                page=Paged(search="the name", sorts=tuple(SORTS)))
async def queue_list(request: Request) -> Json:
    """Lists queues, newest first; with `sort=pending` those with the largest backlog first; with `paused=true` only
    paused queues. The header `Link` names the next page, if there is one."""
    page = Page(request)
    paused = page.flag("paused", False)
    await request.app.state.control.stats.fresh()
    seed = await seed_of(request)
    if page.search is None and page.sort == "newest" and not paused:
        found, headers = page.of(await rows(request, LIST, *page.asked))
    else:
        found, headers = page.of(await rows(request, SEARCH.format(PAUSED if paused else EVERY, SORTS[page.sort]),
                                            page.search, page.search, *page.asked, prepare=False))
    return Json({"queues": [{**queue_line(row, seed), "deadLetters": row.dead} for row in found]}, headers=headers)


@router.declare("GET /api/v1/resources/queues/{queue}", READ, whole(
    "paused", **HEAD, paused=FLAG, totals=SIX_COUNTS, options=whole(**{name: OPTION for name in BY_NAME}),
    partitions=array(whole(id=ID, name=TEXT, createdAt=TIME, stats=SIX_COUNTS, oldestMessage=SOME_TIME,
                           newestMessage=SOME_TIME))), page=PARTITIONS_PAGE)
async def queue_show(request: Request, queue: PathName) -> Json:
    """Returns a queue with its options and a page of its partitions, by name; 404 if it does not exist. The totals
    cover all partitions. They are exact up to 5000 partitions, and as of the last statistics run beyond."""
    head, partitions, totals = await queue_partitions(request, queue)
    seed = await seed_of(request)
    return Json({**queue_head(head, seed), "partitions": [{
        "id": read_partition_id(seed, row.partition_id), "name": row.name, "createdAt": ts3(row.created_at),
        "stats": counts_of(row), "oldestMessage": ts3(row.oldest),
        "newestMessage": ts3(row.newest_message)} for row in partitions], "totals": totals, "options": shown(head)})


async def queue_partitions(request: Request, queue: str) -> tuple[Any, list[Any], dict[str, int]]:
    """Returns the queue's row, the partitions the request asks for, the sums over all of its partitions. Refuses an
    unknown queue."""
    page = Page(request)
    head = await queue_row(request, queue)
    partitions = await rows(request, PARTITIONS, head.id, page.limit, page.offset)
    if not page.offset and len(partitions) < page.limit:      # these are all partitions
        return head, partitions, {key: sum(counts_of(row)[key] for row in partitions) for key in COUNTS}
    every = [row.id for row in await rows(request, SOME, head.id, SUMMED + 1)]
    if len(every) <= SUMMED:
        return head, partitions, counts_of((await rows(request, TOTALS, every))[0])
    await request.app.state.control.stats.fresh()
    return head, partitions, counts_of(await queue_row(request, queue))


async def queue_row(request: Request, queue: str) -> Any:
    """Returns the queue with its options and kept figures; refuses an unknown one."""
    found = await rows(request, ONE, queue)
    if not found:
        raise not_found("Queue")
    return found[0]


def counts_of(row: Any) -> dict[str, int]:
    """Returns the six counts of a partition or queue."""
    return {"total": row.total or 0, "pending": row.pending or 0, "processing": row.processing or 0,
            "completed": row.completed or 0, "failed": 0, "deadLetter": row.dead or 0}


@router.declare("DELETE /api/v1/resources/queues/{queue}", ADMIN, whole(deleted=DONE, queue=TEXT, existed=FLAG),
                exact=True)
async def queue_delete(request: Request, queue: PathName) -> Json:
    """Deletes a queue with everything in it. Succeeds if the queue does not exist."""
    control = request.app.state.control
    async with control.pool.connection() as connection:
        row = await (await connection.execute("SELECT queend.queue_delete(%s)", (queue,))).fetchone()
    await tell(request, queue)
    control.sweeper.wake()
    return Json({"deleted": True, "queue": queue, "existed": row[0]})


@router.declare("DELETE /api/v1/queues/{queue}/partitions/{partition}", ADMIN,
                whole(deleted=DONE, queue=TEXT, partition=TEXT), own=True, exact=True)
async def partition_delete(request: Request, queue: PathName, partition: PathName) -> Json:
    """Deletes a partition with its messages, leases, cursors, dead letters and traces. A later push creates the
    partition again, from offset 0. 404 if the queue or the partition does not exist."""
    await queue_row(request, queue)
    control = request.app.state.control
    async with control.pool.connection() as connection:
        row = await (await connection.execute("SELECT queend.partition_delete(%s, %s)", (queue, partition))).fetchone()
    if not row[0]:
        raise not_found("Partition")
    await tell(request, queue)
    control.sweeper.wake()
    return Json({"deleted": True, "queue": queue, "partition": partition})


@router.declare("DELETE /api/v1/queues/{queue}/clear", ADMIN,
                whole(cleared=DONE, queue=TEXT, partition=MAYBE, count=INTEGER), [PARTITION], own=True,
                exact=True)
async def queue_clear(request: Request, queue: PathName) -> Json:
    """Removes all messages stored so far, consumed or not, delayed ones included. The queue, its partitions and its
    groups are kept. With `partition`, only messages of that partition; 404 if it does not exist."""
    partition = Query(request).text("partition")
    head = await queue_row(request, queue)
    after: int | None = 0
    last, removed = None, 0
    if partition is not None:
        found = await rows(request, "SELECT p.id FROM queend.partitions p WHERE p.queue_id = %s AND p.name = %s",
                           head.id, partition)
        if not found:
            raise not_found("Partition")
        after, last = found[0].id - 1, found[0].id
    ((now,),) = await rows(request, "SELECT queend.now_us()")
    with in_parts(lambda: {"count": removed} if removed else {}):
        while after is not None and (last is None or after < last):
            count, after, ended = await _clear(request, head.id, after, 1 if last else CLEAR_PARTITIONS, now)
            removed += count
            if ended:
                await tell(request, queue)
    return Json({"cleared": True, "queue": queue, "partition": partition, "count": removed})


async def _clear(request: Request, queue: int, after: int, partitions: int, now: int) -> tuple[int, int | None, int]:
    """Clears some of the partitions behind `after` in one transaction, with leases that hold only removed messages.
    Returns how many messages were removed, the partition to go on behind (None at the end) and how many leases ended.
    Waits for those that hold one of the partitions. Locks the queue, then the partitions, then cursors."""
    async with (request.app.state.control.pool.connection() as connection, connection.transaction(),
                connection.cursor(row_factory=namedtuple_row) as cursor):
        await cursor.execute(HOLD, (queue,))
        await cursor.execute(HOLD_PARTITIONS, (queue, after, partitions))
        *told, end = await (await cursor.execute(CLEAR, (queue, after, partitions, CLEAR_PAGE, now))).fetchall()
        ((ended,),) = await (await cursor.execute(MOOT, ([one.partition_id for one in told if one.rows],))).fetchall()
    return sum(one.records for one in told), end.partition_id, ended


def queue_head(row: Any, seed: bytes) -> dict[str, Any]:
    """Returns the first members of a queue in every list."""
    return {"id": read_queue_id(seed, row.id), "name": row.name, "namespace": row.namespace, "task": row.task,
            "createdAt": ts3(row.created_at), **({"paused": True} if getattr(row, "paused", False) else {})}


def queue_line(row: Any, seed: bytes) -> dict[str, Any]:
    """Returns a queue as an element of a list."""
    return {**queue_head(row, seed), "partitions": row.partitions,
            "messages": {"total": row.total, "pending": row.pending, "processing": row.processing}}
