"""What programs do with the SDK besides bulk load, run by test_sdk.py inside the SDK's own environment.

Usage: sdk_calls.py URL GENERATION OPTIONS (of the client, as JSON). Prints the names of what was checked; an assertion
ends the program.
"""
from __future__ import annotations

import asyncio
import json
import sys
import uuid
from datetime import datetime, timedelta, timezone

import sdk_covered
from queen import Queen
from queen.http.http_client import HttpClient

SECOND_GENERATION = sys.argv[2] == "2"
if SECOND_GENERATION:
    from queen.errors import EphemeralError, EphemeralQueueNotFoundError
OPTIONS = json.loads(sys.argv[3])


async def messages_of(queue) -> list:
    return await queue.batch(100).wait(False).pop()


async def create_and_delete(queen: Queen) -> None:
    made = await queen.queue("made").namespace("n").task("t").config({"lease_time": 7, "retry_limit": 1}).create()
    assert made["configured"] is True and made["options"]["leaseTime"] == 7 and made["options"]["retryLimit"] == 1, made
    assert made["namespace"] == "n" and made["task"] == "t"
    assert (await queen.queue("made").delete())["deleted"] is True


async def duplicates_are_told(queen: Queen) -> None:
    told: dict[str, int] = {}

    def count(word: str):
        async def callback(items, *_) -> None:
            told[word] = told.get(word, 0) + len(items)

        return callback

    for payloads in ([1, 2], [2, 3]):
        items = [{"data": {"n": n}, "transactionId": f"id-{n}"} for n in payloads]
        await queen.queue("dup").push(items).on_success(count("stored")).on_duplicate(count("duplicate")).on_error(
            count("error"))
    assert told == {"stored": 3, "duplicate": 1}, told
    assert [m["data"]["n"] for m in await messages_of(queen.queue("dup"))] == [1, 2, 3]


async def traces_and_any_payload(queen: Queen) -> None:
    trace = str(uuid.uuid4())
    values = [None, 0, "text", [1, {"deep": None}], {"a": 1.5}, True]
    await queen.queue("values").push([{"data": value, "traceId": trace} for value in values])
    messages = await messages_of(queen.queue("values"))
    assert [m["data"] for m in messages] == values and {m["traceId"] for m in messages} == {trace}


async def a_failing_handler_ends_in_the_dead_letters(queen: Queen) -> None:
    await queen.queue("failing").config({"retry_limit": 2}).create()
    await queen.queue("failing").push([{"data": "bad"}, {"data": "good"}])
    calls: list[str] = []
    stop = asyncio.Event()

    async def handle(message) -> None:
        calls.append(message["data"])
        if message["data"] == "good":
            stop.set()
        else:
            raise RuntimeError("no")

    await queen.queue("failing").group("g").batch(1).timeout_millis(500).each().consume(handle, signal=stop)
    assert calls == ["bad"] * 3 + ["good"], calls


async def acks_and_nacks(queen: Queen) -> None:
    await queen.queue("acks").push([{"data": n} for n in range(3)])
    first = await queen.queue("acks").batch(3).pop()
    assert (await queen.ack(first[0]))["success"] is True
    assert (await queen.ack(first[1:], False))["success"] is True
    again = await queen.queue("acks").batch(3).pop()
    assert [m["data"] for m in again] == [1, 2]
    assert (await queen.ack(again, True))["success"] is True
    assert (await queen.ack(again[1], True))["success"] is False, "the lease is gone"


async def leases_are_renewed(queen: Queen) -> None:
    await queen.queue("renew").push([{"data": 1}])
    (message,) = await queen.queue("renew").pop()
    result = await queen.renew(message)
    assert result["success"] is True and result["newExpiresAt"], result
    assert (await queen.renew([message]))[0]["success"] is True
    if SECOND_GENERATION:
        assert result["renewed"] == 1
        assert (await queen.renew(str(uuid.uuid4())))["success"] is False


async def transactions_fail_as_a_whole(queen: Queen) -> None:
    await queen.queue("tx").push([{"data": 1}, {"data": 2}])
    first, second = await queen.queue("tx").batch(2).pop()
    await queen.transaction().ack(first).queue("tx-out").push([{"data": "moved"}]).commit()
    try:
        await queen.transaction().queue("tx-out").push([{"data": "never"}]).ack({
            **second, "transactionId": "unknown"}).commit()
    except Exception as error:
        assert "Message not found" in str(error), error
    else:
        raise AssertionError("a transaction with an unknown message was committed")
    assert [m["data"] for m in await messages_of(queen.queue("tx-out"))] == ["moved"]


