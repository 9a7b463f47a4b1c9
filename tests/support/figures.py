"""Every figure that a daemon tells about queues and groups, beside the one that is counted by hand."""
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg

from queend.control.http.moments import ts3

from .cli import Cli
from .client import Client
from .http import Answer
from .kept import looked
from .truth import Partition, Queue, Truth, counted, differences, first

TRIES = 50      # reads of a database that changes meanwhile
COUNTS = ("total", "pending", "processing", "completed", "deadLetter")
CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


@dataclass
class Seen:
    """What was counted, and until when it held."""

    truth: Truth
    until: int

    def age(self, moment: int | None) -> range:
        """Whole seconds, between the count and the end of the read."""
        return range(0, 1) if moment is None else range(max(0, (self.truth.now - moment) // 1_000_000),
                                                       max(0, (self.until - moment) // 1_000_000) + 1)


# Names what an answer, or rows, tell wrongly.
Check = Callable[[Any, Seen], Iterator[str]]


@dataclass
class Page:
    """One request and what its answer has to be."""

    target: str
    check: Check


def compared(client: Client, database: psycopg.Connection) -> tuple[Truth, list[str]]:
    """Returns what was counted, and everything that kept figures, pages, metrics and views tell wrongly."""
    return seen(client, database, lambda pages: pages, VIEWS)


def glanced(client: Client, database: psycopg.Connection, dice: Random, some: int
            ) -> tuple[Truth, list[str]]:
    """Returns what was counted, and what all kept figures, so many pages (and then one view) tell wrongly."""
    return seen(client, database, lambda pages: dice.sample(pages, min(some, len(pages))),
                dict([dice.choice([*VIEWS.items()])]) if some else {})


def seen(client: Client, database: psycopg.Connection, chosen: Callable[[list[Page]], list[Page]],
         views: dict[str, Callable[[list[tuple], Truth], Iterator[str]]]) -> tuple[Truth, list[str]]:
    """Pages are read between two counts that are equal, so nothing has changed meanwhile; ages have to lie between the
    two. Kept figures and views are read in the snapshot of the first."""
    for _ in range(TRIES):
        truth, found = looked(database, views)
        if truth is None:
            continue
        pages = chosen([*pages_of(truth)])
        if not pages:
            return truth, found
        for page in pages:
            client.send("GET", page.target)
        answers = [client.receive() for _ in pages]
        after = counted(database)
        # a scrape lacks what the database did not tell in time: its last family says whether all of it did
        if truth != after or any(page.target == "/metrics/prometheus" and b"queend_outbox" not in answer.body
                                 for page, answer in zip(pages, answers, strict=True)):
            continue
        for page, answer in zip(pages, answers, strict=True):
            assert answer.status == 200, (page.target, answer.status, answer.body)
            found += [f"GET {page.target}: {one}" for one in page.check(answer, Seen(truth, after.now))]
        return truth, found
    raise AssertionError("the database is never quiet")


def pages_of(truth: Truth) -> Iterator[Page]:
    """Every page that tells figures, those of each queue and each group among them."""
    for target, check in PAGES.items():
        yield Page(target, check)
    for queue in truth.queues.values():
        yield from pages_of_queue(queue)
    for name in {name for _, name in truth.groups}:
        yield Page(f"/api/v1/consumer-groups/{name}?limit=1000", group_page(name))


def pages_of_queue(queue: Queue) -> Iterator[Page]:
    def page(members: str | None) -> Check:
        def check(answer: Answer, _: Seen) -> Iterator[str]:
            page = answer.json
            have = page["totals"][members] if members else page["totals"]
            yield from differences({"all": counts_of(have)}, {"all": sums_of(queue)}, "totals")
            yield from differences({one["name"]: counts_of(one["stats"]) for one in page["partitions"]},
                                   {one.name: five_of(one) for one in queue.partitions.values()}, "partitions")
            yield from differences({one["name"]: one["newestMessage"] for one in page["partitions"]},
                                   {one.name: ts3(one.latest or None) for one in queue.partitions.values()}, "newest")
        return check

    def partitions(answer: Answer, _: Seen) -> Iterator[str]:
        yield from differences({one["name"]: counts_of(one["stats"]) for one in answer.json["partitions"]},
                               {one.name: five_of(one) for one in queue.partitions.values()}, "partitions")

    def depth(name: str | None) -> Check:
        parts = {one.name: (one.groups[name].to_do if name in one.groups else one.stored if name else
                            range(one.behind)) for one in queue.partitions.values()}

        def check(answer: Answer, _: Seen) -> Iterator[str]:
            have = answer.json
            yield from differences(
                {"pending": have["pending"], "partitions": have["partitionsPending"]},
                {"pending": sum(map(len, parts.values())), "partitions": sum(map(bool, parts.values()))}, "sums")
            if name:
                yield from differences({one["partition"]: one["pending"] for one in have["partitions"]},
                                       {part: len(one) for part, one in parts.items() if one}, "partitions")
        return check

    yield Page(f"/api/v1/resources/queues/{queue.name}?limit=1000", page(None))
    yield Page(f"/api/v1/status/queues/{queue.name}?limit=1000", page("messages"))
    yield Page(f"/api/v1/resources/partitions?queue={queue.name}&limit=1000", partitions)
    for name in (*queue.groups, None, "unknown"):
        yield Page(f"/api/v1/resources/queues/{queue.name}/depth?limit=1000" + (f"&group={name}" if name else ""),
                   depth(name))
    for status in ("", "pending", "processing", "completed"):
        yield Page(f"/api/v1/messages?queue={queue.name}&limit=1000" + (f"&status={status}" if status else ""),
                   message_page(queue, status))
    yield Page(f"/api/v1/dlq?queue={queue.name}", lambda answer, _: differences(
        {"total": answer.json["total"]}, {"total": queue.dead}, "list"))


def message_page(queue: Queue, status: str) -> Check:
    """A list of all messages of a queue, or of those of one status."""
    states = {(part.name, at): state for part in queue.partitions.values() for at, state in part.states.items()
              if status in ("", state[0])}
    return lambda answer, _: differences(
        {(one["partition"], one["offset"]): (one["status"], *one["busStatus"].values())
         for one in answer.json["messages"]}, states, f"list {status}")


def counts_of(stats: dict) -> tuple:
    return tuple(stats[name] for name in COUNTS)


def sums_of(one: Queue) -> tuple:
    return one.stored, one.sum("pending"), one.sum("processing"), one.sum("completed"), one.dead


def five_of(one: Partition) -> tuple:
    return one.total, one.pending, one.processing, one.completed, one.dead


def group_page(name: str) -> Check:
    def check(answer: Answer, seen: Seen) -> Iterator[str]:
        queues = seen.truth.queues
        yield from differences(
            {(queue, one["partition"]): (one["offsetLag"], one["head"], one["leaseActive"])
             for queue, page in answer.json.items() for one in page["partitions"]},
            {(queue, part): (len(one.to_do), queues[queue].partitions[part].head, one.held)
             for (queue, group), parts in seen.truth.groups.items() if group == name
             for part, one in parts.items() if one.cursor or one.to_do}, "partitions")
        yield from differences(
            {(queue, one["partition"]): one["timeLagSeconds"]
             for queue, page in answer.json.items() for one in page["partitions"]},
            {(queue, part): seen.age(one.waits)
             for (queue, group), parts in seen.truth.groups.items() if group == name
             for part, one in parts.items() if one.cursor or one.to_do}, "ages")
    return check


def resources(answer: Answer, seen: Seen) -> Iterator[str]:
    yield from differences(
        {one["name"]: (one["partitions"], *one["messages"].values()) for one in answer.json["queues"]},
        {one.name: (len(one.partitions), one.stored, one.sum("pending"), one.sum("processing"))
         for one in seen.truth.queues.values()}, "queues")


def statuses(answer: Answer, seen: Seen) -> Iterator[str]:
    yield from differences(
        {one["name"]: (one["partitions"], *one["messages"].values()) for one in answer.json["queues"]},
        {one.name: (len(one.partitions), one.stored, one.sum("behind"), one.sum("processing"))
         for one in seen.truth.queues.values()}, "queues")


def group_lists(answer: Answer, seen: Seen) -> Iterator[str]:
    truth = seen.truth
    yield from differences(
        {(one["queueName"], one["name"], name): one[name] for one in answer.json
         for name in ("members", "partitionsWithLag", "totalLag", "maxTimeLag", "state")},
        {(*key, name): value for key in truth.groups for name, value in (
            ("members", truth.members[key]), ("partitionsWithLag", truth.lagging[key]),
            ("totalLag", truth.lag[key]), ("maxTimeLag", seen.age(truth.waits[key])), ("state", states(seen, key)))},
        "groups")


def states(seen: Seen, key: tuple[str, str]) -> frozenset[str]:
    """What the state of a group can be between the count and the end of the read: meanwhile a message may be due."""
    waits, members = seen.truth.waits[key], seen.truth.members[key]
    consumed = seen.truth.queues[key[0]].groups[key[1]]
    return frozenset("Stable" if waits is None or waits > now else "Lagging" if now - waits > 300_999_999
                     else "Dead" if members and not consumed else "Stable" for now in (seen.truth.now, seen.until))


def laggards(answer: Answer, seen: Seen) -> Iterator[str]:
    """Listed are partitions whose first message is due; one that is due between the two counts may be listed."""
    have = {(one["queue_name"], one["consumer_group"], one["partition_name"]): one["offset_lag"]
            for one in answer.json}
    yield from differences(have, {
        (*key, part): len(one.to_do) for key, parts in seen.truth.groups.items() for part, one in parts.items()
        if one.waits is not None and (one.waits < seen.truth.now or one.waits <= seen.until and (*key, part) in have)},
        "partitions")


def overview(answer: Answer, seen: Seen) -> Iterator[str]:
    page, queues = answer.json, seen.truth.queues
    yield from sums(answer, seen)
    yield from differences(
        {"queues": page["queues"], "partitions": page["partitions"], "offset": page["lag"]["offset"]["max"],
         "time": page["lag"]["time"]["max"]},
        {"queues": len(queues), "partitions": len(seen.truth.numbers),
         "offset": max((one.sum("behind") for one in queues.values()), default=0),
         "time": seen.age(first([one.waits for one in queues.values()]))}, "everything")


def sums(answer: Answer, seen: Seen) -> Iterator[str]:
    yield from differences(
        {name: answer.json["messages"][name] for name in ("total", "pending", "processing")},
        {"total": seen.truth.sum("head"), "pending": seen.truth.sum("pending"),
         "processing": seen.truth.sum("processing")}, "messages")


def status(answer: Answer, seen: Seen) -> Iterator[str]:
    page, truth = answer.json, seen.truth
    yield from sums(answer, seen)
    yield from differences(
        {"messages": page["leases"]["totalBatchSize"], "active": page["leases"]["active"],
         "dead": page["deadLetterQueue"]["totalMessages"]},
        {"messages": sum(truth.leased.values()), "dead": sum(one.dead for one in truth.queues.values()),
         "active": sum(bool(one.leased) for parts in truth.groups.values() for one in parts.values())}, "leases")


def spaces(kind: str, members: str) -> Check:
    def check(answer: Answer, seen: Seen) -> Iterator[str]:
        found: dict[str, Counter] = {}
        for queue in seen.truth.queues.values():
            if name := getattr(queue, kind):
                found.setdefault(name, Counter()).update(
                    queues=1, partitions=len(queue.partitions), total=queue.stored, pending=queue.sum("pending"))
        yield from differences(
            {one[kind]: {"queues": one["queues"], "partitions": one["partitions"], **one["messages"]}
             for one in answer.json[members]},
            {name: {key: one[key] for key in ("queues", "partitions", "total", "pending")}
             for name, one in found.items()}, members)
    return check


def metrics(answer: Answer, seen: Seen) -> Iterator[str]:
    text, truth, queues = answer.body.decode(), seen.truth, seen.truth.queues.values()
    for family, values in (("backlog_messages", {one.name: one.sum("pending") for one in queues}),
                           ("processing_messages", {one.name: one.sum("processing") for one in queues}),
                           ("stored_messages", {one.name: one.stored for one in queues}),
                           ("dead_letters", {one.name: one.dead for one in queues}),
                           ("oldest_seconds", {one.name: seen.age(one.waits) for one in queues})):
        yield from differences(samples(text, f"queend_queue_{family}", "queue"), values, f"queend_queue_{family}")
    for family, each in (("lag_messages", truth.lag), ("processing_messages", truth.leased),
                         ("lagging_partitions", truth.lagging),
                         ("oldest_seconds", {key: seen.age(one) for key, one in truth.waits.items()})):
        yield from differences(samples(text, f"queend_group_{family}", "queue", "group"), each,
                               f"queend_group_{family}")
    dead = sum(one.dead for one in queues)
    want = {"queend_backlog_messages": truth.sum("pending"), "queend_dead_letters": dead, "queen_dlq_depth": dead,
            "queend_backlog_processing_messages": truth.sum("processing")}
    yield from differences({name: int(samples(text, name)[()]) for name in want}, want, "sums")


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


PAGES: dict[str, Check] = {
    "/api/v1/resources/queues?limit=10000": resources,
    "/api/v1/status/queues?limit=1000": statuses,
    "/api/v1/consumer-groups?limit=10000": group_lists,
    "/api/v1/consumer-groups/lagging?minLagSeconds=0&limit=10000": laggards,
    "/api/v1/resources/overview": overview,
    "/api/v1/status": status,
    "/api/v1/analytics/worker-metrics": lambda answer, seen: differences(
        {"pending": answer.json["summary"]["pendingMessages"]}, {"pending": seen.truth.sum("pending")}, "summary"),
    "/api/v1/resources/namespaces?limit=1000": spaces("namespace", "namespaces"),
    "/api/v1/resources/tasks?limit=1000": spaces("task", "tasks"),
    "/metrics/prometheus": metrics,
}


def told_by_commands(cli: Cli, database: psycopg.Connection) -> list[str]:
    """Returns what commands tell wrongly. They are called between two counts that are equal."""
    for _ in range(TRIES):
        truth = counted(database)
        lines = {command: cli(*command, "-o", "json").json for command in (("group", "list"), ("queue", "list"))}
        queues = {name: cli("queue", "show", name, "-o", "json").json for name in truth.queues}
        if counted(database) == truth:
            return [*differences({(one["queueName"], one["name"]): (one["totalLag"], one["partitionsWithLag"])
                                  for one in lines["group", "list"]},
                                 {key: (truth.lag[key], truth.lagging[key]) for key in truth.groups}, "group list"),
                    *differences({one["name"]: (one["messages"]["total"], one["messages"]["pending"])
                                  for one in lines["queue", "list"]},
                                 {one.name: (one.stored, one.sum("pending")) for one in truth.queues.values()},
                                 "queue list"),
                    *differences({name: counts_of(one["totals"]) for name, one in queues.items()},
                                 {one.name: sums_of(one) for one in truth.queues.values()}, "queue show")]
    raise AssertionError("the database is never quiet")


# -- from SQL ----------------------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[list[tuple], Truth], Iterator[str]]] = {
    "SELECT queue, consumer_group, partition, pending_estimate FROM queen.partition_consumers":
    lambda rows, truth: differences(
        {tuple(key): value for *key, value in rows},
        {(*key, part): len(one.to_do) for key, parts in truth.groups.items() for part, one in parts.items()
         if one.cursor}, "queen.partition_consumers"),
    "SELECT queen.get_consumer_groups_v4()": lambda rows, truth: differences(
        {(one["queueName"], one["name"]): (one["totalLag"], one["partitionsWithLag"], one["members"])
         for one in rows[0][0]},
        {key: (truth.lag[key], truth.lagging[key], truth.members[key]) for key in truth.groups},
        "queen.get_consumer_groups_v4"),
    "SELECT queue, count(*) FROM queen.messages GROUP BY 1": lambda rows, truth: differences(
        dict(rows), {one.name: one.stored for one in truth.queues.values() if one.stored}, "queen.messages"),
    "SELECT queue, count(*) FROM queen.dead_letter_queue GROUP BY 1": lambda rows, truth: differences(
        dict(rows), {one.name: one.dead for one in truth.queues.values() if one.dead}, "queen.dead_letter_queue"),
    "SELECT q.name, g.name, queen.has_pending_messages(q.name, NULL, g.name) FROM queend.consumer_groups g"
    " JOIN queend.queues q ON q.id = g.queue_id": lambda rows, truth: differences(
        {tuple(key): there for *key, there in rows},
        {key: any(one.to_do and not one.held for one in parts.values()) for key, parts in truth.groups.items()},
        "queen.has_pending_messages"),
}
