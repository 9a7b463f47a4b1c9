"""Reads of the log by offset, without a group: claims, commits and acknowledges nothing (docs/log-read.md)."""
from __future__ import annotations

import asyncio
import math
import time
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from ... import log
from ..._core import offsets_answer, read_moment_text, read_partition_id, read_partition_number
from ...auth.levels import READ
from ...auth.refused import EXPIRED, unverified
from ..http.answer import Json, not_found
from ..http.read_request import INT8_MAX, Fields, entries_of, fields_of
from ..http.route import Routes
from ..http.schema import (ANY, ENTRY_PARTITION, FLAG, ID, INTEGER, MAYBE, NAME, SOME_INTEGER, SOME_TIME, TEXT, TIME,
                           WHEN, array, body, parameter, record, whole)
from ..http.schemas import BESIDES, WAS
from ..log_reader import ERRORS, Reader, Wanted

router = Routes("log")
MARKS = {"highWatermark": SOME_INTEGER, "logStartOffset": SOME_INTEGER}

MIB = 1 << 20
ENTRY_BYTES, ENTRY_MOST = 1 * MIB, 8 * MIB
CALL_BYTES, CALL_MOST = 8 * MIB, 32 * MIB
WAIT_MOST_MS = 30_000
PAUSE_MOST_S = 1.0
PAGE, PAGES_MOST, OFFSETS_PAGE = 1000, 20_000, 10_000
ARROW_PAGE = 100_000            # of /offsets as an Arrow stream
TYPES = {"ndjson": "application/x-ndjson", "arrow": "application/vnd.apache.arrow.stream", "json": "application/json",
         "events": "application/cloudevents-batch+json"}

CHANGED = "SELECT * FROM queend.partitions_changed(%s::text[], %s::bigint[], %s::int[], %s::int[])"
AT = "SELECT * FROM queend.offsets_at(%s::text[], %s::text[], %s::bigint[])"
OFFSETS = "SELECT * FROM queend.offsets((SELECT q.id FROM queend.queues q WHERE q.name = %s), %s, %s, %s)"
COLUMNS = ("queue", "partition", "offset", "ts", "transactionId", "payload", "id", "headers")
PACKED = """SELECT array_agg(o.partition_id), array_agg(o.name), array_agg(o.head), array_agg(o.floor), array_agg(o.at)
              FROM queend.offsets((SELECT q.id FROM queend.queues q WHERE q.name = %s), %s, %s, %s) AS o"""
QUEUES = """SELECT (SELECT q.id FROM queend.queues q WHERE q.name = u.name) AS id
              FROM unnest(%s::text[]) WITH ORDINALITY AS u (name, ord) ORDER BY u.ord"""

WHERE = {"queue": NAME, "partition": ENTRY_PARTITION}


def _described(required: list[str], **properties: Any) -> dict[str, Any]:
    return body(record(required, **properties))


def _form(request: Request) -> str:
    """Returns the form that `format=cloudevents` asks for, else the first known format of the Accept header, else
    JSON."""
    if request.query_params.get("format") == "cloudevents":
        return "events"
    for word in ",".join(request.headers.getlist("accept")).split(","):
        for form, name in TYPES.items():
            if word.partition(";")[0].strip().lower() == name:
                return form
    return "json"


def _columns(call: Fields) -> tuple[str, ...] | None:
    """Returns the columns of an Arrow answer that the call wants; None: the default ones."""
    names = call.values.get("columns")
    if names is None:
        return None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name in COLUMNS for name in names):
        raise call.refuse("columns", f"must be a list of names among {', '.join(COLUMNS)}")
    return tuple(names)


def _moment(us: int | None) -> str | None:
    return None if us is None else read_moment_text(us)


@router.declare("POST /api/v1/fetch", READ, whole(
    entries=array(whole("error", "nextOffset", "erased", queue=TEXT, partition=TEXT, nextOffset=INTEGER, **MARKS,
                        erased=INTEGER, error=TEXT,
                        records=array(whole(*BESIDES, offset=INTEGER, transactionId=TEXT, payload=ANY, ts=TIME,
                                            **BESIDES))))),
                [parameter("format", {"enum": ["cloudevents"]})], where="body.entries",
                body=_described(["entries"], entries=array(
                    record(["queue", "offset"], **WHERE, offset=INTEGER, end=INTEGER,
                           number=INTEGER, maxBytes={**INTEGER, "default": ENTRY_BYTES})),
                                columns=array({"enum": list(COLUMNS)}),
                                maxBytes={**INTEGER, "default": CALL_BYTES}, maxWaitMs={**INTEGER, "default": 0},
                                minBytes={**INTEGER, "default": 1}),
                example={"entries": [{"queue": "orders", "partition": "customer-7", "offset": 0}], "maxBytes": 1048576},
                own=True)