async def a_dead_lease_stops_a_transaction(queen: Queen) -> None:
    await queen.queue("fence").push([{"data": 1}])
    (message,) = await queen.queue("fence").pop()
    await queen.ack(message, False)  # gives the lease back
    try:
        await queen.transaction().ack(message).queue("fence-out").push([{"data": "never"}]).commit()
    except Exception as error:
        assert "Invalid or expired lease" in str(error), error
    else:
        raise AssertionError("a transaction with a dead lease was committed")
    assert await messages_of(queen.queue("fence-out")) == []


async def namespaces(queen: Queen) -> None:
    await queen.queue("ns-one").namespace("space").task("a").create()
    await queen.queue("ns-two").namespace("space").task("b").create()
    await queen.queue("ns-two").push([{"data": "b"}])
    assert [m["data"] for m in await messages_of(queen.queue().namespace("space").task("b"))] == ["b"]
    assert await messages_of(queen.queue().namespace("space").task("a")) == []


async def new_groups(queen: Queen) -> None:
    await queen.queue("news").push([{"data": "old"}])
    assert await messages_of(queen.queue("news").group("g").subscription_mode("new")) == []
    await queen.queue("news").push([{"data": "new"}])
    assert [m["data"] for m in await messages_of(queen.queue("news").group("g").subscription_mode("new"))] == ["new"]


async def buffered_pushes(queen: Queen) -> None:
    for n in range(250):
        await queen.queue("buffered").buffer({"message_count": 1000, "time_millis": 60000}).push([{"data": n}])
    await queen.flush_all_buffers()
    seen: list[int] = []
    while messages := await messages_of(queen.queue("buffered").group("g")):
        seen += [m["data"] for m in messages]
        await queen.ack(messages, True, {"group": "g"})
    assert seen == list(range(250)), len(seen)


async def a_waiting_pop_is_woken(queen: Queen) -> None:
    waiting = asyncio.create_task(queen.queue("wake").wait(True).timeout_millis(20000).pop())
    async with Queen(url=sys.argv[1], **OPTIONS) as other:
        await other.queue("wake").push([{"data": "hello"}])
    assert [m["data"] for m in await waiting] == ["hello"]


async def several_partitions(queen: Queen) -> None:
    for partition in "abc":
        await queen.queue("parts").partition(partition).push([{"data": partition}, {"data": partition}])
    assert sorted(m["data"] for m in await queen.queue("parts").group("g").batch(100).partitions(3)
                  .pop()) == list("aabbcc")
    assert [m["data"] for m in await queen.queue("parts").partition("b").batch(5).pop()] == ["b", "b"]


async def default_consumer(queen: Queen) -> None:
    """No batch, no partitions: the second generation lets the daemon choose, the first takes one message at a time."""
    await queen.queue("defaults").push([{"data": n} for n in range(300)])
    sizes: list[int] = []
    seen: list[int] = []
    stop = asyncio.Event()

    async def handle(messages) -> None:
        messages = messages if isinstance(messages, list) else [messages]
        sizes.append(len(messages))
        seen.extend(m["data"] for m in messages)
        if len(seen) >= 300:
            stop.set()

    await queen.queue("defaults").group("g").timeout_millis(500).consume(handle, signal=stop)
    assert seen == list(range(300))
    assert max(sizes) >= 200 if SECOND_GENERATION else set(sizes) == {1}, sizes


async def reads_by_offset(queen: Queen) -> None:
    """fetch and changed_since, which only the second generation has."""
    if not SECOND_GENERATION:
        return
    queue = queen.queue("reads")
    await queue.partition("a").push([{"data": {"n": n}, "transactionId": f"a-{n}"} for n in range(5)])
    await queen.queue("reads").partition("b").push([{"data": None}])
    read = await queen.queue("reads").fetch(["a", "b", "never"], offsets={"a": 2})
    assert list(read) == ["a", "b", "never"]
    assert [(r["offset"], r["transactionId"], r["payload"])
            for r in read["a"]["records"]] == [(n, f"a-{n}", {"n": n}) for n in (2, 3, 4)]
    assert [(read[name]["highWatermark"], read[name]["logStartOffset"], read[name]["nextOffset"])
            for name in read] == [(5, 0, 5), (1, 0, 1), (0, 0, 0)]
    assert read["b"]["records"][0]["payload"] is None and read["never"]["records"] == []
    beyond = await queen.queue("reads").fetch("a", offsets={"a": 9})
    assert beyond["a"]["nextOffset"] == 9 > beyond["a"]["highWatermark"] == 5
    assert (await queen.queue("reads-none").fetch("a"))["a"]["records"] == []
    one_by_one = await queen.queue("reads").fetch(["a", "b"], max_bytes=1)
    assert [len(one_by_one[name]["records"]) for name in "ab"] == [5, 1]
    assert [m["data"]["n"] for m in await queen.queue("reads").partition("a").batch(9).wait(False)
            .pop()] == list(range(5)), "nothing was claimed"

    changed = await queen.queue("reads").changed_since()
    # somebody else's write was in flight
    while changed["safeTime"] <= max(p["lastWriteAt"] for p in changed["partitions"]):
        changed = await queen.queue("reads").changed_since()
    assert [(p["name"], p["lastOffset"], p["logStart"]) for p in changed["partitions"]] == [("a", 4, 0), ("b", 0, 0)]
    assert (await queen.queue("reads").changed_since(changed["safeTime"]))["partitions"] == []
    await queen.queue("reads").partition("b").push([{"data": 1}])
    again = await queen.queue("reads").changed_since(changed["safeTime"])
    assert [(p["name"], p["lastOffset"]) for p in again["partitions"]] == [("b", 1)]
    assert (await queen.queue("reads")
            .changed_since(datetime.now(timezone.utc) + timedelta(days=1)))["partitions"] == []
    assert (await queen.queue("reads-none").changed_since())["partitions"] == []


