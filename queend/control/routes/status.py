"""/api/v1/status/queues: the queues for the dashboard, one with its partitions, its newest messages."""
from __future__ import annotations

from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import READ
from ..database import rows, seed_of
from ..http.answer import Json, PathName
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import FLAG, ID, INTEGER, MAYBE, NAME, SOME_INTEGER, SOME_TIME, TEXT, TIME, array, parameter, whole
from ..http.schemas import HEAD, MESSAGES, PAGINATION, PLACE, SIX_COUNTS
from .messages import LOOK, listed
from .queues import COUNTS, PARTITIONS_PAGE, counts_of, queue_head, queue_line, queue_partitions

router = Routes("status")

RECENT_US = 60_000_000

LIST = """
SELECT q.id, q.name, q.namespace, q.task, q.created_at, coalesce(s.partitions, 0) AS partitions,
    coalesce(s.total, 0) AS total, coalesce(s.pending + s.processing - s.overlap, 0) AS pending,
    coalesce(s.processing, 0) AS processing
 FROM (SELECT x.id FROM queend.queues x WHERE (%s::text IS NULL OR x.namespace = %s) AND (%s::text IS NULL
    OR x.task = %s) ORDER BY x.id DESC LIMIT %s OFFSET %s) AS i JOIN queend.queues q ON q.id = i.id
 LEFT JOIN queend.stat_queues s ON s.queue_id = q.id ORDER BY q.id DESC"""
NEWEST = """SELECT coalesce((SELECT s.newest FROM queend.stat_queues s WHERE s.queue_id = q.id), 0) AS newest
     FROM queend.queues q WHERE q.name = %s"""
MESSAGES_OF = """SELECT *, queend.message_id(stored_at, partition_id, record_offset)::text AS id, NULL AS payload
                FROM queend.message_list(%s, NULL, NULL, NULL, NULL, %s, 9223372036854775807, %s, %s, %s)"""


@router.declare("GET /api/v1/status/queues", READ,
                whole(queues=array(whole(**HEAD, partitions=INTEGER, messages=MESSAGES)), pagination=PAGINATION),
                [parameter("namespace", NAME), parameter("task", NAME)], page=Paged(100))
async def status_queues(request: Request) -> Json:
    """Lists queues, newest first. `pending` includes messages in flight."""
    page = Page(request)
    namespace, task = page.text("namespace"), page.text("task")
    await request.app.state.control.stats.fresh()
    seed = await seed_of(request)
    found = await rows(request, LIST, namespace, namespace, task, task, page.limit, page.offset)
    return Json({"queues": [queue_line(row, seed) for row in found], "pagination": page.shown})


@router.declare("GET /api/v1/status/queues/{queue}", READ, whole(
    queue=whole(**HEAD, priority=INTEGER, config=whole(
        leaseTime=INTEGER, retryLimit=INTEGER, retryDelay=INTEGER, ttl=INTEGER, maxQueueSize=INTEGER,
        deadLetterQueue=FLAG)), totals=whole(messages=SIX_COUNTS, **SIX_COUNTS["properties"]),
    partitions=array(whole(id=ID, name=TEXT, createdAt=TIME, messages=SIX_COUNTS, stats=SIX_COUNTS,
                           cursor=whole(totalConsumed=SOME_INTEGER, batchesConsumed=INTEGER), lastActivity=SOME_TIME,
                           oldestMessage=SOME_TIME, newestMessage=SOME_TIME))), page=PARTITIONS_PAGE)
async def status_queue(request: Request, queue: PathName) -> Json:
    """Returns a queue with its options and a page of its partitions, by name; 404 if it does not exist. The totals
    cover all partitions."""
    head, partitions, totals = await queue_partitions(request, queue)
    seed = await seed_of(request)
    return Json({"queue": {**queue_head(head, seed), "priority": head.priority,
                           "config": {"leaseTime": head.lease_time, "retryLimit": head.retry_limit,
                                      "retryDelay": head.retry_delay, "ttl": head.ttl, "maxQueueSize": head.max_size,
                                      "deadLetterQueue": head.dead_letter_queue}},
                 "partitions": [
                     {"id": read_partition_id(seed, row.partition_id), "name": row.name,
                      "createdAt": ts3(row.created_at), "messages": counts_of(row), "stats": counts_of(row),
                      "cursor": {"totalConsumed": row.consumed, "batchesConsumed": 0},
                      "lastActivity": ts3(_latest(row.active, row.newest)), "oldestMessage": ts3(row.oldest),
                      "newestMessage": ts3(row.newest_message)} for row in partitions],
                 "totals": {"messages": totals, **{key: totals[key] for key in COUNTS}}})


def _latest(*moments: int | None) -> int | None:
    return max((one for one in moments if one), default=None)


@router.declare("GET /api/v1/status/queues/{queue}/messages", READ, array(whole(**PLACE, status=MAYBE, createdAt=TIME)),
                page=Paged(50, far=100_000))
async def status_messages(request: Request, queue: PathName) -> Json:
    """Lists the messages of a queue without payloads, newest first; an empty list if the queue does not exist."""
    page = Page(request)
    # The newest messages are mostly within the queue's last minute; a search of everything follows only if they are
    # not.
    kept = await rows(request, NEWEST, queue)
    found = await rows(request, MESSAGES_OF, queue, max(kept[0].newest - RECENT_US, 0), page.limit, page.offset,
                       LOOK) if kept else []
    if kept and len(found) < page.limit:
        found = await rows(request, MESSAGES_OF, queue, 0, page.limit, page.offset, LOOK)
    seed = await seed_of(request)
    return Json([{**listed(row, seed), "status": row.queue_status, "createdAt": ts3(row.stored_at)} for row in found])
