"""/streams/v1: the queries that stream clients register, and their state (docs/streams.md). Their cycles, which pop,
push and keep state in one transaction, are the core's (route/cyclebody)."""
from __future__ import annotations

import re
import uuid
from typing import Any

from fastapi import Request
from psycopg.rows import namedtuple_row

from ...auth.levels import POP, PUSH, READ, READS, WRITE
from ..database import seed_of
from ..http.answer import Json, Refusal
from ..http.body import body_object
from ..http.moments import ts6
from ..http.rights import limits, permit
from ..http.route import Routes
from ..http.schema import ANY, FLAG, ID, MAYBE, MESSAGE, NAME, QUERY, TEXT, TIME, array, body, record, whole
from ..http.schemas import DONE
from .record import embedded, partition_number

router = Routes("streams")
CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NAME_BYTES, KEY_BYTES, KEYS_MOST = 255, 2048, 100_000
STATE_BODY_BYTES = 16 << 20     # of a request for state. Parsed, it takes up to eight times its size

REGISTER = "SELECT * FROM queend.stream_register(%s, %s, %s, %s, %s)"
STATE = "SELECT * FROM queend.stream_state(%s, %s, %s, %s, %s, %s)"
SOURCE = "SELECT q.source_queue FROM queend.stream_queries q WHERE q.name = %s"
GROUP = "streams.{}"       # the group that clients pop with for a query of that name
SOURCE_OF = "SELECT q.source_queue, q.name FROM queend.stream_queries q WHERE q.query_uuid = %s"
MISMATCH = ("config_hash mismatch: operator chain changed for queryId '{}'. Pass reset:true to wipe existing state, or "
            "use a new queryId.")


def text_of(values: dict[str, Any], name: str, most: int = NAME_BYTES) -> str:
    """Returns a text; empty if it is absent or null. Refuses texts that are too long and values that are not texts."""
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value or len(value.encode()) > most:
        raise Refusal(400, f"{name} must be a text of at most {most} bytes without NUL", "invalid_request")
    return value


def required(values: dict[str, Any], name: str) -> str:
    """Returns a text that is not empty. Refuses anything else in the words that clients know."""
    if not isinstance(values.get(name), str) or not values[name]:
        raise Refusal(400, f"{name} is required", "invalid_request")
    return text_of(values, name)


async def numbered(request: Request, partition: str) -> int | None:
    return partition_number(await seed_of(request), partition)


def query_uuid(text: str) -> uuid.UUID | None:
    return uuid.UUID(text) if CANONICAL.fullmatch(text.lower()) else None


@router.declare("POST /streams/v1/queries", WRITE,
                whole(success=DONE, query_id=ID, name=TEXT, config_hash=TEXT, fresh=FLAG, reset=FLAG), where="itself",
                body=body(record(["name", "source_queue", "config_hash"], name=NAME, source_queue=NAME,
                                 config_hash=NAME, sink_queue=MAYBE, reset=FLAG)),
                example={"name": "totals", "source_queue": "orders", "sink_queue": "totals", "config_hash": "c0ffee"})
async def register(request: Request) -> Json:
    """Registers a query, or returns the existing one with this name. If config_hash differs: 409, or with `reset` the
    state is deleted."""
    values = await body_object(request, strict=True)
    name, source, hash_ = (required(values, key) for key in ("name", "source_queue", "config_hash"))
    text_of(values, "name", NAME_BYTES - len(GROUP.format("")))      # the name of its group is limited, too
    sink = text_of(values, "sink_queue") or None
    streams = request.app.state.control.streams
    async with (streams.registering, streams.pool.connection() as connection,
                connection.cursor(row_factory=namedtuple_row) as cursor):
        if limits(request) is not None:
            found = await (await cursor.execute(SOURCE, (name,))).fetchall()
            permit(request, POP, source, *(row.source_queue for row in found), group=GROUP.format(name))
            permit(request, PUSH, *([sink] if sink else []))
        row = await (await cursor.execute(REGISTER, (name, source, sink, hash_,
                                                     values.get("reset") is True))).fetchone()
    if row.mismatch:
        raise Refusal(409, MISMATCH.format(name), "config_hash_mismatch", success=False, query_id=str(row.query),
                      name=name)
    return Json({"success": True, "query_id": str(row.query), "name": name, "config_hash": hash_, "fresh": row.fresh,
                 "reset": row.reset})


@router.declare("POST /streams/v1/state/get", READ,
                whole(success=DONE, rows=array(whole(key=TEXT, value=ANY, updated_at=TIME))), where="itself",
                body=body(record(["query_id", "partition_id"], query_id=TEXT, partition_id=TEXT, keys=array(TEXT),
                                 key_prefix=TEXT, ripe_at_or_before={"type": "number"})),
                example={"query_id": QUERY, "partition_id": MESSAGE["partitionId"], "key_prefix": "to"})
async def state_get(request: Request) -> Json:
    """Returns the state of a partition in a query. Filters are keys, a prefix of keys, and the end of windows (at most
    a time in ms). All given filters must match."""
    values = await body_object(request, strict=True, most=STATE_BODY_BYTES)
    query, partition = (required(values, key) for key in ("query_id", "partition_id"))
    prefix = text_of(values, "key_prefix", most=KEY_BYTES) or None
    id, number = query_uuid(query), await numbered(request, partition)
    if id is None:
        raise Refusal(400, f'query_id is no UUID: "{query}"', "invalid_id")
    streams = request.app.state.control.streams
    if limits(request) is not None:
        source = await streams.all(SOURCE_OF, id)
        permit(request, POP | READS, source[0].source_queue if source else None,
               group=GROUP.format(source[0].name) if source else None)
    most = request.app.state.control.settings.queend_max_body_bytes
    async with streams.reading:
        found = await streams.all(STATE, id, number, _keys(values), prefix, _number(values, "ripe_at_or_before"), most)
    if found and found[-1].key is None:
        raise Refusal(413, f"The state of this partition has more than {most} bytes: request keys or a key_prefix",
                      "state_too_large")
    return Json({"success": True, "rows": [{"key": row.key, "value": embedded(row.value.encode()),
                                            "updated_at": ts6(row.updated_at)} for row in found]})


def _keys(values: dict[str, Any]) -> list[str] | None:
    keys = values.get("keys")
    if not isinstance(keys, list) or not keys:
        return None
    if len(keys) > KEYS_MOST or not all(isinstance(key, str) and "\0" not in key for key in keys):
        raise Refusal(400, f"keys must be a list of at most {KEYS_MOST} texts without NUL", "invalid_request")
    return keys


def _number(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refusal(400, f"{name} must be a number", "invalid_request")
    return float(value)
