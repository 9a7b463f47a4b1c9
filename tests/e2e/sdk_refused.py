"""What a program sees whose token is of too low a level, or missing; run by test_sdk.py inside the SDK's own
environment.

Usage: sdk_refused.py URL GENERATION TOKENS (level → token, lowest first, as JSON). Every method that asks the daemon
for something is called with every token up to its level: refused below, not at it. So is what only servers of the
second generation have, with any token. The last line is `refused`; an assertion ends the program.
"""
from __future__ import annotations

import asyncio
import json
import sys
import uuid

import httpx
import sdk_covered
from queen import Queen
from queen.http.http_client import HttpClient

SECOND_GENERATION = sys.argv[2] == "2"
TOKENS = json.loads(sys.argv[3])
LEVELS = list(TOKENS)
PAST = "2020-01-01T00:00:00Z"
NOBODY = {"transactionId": "nobody", "partitionId": str(uuid.uuid4()), "leaseId": str(uuid.uuid4())}
ADDRESS = (NOBODY["partitionId"], "nobody")


async def ignore(_) -> None:
    pass


# level → method → call; `guarded` has a message, which the write calls may take
READ = {
    "Admin.get_overview": lambda queen: queen.admin.get_overview(),
    "Admin.get_namespaces": lambda queen: queen.admin.get_namespaces(),
    "Admin.get_tasks": lambda queen: queen.admin.get_tasks(),
    "Admin.list_queues": lambda queen: queen.admin.list_queues(),
    "Admin.get_queue": lambda queen: queen.admin.get_queue("guarded"),
    "Admin.get_partitions": lambda queen: queen.admin.get_partitions(queue="guarded"),
    "Admin.list_messages": lambda queen: queen.admin.list_messages(queue="guarded"),
    "Admin.get_message": lambda queen: queen.admin.get_message(*ADDRESS),
    "Admin.get_traces_by_name": lambda queen: queen.admin.get_traces_by_name("none"),
    "Admin.get_trace_names": lambda queen: queen.admin.get_trace_names(),
    "Admin.get_traces_for_message": lambda queen: queen.admin.get_traces_for_message(*ADDRESS),
    "Admin.get_status": lambda queen: queen.admin.get_status(),
    "Admin.get_queue_stats": lambda queen: queen.admin.get_queue_stats(),
    "Admin.get_queue_detail": lambda queen: queen.admin.get_queue_detail("guarded"),
    "Admin.get_analytics": lambda queen: queen.admin.get_analytics(),
    "Admin.list_consumer_groups": lambda queen: queen.admin.list_consumer_groups(),
    "Admin.get_consumer_group": lambda queen: queen.admin.get_consumer_group("g"),
    "Admin.get_lagging_consumers": lambda queen: queen.admin.get_lagging_consumers(),
    "Admin.get_system_metrics": lambda queen: queen.admin.get_system_metrics(),
    "Admin.get_worker_metrics": lambda queen: queen.admin.get_worker_metrics(),
    "DLQBuilder.get": lambda queen: queen.queue("guarded").dlq().get()}
WRITE = {
    "QueueBuilder.create": lambda queen: queen.queue("guarded").create(),
    "QueueBuilder.push": lambda queen: queen.queue("guarded").push([{"data": 2}]),
    "QueueBuilder.consume": lambda queen: queen.queue("guarded").batch(1).limit(1).renew_lease(True, 1000)
    .each().consume(ignore),
    "QueueBuilder.pop": lambda queen: queen.queue("guarded").wait(False).pop(),
    "Queen.ack": lambda queen: queen.ack(NOBODY), "Queen.renew": lambda queen: queen.renew(NOBODY),
    "TransactionBuilder.commit": lambda queen: queen.transaction().queue("guarded").push([{"data": 3}]).commit(),
    "Queen.update_consumer_group_timestamp": lambda queen: queen.update_consumer_group_timestamp("nobody", PAST),
    "Admin.seek_consumer_group": lambda queen: queen.admin.seek_consumer_group("g", "guarded", {"timestamp": PAST}),
    "Admin.delete_message": lambda queen: queen.admin.delete_message(*ADDRESS),
    "Admin.retry_message": lambda queen: queen.admin.retry_message(*ADDRESS)}
ADMIN = {
    "Admin.refresh_consumer_stats": lambda queen: queen.admin.refresh_consumer_stats(),
    "Admin.delete_consumer_group_for_queue": lambda queen: queen.admin.delete_consumer_group_for_queue("g", "guarded"),
    "Queen.delete_consumer_group": lambda queen: queen.delete_consumer_group("g"),
    "QueueBuilder.delete": lambda queen: queen.queue("guarded").delete()}
