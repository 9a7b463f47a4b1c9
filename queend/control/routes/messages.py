"""/api/v1/messages: list, one with its payload, delete, retry, move into the dead letters."""
from __future__ import annotations

from typing import Any

from fastapi import Request
from psycopg.errors import UndefinedObject

from ..._core import read_partition_id, record_key
from ...auth.levels import MANAGE, READ, READS, WRITE
from ...services.erasure import settle
from ...wording import QUEUE_MODE
from ..database import rows, seed_of
from ..http.answer import Json, PathName, Refusal, not_found
from ..http.body import body_object
from ..http.moments import ts3
from ..http.paged import Page
from ..http.rights import limits, permit
from ..http.route import Paged, Routes
from ..http.schema import (ANY, FLAG, INTEGER, MAYBE, NAME, SOME_INTEGER, SOME_TIME, TEXT, TIME, array, body, parameter,
                           record, whole)
from ..http.schemas import BESIDES, DONE, FROM, PARTITION, PLACE, QUEUE, TO
from .record import embedded, opened, partition_number
from .redrive import redrive
from .sealing import revealed

router = Routes("messages")
MODE = {"hasQueueMode": FLAG, "busGroupsCount": INTEGER, "type": {"enum": ["hybrid", "queue", "bus", "none"]}}

HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
# most rows of the log that a list reads; fewer with a status, because each row takes more probes
LOOK, LOOK_STATUS = 100_000, 5_000

LIST = """SELECT *, queend.message_id(stored_at, partition_id, record_offset)::text AS id, NULL AS payload
            FROM queend.message_list(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""
GROUPS = """SELECT DISTINCT g.name FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id
     WHERE %s::text IS NULL OR q.name = %s"""
SHOW = """SELECT *, queend.message_id(stored_at, %s, record_offset)::text AS id
            FROM queend.message_show(%s, %s)"""
BESIDE = """SELECT queend.message_beside(u.part, u.at) AS beside
     FROM unnest(%s::int[], %s::bigint[]) WITH ORDINALITY AS u (part, at, ord) ORDER BY u.ord"""
STATES = "SELECT * FROM queend.message_groups(%s, %s)"
DELETE = "SELECT queend.message_delete(%s, %s)"
BURY = "SELECT queend.message_bury(%s, %s, %s, %s)"
DEAD = """SELECT d.id, (SELECT q.name FROM queend.queues q WHERE q.id = d.queue_id) AS queue FROM queend.dead_letters d
           WHERE d.partition_id = %s AND d.record_id = %s ORDER BY d.id DESC"""
STATUSES = ("pending", "processing", "completed", "failed", "dead_letter")
MODES = {(True, True): "hybrid", (True, False): "queue", (False, True): "bus", (False, False): "none"}


BY_ID = "/api/v1/messages/{partition}/{transaction_id}"
BY_NAMES = "/api/v1/queues/{queue}/partitions/{partition}/messages/{transaction_id}"
QUEUE_OF = """SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = %s"""
# In a queue without order, Default stands for the partition that a push chooses by the id, if the message is there.
NUMBER = """SELECT p.id FROM queend.queues q
     CROSS JOIN LATERAL unnest(queend.spread_places(ARRAY[q.name], ARRAY[%(partition)s::text], ARRAY[%(id)s::text])
                               || %(partition)s::text) AS n (name)
      JOIN queend.partitions p ON p.queue_id = q.id AND p.name = n.name
     WHERE q.name = %(queue)s
     ORDER BY n.name <> %(partition)s AND queend.message_find(p.id, %(record)s) IS NULL, n.name = %(partition)s
     LIMIT 1"""

Address = tuple[int, bytes]     # number of a partition, id of a record


async def address(request: Request, partition: str, transaction_id: str, verb: int) -> Address | None:
    """Finds a message by the id of its partition; None if there is no such partition. Refuses a token that lacks the
    verb for the partition's queue."""
    number = partition_number(await seed_of(request), partition)
    if number is None or not await may_use(request, number, verb):
        return None
    return number, record_key(transaction_id)


async def may_use(request: Request, number: int, verb: int) -> bool:
    """Refuses a token that lacks the verb for the queue of a partition. False if the token is limited and there is no
    such partition."""
    if limits(request) is None:
        return True
    for (queue,) in await rows(request, QUEUE_OF, number):
        permit(request, verb, queue)
        return True
    return False