async def fetch(request: Request) -> Response:
    """Reads records of 1 to 1024 partitions from given offsets on, as JSON, NDJSON, Arrow stream or CloudEvents
    (Accept)."""
    control = request.app.state.control
    call, items = await entries_of(request)
    wanted = [Wanted(one.queue(), one.partition(), one.whole("offset", None), one.whole("end", INT8_MAX),
                     one.budget("maxBytes", ENTRY_BYTES, 1, ENTRY_MOST), one.whole("number", 0)) for one in items]
    most = call.budget("maxBytes", CALL_BYTES, 1, CALL_MOST)
    wait_ms = call.whole("maxWaitMs", 0, 0, WAIT_MOST_MS)
    least = call.whole("minBytes", 1, 0, CALL_MOST)
    form = _form(request)
    columns = _columns(call)
    grant, cuts = getattr(request.state, "grant", None), control.holds.cuts
    expires_s = math.inf if grant is None else grant.expires_us / 1e6
    deadline = asyncio.get_running_loop().time() + min(wait_ms / 1000, expires_s - time.time())
    pause = 0.0
    while True:
        found = await control.reader.read(form, wanted, most, columns)
        enough = least == 0 or found.records and found.size >= least
        if not wait_ms or enough or found.behind or found.failed or found.unreadable:
            break
        if not await control.holds.wait(found.heads, deadline, pause, cuts, expires_s):
            break
        pause = min(2 * pause + 0.03, PAUSE_MOST_S)
    if expires_s <= time.time():
        status, headers, body = unverified(EXPIRED).answer()
        return Response(body, status, {name.decode(): value.decode() for name, value in headers})
    if found.unreadable:
        log.line("error", "row_unreadable", "a row of the log is not in a known format", path=request.url.path)
    return Response(found.answer, media_type=TYPES[form])


@router.declare("POST /api/v1/fetch/offsets", READ, whole(
    entries=array(whole("error", queue=TEXT, partition=TEXT, offset=SOME_INTEGER, ts=SOME_TIME, **MARKS, error=TEXT))),
                where="body.entries",
                body=_described(["entries"], entries=array(record(["queue", "timestamp"], **WHERE, timestamp=WHEN))),
                example={"entries": [{"queue": "orders", "partition": "customer-7", **WAS}]}, own=True)
async def fetch_offsets(request: Request) -> Json:
    """Returns the first offset stored at or after a time, and the watermarks, of 1 to 1024 partitions."""
    _, items = await entries_of(request)
    wanted = [(one.queue(), one.partition(), one.moment("timestamp", True)) for one in items]
    rows = await request.app.state.control.reader.rows(AT, tuple(map(list, zip(*wanted, strict=True))))
    return Json({"entries": [
        {"queue": queue, "partition": partition, "offset": row.found, "ts": _moment(row.stored_at),
         **({"highWatermark": None, "logStartOffset": None, "error": ERRORS[1]} if row.queue_id is None else
            {"highWatermark": row.head, "logStartOffset": row.floor})}
        for (queue, partition, _), row in zip(wanted, rows, strict=True)]})


@router.declare("POST /api/v1/partitions/changed", READ, whole(
    safeTime=TIME, entries=array(
        whole("queueNumber", "error", queueNumber=INTEGER, next=MAYBE, error=TEXT, partitions=array(
            whole("number", number=INTEGER, name=TEXT, id=ID, lastOffset=INTEGER, logStart=INTEGER,
                  lastWriteAt=SOME_TIME))))), where="body.entries",
                body=_described(["entries"], entries=array(
                    record(["queue"], queue=NAME, since=WHEN, after=TEXT, limit={**INTEGER, "default": PAGE},
                           numbers=FLAG))),
                example={"entries": [{"queue": "orders", "since": WAS["timestamp"], "limit": 100}]}, own=True)
