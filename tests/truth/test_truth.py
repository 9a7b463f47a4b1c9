"""Figures are true: after every step of a random history all of them are what a count by hand says.

`make test-truth` plays TRUTH_STEPS steps from TRUTH_SEED on. What a failure prints begins with the seed and the step.
"""
from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from support.cli import Cli
from support.client import Client, ack_of
from support.daemon import Daemon
from support.figures import compared
from support.truth import counted
from support.wait import until

STEPS = int(os.environ.get("TRUTH_STEPS", "12"))
SEED = int(os.environ.get("TRUTH_SEED", "1"))
EVERY = 3            # steps between two comparisons
QUEUES, GROUPS, PARTITIONS = ("orders", "mails", "bills"), ("first", "second", "__QUEUE_MODE__"), 12
PAST = "2020-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def daemons(start_daemon: Callable[..., Daemon]) -> list[Daemon]:
    one = start_daemon(RETENTION_INTERVAL=300)
    return [one, start_daemon(one.conninfo, RETENTION_INTERVAL=300)]


@pytest.fixture
def clients(daemons: list[Daemon]) -> Iterator[list[Client]]:
    opened = [daemon.client() for daemon in daemons]
    yield opened
    for one in opened:
        one.close()


@pytest.fixture
def database(daemons: list[Daemon]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemons[0].conninfo, autocommit=True) as connection:
        yield connection


class History:
    """Steps by chance, each by one of the daemons."""

    def __init__(self, clients: list[Client], seed: int):
        self.clients, self.dice = clients, random.Random(seed)
        self.taken: list[tuple[str, str, list[dict]]] = []      # queue, group, messages of a lease
        self.did: list[str] = []

    def step(self) -> None:
        dice = self.dice
        act = dice.choices((self.push, self.pop, self.ack, self.seek, self.remove, self.configure, self.redrive,
                            self.commit, self.clear, self.drop), (40, 30, 25, 5, 5, 4, 4, 4, 2, 1))[0]
        queue, group = dice.choice(QUEUES), dice.choice(GROUPS)
        self.did.append(f"{act.__name__} {queue} {group}")
        act(dice.choice(self.clients), queue, group)

    def push(self, client: Client, queue: str, group: str) -> None:
        client.push_items([{
            "queue": queue, "partition": f"p{self.dice.randrange(PARTITIONS)}", "payload": self.dice.random(),
            **({"delayMs": self.dice.choice((1, 3_600_000))} if self.dice.random() < 0.1 else {})}
            for _ in range(self.dice.choice((1, 2, 10)))])

    def pop(self, client: Client, queue: str, group: str) -> None:
        partition = f"p{self.dice.randrange(PARTITIONS)}" if self.dice.random() < 0.3 else None
        automatic = self.dice.random() < 0.3
        found = client.pop(queue, partition, batch=self.dice.choice((1, 3, 20)), partitions=self.dice.choice((1, 4)),
                           **({} if group == GROUPS[-1] else {"consumerGroup": group}),
                           **({"autoAck": "true"} if automatic else {}),
                           **({"subscriptionMode": "new"} if group == "second" else {}))
        if found and not automatic:
            self.taken.append((queue, group, found))

    def ack(self, client: Client, queue: str, group: str) -> None:
        if not self.taken:
            return
        _, group, found = self.taken.pop(self.dice.randrange(len(self.taken)))
        some = self.dice.sample(found, self.dice.randint(1, len(found))) if self.dice.random() < 0.4 else found
        status = self.dice.choices(("completed", "failed", "dlq"), (8, 1, 1))[0]
        client.post("/api/v1/ack/batch", {"consumerGroup": group,
                                          "acknowledgments": [ack_of(one, status) for one in some]})

    def seek(self, client: Client, queue: str, group: str) -> None:
        one = f"/partitions/p{self.dice.randrange(PARTITIONS)}" if self.dice.random() < 0.5 else ""
        client.post(f"/api/v1/consumer-groups/{group}/queues/{queue}{one}/seek",
                    self.dice.choice(({"toEnd": True}, {"timestamp": PAST}, {"offset": 2})))

    def remove(self, client: Client, queue: str, group: str) -> None:
        found = client.get(f"/api/v1/messages?queue={queue}&limit=1000").json["messages"]
        for one in self.dice.sample(found, min(2, len(found))):
            client.request("DELETE", f"/api/v1/messages/{one['partitionId']}/{one['transactionId']}")

    def configure(self, client: Client, queue: str, group: str) -> None:
        client.configure(queue, namespace=self.dice.choice(("", "shop")), **self.dice.choice((
            {"delayedProcessing": 0}, {"delayedProcessing": 3600}, {"retentionEnabled": True, "retentionSeconds": 1},
            {"retentionEnabled": True, "completedRetentionSeconds": 1}, {"leaseTime": 1}, {"leaseTime": 300},
            {"retentionEnabled": False})))

    def redrive(self, client: Client, queue: str, group: str) -> None:
        if self.dice.random() < 0.5:
            client.post("/api/v1/dlq/redrive", {"queue": queue, "limit": 3})
        else:
            client.request("DELETE", f"/api/v1/dlq?queue={queue}&consumerGroup={group}")

    def commit(self, client: Client, queue: str, group: str) -> None:
        client.post(f"/api/v1/consumer-groups/{group}/offsets", {"entries": [
            {"queue": queue, "partition": f"p{self.dice.randrange(PARTITIONS)}", "offset": self.dice.randrange(5)}]})

    def clear(self, client: Client, queue: str, group: str) -> None:
        one = f"?partition=p{self.dice.randrange(PARTITIONS)}" if self.dice.random() < 0.7 else ""
        client.request("DELETE", f"/api/v1/queues/{queue}/clear{one}")

    def drop(self, client: Client, queue: str, group: str) -> None:
        if self.dice.random() < 0.5:
            client.delete(queue)
        else:
            client.request("DELETE", f"/api/v1/consumer-groups/{group}/queues/{queue}")


