"""/api/v1/traces: what programs record about messages; by message, by name, and the list of names."""
from __future__ import annotations

from typing import Any
from urllib.parse import unquote_plus

import orjson
from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import MANAGE, READ, READS, WRITE
from ...wording import QUEUE_MODE
from ..database import rows, seed_of
from ..http.answer import Json, PathName, Refusal, is_whole, not_found
from ..http.body import body_object
from ..http.moments import ts3
from ..http.paged import Page
from ..http.route import Paged, Routes
from ..http.schema import ANY, ID, INTEGER, MAYBE, MESSAGE, TEXT, TIME, array, body, record, titled, whole
from ..http.schemas import DONE, PAGINATION
from .messages import address
from .record import embedded, opened
from .sealing import revealed

router = Routes("traces")
TRACE = {"id": TEXT, "event_type": TEXT, "data": ANY, "consumer_group": TEXT, "worker_id": MAYBE, "created_at": TIME,
         "trace_names": array(TEXT)}

TRACES_MOST = 10_000      # of one message
TOTAL_MOST = 100_000      # largest count; there may be more
NAMES_LOOK, NAME_LOOK = 10_000, 2000      # names read; traces of a name counted
NAMES_MOST, NAME_MOST, EVENT_MOST = 100, 255, 100      # bytes, but of NAMES_MOST
ID_MOST = 255             # characters of a transactionId, as everywhere

RECORD = "SELECT queend.trace_record(%s, %s, %s, %s, %s, %s, %s, %s::text[])::text"
OF = "SELECT * FROM queend.traces_of(%s, %s, %s)"
NAMED = "SELECT * FROM queend.traces_named(%s, %s, %s)"
MESSAGES = """SELECT u.partition_id, u.record_id, m.*, NULL AS id
     FROM unnest(%s::int[], %s::bytea[]) AS u (partition_id, record_id)
     CROSS JOIN LATERAL queend.message_show(u.partition_id, u.record_id) AS m"""
COUNT = """SELECT count(*) FROM (SELECT FROM queend.trace_names n
     WHERE n.name = %s AND NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = n.partition_id)
     LIMIT %s) AS n"""
NAMES = "SELECT * FROM queend.trace_names_list(%s, %s, %s, %s)"


@router.declare("POST /api/v1/traces", WRITE, whole(success=DONE, traceId=TEXT), status_code=201, where="itself",
                body=body(record(["transactionId", "partitionId", "data"], transactionId=TEXT, partitionId=TEXT,
                                 data=ANY, consumerGroup=TEXT, eventType=TEXT,
                                 traceNames={"oneOf": [TEXT, titled("TraceNames", array(TEXT))]})),
                example={"transactionId": "order-17", "partitionId": MESSAGE["partitionId"],
                         "data": {"text": "charged"}, "consumerGroup": "billing", "eventType": "info",
                         "traceNames": ["order-17"]})
async def trace_record(request: Request) -> Json:
    """Records a trace of a message, under at most 100 names; 404 if the message does not exist. A repeated request
    records another trace."""
    wanted = await body_object(request)
    transaction_id, partition = wanted.get("transactionId"), wanted.get("partitionId")
    if is_whole(partition):
        partition = str(partition)
    if not isinstance(transaction_id, str) or not isinstance(partition, str) or not transaction_id or not partition:
        raise Refusal(400, "transactionId and partitionId are required", "invalid_request")
    if "data" not in wanted:
        raise Refusal(400, "data is required", "invalid_request")
    names = wanted.get("traceNames")
    names = [] if names is None else [names] if isinstance(names, str) else names
    if not isinstance(names, list) or len(names) > NAMES_MOST:
        raise Refusal(400, f"traceNames must be a text or an array of at most {NAMES_MOST}", "invalid_request")
    group, event = wanted.get("consumerGroup"), wanted.get("eventType")
    group, event = QUEUE_MODE if group is None else group, "info" if event is None else event
    if len(transaction_id) > ID_MOST or "\0" in transaction_id:
        raise Refusal(400, f"transactionId must be text of at most {ID_MOST} characters without NUL", "invalid_request")
    for name, most, values in (("consumerGroup", NAME_MOST, [group]), ("eventType", EVENT_MOST, [event]),
                               ("traceNames", NAME_MOST, names)):
        if not all(isinstance(value, str) and len(value.encode()) <= most and "\0" not in value for value in values):
            raise Refusal(400, f"{name} must be text of at most {most} bytes without NUL", "invalid_request")
    if "" in names:
        raise Refusal(400, "traceNames must not be empty", "invalid_request")
    where = await address(request, partition, transaction_id, MANAGE)
    made = None
    if where:
        ((made,),) = await rows(request, RECORD, *where, transaction_id, group, event, "0",
                                orjson.dumps(wanted["data"]).decode(), list(dict.fromkeys(names)))
    if made is None:
        raise not_found("Message", success=False)
    return Json({"success": True, "traceId": made}, 201)