async def partitions_changed(request: Request) -> Json:
    """Lists partitions written at or after a time, in order of creation, page by page."""
    reader = request.app.state.control.reader
    _, items = await entries_of(request)
    page = max(1, min(PAGE, PAGES_MOST // len(items)))
    wanted = [(one.queue(), one.moment("since"), one.cursor("after"), one.budget("limit", page, 1, page))
              for one in items]
    seed = await reader.seed()
    numbered = [one.values.get("numbers") is True for one in items]
    # Before the partitions: partitions of a queue that is created again in between come with its new number the next
    # time.
    queues = ([row.id for row in await reader.rows(QUEUES, ([queue for queue, *_ in wanted],))] if any(numbered)
              else [None] * len(wanted))
    entries: list[dict[str, Any]] = []
    asked: list[tuple] = []
    places: list[tuple[dict[str, Any], bool]] = []      # whose rows are read, and whether with numbers
    for (queue, since, after, limit), number, wants in zip(wanted, queues, numbered, strict=True):
        entry: dict[str, Any] = {"queueNumber": number} if number and wants else {}
        entry |= {"partitions": [], "next": None}
        entries.append(entry)
        behind = 0 if after is None else read_partition_number(seed, after.encode())
        if behind is None:
            entry["error"] = "BAD_CURSOR"
        elif wants and number is None:
            entry["error"] = ERRORS[1]
        else:
            asked.append((queue, since, behind, limit))
            places.append((entry, wants))
    safe, *rows = await reader.rows(CHANGED, tuple(map(list, zip(*asked, strict=True))) if asked else ([], [], [], []))
    for row in rows:
        entry, wants = places[row.ord]
        if row.status == 0:
            entry["partitions"].append({
                "name": row.name, "id": read_partition_id(seed, row.partition_id),
                "lastOffset": -1 if row.written_at is None else row.head - 1, "logStart": row.floor,
                "lastWriteAt": _moment(row.written_at), **({"number": row.partition_id} if wants else {})})
        elif row.status == 1:
            entry["error"] = ERRORS[1]
        elif row.status == 3:
            entry["next"] = read_partition_id(seed, row.partition_id)
    return Json({"safeTime": _moment(safe.written_at), "entries": entries})


@router.declare("POST /api/v1/offsets", READ, whole(
    queue=TEXT, next=MAYBE,
    partitions=array(whole("offset", name=TEXT, id=ID, **MARKS, lastWriteAt=SOME_TIME, offset=SOME_INTEGER))),
                where="body.queue", body=_described(
                    ["queue"], queue=NAME, at=WHEN, after=TEXT, limit={**INTEGER, "default": OFFSETS_PAGE}),
                example={"queue": "orders", "limit": 100}, own=True)
async def offsets(request: Request) -> Response:
    """Returns the high watermarks and the log start offsets of all partitions of a queue, and the offsets at a time,
    page by page. 404 if the queue does not exist. As JSON or Arrow stream (Accept)."""
    reader = request.app.state.control.reader
    call = await fields_of(request)
    queue, at, after = call.queue(), call.moment("at"), call.cursor("after")
    if _form(request) == "arrow":
        return await _offsets_packed(reader, call, queue, at)
    limit = call.whole("limit", OFFSETS_PAGE, 1, OFFSETS_PAGE)
    seed = await reader.seed()
    behind = 0 if after is None else read_partition_number(seed, after.encode())
    if behind is None:
        raise call.refuse("after", "must be the value of next in an earlier answer")
    rows = await reader.rows(OFFSETS, (queue, behind, limit + 1, at))
    if not rows:
        await _known(reader, queue)
    partitions = [{"name": row.name, "id": read_partition_id(seed, row.partition_id), "highWatermark": row.head,
                   "logStartOffset": row.floor,
                   "lastWriteAt": _moment(row.written_at), **({} if at is None else {"offset": row.at})}
                   for row in rows[:limit]]
    return Json({"queue": queue, "partitions": partitions, "next": partitions[-1]["id"] if len(rows) > limit else None})


async def _known(reader: Reader, queue: str) -> None:
    """Refuses an unknown queue."""
    if not await reader.rows("SELECT 1 FROM queend.queues q WHERE q.name = %s", (queue,)):
        raise not_found("Queue")


async def _offsets_packed(reader: Reader, call: Fields, queue: str, at: int | None) -> Response:
    """Returns the offsets as an Arrow stream. Pages continue behind a partition's number, which a full page names."""
    behind, limit = call.whole("behind", 0, 0, 2**31 - 1), call.whole("limit", ARROW_PAGE, 1, ARROW_PAGE)
    async with reader.turns:
        async with reader.pool.connection() as connection, connection.cursor(binary=True) as cursor:
            await cursor.execute(PACKED, (queue, behind, limit, at), binary=True)
            result: Any = cursor.pgresult
            number, name, head, floor, found = (result.get_value(0, column) for column in range(5))
        if number is None:
            await _known(reader, queue)
        answer = await asyncio.to_thread(offsets_answer, number, name, head, floor, found, at is not None)
    return Response(answer, media_type=TYPES["arrow"])
