"""Every figure that a daemon tells about queues and groups, beside the one that is counted by hand."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from .client import Client
from .truth import Queue, counted, differences, first

TRIES = 20      # reads of a database that changes meanwhile
SIX = ("total", "pending", "processing", "completed", "deadLetter")


def compared(client: Client, database: psycopg.Connection) -> list[str]:
    """Returns what pages, metrics and views tell wrongly. They are read between two counts that are equal, so nothing
    has changed meanwhile; ages have to lie between the two."""
    for _ in range(TRIES):
        before, began = counted(database)
        found = list(told(client, database, before, began))
        after, _ = counted(database)
        if before == after:
            return found
    raise AssertionError("the database is never quiet")


def told(client: Client, database: psycopg.Connection, queues: dict[str, Queue], began: int) -> Iterator[str]:
    def get(target: str) -> Any:
        answer = client.get(target)
        assert answer.status == 200, (target, answer.status, answer.body)
        return answer.json

    def clock() -> int:
        return int(database.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000000").fetchone()[0])

    def age(moment: int | None) -> range:
        """Whole seconds, between the count and now."""
        return range(0, 1) if moment is None else range(max(0, (began - moment) // 1_000_000),
                                                       max(0, (clock() - moment) // 1_000_000) + 1)

    groups = {(queue.name, name): queue.of(name) for queue in queues.values() for name in queue.groups}
    lag = {key: sum(len(one.to_do) for one in parts.values()) for key, parts in groups.items()}
    lagging = {key: sum(bool(one.to_do) for one in parts.values()) for key, parts in groups.items()}
    leased = {key: sum(len(one.leased) for one in parts.values()) for key, parts in groups.items()}
    waits = {key: first([one.waits for one in parts.values()]) for key, parts in groups.items()}

    # lists and pages of queues
    yield from differences(
        {one["name"]: (one["partitions"], *one["messages"].values()) for one in get(
            "/api/v1/resources/queues?limit=10000")["queues"]},
        {one.name: (len(one.partitions), one.stored, one.sum("pending"), one.sum("processing"))
         for one in queues.values()}, "GET resources/queues")
    yield from differences(
        {one["name"]: (one["partitions"], *one["messages"].values()) for one in get(
            "/api/v1/status/queues?limit=1000")["queues"]},
        {one.name: (len(one.partitions), one.stored, one.sum("pending") + one.sum("processing"), one.sum("processing"))
         for one in queues.values()}, "GET status/queues")
    for queue in queues.values():
        sums = dict(zip(SIX, (queue.stored, queue.sum("pending"), queue.sum("processing"), queue.sum("completed"),
                              queue.dead), strict=True))
        for target, members in (("resources/queues/", None), ("status/queues/", "messages")):
            page = get(f"/api/v1/{target}{queue.name}?limit=1000")
            have = page["totals"][members] if members else page["totals"]
            yield from differences({name: have[name] for name in SIX}, sums, f"GET {target}{queue.name}")
            yield from differences(
                {one["name"]: tuple(one["stats"][name] for name in SIX[:4]) for one in page["partitions"]},
                {one.name: (len(one.stored), one.pending, one.processing, one.completed)
                 for one in queue.partitions.values()}, f"partitions of {target}{queue.name}")
        for name in (*queue.groups, None, "unknown"):
            have = get(f"/api/v1/resources/queues/{queue.name}/depth?limit=1000"
                       + (f"&group={name}" if name else ""))
            parts = {one.name: (one.groups[name].to_do if name in one.groups else one.stored if name else
                                range(one.pending + one.processing)) for one in queue.partitions.values()}
            yield from differences(
                {"pending": have["pending"], "partitions": have["partitionsPending"]},
                {"pending": sum(map(len, parts.values())), "partitions": sum(map(bool, parts.values()))},
                f"depth of {queue.name} for {name}")
            if name:
                yield from differences({one["partition"]: one["pending"] for one in have["partitions"]},
                                       {part: len(one) for part, one in parts.items() if one},
                                       f"partitions of the depth of {queue.name} for {name}")
        yield from differences({"messages": len(get(f"/api/v1/messages?queue={queue.name}&limit=1000")["messages"])},
                               {"messages": queue.stored}, f"messages of {queue.name}")
        yield from differences({"total": get(f"/api/v1/dlq?queue={queue.name}")["total"]}, {"total": queue.dead},
                               f"dead letters of {queue.name}")

    # lists and pages of groups
    yield from differences(
        {(one["queueName"], one["name"], name): one[name] for one in get("/api/v1/consumer-groups?limit=10000")
         for name in ("members", "partitionsWithLag", "totalLag", "maxTimeLag", "state")},
        {(*key, name): value for key, parts in groups.items() for name, value in (
            ("members", sum(one.cursor for one in parts.values())), ("partitionsWithLag", lagging[key]),
            ("totalLag", lag[key]), ("maxTimeLag", age(waits[key])),
            ("state", state(waits[key], began, parts, queues[key[0]].groups[key[1]]["consumed"])))},
        "GET consumer-groups")
    yield from differences(
        {(one["queue_name"], one["consumer_group"], one["partition_name"]): one["offset_lag"]
         for one in get("/api/v1/consumer-groups/lagging?minLagSeconds=0&limit=10000")},
        {(*key, part): len(one.to_do) for key, parts in groups.items() for part, one in parts.items()
         if one.waits is not None and one.waits <= began}, "GET consumer-groups/lagging")
    for name in {name for _, name in groups}:
        have = get(f"/api/v1/consumer-groups/{name}?limit=1000")
        yield from differences(
            {(queue, one["partition"]): (one["offsetLag"], one["head"]) for queue, page in have.items()
             for one in page["partitions"]},
            {(queue, part): (len(one.to_do), queues[queue].partitions[part].head)
             for (queue, group), parts in groups.items() if group == name
             for part, one in parts.items() if one.cursor or one.to_do}, f"GET consumer-groups/{name}")

    # sums over everything
    overview, status = get("/api/v1/resources/overview"), get("/api/v1/status")
    whole = {"queues": len(queues), "partitions": sum(len(one.partitions) for one in queues.values()),
             "total": sum(one.sum("head") for one in queues.values()),
             "pending": sum(one.sum("pending") for one in queues.values()),
             "processing": sum(one.sum("processing") for one in queues.values())}
    for what, page in (("overview", overview), ("status", status)):
        yield from differences({name: page["messages"][name] for name in ("total", "pending", "processing")},
                               {name: whole[name] for name in ("total", "pending", "processing")}, f"GET {what}")
    yield from differences({name: overview[name] for name in ("queues", "partitions")},
                           {name: whole[name] for name in ("queues", "partitions")}, "GET overview")
    yield from differences({"offset": overview["lag"]["offset"]["max"], "time": overview["lag"]["time"]["max"]},
                           {"offset": max((one.sum("pending") + one.sum("processing") for one in queues.values()),
                                          default=0),
                            "time": age(first([one.waits for one in queues.values()]))}, "lag of the overview")
    yield from differences({"messages": status["leases"]["totalBatchSize"], "active": status["leases"]["active"],
                            "dead": status["deadLetterQueue"]["totalMessages"]},
                           {"messages": sum(leased.values()), "dead": sum(one.dead for one in queues.values()),
                            "active": sum(bool(one.leased) for parts in groups.values() for one in parts.values())},
                           "leases and dead letters of the status")
    yield from differences({"pending": get("/api/v1/analytics/worker-metrics")["summary"]["pendingMessages"]},
                           {"pending": whole["pending"]}, "GET analytics/worker-metrics")
    spaces: dict[str, Counter] = {}
    for queue in queues.values():
        if queue.namespace:
            spaces.setdefault(queue.namespace, Counter()).update(
                queues=1, partitions=len(queue.partitions), total=queue.stored, pending=queue.sum("pending"))
    yield from differences(
        {one["namespace"]: {"queues": one["queues"], "partitions": one["partitions"], **one["messages"]}
         for one in get("/api/v1/resources/namespaces?limit=1000")["namespaces"]},
        {name: {key: one[key] for key in ("queues", "partitions", "total", "pending")} for name, one in spaces.items()},
        "GET namespaces")

    # metrics
    text = client.get("/metrics/prometheus").body.decode()
    for family, values in (("backlog_messages", {one.name: one.sum("pending") for one in queues.values()}),
                           ("processing_messages", {one.name: one.sum("processing") for one in queues.values()}),
                           ("stored_messages", {one.name: one.stored for one in queues.values()}),
                           ("dead_letters", {one.name: one.dead for one in queues.values()}),
                           ("oldest_seconds", {one.name: age(one.waits) for one in queues.values()})):
        yield from differences(samples(text, f"queend_queue_{family}", "queue"), values, f"queend_queue_{family}")
    for family, each in (("lag_messages", lag), ("processing_messages", leased), ("lagging_partitions", lagging),
                         ("oldest_seconds", {key: age(one) for key, one in waits.items()})):
        yield from differences(samples(text, f"queend_group_{family}", "queue", "group"), each,
                               f"queend_group_{family}")
    yield from differences({name: int(samples(text, name)[()]) for name in (
        "queend_backlog_messages", "queend_backlog_processing_messages", "queend_dead_letters", "queen_dlq_depth")},
        {"queend_backlog_messages": whole["pending"], "queend_backlog_processing_messages": whole["processing"],
         **dict.fromkeys(("queend_dead_letters", "queen_dlq_depth"), sum(one.dead for one in queues.values()))},
        "sums of the metrics")

    # from SQL
    def rows(query: str) -> list:
        return database.execute(query).fetchall()
    yield from differences(
        {tuple(key): value for *key, value in rows(
            "SELECT queue, consumer_group, partition, pending_estimate FROM queen.partition_consumers")},
        {(*key, part): len(one.to_do) for key, parts in groups.items() for part, one in parts.items() if one.cursor},
        "queen.partition_consumers")
    yield from differences(
        {(one["queueName"], one["name"]): (one["totalLag"], one["partitionsWithLag"], one["members"])
         for one in rows("SELECT queen.get_consumer_groups_v4()")[0][0]},
        {key: (lag[key], lagging[key], sum(one.cursor for one in parts.values())) for key, parts in groups.items()},
        "queen.get_consumer_groups_v4")
    yield from differences(
        dict(rows("SELECT queue, count(*) FROM queen.messages GROUP BY 1")),
        {one.name: one.stored for one in queues.values() if one.stored}, "queen.messages")
    yield from differences(
        {(queue, group): there for queue, group, there in rows(
            "SELECT q.name, g.name, queen.has_pending_messages(q.name, NULL, g.name) FROM queend.consumer_groups g"
            " JOIN queend.queues q ON q.id = g.queue_id")},
        {key: any(one.to_do and not one.held for one in parts.values()) for key, parts in groups.items()},
        "queen.has_pending_messages")


def state(waits: int | None, now: int, parts: dict, consumed: bool) -> str:
    if waits is not None and now - waits > 300_000_000:
        return "Lagging"
    return ("Dead" if waits is not None and waits <= now and not consumed and any(one.cursor for one in parts.values())
            else "Stable")


def samples(text: str, name: str, *labels: str) -> dict:
    """The whole part of each value of a family, by the values of these labels."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if match and match[1] == name:
            of = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
            key = tuple(of[one] for one in labels)
            found[key[0] if len(key) == 1 else key] = int(float(match[3]))
    return found
