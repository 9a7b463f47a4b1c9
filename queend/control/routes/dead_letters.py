"""/api/v1/dlq: dead letters listed, purged, redriven. They are copies: they outlive the message and its retention."""
from __future__ import annotations

from typing import Any

import orjson
from fastapi import Request

from ..._core import read_partition_id, read_partition_number
from ...auth.levels import ADMIN, READ
from ..database import in_parts, rows, seed_of
from ..http.answer import Json, Refusal, is_whole, not_found
from ..http.body import body_object
from ..http.moments import ts3
from ..http.paged import Page
from ..http.query import WHOLE, Query, moment_of
from ..http.route import Paged, Routes
from ..http.schema import ANY, FLAG, ID, INTEGER, MAYBE, NAME, TEXT, TIME, array, body, parameter, record, whole
from ..http.schemas import BESIDES, DONE, FROM, GROUP, PAGINATION, PARTITION, QUEUE, TO
from .record import embedded, opened
from .redrive import redrive, shown_of
from .sealing import revealed

router = Routes("dead letters")

PAGE_MOST = 1000
TOTAL_MOST = 100_000      # largest count; there may be more
CHUNK = 200               # dead letters per transaction
REDRIVE_MOST = 10_000     # per request

ERROR = parameter("error", TEXT, "a text that the error has in it")
ERROR_ID = parameter("errorId", TEXT, "of exactly one error, by `errorId` of `GET /api/v1/dlq/errors`")
PARTITION_ID = parameter("partitionId", TEXT, "of one dead letter")
OFFSET = parameter("offset", {**INTEGER, "minimum": 0}, "of one dead letter")
FILTERS = (GROUP, PARTITION, FROM, TO, ERROR)

QUEUE_ID = "SELECT q.id FROM queend.queues q WHERE q.name = %s"
FIND = "SELECT d FROM queend.dead_find(%s, %s, %s, %s, %s, %s, %s, %s) AS d"
# All that match are looked through: the index gives the newest first.
FIND_OLDEST = """SELECT f.d FROM queend.dead_find(%s, %s, %s, %s, %s, NULL, 0, %s) WITH ORDINALITY AS f (d, place)
     ORDER BY f.place DESC LIMIT %s"""
COUNT = "SELECT queend.dead_count(%s, %s, %s, %s, %s, %s, %s)"
# Identifies an error by a short text, since the error itself may be too long for an address.
ID_OF_ERROR = "md5({}.error)"
# All that match the other filters are looked through.
OF_ERROR = f"""SELECT f.d FROM queend.dead_find(%s, %s, %s, %s, %s, NULL, 0, %s) WITH ORDINALITY AS f (d, place)
     CROSS JOIN LATERAL (SELECT x.error FROM queend.dead_letters x WHERE x.id = f.d OFFSET 0) AS e
     WHERE {ID_OF_ERROR.format("e")} = %s ORDER BY f.place"""
FIND_ERROR = f"{OF_ERROR} LIMIT %s OFFSET %s"
FIND_ERROR_OLDEST = f"{OF_ERROR} DESC LIMIT %s"
COUNT_ERROR = f"SELECT count(*) FROM ({OF_ERROR} LIMIT %s) AS f"
SHOW = """SELECT *, queend.message_id(created_at, partition_id, record_offset)::text AS message_id
            FROM queend.dead_show(%s)"""
DELETE = "SELECT queend.dead_delete(%s)"
# One pass over the dead letters of the named partitions, however many are wanted of each.
NAMED = """SELECT d.id, u.ord FROM queend.dead_letters d
     JOIN unnest(%s::int[], %s::bigint[], %s::text[]) WITH ORDINALITY AS u (part, at, name, ord)
        ON u.part = d.partition_id AND u.at = d.record_offset LEFT JOIN queend.consumer_groups g ON g.id = d.group_id
     WHERE d.queue_id = %s AND d.partition_id = ANY (%s) AND COALESCE(d.group_name, g.name) = u.name
     ORDER BY d.failed_at, d.id"""


