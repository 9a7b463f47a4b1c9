"""What operators do with the SDK, run by test_sdk.py inside the SDK's own environment.

Usage: sdk_admin.py URL GENERATION OPTIONS (of the client, as JSON). Prints the names of what was checked; an assertion
ends the program.
"""
from __future__ import annotations

import asyncio
import json
import sys

import sdk_covered
from queen import Queen

SECOND_GENERATION = sys.argv[2] == "2"
OPTIONS = json.loads(sys.argv[3])
PAST = "2020-01-01T00:00:00Z"


async def drain(queen: Queen, queue: str, group: str) -> list:
    """Consumes what is there for a group; the payloads."""
    seen: list = []
    while messages := await queen.queue(queue).group(group).batch(100).wait(False).pop():
        seen += [message["data"] for message in messages]
        await queen.ack(messages, True, {"group": group})
    return seen


async def consumer_groups(queen: Queen) -> None:
    admin = queen.admin
    await queen.queue("groups").push([{"data": n} for n in range(3)])
    assert await drain(queen, "groups", "one g") == [0, 1, 2]
    await queen.queue("groups").push([{"data": 3}])
    (listed,) = [one for one in await admin.list_consumer_groups() if one["queueName"] == "groups"]
    assert (listed["name"], listed["members"], listed["partitionsWithLag"],
            listed["totalLag"]) == ("one g", 1, 1, 1), listed
    assert isinstance(await admin.get_lagging_consumers(3600), list)


async def seeking(queen: Queen) -> None:
    admin = queen.admin
    await queen.queue("seek").push([{"data": n} for n in range(3)])
    assert await drain(queen, "seek", "g") == [0, 1, 2]
    shown = (await admin.get_consumer_group("g"))["seek"]["partitions"]
    assert [(one["partition"], one["totalConsumed"], one["offsetLag"]) for one in shown] == [("Default", 3, 0)], shown
    assert (await admin.seek_consumer_group("g", "seek", {"timestamp": PAST}))["partitionsUpdated"] == 1
    assert await drain(queen, "seek", "g") == [0, 1, 2]
    await admin.seek_consumer_group("g", "seek", {"timestamp": PAST})
    assert (await admin.seek_consumer_group("g", "seek", {"toEnd": True}))["success"] is True
    assert await drain(queen, "seek", "g") == []


async def deleting_groups(queen: Queen) -> None:
    await queen.queue("regroup").push([{"data": 1}])
    for delete in (lambda: queen.admin.delete_consumer_group_for_queue("h", "regroup"),
                   lambda: queen.delete_consumer_group("h")):
        assert await drain(queen, "regroup", "h") == [1]
        assert await drain(queen, "regroup", "h") == []
        assert (await delete())["deletedPartitions"] == 1
    assert await drain(queen, "regroup", "h") == [1]
    assert (await queen.update_consumer_group_timestamp("h", PAST))["rowsUpdated"] == 0


async def messages(queen: Queen) -> None:
    admin = queen.admin
    await queen.queue("msgs").partition("p").push([{"data": {"n": n}, "transactionId": f"id {n}"} for n in range(3)])
    listed = (await admin.list_messages(queue="msgs", limit=10))["messages"]
    assert [(one["transactionId"], one["status"])
            for one in listed] == [("id 2", "pending"), ("id 1", "pending"), ("id 0", "pending")], listed
    partition = listed[0]["partitionId"]
    assert (await admin.get_message(partition, "id 1"))["payload"] == {"n": 1}
    assert (await admin.delete_message(partition, "id 1"))["success"] is True
    assert (await admin.delete_message(partition, "id 1"))["success"] is False
    seen: list = []
    while popped := await queen.queue("msgs").batch(10).wait(False).pop():
        seen += [message["data"]["n"] for message in popped]
        await queen.ack(popped, True)
    assert seen == [0, 2], seen


async def dead_letters(queen: Queen) -> None:
    admin = queen.admin
    await queen.queue("dead").config({"retry_limit": 0}).create()
    await queen.queue("dead").push([{"data": {"n": n}} for n in range(3)])
    for _ in range(3):
        (message,) = await queen.queue("dead").batch(1).partitions(1).wait(False).pop()
        await queen.ack(message, False, {"error": "no good"})
    found = await queen.queue("dead").dlq().limit(2).get()
    assert found["total"] == 3 and [one["data"]["n"] for one in found["messages"]] == [2, 1], found
    assert found["messages"][0]["errorMessage"] == "no good"
    one = found["messages"][0]
    assert (await admin.retry_message(one["partitionId"], one["transactionId"]))["success"] is True
    again: list = []
    while not again:
        again = await queen.queue("dead").wait(True).timeout_millis(5000).pop()
    assert again[0]["data"] == {"n": 2}
    await queen.ack(again, True)
    for one in (await queen.queue("dead").dlq().get())["messages"]:
        assert (await admin.delete_message(one["partitionId"], one["transactionId"]))["success"] is True
    assert (await queen.queue("dead").dlq().get())["total"] == 0
    if not SECOND_GENERATION:
        await queen.queue("dead").push([{"data": "poison", "transactionId": "poison"}])
        await admin.move_message_to_dlq(again[0]["partitionId"], "poison")
        assert [one["data"] for one in (await queen.queue("dead").dlq().get())["messages"]] == ["poison"]
        assert await queen.queue("dead").wait(False).pop() == []


