"""GET /api/v1/messages/scheduled: messages that wait for their delivery moment (docs/delays.md)."""
from __future__ import annotations

from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import READ
from ..database import rows, seed_of
from ..http.answer import Json
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import ID, INTEGER, MAYBE, TEXT, TIME, array, whole
from ..http.schemas import PAGINATION, QUEUE
from .queues import queue_row

router = Routes("messages")
LOOK = 100_000      # runs read for a queue

# Runs of neighbours with one moment. Some may belong to a deleted partition: its schedule is removed later.
LIST = """
SELECT s.due, s.first_offset, s.last_offset, s.partition_id, p.name AS partition, q.name AS queue, r.transaction_id
  FROM (SELECT x.* FROM (SELECT y.* FROM queend.schedule y WHERE y.due > (SELECT queend.now_us())
                          ORDER BY y.due, y.partition_id, y.first_offset LIMIT %s) x
         WHERE %s::int IS NULL
            OR EXISTS (SELECT FROM queend.partitions z WHERE z.id = x.partition_id AND z.queue_id = %s)
         ORDER BY x.due, x.partition_id, x.first_offset LIMIT %s OFFSET %s) s
  JOIN queend.partitions p ON p.id = s.partition_id JOIN queend.queues q ON q.id = p.queue_id
  LEFT JOIN LATERAL (SELECT o.transaction_id FROM queend.records(s.partition_id, s.first_offset, 1) o) r ON true
 ORDER BY s.due, s.partition_id, s.first_offset"""


@router.declare("GET /api/v1/messages/scheduled", READ,
                whole(scheduled=array(whole(deliverAt=TIME, queue=TEXT, partition=TEXT, partitionId=ID,
                                            messages=INTEGER, offset=INTEGER, transactionId=MAYBE)),
                      pagination=PAGINATION),
                [QUEUE], where="query", own=True, page=Paged(100, far=100_000))
async def scheduled_list(request: Request) -> Json:
    """Lists messages whose delivery time (`deliverAt`) is in the future, earliest first. Neighbouring messages of a
    partition with the same time are one element, with their number and the offset and transactionId of the first. With
    `queue`, only messages among the next 100 000 of all queues are found."""
    page = Page(request)
    name = page.text("queue")
    queue = None if name is None else (await queue_row(request, name)).id
    found = await rows(request, LIST, page.limit + page.offset if queue is None else LOOK,
                       queue, queue, page.limit, page.offset)
    seed = await seed_of(request)
    return Json({"scheduled": [{
        "deliverAt": ts3(row.due), "queue": row.queue, "partition": row.partition,
        "partitionId": read_partition_id(seed, row.partition_id), "messages": row.last_offset - row.first_offset + 1,
        "offset": row.first_offset, "transactionId": row.transaction_id} for row in found],
        "pagination": page.shown})