async def _queue(request: Request, name: str) -> int:
    found = await rows(request, QUEUE_ID, name)
    return found[0].id if found else 0      # 0 is the number of no queue


def _filters(query: Query) -> tuple[str | None, str | None, int | None, int | None]:
    """Returns partition, group, and the moments of the failure, as dead_find and dead_count take them."""
    return query.text("partition"), query.text("consumerGroup"), query.moment("from"), query.moment("to")


async def dead_wanted(request: Request, query: Query) -> tuple[tuple[Any, ...], str | None]:
    """Returns the filters of a query, as dead_find and dead_count take them, and the text that errors must contain."""
    name = query.text("queue")
    return (None if name is None else await _queue(request, name), *_filters(query)), query.text("error")


async def _newest(request: Request, wanted: tuple[Any, ...], error: str | None, id: str | None, limit: int,
                  offset: int = 0) -> list[int]:
    """Returns dead letters that match, the newest failure first. id: of exactly one error."""
    return [row.d for row in await (rows(request, FIND, *wanted, limit, offset, error) if id is None else
                                    rows(request, FIND_ERROR, *wanted, error, id, limit, offset))]


async def _oldest(request: Request, wanted: tuple[Any, ...], error: str | None, id: str | None,
                  limit: int) -> list[int]:
    """Returns dead letters that match, the oldest failure first. id: of exactly one error."""
    return [row.d for row in await (rows(request, FIND_OLDEST, *wanted, error, limit) if id is None else
                                    rows(request, FIND_ERROR_OLDEST, *wanted, error, id, limit))]


class Letter:
    """A row of dead_show in the form that `opened` takes."""

    def __init__(self, row: Any):
        self.payload, self.body, self.n, self.place = row.payload, row.body, row.n, row.place
        self.transaction_id, self.id = row.transaction_id, row.message_id


@router.declare("GET /api/v1/dlq", READ, whole(
    messages=array(whole(*BESIDES, id=ID, transactionId=TEXT, partitionId=ID, queue=MAYBE, partition=MAYBE,
                         consumerGroup=TEXT,
                         errorMessage=MAYBE, retryCount=INTEGER, data=ANY, producerSub=MAYBE, createdAt=TIME,
                         failedAt=TIME, offset=INTEGER, **BESIDES)), total=INTEGER, pagination=PAGINATION),
                [QUEUE, *FILTERS, ERROR_ID], where="query", page=Paged(100, PAGE_MOST, 1_000_000))
async def dead_list(request: Request) -> Json:
    """Lists dead letters with their payloads, newest failure first. `from` and `to` filter by the time of the failure.
    `total` counts up to 100 000."""
    page = Page(request)
    wanted, error = await dead_wanted(request, page)
    id = page.text("errorId")
    found = await _newest(request, wanted, error, id, page.limit, page.offset)
    ((total,),) = await (rows(request, COUNT, *wanted, TOTAL_MOST, error) if id is None else
                         rows(request, COUNT_ERROR, *wanted, error, id, TOTAL_MOST))
    seed = await seed_of(request)
    messages = []
    for row in await rows(request, SHOW, found):
        payload, text, id = opened(Letter(row))
        messages.append({"id": id, "transactionId": text, "partitionId": read_partition_id(seed, row.partition_id),
                         "queue": row.queue, "partition": row.partition, "consumerGroup": row.group_name,
                         "errorMessage": row.error, "retryCount": row.retries,
                         "data": embedded(revealed(row, payload)[0]), "producerSub": row.producer_sub,
                         "createdAt": ts3(row.created_at), "failedAt": ts3(row.failed_at), "offset": row.record_offset,
                         **shown_of(row.headers)})
    return Json({"messages": messages, "total": total, "pagination": page.shown})


@router.declare("DELETE /api/v1/dlq", ADMIN, whole(success=DONE, queue=TEXT, deleted=INTEGER),
                [{**QUEUE, "required": True}, *FILTERS, ERROR_ID, PARTITION_ID, OFFSET], where="query", exact=True)
