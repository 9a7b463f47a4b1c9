"""Random histories of delays and retries through two daemons: whatever waits for whatever, a partition's order is kept,
nothing goes before its moment or before the end of a pause, and everything goes in the end."""
from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime

import psycopg
import pytest
from support.client import Client, ack_of
from support.daemon import Daemon

PARTITIONS = "abcd"


def micros(text: str) -> int:
    return round(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000_000)


@dataclass
class Partition:
    stored: list[int] = field(default_factory=list)  # payloads, by offset
    next: int = 0
    paused_until: int = 0
    attempts: int = 0  # failed in a row


class History:
    def __init__(self, clients: list[Client], database: psycopg.Connection, queue: str, chance: random.Random):
        self.clients, self.database, self.queue, self.chance = clients, database, queue, chance
        self.partitions = {name: Partition() for name in PARTITIONS}
        self.number = self.timed = self.paused = 0

    def push(self) -> None:
        items = []
        for _ in range(self.chance.randint(1, 6)):
            when = self.chance.choice([{}, {}, {"delayMs": self.chance.choice([1, 20, 150])}])
            items.append({"queue": self.queue, "partition": self.chance.choice(PARTITIONS),
                          "payload": self.number, **when})
            self.number += 1
        client = self.chance.choice(self.clients)
        if self.chance.random() < 0.3:
            assert client.transaction({"type": "push", "items": items})["success"] is True
        else:
            client.push_items(items)
        for item in items:
            self.partitions[item["partition"]].stored.append(item["payload"])

    def pop(self) -> None:
        """Waits where something is left, takes what comes, holds it against the model and acknowledges it one way or
        another."""
        where = self.chance.choice([None, None,
                                    *[name for name, one in self.partitions.items() if one.next < len(one.stored)]])
        if not self.left():
            return
        client = self.chance.choice(self.clients)
        messages = client.pop(self.queue, where, batch=self.chance.randint(1, 8), partitions=self.chance.randint(1, 3),
                              wait=True, timeout=30000)
        assert messages, f"nothing came, and {self.left()} are left"
        for name in dict.fromkeys(one["partition"] for one in messages):
            self.took(client, name, [one for one in messages if one["partition"] == name])

    def took(self, client: Client, name: str, messages: list[dict]) -> None:
        partition = self.partitions[name]
        assert [(one["offset"], one["data"])
                for one in messages] == [*enumerate(partition.stored)][partition.next:partition.next + len(messages)]
        cursor = self.cursor(name)
        assert str(cursor["lease_id"]) == messages[0]["leaseId"] and cursor["consumed_at"] >= partition.paused_until
        due = [micros(one["deliverAt"]) for one in messages if "deliverAt" in one]
        assert all(cursor["consumed_at"] >= moment for moment in due)
        self.timed += len(due)
        good = self.chance.choice([0, 1, len(messages), len(messages)])
        items = [ack_of(one) for one in messages[:good]]
        if good < len(messages):
            status = self.chance.choice(["failed", "retry"])
            asked = self.chance.choice([{}, {"delayMs": self.chance.choice([0, 30, 200])}])
            items.append(ack_of(messages[good], status, **asked))
        if self.chance.random() < 0.1:
            # the daemon that made the lease hears of its end within a second
            client = self.chance.choice(self.clients)
        assert all(one["success"] and not one["dlq"] for one in client.ack_batch(items))
        partition.next += good
        partition.paused_until = self.cursor(name)["retry_until"]
        if good < len(messages):
            self.failed(partition, items[-1], good, self.cursor(name))
        elif good:
            partition.attempts = 0

    def failed(self, partition: Partition, item: dict, good: int, cursor: dict) -> None:
        """How long it has to wait: what the acknowledgment asks for, else what the queue was told."""
        steps = [10, 40, 90]
        pause = cursor["retry_until"] - cursor["consumed_at"]
        wanted = item.get("delayMs", steps[min(partition.attempts, 2)] if item["status"] == "failed" else 0)
        assert (pause == wanted * 1000) if wanted else pause <= 0
        self.paused += wanted > 0
        partition.attempts += item["status"] == "failed"

    def left(self) -> int:
        return sum(len(one.stored) - one.next for one in self.partitions.values())

    def cursor(self, name: str) -> dict:
        return self.database.execute("SELECT k.* FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                                     " JOIN queend.cursors k ON k.partition_id = p.id"
                                     " WHERE q.name = %s AND p.name = %s", (self.queue, name)).fetchone()


@pytest.mark.parametrize("seed", range(3))
def test_order_is_kept(daemon: Daemon, start_daemon, queue: str, seed: int) -> None:
    peer = start_daemon(daemon.conninfo)
    with daemon.client() as one, peer.client() as other, psycopg.connect(daemon.conninfo, autocommit=True,
                                                                         row_factory=psycopg.rows.dict_row) as database:
        one.configure(queue, retryLimit=1000, retryBackoff=[10, 40, 90], leaseTime=3600)
        history = History([one, other], database, queue, random.Random(seed))
        for _ in range(40):
            history.push() if history.chance.random() < 0.4 else history.pop()
        while history.left():
            history.pop()
        assert history.timed and history.paused
        assert one.pop(queue, batch=100, partitions=4) == other.pop(queue, batch=100, partitions=4) == []
