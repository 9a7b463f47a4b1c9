"""/streams/v1: what the stream clients keep in the daemon, and the cycle that moves it together with their messages."""
from __future__ import annotations

import datetime
import uuid
from typing import Any

import orjson
from fastapi import Request
from psycopg.rows import namedtuple_row

from ..auth.levels import POP, PUSH, READS
from ..auth.levels import READ, WRITE
from ..auth.permits import allows
from . import cycle as cycles
from .answer import Json, Refusal
from .database import seed_of
from .known import checked
from .queues import EPOCH
from .record import embedded, partition_number
from .route import Routes
from .shapes import DONE
from .words import ANY, FLAG, ID, INTEGER, MAYBE, MESSAGE, NAME, TEXT, TIME, array, body, record, ref, whole

router = Routes("streams")
QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"

REGISTER = "SELECT * FROM queend.stream_register(%s, %s, %s, %s, %s)"
STATE = "SELECT * FROM queend.stream_state(%s, %s, %s, %s, %s, %s)"
SOURCE = "SELECT q.source_queue FROM queend.stream_queries q WHERE q.name = %s"
SOURCES = """SELECT (SELECT q.source_queue FROM queend.stream_queries q WHERE q.query_uuid = %s) AS query,
                    (SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = %s) AS partition"""
MISMATCH = "config_hash mismatch: operator chain changed for queryId '{}'. Pass reset:true to wipe existing state, or use a new queryId."


def permit(request: Request, verb: int, *queues: str | None) -> None:
    """Refuses a token that may not use one of these queues so. None: there is no such queue, so only tokens for all pass."""
    rules = limits(request)
    if rules is not None and not all(queue is not None and allows(rules, queue, verb) for queue in queues):
        raise Refusal(403, "Insufficient permissions for this queue", "forbidden")


def limits(request: Request) -> Any:
    """The queue rules of the request's token; None: it has no limits, or there are no tokens."""
    grant = getattr(request.state, "grant", None)
    return grant and grant.rules


async def numbered(request: Request, partition: str) -> int | None:
    return partition_number(await seed_of(request), partition)


def query_uuid(text: str) -> uuid.UUID | None:
    return uuid.UUID(text) if cycles.CANONICAL.fullmatch(text.lower()) else None


@router.declare("POST /streams/v1/queries", WRITE,
                whole(success=DONE, query_id=ID, name=TEXT, config_hash=TEXT, fresh=FLAG, reset=FLAG), where="itself",
                body=body(record(["name", "source_queue", "config_hash"], name=NAME, source_queue=NAME,
                                 config_hash=NAME, sink_queue=MAYBE, reset=FLAG)),
                example={"name": "totals", "source_queue": "orders", "sink_queue": "totals", "config_hash": "c0ffee"})
async def register(request: Request) -> Json:
    """Makes a query or finds it again by its name. Where config_hash changed: 409, or with `reset` its state is deleted."""
    values = await cycles.aside(cycles.members, await request.body())
    checked(request)(values)
    name, source, hash_ = (cycles.required(values, key) for key in ("name", "source_queue", "config_hash"))
    sink = cycles.text_of(values, "sink_queue") or None
    streams = request.app.state.control.streams
    async with streams.registering, streams.pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        if limits(request) is not None:
            found = await (await cursor.execute(SOURCE, (name,))).fetchall()
            permit(request, POP, source, *(row.source_queue for row in found))
            permit(request, PUSH, *([sink] if sink else []))
        row = await (await cursor.execute(REGISTER, (name, source, sink, hash_,
                                                     values.get("reset") == b"true"))).fetchone()
    if row.mismatch:
        raise Refusal(409, MISMATCH.format(name), "config_hash_mismatch", success=False, query_id=str(row.query),
                      name=name)
    return Json({"success": True, "query_id": str(row.query), "name": name, "config_hash": hash_, "fresh": row.fresh,
                 "reset": row.reset})


@router.declare("POST /streams/v1/cycle", WRITE,
                whole("error", success=FLAG, query_id=TEXT, partition_id=TEXT, queueName=MAYBE,
                      state_ops_applied=INTEGER, push_results=array(ref("PushResult")), error=TEXT,
                      ack_result={"oneOf": [{"type": "null"}, whole(success=FLAG, count=INTEGER, lease_released=FLAG,
                                                                    dlq=FLAG)]}),
                where="itself",
                body=body(record(["query_id", "partition_id"], query_id=TEXT, partition_id=TEXT, consumer_group=NAME,
                                 release_lease=FLAG, state_ops=array(record(["type", "key"],
                                     type={"enum": ["upsert", "delete"]}, key=TEXT, value=ANY)),
                                     push_items=array(record(["queue"], queue=NAME, partition=NAME, payload=ANY,
                                                             transactionId=NAME, traceId=TEXT, namespace=NAME,
                                                             task=NAME)),
                                                             ack=record(["transactionId"], transactionId=NAME,
                                                                        leaseId=MAYBE,
                                                                        status={"enum": ["completed", "success",
                                                                            "failed", "dlq"]}, count=INTEGER,
                                                                            error=TEXT))),
                example={"query_id": QUERY, "partition_id": MESSAGE["partitionId"],
                         "state_ops": [{"type": "upsert", "key": "total", "value": {"n": 1}}],
                         "push_items": [{"queue": "totals", "payload": {"n": 1}}]})
