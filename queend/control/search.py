"""GET /api/v1/messages/search: messages by a text of their payloads. A request looks at a bounded part of the log and
says where to go on; nothing is locked, and no snapshot is kept from one request to the next."""
from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from fastapi import Request

from .._core import payloads_search
from ..auth.levels import READ
from .answer import Json, Refusal, not_found
from .database import rows, seed_of
from .messages import origins_of, place, standing
from .moments import ts3
from .paged import Page, next_page
from .record import PARTITION_MOST
from .route import Paged, Routes
from .shapes import FROM, ORIGIN, PARTITION, PLACE, QUEUE, TO
from .words import FLAG, INTEGER, MAYBE, SOME_TIME, TEXT, TIME, array, parameter, whole

router = Routes("messages")

TEXT_MOST = 1000                # characters of what is looked for
# What a request looks at, at most: messages, bytes of them unpacked, rows of the log (of other queues, too), ms.
RECORDS, BYTES, LOOK, MS = 10_000, 16 << 20, 100_000, 1000
EVER = 2**63 - 1
WAITING = 16                    # requests that wait for others, at most
AFTER = re.compile(r"([0-9]{1,18})\.(-1|[0-9]{1,10})\.([0-9]{1,18})")

QUEUE_OF = "SELECT q.id, q.encryption_enabled AS sealed FROM queend.queues q WHERE q.name = %s"
ROWS = "SELECT * FROM queend.message_search_rows(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
STANDS = "SELECT * FROM queend.message_stands(%s::int[], %s::bigint[])"


@router.declare("GET /api/v1/messages/search", READ, whole(
    messages=array(whole(*ORIGIN, **PLACE, **ORIGIN, status=TEXT, queueStatus=TEXT, busStatus=whole(consumedBy=INTEGER,
                         totalGroups=INTEGER), createdAt=TIME, leaseExpiresAt=SOME_TIME, offset=INTEGER, excerpt=TEXT)),
    searched=INTEGER, unreadable=INTEGER, searchedBackTo=SOME_TIME, complete=FLAG, next=MAYBE),
                [{**QUEUE, "required": True}, PARTITION,
                 {**parameter("text", {**TEXT, "maxLength": TEXT_MOST}, "what payloads say, as their JSON is written"),
                  "required": True}, FROM, TO,
                 parameter("after", TEXT, "`next` of the answer before")],
                where="query", own=True, page=Paged(100, 1000, 0, 1))
async def message_search(request: Request) -> Json:
    """Messages of a queue whose payloads have a text in them, newest first. A request looks at 10 000 messages at most:
    while `complete` is false, `next` goes on. `unreadable`: messages that could not be looked at, for their key is not
    here."""
    query = Page(request)
    queue, text = _required(query, "queue"), _required(query, "text")
    if len(text) > TEXT_MOST:
        raise Refusal(400, f"text has more than {TEXT_MOST} characters", "invalid_request")
    found = await rows(request, QUEUE_OF, queue)
    if not found:
        raise not_found("Queue")
    from_, to = max(query.moment("from") or 0, 0), query.moment("to")
    to = EVER if to is None else to
    at, behind, below = _place(query.text("after"), to)
    control = request.app.state.control
    async with control.searches:
        async with control.pool.connection() as connection, connection.cursor(binary=True) as cursor:
            await cursor.execute(ROWS, (found[0].id, query.text("partition"), from_, at, behind, below, RECORDS, BYTES,
                                        LOOK, MS))
            *log, end = await cursor.fetchall()
        # of a row that was left in the middle the rest
        left = below if log and (log[0][3], log[0][0]) == (at, behind) else EVER
        hits, searched, unreadable, left_off = await asyncio.to_thread(
            payloads_search, queue.encode(), found[0].sealed, spellings(text), log, from_, to, left, query.limit)
        del log
    if left_off is None and end[3] is not None:
        left_off = end[3], end[0], end[1]
    following = left_off and ".".join(map(str, left_off))
    return Json({"messages": await _told(request, queue, hits), "searched": searched, "unreadable": unreadable,
                 "searchedBackTo": ts3(left_off and left_off[0]), "complete": left_off is None, "next": following},
                headers=next_page(request, after=following) if left_off else None)


class Searches:
    """One at a time: it has megabytes in memory, and a connection for a second. What waits for it holds a request of
    the control plane, so few may."""

    def __init__(self) -> None:
        self.lock, self.waiting = asyncio.Lock(), 0

    async def __aenter__(self) -> None:
        if self.waiting >= WAITING:
            raise Refusal(503, "Too many searches wait for each other; try again", "busy", {"retry-after": "1"})
        self.waiting += 1
        try:
            await self.lock.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(self, *what: object) -> None:
        self.lock.release()


def _required(query: Page, name: str) -> str:
    value = query.text(name)
    if value is None:
        raise Refusal(400, f"{name} is required", "invalid_request")
    return value


def _place(after: str | None, to: int) -> tuple[int, int, int]:
    """What `next` of an answer says: moment, partition and offset to go on behind."""
    if after is None:
        return to, -1, 0
    found = AFTER.fullmatch(after)
    if not found or int(found[2]) > PARTITION_MOST:
        raise Refusal(400, "after must be a text that an earlier answer gave as next", "invalid_request")
    at, behind, below = map(int, found.groups())
    return (at, behind, below) if at <= to else (to, -1, 0)


def spellings(text: str) -> list[bytes]:
    """A text as writers of JSON have it: without blanks behind colons and commas, or with; what is not ASCII as it is,
    or spelled out in small or large letters."""
    close = re.sub(r',\s+(?=")', ",", re.sub(r'":\s+', '":', text))
    wide = re.sub(r',(?=")', ", ", re.sub(r'":(?=.)', '": ', close, flags=re.S))
    found = [spelled for one in (text, close, wide)
             for spelled in (one, _escaped(one), _escaped(one, str.upper))]
    return [one.encode() for one in dict.fromkeys(found)]


def _escaped(text: str, write: Callable[[str], str] = str) -> str:
    return "".join(sign if sign.isascii() else write(json.dumps(sign)[1:-1]).replace("U", "u") for sign in text)


async def _told(request: Request, queue: str, hits: list[Any]) -> list[dict[str, Any]]:
    """The messages as lists show them; those that were deleted are left out."""
    if not hits:
        return []
    stands = await rows(request, STANDS, [hit[0] for hit in hits], [hit[1] for hit in hits])
    seed = await seed_of(request)
    origins = await origins_of(request, [hits[row.ord][:2] for row in stands])
    messages = []
    for row, origin in zip(stands, origins, strict=True):
        partition, offset, stored, transaction_id, id, excerpt = hits[row.ord]
        messages.append({**place(seed, partition, queue, row.partition, transaction_id, id), **standing(row),
                         "createdAt": ts3(stored), "offset": offset, "excerpt": excerpt, **origin})
    return messages
