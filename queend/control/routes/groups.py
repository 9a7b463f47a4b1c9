"""/api/v1/consumer-groups: positions and lag of groups, moving and deleting them. Lags are differences of offsets: live
for one group, kept figures for all groups (`services/stats`)."""
from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request

from ..._core import read_partition_id
from ...auth.levels import ADMIN, EVERY_QUEUE, READ, READS, WRITE
from ...auth.permits import allows, reads_some
from ...auth.refused import lacking
from ..database import in_parts, rows, seed_of
from ..http.answer import Json, PathName, Refusal, is_whole, not_found
from ..http.body import body_object
from ..http.moments import age_s, ts3
from ..http.paged import Page
from ..http.query import Query, moment_of
from ..http.read_request import entries_of
from ..http.rights import limits
from ..http.route import Paged, Routes
from ..http.schema import (ENTRY_PARTITION, FLAG, ID, INTEGER, MAYBE, NAME, NUMBER, SOME_INTEGER, SOME_TIME, TEXT,
                           TIME, array, body, parameter, record, whole)
from ..http.schemas import DONE, QUEUE, WAS, integers

router = Routes("groups")
PAUSED_BY = ["group", "queue"]
GROUP_NAME = {**TEXT, "examples": ["billing"]}


def mapping(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


PAGE = 1000             # partitions moved per transaction, which locks their cursors
SHOWN = Paged(500, far=0, least=1)
LAGGING_S = 300         # a group is Lagging if a message has waited longer for it
HEARD_TRIES, HEARD_PAUSE_S = 200, 0.005
OFFSET_MOST = 2**63 - 1

LIST = "SELECT *, queend.now_us() AS now FROM queend.group_list() LIMIT %s OFFSET %s"
SEARCH = """SELECT *, queend.now_us() AS now FROM queend.group_list() g
             WHERE (%s::text IS NULL OR strpos(lower(g.name), lower(%s)) > 0)
               AND (%s::text IS NULL OR g.queue = %s)
               AND (%s::text IS NULL OR g.paused AND %s = CASE WHEN EXISTS (
                    SELECT FROM queend.paused p JOIN queend.consumer_groups c ON c.id = p.group_id
                      JOIN queend.queues q ON q.id = p.queue_id
                     WHERE p.group_id <> 0 AND c.name = g.name AND q.name = g.queue) THEN 'group' ELSE 'queue' END)
               AND (%s::int = 0 OR g.oldest <= queend.now_us() - %s * 1000000::bigint)
             LIMIT %s OFFSET %s"""
LAGGING = "SELECT *, queend.now_us() AS now FROM queend.group_lagging(queend.now_us() - %s * 1000000::bigint, %s)"
SHOW = "SELECT *, queend.now_us() AS now FROM queend.group_show(%s, %s)"
PAUSED = """SELECT q.name AS queue, g.name FROM queend.paused p JOIN queend.consumer_groups g ON g.id = p.group_id
              JOIN queend.queues q ON q.id = p.queue_id WHERE p.group_id <> 0"""
STANDING = "SELECT * FROM queend.standing_list(%s)"
DELETE = "SELECT * FROM queend.group_delete(%s, %s, %s)"
SUBSCRIBE = "SELECT queend.group_subscribe(%s, %s)"
FIND = """SELECT q.id AS queue_id, g.id AS group_id, p.id AS partition_id
            FROM queend.queues q
            LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = %s
            LEFT JOIN queend.partitions p ON p.queue_id = q.id AND p.name = %s
           WHERE q.name = %s"""
COMMIT = "SELECT * FROM queend.group_commit(%s, %s::text[], %s::text[], %s::bigint[])"
SEEK = "SELECT * FROM queend.group_seek(%s, %s, %s, %s, %s, %s, %s)"


async def tell(request: Request, *queues: str, moved: bool = True) -> None:
    """Notifies this daemon that these queues were changed, and waits until it has read the change, so that a client
    with the answer finds the new state. moved: positions of groups were changed, not only options or pauses. Other
    daemons see it within a second. Waits at most a second if a daemon cannot reload now."""
    core = request.app.state.control.core
    if not queues:
        return
    ((version,),) = await rows(request, "SELECT version FROM queend.catalog")
    for i in range(HEARD_TRIES):
        if i % (HEARD_TRIES // 4) == 0:      # a running reload may be older than the change
            for queue in queues:
                core.notify(queue, moved=moved)
        if core.version() >= version:
            return
        await asyncio.sleep(HEARD_PAUSE_S)


@router.declare("GET /api/v1/consumer-groups", READ,
                array(whole("conflation", "paused", "pausedBy", name=GROUP_NAME, topics=array(TEXT), queueName=TEXT,
                            members=INTEGER, **integers("partitionsWithLag", "totalLag", "maxTimeLag"),
                            state={"enum": ["Stable", "Lagging", "Dead"]}, subscriptionMode=MAYBE,
                            subscriptionTimestamp=SOME_TIME, subscriptionCreatedAt=SOME_TIME, conflation=FLAG,
                            paused=FLAG, pausedBy={"enum": PAUSED_BY})),
                [QUEUE, parameter("pausedBy", {"enum": PAUSED_BY}, "only groups that are paused by themselves, or with "
                                  "their queue alone"),
                 parameter("minLagSeconds", {**INTEGER, "minimum": 0, "default": 0}, "only groups for which a message "
                           "has waited so long")],
                where="query", page=Paged(search="the name of the group"))
async def group_list(request: Request) -> Json:
    """Lists the consumer groups of all queues, by name and queue. A group exists from its first request on. `members`
    counts its cursors. `totalLag` and `partitionsWithLag` include partitions without a cursor. `maxTimeLag` is the age
    in seconds of the oldest message that is due; above 300 the state is `Lagging`. The state is `Dead` if messages are
    due and the group has cursors, but never received a message. For a paused group, `pausedBy` says whether the group
    or the queue is paused. A group with `conflation` gets only the newest message of each partition; its lag counts all
    messages. The header `Link` names the next page, if there is one."""
    page = Page(request)
    search, queue = page.search, page.text("queue")
    by = page.text("pausedBy")
    if by not in (None, *PAUSED_BY):
        raise Refusal(400, "pausedBy must be group or queue", "invalid_request")
    least = page.whole("minLagSeconds", 0, 0, 2**31 - 1)
    if by == "group" and not await rows(request, PAUSED):
        return Json([])
    await request.app.state.control.stats.fresh()
    found, headers = page.of(await (rows(request, SEARCH, search, search, queue, queue, by, by, least, least,
                                         *page.asked)
                                    if search or queue or by or least else rows(request, LIST, *page.asked)))
    themselves = ({(row.queue, row.name) for row in await rows(request, PAUSED)}
                  if any(row.paused for row in found) else set())
    return Json([{
        "name": row.name, "topics": [row.queue], "queueName": row.queue, "members": row.members,
        "partitionsWithLag": row.lagging, "totalLag": row.lag, "maxTimeLag": age_s(row.oldest, row.now),
        "state": _state(row),
        "subscriptionMode": row.mode if row.start_at is not None else None, "subscriptionTimestamp": ts3(row.start_at),
        "subscriptionCreatedAt": ts3(row.created_at) if row.start_at is not None else None,
        **({"conflation": True} if row.conflates else {}),
        **({"paused": True, "pausedBy": "group" if (row.queue, row.name) in themselves else "queue"}
           if row.paused else {})} for row in found],
        headers=headers)


def _state(row: Any) -> str:
    if age_s(row.oldest, row.now) > LAGGING_S:
        return "Lagging"
    due = row.oldest is not None and row.oldest <= row.now
    return "Dead" if due and row.members and not row.consumed else "Stable"


@router.declare("GET /api/v1/consumer-groups/lagging", READ, array(
    whole(consumer_group=TEXT, queue_name=TEXT, partition_name=TEXT, partition_id=ID, worker_id=MAYBE,
          offset_lag=INTEGER, time_lag_seconds=INTEGER, lag_hours=NUMBER, oldest_unconsumed_at=SOME_TIME,
          last_consumed_at=SOME_TIME)),
    [parameter("minLagSeconds", {**INTEGER, "minimum": 0, "default": 3600})], page=SHOWN)
async def group_lagging(request: Request) -> Json:
    """Lists partitions whose oldest unconsumed message has waited longer than `minLagSeconds`, longest first. The wait
    of a delayed message starts at its delivery time."""
    page = Page(request)
    await request.app.state.control.stats.fresh()
    seed = await seed_of(request)
    return Json([{
        "consumer_group": row.name, "queue_name": row.queue, "partition_name": row.partition,
        "partition_id": read_partition_id(seed, row.partition_id),
        "worker_id": row.lease_id and str(row.lease_id), "offset_lag": row.lag,
        "time_lag_seconds": age_s(row.waiting_since, row.now),
        "lag_hours": round(age_s(row.waiting_since, row.now) / 3600, 2),
        "oldest_unconsumed_at": ts3(row.oldest),
        "last_consumed_at": ts3(row.consumed_at)}
        for row in await rows(request, LAGGING, page.whole("minLagSeconds", 3600, 0, 2**31), page.limit)])


@router.declare("GET /api/v1/consumer-groups/{group}", READ, mapping(
    whole("conflation", conflation=FLAG, partitions=array(whole(
        "standsSince", "leasesLapsed", partition=TEXT, workerId=MAYBE, lastConsumedAt=SOME_TIME, totalConsumed=INTEGER,
        offset=INTEGER, head=INTEGER, offsetLag=INTEGER, timeLagSeconds=INTEGER, leaseActive=FLAG, standsSince=TIME,
        leasesLapsed=INTEGER)))), where="itself", page=SHOWN)
async def group_show(request: Request, group: PathName) -> Json:
    """Returns the cursors of a group, by queue: partitions with a cursor or with unconsumed messages, at most `limit`
    per queue. The answer is {} if the group or its cursors do not exist. With a token that is limited to
    queues or groups, only those are included; 403 if the token may read none of them."""
    queues: dict[str, Any] = {}
    rules = limits(request)
    if not reads_some(rules, group=group):
        raise Refusal(403, lacking(READS, EVERY_QUEUE, group), "forbidden")
    await request.app.state.control.stats.fresh()
    standing = {row.partition_id: row for row in await rows(request, STANDING, group)}
    for row in await rows(request, SHOW, group, Page(request).limit):
        if not allows(rules, row.queue, READS, group):
            continue
        shown = queues.setdefault(row.queue, {"partitions": [], **({"conflation": True} if row.conflates else {})})
        shown["partitions"].append({
            "partition": row.partition, "workerId": row.lease_id and str(row.lease_id),
            "lastConsumedAt": ts3(row.consumed_at), "totalConsumed": row.consumed, "offset": row.next, "head": row.head,
            "offsetLag": row.lag, "timeLagSeconds": age_s(row.waiting_since, row.now),
            "leaseActive": row.leased, **(
                {"standsSince": ts3(one.since), "leasesLapsed": one.lapses} if (one := standing.get(row.partition_id))
                else {})})
    return Json(queues)


@router.declare("DELETE /api/v1/consumer-groups/{group}", ADMIN,
                whole(success=DONE, consumerGroup=TEXT, deletedPartitions=INTEGER, metadataDeleted=FLAG, existed=FLAG),
                [parameter("deleteMetadata", FLAG, "also delete the subscription")], exact=True)
async def group_delete(request: Request, group: PathName) -> Json:
    """Deletes a group in all queues, with its subscription unless `deleteMetadata=false`. If the group is used again,
    it starts as a new group."""
    metadata, partitions, existed = await _delete(request, group, None)
    return Json({"success": True, "consumerGroup": group, "deletedPartitions": partitions, "metadataDeleted": metadata,
                 "existed": existed})


@router.declare("DELETE /api/v1/consumer-groups/{group}/queues/{queue}", ADMIN,
                whole(success=DONE, consumerGroup=TEXT, queueName=TEXT, deletedPartitions=INTEGER, metadataDeleted=FLAG,
                      existed=FLAG), [parameter("deleteMetadata", FLAG, "also delete the subscription")], exact=True)
async def group_delete_queue(request: Request, group: PathName, queue: PathName) -> Json:
    """Deletes a group in one queue, with its subscription unless `deleteMetadata=false`."""
    metadata, partitions, existed = await _delete(request, group, queue)
    return Json({"success": True, "consumerGroup": group, "queueName": queue, "deletedPartitions": partitions,
                 "metadataDeleted": metadata, "existed": existed})


async def _delete(request: Request, group: str, queue: str | None) -> tuple[bool, int, bool]:
    metadata = Query(request).flag("deleteMetadata", True)
    gone = await rows(request, DELETE, group, queue, metadata)
    await tell(request, *(row.queue for row in gone))
    return metadata, sum(row.partitions for row in gone), bool(gone)


@router.declare("POST /api/v1/consumer-groups/{group}/subscription", WRITE,
                whole(success=DONE, consumerGroup=TEXT, newTimestamp=TEXT, rowsUpdated=INTEGER),
                body=body(record(["subscriptionTimestamp"], subscriptionTimestamp=TEXT)),
                example={"subscriptionTimestamp": WAS["timestamp"]}, exact=True)
async def group_subscribe(request: Request, group: PathName) -> Json:
    """Changes the start position in the group's recorded subscriptions. Consumed messages stay consumed."""
    wanted = (await body_object(request, strict=True)).get("subscriptionTimestamp")
    if wanted is None:
        raise Refusal(400, "Missing subscriptionTimestamp in request body", "invalid_request")
    moved = await rows(request, SUBSCRIBE, group, moment_of("subscriptionTimestamp", wanted))
    await tell(request, *(queue for (queue,) in moved))
    return Json({"success": True, "consumerGroup": group, "newTimestamp": wanted, "rowsUpdated": len(moved)})


SEEK_BODY = record([], toEnd=FLAG, timestamp=TEXT, offset={**INTEGER, "minimum": 0})


@router.declare("POST /api/v1/consumer-groups/{group}/queues/{queue}/seek", WRITE,
                whole("targetOffset", success=DONE, consumerGroup=TEXT, queueName=TEXT, seekToEnd=FLAG,
                      targetTimestamp=SOME_TIME, targetOffset=INTEGER, partitionsUpdated=INTEGER),
                body=body(SEEK_BODY), example={"toEnd": True}, exact=True)
async def group_seek(request: Request, group: PathName, queue: PathName) -> Json:
    """Moves the group's cursors in all partitions of a queue: to the end, past a time, or to an offset. This includes
    partitions that the group has not read, and future ones. 404 if the queue or the group does not exist."""
    to_end, at, offset = _target(await body_object(request, strict=True))
    if not to_end and at is None and offset is None:
        raise Refusal(400, "Must specify either 'toEnd': true or 'timestamp'", "invalid_request")
    updated, after = 0, 0
    found = await _found(request, group, queue)
    with in_parts(lambda: {"partitionsUpdated": updated} if updated else {}):
        while after is not None:
            ((moved, _, after),) = await rows(request, SEEK, found.queue_id, found.group_id, None, after, PAGE, at,
                                              offset)
            updated += moved
    await tell(request, queue)
    return Json({"success": True, "consumerGroup": group, "queueName": queue, "seekToEnd": to_end,
                 "targetTimestamp": ts3(at), **({} if offset is None else {"targetOffset": offset}),
                 "partitionsUpdated": updated})


@router.declare("POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", WRITE,
                whole(success=DONE, consumerGroup=TEXT, queueName=TEXT, partitionName=TEXT, updated=FLAG,
                      cursorMovedTo=SOME_TIME), body=body(SEEK_BODY, required=False), example={"offset": 0},
                exact=True)
async def group_seek_partition(request: Request, group: PathName, queue: PathName, partition: PathName) -> Json:
    """Moves the group's cursor in one partition; to the end if the body names no position. `updated` is false if the
    cursor was already there, without a lease or a pause. 404 if the queue, the partition or the group does not
    exist."""
    _, at, offset = _target(await body_object(request, strict=True, required=False))
    found = await _found(request, group, queue, partition)
    ((moved, moved_to, _),) = await rows(request, SEEK, found.queue_id, found.group_id, found.partition_id, 0, 1, at,
                                         offset)
    await tell(request, queue)
    return Json({"success": True, "consumerGroup": group, "queueName": queue, "partitionName": partition,
                 "updated": moved > 0, "cursorMovedTo": ts3(moved_to)})


@router.declare("POST /api/v1/consumer-groups/{group}/offsets", WRITE,
                whole(entries=array(whole("error", queue=TEXT, partition=TEXT, offset=SOME_INTEGER, error=TEXT))),
                where="body.entries", body=body(
                    record(["entries"], entries=array(
                        record(["queue", "offset"], queue=NAME,
                               partition=ENTRY_PARTITION,
                               offset={**INTEGER, "minimum": 0})))),
                example={"entries": [{"queue": "orders", "partition": "customer-7", "offset": 42}]})
async def group_commit(request: Request, group: PathName) -> Json:
    """Commits the next offsets of a group that reads by offset, for 1 to 1024 partitions. Cursors move forward only."""
    _, items = await entries_of(request)
    wanted = [(one.queue(), one.partition(), one.whole("offset", None)) for one in items]
    found = await rows(request, COMMIT, group, *map(list, zip(*wanted, strict=True)))
    return Json({"entries": [
        {"queue": queue, "partition": partition, "offset": row.committed,
         **({"error": "UNKNOWN_TOPIC_OR_PARTITION"} if row.committed is None else {})}
        for (queue, partition, _), row in zip(wanted, found, strict=True)]})


async def _found(request: Request, group: str, queue: str, partition: str | None = None) -> Any:
    """Returns the numbers of a queue, a group and a partition (None: no partition). Refuses names that do not exist."""
    found = await rows(request, FIND, group, partition, queue)
    if partition is not None and (not found or found[0].partition_id is None):
        raise not_found("Partition", success=False)
    if not found:
        raise not_found("Queue", success=False)
    if found[0].group_id is None:
        raise not_found("Consumer group", success=False)
    return found[0]


def _target(wanted: dict[str, Any]) -> tuple[bool, int | None, int | None]:
    """Returns (to the end, behind this moment in µs, to this offset), of which the body names at most one. Refuses two
    of them, and `toEnd: false` alone."""
    to_end, offset = wanted.get("toEnd"), wanted.get("offset")
    if to_end is not None and not isinstance(to_end, bool):
        raise Refusal(400, "toEnd must be true or false", "invalid_request")
    named = [name for name in ("toEnd", "timestamp", "offset") if wanted.get(name, False) is not False]
    if len(named) > 1:
        raise Refusal(400, f"{' and '.join(named)} cannot be combined: give one of them", "invalid_request")
    if to_end is False and not named:
        raise Refusal(400, "toEnd is false: give 'toEnd': true, 'timestamp' or 'offset'", "invalid_request")
    if to_end:
        return True, None, None
    if wanted.get("timestamp") is not None:
        return False, moment_of("timestamp", wanted["timestamp"]), None
    if offset is not None and not (is_whole(offset) and 0 <= offset <= OFFSET_MOST):
        raise Refusal(400, "offset must be a whole number of at least 0", "invalid_request")
    return False, None, offset