async def a_replay_beside_producers(queen: Queen) -> None:
    if not SECOND_GENERATION:
        return
    pushed: dict[str, set] = {}

    async def produce(number: int) -> None:
        async with Queen(url=sys.argv[1], bearer_token=OPTIONS.get("bearer_token")) as own:
            for call in range(60):
                partition, value = f"p{(number * 7 + call * 5) % 12}", f"{number}-{call}"
                await own.queue("replay").partition(partition).push([{"data": value}])
                pushed.setdefault(partition, set()).add(value)

    producers = asyncio.gather(*(produce(number) for number in range(4)))
    read: dict[str, list] = {}
    since, last = None, False
    while True:
        last = producers.done()
        changed = await queen.queue("replay").changed_since(since)
        names = [p["name"] for p in changed["partitions"]]
        if names:
            for name, found in (await queen.queue("replay")
                                .fetch(names, offsets={name: len(read.get(name, [])) for name in names})).items():
                read.setdefault(name, []).extend(r["payload"] for r in found["records"])
                assert len(read[name]) == found["nextOffset"]
        since = changed["safeTime"]
        if last:
            break
    await producers
    assert {name: (len(values), set(values))
            for name, values in read.items()} == {name: (len(values), values) for name, values in pushed.items()}


async def callbacks(queen: Queen) -> None:
    """What is called when it went well, and when it did not."""
    told: list = []

    async def made(answer) -> None:
        told.append(answer["configured"])

    async def refused(error) -> None:
        told.append(str(error))

    await queen.queue("calls").create().on_success(made).on_error(refused)
    assert told == [True]
    stop = asyncio.Event()

    async def handle(message) -> None:
        if message["data"] == "bad":
            raise ValueError("bad")

    async def well(message, *_) -> None:
        told.append(message["data"])
        await queen.ack(message, True)

    async def badly(message, *_) -> None:
        told.append("failed")
        await queen.ack(message, "dlq", {"error": "bad"})
        stop.set()

    await queen.queue("calls").push([{"data": "good"}, {"data": "bad"}])
    await (queen.queue("calls").auto_ack(False).concurrency(1).batch(1).timeout_millis(500).each()
           .consume(handle, signal=stop).on_success(well).on_error(badly))
    assert told == [True, "good", "failed"], told
    found = (await queen.queue("calls").dlq().from_("2020-01-01T00:00:00Z").to("2100-01-01T00:00:00Z")
             .offset(0).limit(5).get())
    assert [one["data"] for one in found["messages"]] == ["bad"]
    assert (await queen.queue("calls").dlq().offset(1).get())["messages"] == []


async def consumers_that_end(queen: Queen) -> None:
    """After so many messages, or when nothing came for a while; with leases that are renewed meanwhile."""
    seen: list[int] = []
    renewed, post = asyncio.Event(), HttpClient.post

    async def noted(self, path, *arguments, **named):
        answer = await post(self, path, *arguments, **named)
        if "/extend" in path and answer["success"]:
            renewed.set()
        return answer

    async def handle(message) -> None:
        await asyncio.wait_for(renewed.wait(), 30)
        seen.append(message["data"])

    HttpClient.post = noted
    await queen.queue("ends").config({"lease_time": 5}).create()
    for n in range(4):
        await queen.queue("ends").partition(f"p{n}").push([{"data": n}])
    await queen.queue("ends").group("g").concurrency(2).batch(1).limit(2).renew_lease(True, 100).each().consume(handle)
    assert len(seen) >= 2, seen
    (await queen.queue("ends").group("g").batch(10).wait(True).timeout_millis(200).idle_millis(600)
     .each().consume(handle))
    assert sorted(seen) == [0, 1, 2, 3], seen
    HttpClient.post = post


