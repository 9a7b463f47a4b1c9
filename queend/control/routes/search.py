"""GET /api/v1/messages/search: messages by a text of their payloads, of one queue or of several, one after the other. A
request searches a bounded part of the log and returns where to go on; it locks nothing, and keeps no snapshot from one
request to the next."""
from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Request

from ..._core import payloads_search
from ...auth.levels import READ, READS
from ...auth.permits import allows
from ..database import rows, seed_of
from ..fair_semaphore import SHARE, FairSemaphore
from ..http.answer import Json, Refusal, not_found
from ..http.moments import ts3
from ..http.paged import Page, next_page
from ..http.rights import limits, permit
from ..http.route import Paged, Routes
from ..http.schema import FLAG, INTEGER, MAYBE, SOME_TIME, TEXT, TIME, array, parameter, whole
from ..http.schemas import BESIDES, FROM, PARTITION, PLACE, QUEUE, TO
from .messages import besides_of, place, standing
from .record import PARTITION_MOST

router = Routes("messages")

TEXT_MOST = 1000                # longest search text in characters
# Bounds of one request.
RECORDS = 10_000                # messages
BYTES = 16 << 20                # unpacked
LOOK = 100_000                  # rows of the log, including those of other queues
MS = 1000
EVER, START = 2**63 - 1, 10**18 - 1      # START: a place before the first message of a queue
WAITING = 16                    # most searches of an address that wait for others
AFTER = re.compile(r"([0-9]{1,18})\.(-1|[0-9]{1,10})\.([0-9]{1,18})(?:\.([0-9]{1,10}))?")
NAMED = 100                     # most queues that a request names
LISTED = 1000                   # queues that a request without names goes through

QUEUES = """SELECT q.id, q.name, q.encryption_enabled AS sealed FROM queend.queues q
     WHERE q.id >= %s AND (%s::text[] IS NULL OR q.name = ANY (%s::text[])) ORDER BY q.id LIMIT %s"""
KNOWN = "SELECT count(*) FROM queend.queues q WHERE q.name = ANY (%s::text[])"
ROWS = "SELECT * FROM queend.message_search_rows(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
STANDS = "SELECT * FROM queend.message_stands(%s::int[], %s::bigint[])"
# Reads the traces that say what a redriven dead letter came back as (control/routes/redrive).
REDRIVEN = """SELECT u.ord::int - 1 AS ord, t.data
      FROM unnest(%s::int[], %s::text[]) WITH ORDINALITY AS u (part, id, ord)
     CROSS JOIN LATERAL (SELECT x.data FROM queend.traces x
                          WHERE x.partition_id = u.part AND x.record_id = queend.record_id(u.id)
                            AND x.event_type = 'redriven' AND x.worker_id = 'queend'
                          ORDER BY x.partition_id DESC, x.record_id DESC, x.ord DESC LIMIT 1) AS t"""


@router.declare("GET /api/v1/messages/search", READ, whole(
    messages=array(whole(*BESIDES, "redrivenAs", **PLACE, **BESIDES, redrivenAs=whole(
        transactionId=TEXT, queue=TEXT, partition=TEXT), status=TEXT, queueStatus=TEXT,
                         busStatus=whole(consumedBy=INTEGER, totalGroups=INTEGER), createdAt=TIME,
                         leaseExpiresAt=SOME_TIME, offset=INTEGER, excerpt=TEXT)),
    searched=INTEGER, unreadable=INTEGER, searchedBackTo=SOME_TIME, complete=FLAG, next=MAYBE),
                [{**QUEUE, "schema": array(QUEUE["schema"]),
                  "description": "may be repeated; default: all queues that the token may read"}, PARTITION,
                 {**parameter("text", {**TEXT, "maxLength": TEXT_MOST}, "text to find in the JSON payload"),
                  "required": True}, FROM, TO,
                 parameter("after", TEXT, "`next` of the previous answer")],
                where="itself", own=True, page=Paged(100, 1000, 0, 1))
async def message_search(request: Request) -> Json:
    """Searches payloads for a text: one queue after another, the oldest queue first, and within a queue the newest
    message first. A request searches at most 10 000 messages of a queue, and for about one second. While `complete` is
    false, pass `next` to continue. A redriven dead letter names its origin; the dead message names its new id as
    `redrivenAs`. `unreadable`: messages that could not be decrypted, because this server lacks the key."""
    query = Page(request)
    text = _required(query, "text")
    if len(text) > TEXT_MOST:
        raise Refusal(400, f"text has more than {TEXT_MOST} characters", "invalid_request")
    from_, to = max(query.moment("from") or 0, 0), query.moment("to")
    to = EVER if to is None else to
    at, behind, below, first = _place(query.text("after"), to)
    queues, beyond = await _queues(request, first)
    until = time.monotonic() + MS / 1000
    messages: list[dict[str, Any]] = []
    searched = unreadable = 0
    left_off: tuple | None = None if beyond is None else (START, -1, 0, beyond)
    for number, queue in enumerate(queues):
        if number and (len(messages) >= query.limit or time.monotonic() > until):
            left_off = START, -1, 0, queue.id
            break
        if number or first and queue.id != first:
            at, behind, below = to, -1, 0
        hits, looked, closed, rest = await _found(request, queue, query, spellings(text), (from_, to),
                                                  (at, behind, below), query.limit - len(messages))
        messages += await _told(request, queue.name, hits)
        searched += looked
        unreadable += closed
        if rest is not None:
            left_off = *rest, queue.id
            break
    following = left_off and ".".join(map(str, left_off))
    back = left_off[0] if left_off and left_off[0] != START else None
    return Json({"messages": messages, "searched": searched, "unreadable": unreadable, "searchedBackTo": ts3(back),
                 "complete": left_off is None, "next": following},
                headers=next_page(request, after=following) if left_off else None)


