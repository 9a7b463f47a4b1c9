"""A random history of pushes, pops, acks, transactions and lease ends through HTTP, checked against a model of a queue.

The model knows what the daemon may answer, not what it must choose: any ready partition may be delivered, but what is
delivered of it is exactly what comes next for that group. One seed per run; it is printed when the check fails.
"""
from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from support.client import Client, ack_of
from support.daemon import Daemon
from support.wait import until

SECONDS = 30
GROUPS = ["__QUEUE_MODE__", "red", "blue"]
RETRY_LIMIT = 2


@dataclass
class Cursor:
    """One group on one partition: `next` is the first message not consumed."""

    next: int = 0
    lease: str | None = None
    end: int = 0  # one past the last leased message
    failures: int = 0
    dead: list[int] = field(default_factory=list)


@dataclass
class Partition:
    messages: list[tuple[str, int]] = field(default_factory=list)  # (transaction id, payload), by offset
    cursors: dict[str, Cursor] = field(default_factory=lambda: {group: Cursor() for group in GROUPS})


class History:
    """clients: one per daemon; each step takes one of them. With several daemons a pop may not know yet of what was just
    pushed elsewhere, so then only what is delivered is checked, not what was withheld."""

    def __init__(self, clients: list[Client], queue: str, chance: random.Random):
        self.clients, self.client, self.queue, self.chance = clients, clients[0], queue, chance
        self.partitions: dict[str, Partition] = {name: Partition() for name in "abcde"}
        self.held: list[tuple[str, list[dict]]] = []  # (group, messages) of the pops whose lease may live
        self.number = 0
        self.done: dict[str, int] = {}
        self.client.configure(queue, leaseTime=300, retryLimit=RETRY_LIMIT)

    def step(self) -> None:
        moves: list[tuple[int, Callable[[], None]]] = [
            (6, self.push), (6, self.pop), (7, self.ack), (2, self.extend), (3, self.transaction), (1, self.wrong_lease), (1, self.auto)]
        self.client = self.chance.choice(self.clients)
        move = self.chance.choices([one for _, one in moves], [weight for weight, _ in moves])[0]
        move()
        self.done[move.__name__] = self.done.get(move.__name__, 0) + 1

    # -- moves ----------------------------------------------------------------------------------------------------------------

    def items(self) -> list[dict]:
        items = []
        for _ in range(self.chance.randint(1, 8)):
            name = self.chance.choice("abcde")
            known = self.partitions[name].messages
            if known and self.chance.random() < 0.2:
                transaction = self.chance.choice(known)[0]
            else:
                transaction = f"t{self.number}" if self.chance.random() < 0.5 else f"{self.number:08x}-0000-4000-8000-000000000000"
            items.append({"queue": self.queue, "partition": name, "transactionId": transaction, "payload": self.number})
            self.number += 1
        return items

    def push(self) -> None:
        items = self.items()
        for item, result in zip(items, self.client.push_items(items), strict=True):
            messages = self.partitions[item["partition"]].messages
            known = item["transactionId"] in (transaction for transaction, _ in messages)
            assert result["status"] == ("duplicate" if known else "queued"), (item, result)
            if not known:
                messages.append((item["transactionId"], item["payload"]))

    def pop(self) -> None:
        group = self.chance.choice(GROUPS)
        batch, count = self.chance.randint(1, 10), self.chance.randint(1, 4)
        where = self.chance.choice([None, None, None, *self.partitions])
        messages = self.client.pop(self.queue, where, consumerGroup=group, batch=batch, partitions=count)
        self.delivered(group, messages, batch, 1 if where else count, where)
        for name in {m["partition"] for m in messages}:
            mine = [m for m in messages if m["partition"] == name]
            cursor = self.partitions[name].cursors[group]
            cursor.lease, cursor.end = mine[0]["leaseId"], cursor.next + len(mine)
        if messages:
            self.held.append((group, messages))

    def auto(self) -> None:
        group = self.chance.choice(GROUPS)
        messages = self.client.pop(self.queue, consumerGroup=group, batch=5, partitions=2, autoAck=True)
        self.delivered(group, messages, 5, 2, None)
        for message in messages:
            cursor = self.partitions[message["partition"]].cursors[group]
            cursor.next, cursor.failures = cursor.next + 1, 0

    def delivered(self, group: str, messages: list[dict], batch: int, count: int, where: str | None) -> None:
        """The messages are the next ones of partitions nobody of the group holds; nothing ready was withheld."""
        names = list(dict.fromkeys(m["partition"] for m in messages))
        assert len(messages) <= batch and len(names) <= count
        for name in names:
            partition, cursor = self.partitions[name], self.partitions[name].cursors[group]
            mine = [(m["transactionId"], m["data"]) for m in messages if m["partition"] == name]
            assert cursor.lease is None, f"{name} is leased by {group} already"
            assert mine == partition.messages[cursor.next:cursor.next + len(mine)], name
            assert [m["offset"] for m in messages if m["partition"] == name] == list(range(cursor.next, cursor.next + len(mine)))
        ready = [name for name, one in self.partitions.items() if where in (None, name)
                 and one.cursors[group].lease is None and one.cursors[group].next < len(one.messages)]
        assert set(names) <= set(ready)
        if len(self.clients) == 1 and len(messages) < batch and len(names) < count:
            assert set(names) == set(ready), f"withheld {set(ready) - set(names)} from {group}"

    def ack(self) -> None:
        if not self.held:
            return
        group, messages = self.held.pop(self.chance.randrange(len(self.held)))
        keep = []
        items = []
        for name in dict.fromkeys(m["partition"] for m in messages):
            mine = [m for m in messages if m["partition"] == name]
            cut = self.chance.randint(0, len(mine)) if self.chance.random() < 0.4 else len(mine)
            # One kind of refusal per partition: how several of them count together is not for this model to say.
            kind = self.chance.choice(["failed", "failed", "dlq", "retry"])
            words = [self.chance.choices(["completed", kind], [6, 1])[0] for _ in range(cut)]
            self.acked(self.partitions[name].cursors[group], mine[:cut], words)
            items += [ack_of(m, word) for m, word in zip(mine, words, strict=False)]
            if cut < len(mine) and self.partitions[name].cursors[group].lease:
                keep += mine[cut:]
        if keep:
            self.held.append((group, keep))
        results = self.client.ack_batch(items, group)
        assert all(one["success"] for one in results), results

    def acked(self, cursor: Cursor, messages: list[dict], words: list[str]) -> None:
        """What the words of one partition do: the first retried one holds the cursor; failed ones at the limit are dead-lettered."""
        retrying = cursor.failures < RETRY_LIMIT
        released = None
        for message, word in zip(messages, words, strict=True):
            if word == "retry" or (word == "failed" and retrying):
                released = message["offset"]
                break
            if word in ("failed", "dlq"):
                cursor.dead.append(message["offset"])
            cursor.next = message["offset"] + 1
        if released is not None:
            cursor.lease = None
            cursor.failures += any(word == "failed" for word in words)
        elif any(word in ("failed", "dlq") for word in words):
            cursor.failures = 0
        if cursor.lease and cursor.next >= cursor.end:
            cursor.lease, cursor.failures = None, 0

    def extend(self) -> None:
        if self.held:
            group, messages = self.chance.choice(self.held)
            result = self.client.extend(messages[0]["leaseId"], {"seconds": 300})
            live = [c for p in self.partitions.values() for c in p.cursors.values() if c.lease == messages[0]["leaseId"]]
            assert result["success"] is bool(live) and result["renewed"] == len(live)

    def transaction(self) -> None:
        items = self.items()
        operations: list[dict] = [{"type": "push", "items": items}]
        group, messages = self.held.pop(self.chance.randrange(len(self.held))) if self.held else ("", [])
        operations += [{"type": "ack", **ack_of(m), "consumerGroup": group} for m in messages]
        ids = [(item["partition"], item["transactionId"]) for item in items]
        clash = len(set(ids)) < len(ids) or any(t in (known for known, _ in self.partitions[p].messages) for p, t in ids)
        result = self.client.transaction(*operations, requiredLeases=list({m["leaseId"] for m in messages}))
        assert result["success"] is not clash, (result, clash)
        if clash:
            if messages:
                self.held.append((group, messages))
            return
        for item in items:
            self.partitions[item["partition"]].messages.append((item["transactionId"], item["payload"]))
        for message in messages:
            cursor = self.partitions[message["partition"]].cursors[group]
            cursor.next = message["offset"] + 1
            if cursor.next >= cursor.end:
                cursor.lease, cursor.failures = None, 0

    def wrong_lease(self) -> None:
        if self.held:
            group, messages = self.chance.choice(self.held)
            (result,) = self.client.ack_batch([{**ack_of(messages[0]), "leaseId": "00000000-0000-4000-8000-000000000000"}], group)
            assert (result["success"], result["error"]) == (False, "Invalid or expired lease")

    # -- the end --------------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Gives all leases back and reads every group to its end: all that was stored comes once, in order."""
        while self.held:
            group, messages = self.held.pop()
            live = {m["partition"]: m for m in messages if self.partitions[m["partition"]].cursors[group].lease}
            assert all(one["success"] for one in self.client.ack_batch([ack_of(m, "retry") for m in live.values()], group))
            for name in live:
                self.partitions[name].cursors[group].lease = None
        for group in GROUPS:
            while any(p.cursors[group].next < len(p.messages) for p in self.partitions.values()):
                messages = until(lambda group=group: self.rest(group), group)
                self.delivered(group, messages, 500, 5, None)
                for message in messages:
                    self.partitions[message["partition"]].cursors[group].next += 1
            assert all(client.pop(self.queue, consumerGroup=group) == [] for client in self.clients)

    def rest(self, group: str) -> list[dict]:
        """Some of what the group has left. A pop of one partition always asks the database, so it needs no word from the other daemon."""
        where = self.chance.choice([*self.partitions]) if len(self.clients) > 1 else None
        return self.chance.choice(self.clients).pop(self.queue, where, consumerGroup=group, batch=500, partitions=5, autoAck=True)


def test_any_history_is_that_of_a_queue(client: Client, queue: str) -> None:
    play([client], queue, SECONDS)


def test_any_history_over_two_daemons(start_daemon, client: Client, daemon: Daemon, queue: str) -> None:
    """Two daemons on one database know nothing of each other but what stands in it."""
    second = start_daemon(daemon.conninfo)
    with second.client() as other:
        play([client, other], queue, SECONDS / 2)


def play(clients: list[Client], queue: str, seconds: float) -> None:
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"SEED={seed}")
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    total = 0
    for round_ in range(1000):
        if time.monotonic() > end:
            break
        history = History(clients, f"{queue}-{round_}", chance)
        for _ in range(300):
            history.step()
        history.drain()
        total += 1
        assert {"push", "pop", "ack", "transaction"} <= set(history.done)
    assert total > 0