async def dead_purge(request: Request) -> Json:
    """Deletes the dead letters that a queue has now and that match consumerGroup, partition, from, to, error and
    errorId; 400 without a queue. With `partitionId` and `offset`, deletes one dead letter of `consumerGroup`, which
    is required then; other filters are refused."""
    query = Query(request)
    name = query.text("queue")
    if name is None:
        raise Refusal(400, "queue is required", "queue_required")
    wanted = (await _queue(request, name), *_filters(query))
    if not wanted[0]:
        raise not_found("Queue")
    if query.text("partitionId") or query.text("offset"):
        ids = await _one(request, query, wanted[0])
        ((gone,),) = await rows(request, DELETE, ids)
        return Json({"success": True, "queue": name, "deleted": gone})
    *named, to = wanted
    ((now,),) = await rows(request, "SELECT queend.now_us()")
    wanted = (*named, now if to is None else min(to, now))
    deleted = 0
    with in_parts(lambda: {"deleted": deleted} if deleted else {}):
        # A page of which nothing is deleted here was deleted or redriven by others meanwhile; there may be more behind
        # it.
        # Takes more per page with errorId: each look passes over all that match the other filters.
        error, id = query.text("error"), query.text("errorId")
        while found := await _newest(request, wanted, error, id, PAGE_MOST if id is None else TOTAL_MOST):
            for at in range(0, len(found), PAGE_MOST):
                ((gone,),) = await rows(request, DELETE, found[at:at + PAGE_MOST])
                deleted += gone
    return Json({"success": True, "queue": name, "deleted": deleted})


@router.declare("POST /api/v1/dlq/redrive", ADMIN, whole(success=DONE, queue=TEXT, redriven=INTEGER, left=FLAG),
                body=body(record(["queue"], queue=NAME, consumerGroup=NAME, partition=NAME, **{"from": TEXT}, to=TEXT,
                                 error=TEXT, errorId=TEXT,
                                 limit={**INTEGER, "default": REDRIVE_MOST}, oldest=FLAG,
                                 targetQueue=NAME, targetPartition=NAME,
                                 messages=array(record(["partitionId", "offset", "consumerGroup"], partitionId=TEXT,
                                                       offset=INTEGER, consumerGroup=NAME, payload=ANY)))),
                example={"queue": "orders", "consumerGroup": "billing", "limit": 100}, own=True,
                exact=True)
async def dead_redrive(request: Request) -> Json:
    """Stores dead letters of a queue as new messages, in the order in which they failed, and removes the dead letters.
    Takes the newest `limit` (10 000) that match the filters, with `oldest` the oldest. Without a target, each message
    goes to its own queue and partition, for the group that failed it; with a target, all groups of the target get it.
    `left`: whether more dead letters match. `messages` selects single dead letters by the ids of the list, instead of
    filters. An element with `payload` is stored with that payload. 404 if the queue does not exist."""
    wanted = await body_object(request, strict=True)
    names = {key: _name(wanted, key) for key in ("queue", "consumerGroup", "partition", "targetQueue",
                                                 "targetPartition")}
    if not names["queue"]:
        raise Refusal(400, "queue is required", "queue_required")
    from_, to = (None if wanted.get(key) is None else moment_of(key, wanted[key]) for key in ("from", "to"))
    limit = wanted.get("limit", REDRIVE_MOST)
    if not is_whole(limit) or not 1 <= limit <= REDRIVE_MOST:
        raise Refusal(400, f"limit must be a whole number from 1 to {REDRIVE_MOST}", "invalid_request")
    if not isinstance(oldest := wanted.get("oldest", False), bool):
        raise Refusal(400, "oldest must be true or false", "invalid_request")
    queue = await _queue(request, names["queue"])
    if not queue:
        raise not_found("Queue")
    if "messages" in wanted:
        if {"consumerGroup", "partition", "from", "to", "error", "errorId", "limit", "oldest"} & set(wanted):
            raise Refusal(400, "give either messages or filters, not both", "invalid_request")
        payloads = await _named(request, queue, wanted["messages"])
        ids, left = list(payloads), False
    else:
        filters = (queue, names["partition"], names["consumerGroup"], from_, to)
        ids = await (_oldest if oldest else _newest)(request, filters, _error(wanted, "error"),
                                                     _error(wanted, "errorId"), limit + 1)
        left = len(ids) > limit
        ids = ids[:limit] if oldest else ids[:limit][::-1]
        payloads = {}
    control = request.app.state.control
    redriven, queues = 0, set()
    try:
        with in_parts(lambda: {"redriven": redriven} if redriven else {}):
            for at in range(0, len(ids), CHUNK):
                async with control.pool.connection() as connection:
                    made, into = await redrive(connection, ids[at:at + CHUNK], names["targetQueue"],
                                               names["targetPartition"], payloads)
                redriven += len(made)
                queues |= into
    finally:
        for name in queues:
            control.core.notify(name)
    return Json({"success": True, "queue": names["queue"], "redriven": redriven, "left": left})