async def cycle(request: Request) -> Json:
    """State, messages for the sink and the acknowledgment of what they were made of: all or, with success false, nothing."""
    check = checked(request)
    asked = await cycles.aside(lambda sent: cycles.cycle_of(cycles.members(sent), check), await request.body())
    streams = request.app.state.control.streams
    query, partition = query_uuid(asked.query), await numbered(request, asked.partition)
    if limits(request) is not None:
        permit(request, PUSH, *(item.queue for item in asked.items))
        source = await streams.one(SOURCES, query, partition)
        permit(request, POP, source.query, source.partition)
    if asked.failed is None and query is None:
        asked.failed = f'invalid input syntax for type uuid: "{asked.query}"'
    if asked.failed is not None:
        source = await streams.one(SOURCES, query, partition)
        return _answer(asked, source.partition, asked.failed)
    grant = getattr(request.state, "grant", None)
    async with streams.cycling:
        done = await streams.cycle(query, 0 if partition is None else partition, asked, grant and grant.subject or None)
    return _answer(asked, done.queue, done.error, done.pushed, done.released)


def _answer(asked: cycles.Cycle, queue: str | None, error: str | None, pushed: list[dict] | None = None,
            released: bool | None = None) -> Json:
    ack = None
    if asked.ack and error is None:
        ack = {"success": True, "count": 0 if asked.ack.dead else asked.ack.count,
               "lease_released": bool(released and not asked.ack.dead), "dlq": asked.ack.dead}
    return Json({"success": error is None, "query_id": asked.query, "partition_id": asked.partition, "queueName": queue,
                 "state_ops_applied": asked.ops if error is None else 0, "push_results": pushed or [],
                 "ack_result": ack,
                 **({} if error is None else {"error": error})})


@router.declare("POST /streams/v1/state/get", READ,
                whole(success=DONE, rows=array(whole(key=TEXT, value=ANY, updated_at=TIME))), where="itself",
                body=body(record(["query_id", "partition_id"], query_id=TEXT, partition_id=TEXT, keys=array(TEXT),
                                 key_prefix=TEXT, ripe_at_or_before={"type": "number"})),
                example={"query_id": QUERY, "partition_id": MESSAGE["partitionId"], "key_prefix": "to"})
async def state_get(request: Request) -> Json:
    """The state of a partition in a query by key: of these keys, of keys that begin so, of windows that end by then (ms). Filters combine."""
    values = await cycles.aside(cycles.members, await request.body())
    checked(request)(values)
    query, partition = (cycles.required(values, key) for key in ("query_id", "partition_id"))
    prefix = cycles.text_of(values, "key_prefix", most=cycles.KEY_BYTES) or None
    id, number = query_uuid(query), await numbered(request, partition)
    if id is None:
        raise Refusal(400, f'query_id is no UUID: "{query}"', "invalid_id")
    streams = request.app.state.control.streams
    if limits(request) is not None:
        source = await streams.one(SOURCES, id, number)
        permit(request, POP | READS, source.query)
    most = request.app.state.control.settings.queend_max_body_bytes
    async with streams.reading:
        found = await streams.all(STATE, id, number, _keys(values), prefix, _number(values, "ripe_at_or_before"), most)
    if found and found[-1].key is None:
        raise Refusal(413, f"The state of this partition has more than {most} bytes: ask for keys or a key_prefix",
                      "state_too_large")
    return Json({"success": True, "rows": [{"key": row.key, "value": embedded(row.value.encode()),
                                            "updated_at": _ts6(row.updated_at)} for row in found]})


def _keys(values: dict[str, bytes]) -> list[str] | None:
    keys = cycles.loaded(values.get("keys", b"null"))
    if not isinstance(keys, list) or not keys:
        return None
    if len(keys) > cycles.OPS_MOST or not all(isinstance(key, str) and "\0" not in key for key in keys):
        raise Refusal(400, f"keys must be at most {cycles.OPS_MOST} texts without NUL", "invalid_request")
    return keys


def _number(values: dict[str, bytes], name: str) -> float | None:
    raw = values.get(name, b"null")
    if raw == b"null":
        return None
    value = cycles.loaded(raw)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refusal(400, f"{name} must be a number", "invalid_request")
    return float(value)


def _ts6(us: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=us)).isoformat(timespec="microseconds")