async def address_named(request: Request, queue: str, partition: str, transaction_id: str) -> tuple[str, Address]:
    """Finds a message by the names of its queue and partition: the partition's id, and the address. 404 if there is no
    such partition."""
    record = record_key(transaction_id)
    for (number,) in await rows(request, NUMBER, queue=queue, partition=partition, id=transaction_id, record=record):
        return read_partition_id(await seed_of(request), number), (number, record)
    raise not_found("Partition")


@router.declare("GET /api/v1/messages", READ, whole(
    messages=array(whole("deliverAt", *BESIDES, **PLACE, **BESIDES, namespace=TEXT, task=TEXT, status=TEXT,
                         queueStatus=MAYBE,
                         busStatus=whole(consumedBy=INTEGER, totalGroups=INTEGER), traceId=MAYBE, producerSub=MAYBE,
                         queuePriority=INTEGER, createdAt=TIME, leaseExpiresAt=SOME_TIME, offset=INTEGER,
                         deliverAt=SOME_TIME)), mode=whole(**MODE)),
                [QUEUE, PARTITION, parameter("ns", NAME), parameter("task", NAME),
                 parameter("status", {"enum": list(STATUSES)}), FROM, TO],
                where="query", page=Paged(200, far=100_000))
async def message_list(request: Request) -> Json:
    """Lists messages without their payloads, newest first. Default range: the last hour; `to` includes its whole
    minute."""
    query = Page(request)
    ((now,),) = await rows(request, "SELECT queend.now_us()")
    from_, to = query.moment("from"), query.moment("to")
    from_ = now - HOUR_US if from_ is None else from_
    to = ((now if to is None else to) // MINUTE_US + 1) * MINUTE_US - 1
    queue, status = query.text("queue"), query.text("status")
    if status is not None and status not in STATUSES and query.strict:
        raise Refusal(400, f"status must be one of {', '.join(STATUSES)}", "invalid_request")
    found = await rows(request, LIST, queue, query.text("partition"), query.text("ns"), query.text("task"), status,
                       from_, to, query.limit, query.offset, LOOK_STATUS if status else LOOK)
    groups = {row.name for row in await rows(request, GROUPS, queue, queue)}
    shown = await besides_of(request, [(row.partition_id, row.record_offset) for row in found])
    seed = await seed_of(request)
    return Json({"messages": [{
        **listed(row, seed), **standing(row), "namespace": row.namespace, "task": row.task,
        "traceId": row.trace_id and str(row.trace_id), "producerSub": row.producer_sub, "queuePriority": row.priority,
        "createdAt": ts3(row.stored_at), "offset": row.record_offset, **deliver_at(row),
        **beside} for row, beside in zip(found, shown, strict=True)],
        "mode": _mode(groups)})


def place(seed: bytes, number: int, queue: str, partition: str, transaction_id: str, id: str) -> dict[str, Any]:
    """Returns PLACE of a message. number: of the partition; id: of the message."""
    return {"id": id, "transactionId": transaction_id, "partitionId": read_partition_id(seed, number),
            "queuePath": f"{queue}/{partition}", "queue": queue, "partition": partition}


def listed(row: Any, seed: bytes) -> dict[str, Any]:
    """Returns PLACE of a row of message_list."""
    transaction_id, id = opened(row)[1:] if row.body is not None else (row.transaction_id, row.id)
    return place(seed, row.partition_id, row.queue, row.partition, transaction_id, id)


def standing(row: Any) -> dict[str, Any]:
    """Returns the state of a listed message for its consumers."""
    return {"status": row.status, "queueStatus": row.queue_status,
            "busStatus": {"consumedBy": row.consumed_by, "totalGroups": row.groups},
            "leaseExpiresAt": ts3(row.lease_until or None)}


async def besides_of(request: Request, places: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Returns the headers of each message, by partition number and offset, and its origin: the dead letter it was
    redriven from."""
    if not places:
        return []
    found = await rows(request, BESIDE, [part for part, _ in places], [offset for _, offset in places])
    return [row.beside or {} for row in found]


def deliver_at(row: Any) -> dict[str, str | None]:
    """Returns the delivery moment of a message that has one."""
    return {} if row.deliver_at is None else {"deliverAt": ts3(row.deliver_at)}


def _mode(groups: set[str]) -> dict[str, Any]:
    bus = len(groups - {QUEUE_MODE})
    return {"hasQueueMode": QUEUE_MODE in groups, "busGroupsCount": bus, "type": MODES[QUEUE_MODE in groups, bus > 0]}


MESSAGE = whole("deliverAt", *BESIDES, **PLACE, **BESIDES, namespace=TEXT, task=TEXT, payload=ANY, isEncrypted=FLAG,
                status={"enum": ["pending", "processing", "completed", "dead_letter"]}, traceId=MAYBE,
                producerSub=MAYBE, createdAt=TIME, errorMessage=MAYBE, retryCount=SOME_INTEGER,
                leaseExpiresAt=SOME_TIME, offset=INTEGER, deliverAt=SOME_TIME,
                queueConfig=whole(leaseTime=INTEGER, retryLimit=INTEGER, retryDelay=INTEGER, ttl=INTEGER,
                                  priority=INTEGER), mode=whole(**MODE, consumedByGroups=INTEGER),
                consumerGroups=array(whole(name=TEXT, consumed=FLAG, leaseExpiresAt=SOME_TIME)))


@router.declare(f"GET {BY_ID}", READ, MESSAGE, where="itself")
async def message_show(request: Request, partition: PathName, transaction_id: PathName) -> Json:
    """Returns a message with its payload, also if only the dead letter still exists; 404 if there is none."""
    return await _shown(request, await address(request, partition, transaction_id, READS))


@router.declare(f"GET {BY_NAMES}", READ, MESSAGE, own=True)
async def message_show_named(request: Request, queue: PathName, partition: PathName, transaction_id: PathName) -> Json:
    """Returns a message by the names of its queue and partition, with its payload; 404 if there is none."""
    _, where = await address_named(request, queue, partition, transaction_id)
    return await _shown(request, where)


async def _shown(request: Request, where: Address | None) -> Json:
    found = await rows(request, SHOW, where[0], *where) if where else []
    if not where or not found:
        raise not_found("Message")
    (row,) = found
    payload, text, id = opened(row)
    payload, sealed = revealed(row, payload)
    states = await rows(request, STATES, where[0], row.record_offset)
    named = [one for one in states if one.name != QUEUE_MODE]
    mode = next((one for one in states if one.name == QUEUE_MODE), None)
    if row.dead_error is not None:
        status = "dead_letter"
    else:
        status = state_of([mode] if mode else named)
    return Json({**place(await seed_of(request), where[0], row.queue, row.partition, text, id),
                 "namespace": row.namespace, "task": row.task, "status": status, "payload": embedded(payload),
                 "isEncrypted": sealed, "traceId": row.trace_id and str(row.trace_id), "producerSub": row.producer_sub,
                 "createdAt": ts3(row.stored_at), "errorMessage": row.dead_error, "retryCount": row.dead_retries,
                 "leaseExpiresAt": ts3(mode.lease_until or None) if mode else None, "offset": row.record_offset,
                 "queueConfig": {"leaseTime": row.lease_time, "retryLimit": row.retry_limit,
                                 "retryDelay": row.retry_delay, "ttl": row.ttl, "priority": row.priority},
                 "mode": {**_mode({one.name for one in states}),
                          "consumedByGroups": sum(one.consumed for one in named)},
                 "consumerGroups": [{"name": one.name, "consumed": one.consumed,
                                     "leaseExpiresAt": ts3(one.lease_until or None)} for one in states],
                 **deliver_at(row), **(await besides_of(request, [(where[0], row.record_offset)]))[0]})


def state_of(groups: list[Any]) -> str:
    """Returns the status of a message for groups, as message_list gives it. groups: of message_groups."""
    left = [one for one in groups if not one.consumed]
    if groups and not left:
        return "completed"
    return "processing" if any(one.lease_until for one in left) else "pending"


DELETED = whole(success=FLAG, partitionId=TEXT, transactionId=TEXT, message=TEXT)


@router.declare(f"DELETE {BY_ID}", WRITE, DELETED, where="itself", exact=True)
async def message_delete(request: Request, partition: PathName, transaction_id: PathName) -> Json:
    """Deletes a message with its dead letters and traces, and overwrites its payload in the log. `success` is false if
    there was no such message. Cursors do not change."""
    where = await address(request, partition, transaction_id, MANAGE)
    return await _deleted(request, where, partition, transaction_id)


@router.declare(f"DELETE {BY_NAMES}", WRITE, DELETED, own=True, exact=True)
async def message_delete_named(request: Request, queue: PathName, partition: PathName,
                               transaction_id: PathName) -> Json:
    """Deletes a message by the names of its queue and partition, with its dead letters and traces. Overwrites its
    payload in the log."""
    id, where = await address_named(request, queue, partition, transaction_id)
    return await _deleted(request, where, id, transaction_id)


async def _deleted(request: Request, where: Address | None, partition: str, transaction_id: str) -> Json:
    deleted = False
    if where is not None:
        control = request.app.state.control
        async with control.pool.connection() as connection, connection.transaction():
            (deleted,) = await (await connection.execute(DELETE, where)).fetchone()
            await settle(connection, where[0], control.settings.queend_compress_from)
    return Json({"success": deleted, "partitionId": partition, "transactionId": transaction_id,
                 "message": "Message deleted successfully" if deleted else "Message not found"})


RETRIED = whole(success=DONE, partitionId=TEXT, transactionId=TEXT, newTransactionId=TEXT)


@router.declare(f"POST {BY_ID}/retry", WRITE, RETRIED, where="itself", exact=True)
async def message_retry(request: Request, partition: PathName, transaction_id: PathName) -> Json:
    """Stores the dead letter of this message as a new message in its partition and removes it; 404 if there is no such
    dead letter."""
    where = await address(request, partition, transaction_id, MANAGE)
    return await _retried(request, where, partition, transaction_id)


@router.declare(f"POST {BY_NAMES}/retry", WRITE, RETRIED, own=True, exact=True)
async def message_retry_named(request: Request, queue: PathName, partition: PathName,
                              transaction_id: PathName) -> Json:
    """Stores the dead letter of a message as a new message, by the names of its queue and partition. 404 if there is no
    such dead letter."""
    id, where = await address_named(request, queue, partition, transaction_id)
    return await _retried(request, where, id, transaction_id)


async def _retried(request: Request, where: Address | None, partition: str, transaction_id: str) -> Json:
    dead = await rows(request, DEAD, *where) if where else []
    if not dead:
        raise not_found("Message")
    control = request.app.state.control
    async with control.pool.connection() as connection:
        made, queues = await redrive(connection, [dead[0].id], None, None)
    if not made:
        raise Refusal(409, "Another client is retrying this message", "in_hand")
    for queue in queues:
        control.core.notify(queue)
    return Json({"success": True, "partitionId": partition, "transactionId": transaction_id,
                 "newTransactionId": made[0]})


BURIED = whole(success=DONE, partitionId=TEXT, transactionId=TEXT, consumerGroup=TEXT, moved=FLAG)
BURY_BODY = body(record([], consumerGroup=NAME, error=TEXT, errorMessage=TEXT), required=False)
BURY_EXAMPLE = {"consumerGroup": "billing", "error": "no such customer"}


@router.declare(f"POST {BY_ID}/dlq", WRITE, BURIED, where="itself", body=BURY_BODY, example=BURY_EXAMPLE,
                exact=True)
async def message_bury(request: Request, partition: PathName, transaction_id: PathName) -> Json:
    """Moves a message to the dead letters of a group; without `consumerGroup`, to those of the queue mode. No group
    receives the message any more. 404 if the queue has no such group."""
    where = await address(request, partition, transaction_id, MANAGE)
    return await _buried(request, where, partition, transaction_id)


@router.declare(f"POST {BY_NAMES}/dlq", WRITE, BURIED, own=True, body=BURY_BODY, example=BURY_EXAMPLE,
                exact=True)
async def message_bury_named(request: Request, queue: PathName, partition: PathName, transaction_id: PathName) -> Json:
    """Moves a message to the dead letters of a group, by the names of its queue and partition. 404 if the queue has no
    such group."""
    id, where = await address_named(request, queue, partition, transaction_id)
    return await _buried(request, where, id, transaction_id)


async def _buried(request: Request, where: Address | None, partition: str, transaction_id: str) -> Json:
    wanted = await body_object(request, strict=True, required=False)
    group = wanted.get("consumerGroup") or QUEUE_MODE
    error = wanted.get("error") or wanted.get("errorMessage") or "Moved by hand"
    for name, value in (("consumerGroup", group), ("error", error)):
        if not isinstance(value, str) or "\0" in value:
            raise Refusal(400, f"{name} must be a text without NUL", "invalid_request")
    if len(group.encode()) > 255:
        raise Refusal(400, "consumerGroup must have at most 255 bytes", "invalid_name")
    try:
        moved = (await rows(request, BURY, *where, group, error))[0][0] if where else None
    except UndefinedObject:
        raise not_found("Consumer group") from None
    if moved is None:
        raise not_found("Message")
    return Json({"success": True, "partitionId": partition, "transactionId": transaction_id, "consumerGroup": group,
                 "moved": moved})