async def _one(request: Request, query: Query, queue: int) -> list[int]:
    """Returns the dead letter that a query names by partitionId, offset and consumerGroup; [] if there is none any
    more."""
    if any(query.text(name) for name in ("partition", "from", "to", "error", "errorId")):
        raise Refusal(400, "partitionId and offset can be combined with queue and consumerGroup only",
                      "invalid_request")
    group, partition = query.text("consumerGroup"), query.text("partitionId")
    if group is None or partition is None or query.text("offset") is None:
        raise Refusal(400, "partitionId, offset and consumerGroup are required to name one dead letter",
                      "invalid_request")
    number = read_partition_number(await seed_of(request), partition.encode())
    if number is None:
        raise Refusal(400, "partitionId must be the partitionId of a listed dead letter", "invalid_request")
    if not WHOLE.fullmatch(query.values["offset"]) or (offset := int(query.values["offset"])) < 0:
        raise Refusal(400, "offset must be a whole number of at least 0", "invalid_number")
    return [row.id for row in await rows(request, NAMED, [number], [offset], [group], queue, [number])]


async def _named(request: Request, queue: int, messages: Any) -> dict[int, bytes | None]:
    """Returns dead letters by partition, offset and group, in the order they failed, with their new payloads. Skips
    messages that are not dead letters any more."""
    if not isinstance(messages, list) or not 1 <= len(messages) <= REDRIVE_MOST or not all(
            isinstance(one, dict) for one in messages):
        raise Refusal(400, f"messages must be a list of 1 to {REDRIVE_MOST} objects with partitionId, offset and "
                           "consumerGroup",
                      "invalid_request")
    seed = await seed_of(request)
    parts, offsets, groups = [], [], []
    for place, one in enumerate(messages):
        partition, offset, group = one.get("partitionId"), one.get("offset"), _name(one, "consumerGroup")
        number = read_partition_number(seed, partition.encode()) if isinstance(partition, str) else None
        if number is None or group is None or not is_whole(offset) or not 0 <= offset < 2**63:
            raise Refusal(400, f"messages[{place}] must have partitionId, offset and consumerGroup of a listed dead "
                               "letter", "invalid_request")
        parts.append(number)
        offsets.append(offset)
        groups.append(group)
    found = await rows(request, NAMED, parts, offsets, groups, queue, list(set(parts)))
    return {row.id: orjson.dumps(one["payload"]) if "payload" in (one := messages[row.ord - 1]) else None
            for row in found}


def _error(wanted: dict[str, Any], key: str) -> str | None:
    """Returns the text of a body that the errors must contain, or the id of one error."""
    value = wanted.get(key)
    if value is not None and (not isinstance(value, str) or "\0" in value or not value):
        raise Refusal(400, f"{key} must be a non-empty text without NUL", "invalid_request")
    return value


def _name(wanted: dict[str, Any], key: str) -> str | None:
    value = wanted.get(key)
    if value is not None and (not isinstance(value, str) or len(value.encode()) > 255 or "\0" in value or not value
                              and key != "partition"):
        raise Refusal(400, f"{key} must be a text of 1 to 255 bytes without NUL", "invalid_name")
    return value