if SECOND_GENERATION:
    READ |= {"Admin.get_queue_depth": lambda queen: queen.admin.get_queue_depth("guarded"),
             "Ephemeral.queues": lambda queen: queen.ephemeral.queues(),
             "Ephemeral.depth": lambda queen: queen.ephemeral.depth("guarded"),
             "QueueBuilder.fetch": lambda queen: queen.queue("guarded").fetch("Default"),
             "QueueBuilder.changed_since": lambda queen: queen.queue("guarded").changed_since()}
    WRITE |= {"Ephemeral.configure": lambda queen: queen.ephemeral.configure("guarded"),
              "Ephemeral.push": lambda queen: queen.ephemeral.push("guarded", [{"data": 1}]),
              "Ephemeral.pop": lambda queen: queen.ephemeral.pop("guarded"),
              "Ephemeral.ack": lambda queen: queen.ephemeral.ack("guarded", "x"),
              "Ephemeral.reset": lambda queen: queen.ephemeral.reset("guarded"),
              "Ephemeral.delete": lambda queen: queen.ephemeral.delete("guarded"),
              "QueueBuilder.pop_result": lambda queen: queen.queue("guarded").wait(False).pop_result()}
else:
    READ |= {"Admin.get_postgres_stats": lambda queen: queen.admin.get_postgres_stats()}
    WRITE |= {"Admin.move_message_to_dlq": lambda queen: queen.admin.move_message_to_dlq(*ADDRESS)}
    ADMIN = {
        "Admin.clear_queue": lambda queen: queen.admin.clear_queue("guarded"),
        "Admin.get_maintenance_mode": lambda queen: queen.admin.get_maintenance_mode(),
        "Admin.set_maintenance_mode": lambda queen: queen.admin.set_maintenance_mode(False),
        "Admin.get_pop_maintenance_mode": lambda queen: queen.admin.get_pop_maintenance_mode(),
        "Admin.set_pop_maintenance_mode": lambda queen: queen.admin.set_pop_maintenance_mode(False), **ADMIN}
PUBLIC = {"Admin.health": lambda queen: queen.admin.health(), "Admin.metrics": lambda queen: queen.admin.metrics()}
CALLS = dict(zip(LEVELS, (PUBLIC, READ, WRITE, ADMIN), strict=True))
# these raise and ask nobody
BY_ITSELF = {"Admin.clear_queue", "Admin.move_message_to_dlq"} if SECOND_GENERATION else set()
# The SDK tells these refusals to nobody but its log: nothing came, or `error` says why.
EMPTY, TOLD = {"QueueBuilder.pop", "QueueBuilder.pop_result", "DLQBuilder.get"}, {"Queen.ack", "Queen.renew"}
ABSENT: dict = {}
answered: list[int] = []


def watched(ask):
    """Notes the status of what the SDK is answered."""
    async def call(self, *arguments, **named):
        try:
            answer = await ask(self, *arguments, **named)
        except httpx.HTTPStatusError as error:
            answered.append(error.response.status_code)
            raise
        answered.append(200)
        return answer

    return call


async def seen(queen: Queen, call) -> tuple[object, str]:
    """What a call returns and what it raises."""
    answered.clear()
    try:
        return await call(queen), ""
    except httpx.HTTPStatusError as error:
        return None, str(error)


async def with_token(level: str) -> None:
    status, words = (403, "Insufficient permissions") if TOKENS[level] else (401, "Authentication required")
    async with Queen(url=sys.argv[1], bearer_token=TOKENS[level]) as queen:
        for needed, calls in list(CALLS.items())[LEVELS.index(level):]:
            for name, call in calls.items():
                result, raised = await seen(queen, call)
                if needed == level:
                    assert answered and not {401, 403} & set(answered), (level, name, answered, raised)
                    continue
                assert set(answered) == {status}, (level, name, answered)
                if name in TOLD:
                    assert result["success"] is False and result["error"] == words, (level, name, result)
                elif name in EMPTY:
                    assert not raised and not (result["messages"] if isinstance(result, dict)
                                               else getattr(result, "messages", result)), (level, name, result)
                else:      # the client words errors of ephemeral queues itself
                    assert raised == words or name.startswith("Ephemeral.") and raised.endswith(words), (
                        level, name, raised)


async def absent() -> None:
    async with Queen(url=sys.argv[1], bearer_token=TOKENS[LEVELS[-1]]) as queen:
        for name, (status, call) in ABSENT.items():
            try:
                await call(queen)
            except httpx.HTTPStatusError as error:
                assert error.response.status_code == status, (name, error)
            else:
                raise AssertionError(name)
        assert await queen.queue("absent").wait(False).pop() == [], "a refused transaction did something"


async def main() -> None:
    asked = {name for name in sdk_covered.methods() if name.startswith("Admin.")}
    assert asked - BY_ITSELF == {name for calls in CALLS.values() for name in calls if name.startswith("Admin.")}
    for name in ("get", "post", "delete"):
        setattr(HttpClient, name, watched(getattr(HttpClient, name)))
    none, read, write, admin = LEVELS
    async with Queen(url=sys.argv[1], bearer_token=TOKENS[admin]) as queen:
        await queen.queue("guarded").push([{"data": 1}])
        await queen.ack(await queen.queue("guarded").group("g").wait(False).pop(), True, {"group": "g"})
        await with_token(none)
        await with_token(read)
        (message,) = (await queen.admin.list_messages(queue="guarded"))["messages"]
        (shown,) = (await queen.admin.get_consumer_group("g"))["guarded"]["partitions"]
        assert message["queueStatus"] == "pending" and shown["totalConsumed"] == 1, "what was refused did something"
    await with_token(write)
    await with_token(admin)
    if SECOND_GENERATION:
        await absent()
    print("refused")


asyncio.run(main())