def test_a_random_history(clients: list[Client], database: psycopg.Connection) -> None:
    history = History(clients, SEED)
    for number in range(1, STEPS + 1):
        history.step()
        if number % EVERY == 0:
            found = compared(history.dice.choice(clients), database)
            assert not found, "\n".join([f"seed {SEED}, step {number}", *history.did[-50:], *found])


def test_commands_tell_the_same(daemons: list[Daemon], database: psycopg.Connection, tmp_path: Any) -> None:
    History([daemons[0].client()], SEED).push(daemons[0].client(), "orders", "")
    daemons[0].client().pop("orders", consumerGroup="first")
    cli = Cli(daemons[0].url, tmp_path)
    queues, _ = counted(database)
    assert {one["queueName"] + "/" + one["name"]: one["totalLag"] for one in cli("group", "list", "-o", "json").json
            } == {f"{queue.name}/{name}": sum(len(one.to_do) for one in queue.of(name).values())
                  for queue in queues.values() for name in queue.groups}
    assert {one["name"]: (one["messages"]["total"], one["messages"]["pending"])
            for one in cli("queue", "list", "-o", "json").json
            } == {one.name: (one.stored, one.sum("pending")) for one in queues.values()}


# A fault each: the function, what stands in it, what stands there instead.
FAULTS = {
    "groups are counted where they have a cursor": ("stats_visit", "(c.has_cursor OR c.lag > 0)", "c.has_cursor"),
    "groups that began new have everything": ("cursor_figures", "k.start_at IS NULL OR h.next IS NULL", "true"),
    "a message that is not due is late": ("cursor_figures", "v_due AND w.stored IS NOT NULL", "false"),
    "a delayed message is late": ("cursor_figures", "w.stored + l.delayed", "w.stored"),
    "deleted messages are counted": ("cursor_figures", "CASE WHEN v_holes THEN (", "CASE WHEN false THEN ("),
    "a queue that nobody reads is not old": ("stats_visit", "THEN c.since ELSE 0 END) AS unread",
                                             "THEN 0 ELSE 0 END) AS unread"),
    "leased messages are pending": ("stats_visit", "max(c.lag - c.leased) AS pending", "max(c.lag) AS pending"),
    "an expired lease holds": ("cursor_figures", "c.lease_until > v_now THEN", "c.lease_until > 0 THEN"),
    "what is done beyond a gap waits": ("cursor_figures", "ELSE k.beyond END AS done", "ELSE NULL END AS done"),
    "nobody tells of a deletion": ("stats_mark", "INSERT INTO queend.stat_marks (partition_id) SELECT DISTINCT u.id"
                                   " FROM unnest(p_parts) AS u (id)", "NULL"),
    "a new group is not walked": ("stats_changed", "OR s.queue_id IN (SELECT u.queue_id FROM unlisted u)", ""),
}


def test_planted_faults_are_found(clients: list[Client], database: psycopg.Connection) -> None:
    """Every shape is there for each fault, and nothing is reported without one."""
    client = clients[0]

    def shapes(name: str) -> None:
        client.configure(f"{name}-delayed", delayedProcessing=3600)
        client.configure(f"{name}-lapsed", leaseTime=1)
        for one in (name, f"{name}-new", f"{name}-unread", f"{name}-delayed", f"{name}-lapsed", f"{name}-deleted",
                    f"{name}-late"):
            client.push(one, 1, 2, 3, partition="a")
        client.push(f"{name}-due", 1, partition="a", delayMs=3_600_000)
        client.pop(f"{name}-due", consumerGroup="g")
        client.pop(f"{name}-new", consumerGroup="g", subscriptionMode="new")
        client.pop(f"{name}-delayed", consumerGroup="g")
        client.pop(f"{name}-lapsed", consumerGroup="g", batch=2)
        one, two = client.pop(name, consumerGroup="g", batch=2)
        client.ack(two, group="g")
        client.get("/api/v1/consumer-groups")      # the figures are of now
        for queue in (name, f"{name}-late"):
            client.push(queue, 4, partition="never came to")
        client.pop(f"{name}-unread-no-more", consumerGroup="g")
        until(lambda: client.get("/api/v1/consumer-groups") and database.execute(
            "SELECT since > (SELECT max(created_at) FROM queend.log) FROM queend.stats").fetchone()[0],
            "looks do not go back to what was stored")
        message = client.get(f"/api/v1/messages?queue={name}-deleted").json["messages"][-1]
        client.request("DELETE", f"/api/v1/messages/{message['partitionId']}/{message['transactionId']}")
        client.pop(f"{name}-late", "a", consumerGroup="late", batch=1)

    some = list(FAULTS.items())[:None if STEPS >= 100 else 3]      # all of them take minutes
    for number, (what, (function, right, wrong)) in enumerate(some):
        (source,) = database.execute("SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = %s"
                                     " AND p.pronamespace = 'queend'::regnamespace", (function,)).fetchone()
        assert source.count(right) == 1, (what, source.count(right))
        database.execute(source.replace(right, wrong))
        try:
            shapes(f"fault-{number}")
            found = compared(client, database)
            if not found:      # a lease has to expire first
                found = until(lambda: compared(client, database), what, 10)
        finally:
            database.execute(source)
        assert found, what
        until(lambda: "skipped" not in client.post("/api/v1/stats/refresh").json, "the figures are made anew")
        found = compared(client, database)
        assert not found, (what, json.dumps(found, indent=1))
        for queue in counted(database)[0]:
            client.delete(queue)
