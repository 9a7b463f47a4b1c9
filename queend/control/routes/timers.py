"""/api/v1/timers/{queue}: timers of a queue, listed, read and cancelled. They are scheduled by the core
(core/kv/timers)."""
from __future__ import annotations

import base64
from typing import Any

from fastapi import Request

from ..._core import seal_opened
from ...auth.levels import PUSH, READ, WRITE
from ..database import rows
from ..http.answer import Json, PathName, Refusal
from ..http.moments import ts3
from ..http.query import Query
from ..http.rights import permit
from ..http.route import Routes
from ..http.schema import ANY, FLAG, INTEGER, MAYBE, SOME_TIME, TEXT, TIME, parameter, whole

router = Routes("keys")
QUEUE_MOST, KEY_MOST, TXN_MOST = 255, 512, 255      # bytes, bytes, characters
PAGE, PAGE_MOST, COUNT_MOST = 100, 1000, 1_000_000
LIST = "SELECT * FROM queend.timers_list(%s, %s, %s, %s, %s)"
COUNT = "SELECT queend.timers_count(%s, %s, %s)"
CANCEL = """SELECT * FROM queend.timers_write('{1}', ARRAY[%s], ARRAY[%s], '{NULL}', '{NULL}', '{NULL}', '{NULL}',
                                              '{NULL}', '{NULL}')"""
STATUS = {2: "cancelled", 3: "absent", 4: "too_late"}
CANCELLED = 2
TIMER = {"timerKey": TEXT, "partition": TEXT, "deliverAt": TIME, "txn": TEXT, "messageId": TEXT, "encrypted": FLAG,
         "producerSub": MAYBE, "attempts": INTEGER, "lastError": MAYBE, "claimed": FLAG, "createdAt": TIME,
         "updatedAt": TIME}


def checked(queue: str, key: str | None = None, txn: str | None = None) -> None:
    """Refuses names that no timer has."""
    if len(queue.encode()) > QUEUE_MOST:
        raise bad("queue must be a text of at most 255 bytes")
    if key is not None and not 0 < len(key.encode()) <= KEY_MOST:
        raise bad("timerKey must be a text of 1 to 512 bytes")
    if txn is not None and len(txn) > TXN_MOST:
        raise bad("txn must be a text of at most 255 characters")


def bad(detail: str) -> Refusal:
    return Refusal(400, "timers_bad_request", "timers_bad_request", detail=detail)


@router.declare("DELETE /api/v1/timers/{queue}/{key:path}", WRITE, whole(
    ok=FLAG, status={"enum": list(STATUS.values())}, queue=TEXT, timerKey=TEXT, txn=MAYBE, messageId=MAYBE,
    deliverAt=SOME_TIME), [parameter("txn", TEXT, "is repeated in the answer")], where="itself", own=True)
async def timer_cancel(request: Request, queue: PathName, key: PathName) -> Json:
    """Cancels a timer. `status` is `absent` if it is not pending, perhaps because it was delivered. It is `too_late` if
    the timer is being delivered."""
    permit(request, PUSH, queue)
    txn = Query(request).text("txn")
    checked(queue, key, txn)
    (row,) = await rows(request, CANCEL, queue, key)
    request.app.state.control.timers.deleted += row.outcome == CANCELLED
    return Json({"ok": row.outcome == CANCELLED, "status": STATUS[row.outcome], "queue": queue, "timerKey": key,
                 "txn": txn or row.txn, "messageId": row.message_id and str(row.message_id),
                 "deliverAt": ts3(row.due)})


@router.declare("GET /api/v1/timers/{queue}/{key:path}", READ, ANY, own=True)
async def timer_show(request: Request, queue: PathName, key: PathName) -> Json:
    """Shows a timer, with its payload in base64; `found` is false if it is not pending."""
    checked(queue, key)
    found = await rows(request, LIST, queue, key, "", "", 1)
    if not found:
        return Json({"found": False})
    payload = found[0].payload.encode()
    if found[0].seal is not None:
        payload = seal_opened(queue, found[0].seal, payload) or payload
    return Json({"found": True, **_timer(queue, found[0]), "payload": base64.b64encode(payload).decode(),
                 "payloadZstd": False})


@router.declare("GET /api/v1/timers/{queue}", READ, ANY, [
    parameter("after", TEXT, "the key after which the page begins"),
    parameter("limit", {**INTEGER, "minimum": 1, "maximum": PAGE_MOST, "default": PAGE}, "most timers of a page"),
    parameter("prefix", TEXT, "only timers whose keys begin so"),
    parameter("mode", {"enum": ["list", "count"], "default": "list"}, "count: only how many, up to 1 000 000")],
    own=True)
async def timers_list(request: Request, queue: PathName) -> Json:
    """Lists the timers of a queue by their keys, without payloads. `nextAfter` is `after` of the next page."""
    query = Query(request)
    after, prefix = query.text("after") or "", query.text("prefix") or ""
    checked(queue)
    if query.one_of("mode", ("list", "count")) == "count":
        ((count,),) = await rows(request, COUNT, queue, prefix, COUNT_MOST)
        return Json({"count": count})
    limit = query.whole("limit", PAGE, 1, PAGE_MOST)
    found = await rows(request, LIST, queue, None, after, prefix, limit + 1)
    shown = found[:limit]
    return Json({"rows": [_timer(queue, row) for row in shown], "truncated": len(found) > limit,
                 "nextAfter": shown[-1].timer_key if len(found) > limit else None})


def _timer(queue: str, row: Any) -> dict[str, Any]:
    return {"queue": queue, "timerKey": row.timer_key, "partition": row.partition, "deliverAt": ts3(row.due),
            "txn": row.transaction_id, "messageId": str(row.message_id), "encrypted": row.seal is not None,
            "producerSub": row.producer_sub, "attempts": row.attempts, "lastError": row.last_error, "claimed": False,
            "createdAt": ts3(row.created_at), "updatedAt": ts3(row.updated_at)}