async def what_else_builders_do(queen: Queen) -> None:
    buffered = queen.queue("more").partition("p").buffer({"message_count": 1000, "time_millis": 60000})
    for n in range(3):
        await buffered.push([{"data": n}])
    assert queen.get_buffer_stats()
    assert await messages_of(queen.queue("more")) == []
    await queen.queue("more").partition("p").flush_buffer()
    assert [m["data"] for m in await messages_of(queen.queue("more").group("g"))] == [0, 1, 2]
    assert await messages_of(queen.queue("more").group("late").subscription_from("now")) == []
    await queen.transaction().queue("more").partition("q").push([{"data": "by a transaction"}]).commit()
    assert [m["data"] for m in await messages_of(queen.queue("more").group("late"))] == ["by a transaction"]
    if not SECOND_GENERATION:
        assert [m["data"] for m in await queen.queue("more").partition("q").auto_ack(True).batch(5).wait(False)
                .pop()] == ["by a transaction"]
        return
    sized = await queen.queue("more").group("sized").wait(False).pop_result()
    assert [m["data"] for m in sized.messages] and sized.autopilot is not None
    assert [m["data"] for m in await queen.queue("more").group("one").autopilot(False).wait(False).pop()]
    seen: list = []

    async def handle(message) -> None:
        seen.append(message["data"])

    await queen.queue("more").group("watched").batch(1).limit(1).supervision({"group": "app"}).each().consume(handle)
    assert len(seen) == 1, "what is observed is written as keys; the messages are consumed"
    assert [m["data"] for m in await queen.queue("more").partition("q").commit_on_delivery().batch(5).wait(False)
            .pop()] == ["by a transaction"]
    assert await messages_of(queen.queue("more").partition("q")) == []


async def keys_and_locks(queen: Queen) -> None:
    """What only the second generation has: a step that happens once, and one that only the holder of a lock takes."""
    if not SECOND_GENERATION:
        return

    def step(n: int):
        return queen.transaction().queue("steps").push([{"data": n}])

    async with asyncio.timeout(30):
        assert (await step(1).once("calls", "step-1", ttl_seconds=60).commit())["success"] is True
        assert (await step(2).once("calls", "step-1", ttl_seconds=60).commit())["reason"] == "kv_precondition"
        lock, crowd = queen.lock("calls", ttl_seconds=30), queen.semaphore("calls-crowd", 2, ttl_seconds=30)
        assert await lock.acquire() and await crowd.acquire()
        assert (await step(3).guard(lock).commit())["success"] is True
        assert await lock.release() and await crowd.release()
    assert [m["data"] for m in await messages_of(queen.queue("steps"))] == [1, 3]


async def newest_messages(queen: Queen) -> None:
    """What only the second generation has: a group that gets the newest message of each partition."""
    if not SECOND_GENERATION:
        return

    def latest(group: str = "latest"):
        return queen.queue("newest").group(group).conflation()

    assert await latest().wait(False).pop() == [], "an empty answer says that it conflates, too"
    await push_newest(queen, 0)
    seen, stop = [], asyncio.Event()

    async def handle(message) -> None:
        seen.append((message["partition"], message["data"]))
        if len(seen) == 1:
            raise RuntimeError("given back")
        if len(seen) == 4:
            await push_newest(queen, 10)
        if {data for _, data in seen} >= {14} and len(seen) >= 7:
            stop.set()

    async with asyncio.timeout(60):
        await latest().each().consume(handle, signal=stop)
    assert set(seen[:4]) == {(f"p{n}", 4) for n in range(3)} and {data for _, data in seen[4:]} <= {14}, seen
    batches, stop = [], asyncio.Event()

    async def handle_all(messages) -> None:
        batches.append([message["data"] for message in messages])
        stop.set()

    await queen.queue("newest").group("all").conflation().consume(handle_all, signal=stop)
    assert batches[0] == [14] * len(batches[0])
    await queen.queue("newest").group("plain").batch(1).pop()
    got = await latest("plain").batch(100).partitions(3).wait(False).pop()
    assert len(got) == 20, "the group began without: the client warns, and gets every message"
    depth = await queen.admin.get_queue_depth("newest", group="latest")
    assert depth["conflation"] is True and depth["effectivePending"] == depth["partitionsPending"], depth
    try:
        await latest().commit_on_delivery().wait(False).pop()
    except Exception as error:
        assert "autoAck" in str(error), error
    else:
        raise AssertionError("conflation at once is refused")