async def traces(queen: Queen) -> None:
    """What a handler notes, found again."""
    stop = asyncio.Event()

    async def handle(message) -> None:
        told = await message["trace"]({"traceName": ["trip 1", "all"], "eventType": "step", "data": {"text": "seen"}})
        assert told["success"] is True, told
        stop.set()

    await queen.queue("traced").push([{"data": {"n": 1}}])
    await queen.queue("traced").batch(1).timeout_millis(500).each().consume(handle, signal=stop)
    found = await queen.admin.get_traces_by_name("trip 1")
    (one,) = found["traces"]
    assert (found["total"], one["data"], one["event_type"],
            one["message_payload"]) == (1, {"text": "seen"}, "step", {"n": 1}), found
    assert (await queen.admin.get_traces_for_message(
        one["partition_id"], one["transaction_id"]))["traces"][0]["trace_names"] == ["trip 1", "all"]
    assert {one["trace_name"] for one in (await queen.admin.get_trace_names())["trace_names"]} == {"trip 1", "all"}


async def resources(queen: Queen) -> None:
    """Queues, partitions, namespaces, tasks, and their figures."""
    admin = queen.admin
    await queen.queue("res").namespace("ns 1").task("t 1").create()
    for name in ("p", "q"):
        await queen.queue("res").partition(name).push([{"data": n} for n in range(3)])
    assert await drain(queen, "res", "figures") == [0, 1, 2] * 2
    await admin.refresh_consumer_stats()
    assert "res" in [one["name"] for one in (await admin.list_queues())["queues"]]
    assert {one["name"] for one in (await admin.get_queue("res"))["partitions"]} >= {"p", "q"}
    assert {one["name"] for one in (await admin.get_partitions(queue="res"))["partitions"]} >= {"p", "q"}
    assert "ns 1" in [one["namespace"] for one in (await admin.get_namespaces())["namespaces"]]
    assert "t 1" in [one["task"] for one in (await admin.get_tasks())["tasks"]]
    assert (await admin.get_overview())["queues"] >= 1
    assert (await admin.get_queue_detail("res"))["totals"]["messages"]["total"] == 6
    assert "res" in [one["name"] for one in (await admin.get_queue_stats())["queues"]]
    assert isinstance(await admin.get_status(), dict) and isinstance(await admin.get_analytics(), dict)
    assert "replicas" in await admin.get_system_metrics() and isinstance(await admin.get_worker_metrics(), dict)
    assert (await admin.health())["status"] == "healthy" and await admin.metrics()
    if SECOND_GENERATION:
        assert (await admin.get_queue_depth("res", group="figures"))["pending"] == 0
    else:
        assert isinstance(await admin.get_postgres_stats(), dict)
    if not SECOND_GENERATION:      # 2.x raises by itself
        cleared = await admin.clear_queue("res", "p")
        assert cleared["cleared"] is True and cleared["count"] == 3, cleared
        assert await drain(queen, "res", "others") == [0, 1, 2]


async def maintenance(queen: Queen) -> None:
    """Pushes go into the buffer, pops find nothing; afterwards all is there."""
    if SECOND_GENERATION:      # it has no calls for that
        return
    admin = queen.admin
    await queen.queue("kept").push([{"data": 0}])
    assert (await admin.set_pop_maintenance_mode(True))["popMaintenanceMode"] is True
    assert (await admin.get_pop_maintenance_mode())["popMaintenanceMode"] is True
    assert await queen.queue("kept").wait(False).pop() == []
    assert (await admin.set_maintenance_mode(True))["maintenanceMode"] is True
    assert (await queen.queue("kept").push([{"data": 1}]))[0]["status"] == "buffered"
    assert (await admin.get_maintenance_mode())["maintenanceMode"] is True
    await admin.set_maintenance_mode(False)
    await admin.set_pop_maintenance_mode(False)
    seen: list = []
    while len(seen) < 2:
        found = await queen.queue("kept").batch(5).wait(True).timeout_millis(5000).pop()
        seen += [message["data"] for message in found]
        await queen.ack(found, True)
    assert seen == [0, 1], seen


CHECKS = [maintenance, consumer_groups, seeking, deleting_groups, messages, dead_letters, traces, resources]


asyncio.run(sdk_covered.checked(CHECKS, sys.argv[1], OPTIONS))