@router.declare("GET /api/v1/traces/names", READ, whole(
    trace_names=array(whole(trace_name=TEXT, trace_count=INTEGER, message_count=INTEGER, last_seen=TIME)),
    total=INTEGER, pagination=PAGINATION), page=Paged(50, 1000, 1_000_000))
async def trace_names(request: Request) -> Json:
    """Lists the names of traces, most recently used first. With more than 10 000 names, only the first 10 000 are
    searched; per name, the latest 2000 traces are counted."""
    page = Page(request)
    total, *found = await rows(request, NAMES, page.limit, page.offset, NAMES_LOOK, NAME_LOOK)
    return Json({"trace_names": [{"trace_name": row.name, "trace_count": row.traces, "message_count": row.messages,
                                  "last_seen": ts3(row.last)} for row in found],
                 "total": total.traces, "pagination": page.shown})


@router.declare("GET /api/v1/traces/by-name/{name}", READ, whole(
    traces=array(whole(**TRACE, transaction_id=TEXT, partition_id=ID, queue_name=MAYBE, partition_name=MAYBE,
                       message_payload=ANY)), total=INTEGER, pagination=PAGINATION),
    page=Paged(100, 1000, 1_000_000))
async def traces_named(request: Request, name: str) -> Json:
    """Lists the traces with a name and the payloads of their messages, oldest first. `total` counts up to 100 000."""
    name = unquote_plus(name)
    if "\0" in name:
        raise Refusal(400, "path contains a NUL character", "invalid_path")
    page = Page(request)
    found = await rows(request, NAMED, name, page.limit, page.offset)
    ((total,),) = await rows(request, COUNT, name, TOTAL_MOST)
    seed = await seed_of(request)
    payloads: dict[tuple, Any] = {}
    wanted = list({(row.partition_id, bytes(row.record_id)) for row in found})
    for shown in await rows(request, MESSAGES, [part for part, _ in wanted], [id for _, id in wanted]):
        payloads[shown.partition_id, bytes(shown.record_id)] = embedded(revealed(shown, opened(shown)[0])[0])
    return Json({"traces": [{**_trace(row), "transaction_id": row.transaction_id,
                             "partition_id": read_partition_id(seed, row.partition_id), "queue_name": row.queue,
                             "partition_name": row.partition,
                             "message_payload": payloads.get((row.partition_id, bytes(row.record_id)))}
                            for row in found],
                 "total": total, "pagination": page.shown})


@router.declare("GET /api/v1/traces/{partition}/{transaction_id}", READ, whole(traces=array(whole(**TRACE))),
                where="itself")
async def traces_of(request: Request, partition: PathName, transaction_id: PathName) -> Json:
    """Lists the traces of a message, oldest first; an empty list if there are none. Traces are deleted with their
    message or partition, and by an erasure. If retention or a clear removed the message, its traces stay for at least a
    day after they were recorded."""
    where = await address(request, partition, transaction_id, READS)
    return Json({"traces": [_trace(row) for row in (await rows(request, OF, *where, TRACES_MOST) if where else [])]})


def _trace(row: Any) -> dict[str, Any]:
    return {"id": str(row.id), "event_type": row.event_type, "data": embedded(row.data.encode()),
            "consumer_group": row.group_name, "worker_id": row.worker_id,
            "created_at": ts3(row.created_at), "trace_names": row.names}