async def push_newest(queen: Queen, first: int) -> None:
    for part in range(3):
        await queen.queue("newest").partition(f"p{part}").push([{"data": first + n} for n in range(5)])


async def ephemeral_queues(queen: Queen) -> None:
    """What only the second generation has: queues in the memory of the daemon."""
    if not SECOND_GENERATION:
        return
    of = queen.ephemeral
    async with asyncio.timeout(60):
        declared = await of.configure("calls", max_length=4, policy="reject", window_buffer={"ms": 1}, retry_limit=1)
        assert declared["options"]["maxLength"] == 4 and declared["options"]["windowBuffer"]["ms"] == 1
        assert await of.push("calls", [{"data": 1}, 2, {"payload": None}], partition="p") == {
            "pushed": 3, "durable": False}
        try:
            await of._call("POST", "/api/v1/ephemeral/push", {"queue": "calls", "messages": [{"payload": i}
                                                                                             for i in range(5)]})
        except EphemeralError as error:
            assert error.code == "push_too_large"
        else:
            raise AssertionError("five messages do not fit")
        first = (await of.pop("calls", batch=2, group="g"))["messages"]
        assert [(one["payload"], one["partition"], one["attempts"]) for one in first] == [(1, "p", 0), (2, "p", 0)]
        assert (await of.ack("calls", first[0], group="g"))["results"] == [{"id": first[0]["id"], "outcome": "acked"}]
        assert (await of.ack("calls", first[1], group="g", status=False, error="no"))["results"][0][
            "outcome"] == "redelivered"
        again = (await of.pop("calls", batch=9, wait=True, timeout=20000, group="g"))["messages"]
        assert [(one["payload"], one["attempts"]) for one in again] == [(2, 1), (None, 0)]
        assert (await of.depth("calls"))["groups"] == [{"group": "g", "pending": 2, "leased": 2, "skipped": 0}]
        assert await of.push("calls", [4], buffered={"message_count": 2, "interval_millis": 60000}) == {
            "buffered": True, "count": 1}
        waiting = asyncio.create_task(of.pop("calls", partition="Default", wait=True, commit_on_delivery=True))
        await of.flush("calls")
        assert [one["payload"] for one in (await waiting)["messages"]] == [4]
        assert "calls" in [one["queue"] for one in (await of.queues())["queues"]]
        assert (await of.reset("calls"))["dropped"] >= 2
        assert [one["outcome"] for one in (await of.ack("calls", again, group="g"))["results"]] == ["stale", "stale"]
        assert (await of.delete("calls"))["deleted"] is True
        try:
            await of.depth("calls")
        except EphemeralQueueNotFoundError as error:
            assert error.code == "ephemeral_queue_not_found"
        else:
            raise AssertionError("it is deleted")


async def timers(queen: Queen) -> None:
    """What only the second generation has: a reminder that is replaced, one that is cancelled, one in a
    transaction."""
    if not SECOND_GENERATION:
        return
    async with asyncio.timeout(30):
        assert (await queen.timer("timed").key("a").payload(1).after_ms(60_000).schedule())["status"] == "scheduled"
        assert (await queen.timer("timed").key("a").payload(2).after_ms(0).reschedule())["status"] == "rescheduled"
        assert (await queen.timer("timed").key("b").payload(3).after_ms(60_000).partition("p").schedule())["ok"] is True
        bundle = queen.transaction().timer("timed").key("c").payload(4).after_ms(0).partition("other").schedule()
        assert (await bundle.timer("timed").key("b").cancel().commit())["success"] is True
        while await queen.timers.list_all("timed"):
            await asyncio.sleep(0.05)
        found: list = []
        while len(found) < 2:
            found += [m["data"] for m in await queen.queue("timed").batch(10).commit_on_delivery().wait(False).pop()]
    assert sorted(found) == [2, 4]


CHECKS = [callbacks, consumers_that_end, what_else_builders_do, create_and_delete, duplicates_are_told,
          traces_and_any_payload, a_failing_handler_ends_in_the_dead_letters, acks_and_nacks,
          leases_are_renewed, transactions_fail_as_a_whole, a_dead_lease_stops_a_transaction, namespaces,
          new_groups, buffered_pushes, keys_and_locks, newest_messages, ephemeral_queues, timers,
          a_waiting_pop_is_woken, several_partitions, default_consumer, reads_by_offset, a_replay_beside_producers]


asyncio.run(sdk_covered.checked(CHECKS, sys.argv[1], OPTIONS))