async def _queues(request: Request, first: int) -> tuple[list[Any], int | None]:
    """Returns the queues to search, from a number on, and the number to continue from, None at the end. These are the
    queues that the request names, all of which must exist, else those that its token may read."""
    names = [name for name in dict.fromkeys(request.query_params.getlist("queue")) if name]
    if len(names) > NAMED:
        raise Refusal(400, f"{len(names)} queues are named; at most {NAMED} are allowed", "invalid_request")
    if any("\0" in name for name in names):
        raise Refusal(400, "queue contains a NUL character", "invalid_request")
    permit(request, READS, *names)
    if names and (await rows(request, KNOWN, names))[0][0] < len(names):
        raise not_found("Queue")
    rules, asked = limits(request), names or None
    found = await rows(request, QUEUES, first, asked, asked, LISTED + 1)
    return ([one for one in found[:LISTED] if names or rules is None or allows(rules, one.name, READS)],
            found[LISTED].id if len(found) > LISTED else None)


async def _found(request: Request, queue: Any, query: Page, texts: list[bytes], span: tuple[int, int],
                 place: tuple[int, int, int], most: int) -> tuple[list[Any], int, int, tuple[int, int, int] | None]:
    """Returns what a queue has behind a place: finds, number of messages read, number of unreadable ones, and where to
    go on, None at the end."""
    control = request.app.state.control
    (from_, to), (at, behind, below) = span, place
    async with control.searches:
        async with control.pool.connection() as connection, connection.cursor(binary=True) as cursor:
            await cursor.execute(ROWS, (queue.id, query.text("partition"), from_, at, behind, below, RECORDS, BYTES,
                                        LOOK, MS))
            *log, end = await cursor.fetchall()
        # of a row left in the middle, only the rest
        left = below if log and (log[0][3], log[0][0]) == (at, behind) else EVER
        hits, searched, unreadable, left_off = await asyncio.to_thread(
            payloads_search, queue.name.encode(), queue.sealed, texts, log, from_, to, left, most)
        del log
    if left_off is None and end[3] is not None:
        left_off = end[3], end[0], end[1]
    return hits, searched, unreadable, left_off


class Searches:
    """Runs one search at a time: it has megabytes in memory, and a connection for a second. A waiting search occupies a
    request of the control plane, so only WAITING of an address may wait."""

    def __init__(self) -> None:
        self.turns = FairSemaphore(1, 1)

    async def __aenter__(self) -> None:
        if self.turns.waiting(SHARE.get()) >= WAITING:
            raise Refusal(503, "Too many searches are waiting; try again", "busy", {"retry-after": "1"})
        await self.turns.acquire()

    async def __aexit__(self, *what: object) -> None:
        self.turns.release(SHARE.get())


def _required(query: Page, name: str) -> str:
    value = query.text(name)
    if value is None:
        raise Refusal(400, f"{name} is required", "invalid_request")
    return value


def _place(after: str | None, to: int) -> tuple[int, int, int, int]:
    """Parses `next` of an answer: moment, partition and offset to continue behind, and the queue's number (0: the first
    one)."""
    if after is None:
        return to, -1, 0, 0
    found = AFTER.fullmatch(after)
    if not found or int(found[2]) > PARTITION_MOST or int(found[4] or 0) > PARTITION_MOST:
        raise Refusal(400, "after must be the value of next in an earlier answer", "invalid_request")
    at, behind, below, queue = map(int, found.groups("0"))
    return (at, behind, below, queue) if at <= to else (to, -1, 0, queue)


def spellings(text: str) -> list[bytes]:
    """Returns the spellings of a text in JSON: without blanks behind colons and commas, or with; non-ASCII characters
    as they are, or escaped in small or large letters."""
    close = re.sub(r',\s+(?=")', ",", re.sub(r'":\s+', '":', text))
    wide = re.sub(r',(?=")', ", ", re.sub(r'":(?=.)', '": ', close, flags=re.S))
    found = [spelled for one in (text, close, wide)
             for spelled in (one, _escaped(one), _escaped(one, str.upper))]
    return [one.encode() for one in dict.fromkeys(found)]


def _escaped(text: str, write: Callable[[str], str] = str) -> str:
    return "".join(sign if sign.isascii() else write(json.dumps(sign)[1:-1]).replace("U", "u") for sign in text)


async def _told(request: Request, queue: str, hits: list[Any]) -> list[dict[str, Any]]:
    """Returns the messages as lists show them; deleted ones are left out."""
    if not hits:
        return []
    stands = await rows(request, STANDS, [hit[0] for hit in hits], [hit[1] for hit in hits])
    seed = await seed_of(request)
    besides = await besides_of(request, [hits[row.ord][:2] for row in stands])
    again = {row.ord: {"redrivenAs": orjson.loads(row.data)} for row in await rows(
        request, REDRIVEN, [hit[0] for hit in hits], [hit[3] for hit in hits])}
    messages = []
    for row, beside in zip(stands, besides, strict=True):
        partition, offset, stored, transaction_id, id, excerpt = hits[row.ord]
        messages.append({**place(seed, partition, queue, row.partition, transaction_id, id), **standing(row),
                         "createdAt": ts3(stored), "offset": offset, "excerpt": excerpt, **beside,
                         **again.get(row.ord, {})})
    return messages
