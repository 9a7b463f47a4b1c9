"""A queue as it has to be: each move goes to the daemon over HTTP and to a model, and the answer is held against it.

The model knows what the daemon may answer, not what it must choose: any ready partition may be delivered, but what is
delivered of it is exactly what comes next for that group.
"""
from __future__ import annotations

import random
from dataclasses import dataclass, field
from urllib.parse import quote

from .client import Client, ack_of
from .wait import until

GROUPS = ["__QUEUE_MODE__", "red", "blue"]
RETRY_LIMIT = 2
# move → how often
MOVES = {"push": 60, "pop": 60, "ack": 70, "extend": 20, "transaction": 30, "wrong_lease": 10, "auto": 10, "seek": 6,
         "delete": 12, "retry_dead": 6, "drop_group": 2, "drop_queue": 1}


@dataclass
class Cursor:
    """One group on one partition: `next` is the first message not consumed."""

    next: int = 0
    lease: str | None = None
    end: int = 0  # one past the last leased message
    done: set[int] = field(default_factory=set)  # offsets from `next` on that are consumed all the same
    failures: int = 0
    known: bool = False  # to the daemon: something was delivered, or a seek may move it

    def begin(self, at: int) -> None:
        self.next, self.done = at, {other for other in self.done if other >= at}


@dataclass
class Partition:
    messages: list[tuple[str, int]] = field(default_factory=list)  # (transaction id, payload), by offset
    cursors: dict[str, Cursor] = field(default_factory=lambda: {group: Cursor() for group in GROUPS})
    gone: set[int] = field(default_factory=set)  # offsets of deleted messages
    dead: list[tuple[int, str]] = field(default_factory=list)  # offsets of dead letters, and whose
    addressed: dict[int, str] = field(default_factory=dict)  # offsets of messages that are for one group
    id: str = ""

    def left(self, group: str) -> list[int]:
        """Offsets the group has still to be given."""
        return [at for at in range(self.cursors[group].next, len(self.messages)) if at not in self.cursors[group].done
                and at not in self.gone and self.addressed.get(at, group) == group]

    def consume(self, group: str, offsets: list[int]) -> None:
        """The cursor moves behind what is done without a gap; a lease of which all is done ends."""
        cursor = self.cursors[group]
        cursor.done.update(at for at in offsets if at >= cursor.next)
        while cursor.next in cursor.done:
            cursor.done.remove(cursor.next)
            cursor.next += 1
        if cursor.lease and cursor.next >= cursor.end:
            cursor.lease, cursor.failures = None, 0

    def leased(self, at: int) -> bool:
        return any(one.lease and one.next <= at < one.end for one in self.cursors.values())


class History:
    """clients: one per daemon; each step takes one of them. With several daemons a pop may not know yet of what was
    just pushed elsewhere, so then only what is delivered is checked, not what was withheld."""

    def __init__(self, clients: list[Client], queue: str, chance: random.Random):
        self.clients, self.client, self.queue, self.chance = clients, clients[0], queue, chance
        self.number = 0
        self.done: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        self.partitions: dict[str, Partition] = {name: Partition() for name in "abcde"}
        self.held: list[tuple[str, list[dict]]] = []  # (group, messages) of the pops whose lease may live
        self.client.configure(self.queue, leaseTime=300, retryLimit=RETRY_LIMIT)

    def step(self) -> None:
        move = self.chance.choices([*MOVES], [*MOVES.values()])[0]
        self.move(move)

    def move(self, name: str) -> None:
        self.client = self.chance.choice(self.clients)
        getattr(self, name)()
        self.done[name] = self.done.get(name, 0) + 1

    # -- moves ---------------------------------------------------------------------------------------------------------

    def items(self) -> list[dict]:
        items = []
        for _ in range(self.chance.randint(1, 8)):
            name = self.chance.choice("abcde")
            known = self.partitions[name].messages
            if known and self.chance.random() < 0.2:
                transaction = self.chance.choice(known)[0]
            else:
                transaction = (f"t{self.number}" if self.chance.random() < 0.5
                               else f"{self.number:08x}-0000-4000-8000-000000000000")
            items.append({"queue": self.queue, "partition": name, "transactionId": transaction, "payload": self.number})
            self.number += 1
        return items

    def push(self) -> None:
        items = self.items()
        for item, result in zip(items, self.client.push_items(items), strict=True):
            messages = self.partitions[item["partition"]].messages
            known = [at for at, (transaction, _) in enumerate(messages) if transaction == item["transactionId"]]
            status = ("queued" if not known else
                      "duplicate_of_deleted" if known[0] in self.partitions[item["partition"]].gone else "duplicate")
            assert result["status"] == status, (item, result)
            if not known:
                messages.append((item["transactionId"], item["payload"]))
                self.partitions[item["partition"]].id = result["partition_id"]

    def pop(self) -> None:
        group = self.chance.choice(GROUPS)
        batch, count = self.chance.randint(1, 10), self.chance.randint(1, 4)
        where = self.chance.choice([None, None, None, *self.partitions])
        messages = self.client.pop(self.queue, where, consumerGroup=group, batch=batch, partitions=count)
        self.delivered(group, messages, batch, 1 if where else count, where)
        for name in {m["partition"] for m in messages}:
            mine = [m for m in messages if m["partition"] == name]
            cursor = self.partitions[name].cursors[group]
            cursor.begin(mine[0]["offset"])
            cursor.lease, cursor.end, cursor.known = mine[0]["leaseId"], mine[-1]["offset"] + 1, True
        if messages:
            self.held.append((group, messages))

    def auto(self) -> None:
        group = self.chance.choice(GROUPS)
        messages = self.client.pop(self.queue, consumerGroup=group, batch=5, partitions=2, autoAck=True)
        self.delivered(group, messages, 5, 2, None)
        for message in messages:
            cursor = self.partitions[message["partition"]].cursors[group]
            cursor.begin(message["offset"] + 1)
            cursor.failures, cursor.known = 0, True

    def delivered(self, group: str, messages: list[dict], batch: int, count: int, where: str | None) -> None:
        """The messages are the next ones of partitions nobody of the group holds; nothing ready was withheld."""
        names = list(dict.fromkeys(m["partition"] for m in messages))
        assert len(messages) <= batch and len(names) <= count
        for name in names:
            partition, cursor = self.partitions[name], self.partitions[name].cursors[group]
            mine = [(m["offset"], (m["transactionId"], m["data"])) for m in messages if m["partition"] == name]
            assert cursor.lease is None, f"{name} is leased by {group} already"
            assert mine == [(at, partition.messages[at]) for at in partition.left(group)[:len(mine)]], name
        ready = [name for name, one in self.partitions.items() if where in (None, name)
                 and one.cursors[group].lease is None and one.left(group)]
        assert set(names) <= set(ready)
        if len(self.clients) == 1 and len(messages) < batch and len(names) < count:
            # While a group is being looked through (it is new, was moved or forgotten), what is known of it already may
            # be all that a pop gets; and a partition of which nothing but deleted messages is left counts as one that
            # was claimed.
            assert names or not ready, f"withheld {ready} from {group}"

    def ack(self) -> None:
        if not self.held:
            return
        group, messages = self.held.pop(self.chance.randrange(len(self.held)))
        keep = []
        items = []
        for name in dict.fromkeys(m["partition"] for m in messages):
            mine = [m for m in messages if m["partition"] == name]
            if self.chance.random() < 0.1:
                last = self.chance.choice(mine)
                named, words = [m for m in mine if m["offset"] <= last["offset"]], []
                items.append(ack_of(last, cumulative=True))
                self.partitions[name].consume(group,
                                              [*range(self.partitions[name].cursors[group].next, last["offset"] + 1)])
            else:
                named = mine[:self.chance.randint(0, len(mine))] if self.chance.random() < 0.3 else mine
                if self.chance.random() < 0.4:
                    named = self.chance.sample(named, self.chance.randint(0, len(named)))
                # One kind of refusal per partition: how several of them count together is not for this model to say.
                kind = self.chance.choice(["failed", "failed", "dlq", "retry"])
                words = [self.chance.choices(["completed", kind], [6, 1])[0] for _ in named]
                self.acked(self.partitions[name], group, named, words)
                items += [ack_of(m, word) for m, word in zip(named, words, strict=True)]
            if self.partitions[name].cursors[group].lease:
                keep += [m for m in mine if m not in named]
        if keep:
            self.held.append((group, keep))
        results = self.client.ack_batch(items, group)
        assert all(one["success"] for one in results), results

    def acked(self, partition: Partition, group: str, messages: list[dict], words: list[str]) -> None:
        """What the words of one partition do: nothing from the first retried one on; failed ones at the limit are
        dead-lettered."""
        cursor = partition.cursors[group]
        asked = [(message["offset"], word) for message, word in zip(messages, words, strict=True)]
        going = [(at, word) for at, word in asked if word == "retry"
                 or (word == "failed" and cursor.failures < RETRY_LIMIT)]
        done = [(at, word) for at, word in asked if not going or at < min(going)[0]]
        partition.dead += [(at, group) for at, word in done if word != "completed"]
        if going:
            cursor.lease = None
            cursor.failures += any(word == "failed" for _, word in going)
        elif any(word != "completed" for _, word in done):
            cursor.failures = 0
        partition.consume(group, [at for at, _ in done])

    def extend(self) -> None:
        if self.held:
            group, messages = self.chance.choice(self.held)
            result = self.client.extend(messages[0]["leaseId"], {"seconds": 300})
            live = [c for p in self.partitions.values() for c in p.cursors.values()
                    if c.lease == messages[0]["leaseId"]]
            assert result["success"] is bool(live) and result["renewed"] == len(live)

    def transaction(self) -> None:
        items = self.items()
        operations: list[dict] = [{"type": "push", "items": items}]
        group, messages = self.held.pop(self.chance.randrange(len(self.held))) if self.held else ("", [])
        operations += [{"type": "ack", **ack_of(m), "consumerGroup": group} for m in messages]
        ids = [(item["partition"], item["transactionId"]) for item in items]
        clash = len(set(ids)) < len(ids) or any(t in (known for known, _ in self.partitions[p].messages)
                                                for p, t in ids)
        result = self.client.transaction(*operations, requiredLeases=list({m["leaseId"] for m in messages}))
        assert result["success"] is not clash, (result, clash)
        if clash:
            if messages:
                self.held.append((group, messages))
            return
        for item, stored in zip(items, result["results"], strict=False):
            one = self.partitions[item["partition"]]
            one.id = stored["partitionId"]
            one.messages.append((item["transactionId"], item["payload"]))
        for message in messages:
            self.partitions[message["partition"]].consume(group, [message["offset"]])

    def wrong_lease(self) -> None:
        if self.held:
            group, messages = self.chance.choice(self.held)
            (result,) = self.client.ack_batch(
                [{**ack_of(messages[0]), "leaseId": "00000000-0000-4000-8000-000000000000"}], group)
            assert (result["success"], result["error"]) == (False, "Invalid or expired lease")

    def seek(self) -> None:
        """Leases of what was moved are void."""
        group, to = self.chance.choice(GROUPS), self.chance.choice(["end", "offset"])
        only = self.chance.choice([None, *self.partitions])
        at = self.chance.randint(0, 6)
        there = self.is_there(group)
        path = f"/api/v1/consumer-groups/{group}/queues/{quote(self.queue)}" + (f"/partitions/{only}" if only else "")
        answer = self.client.post(f"{path}/seek", {"toEnd": True} if to == "end" else {"offset": at})
        made = [name for name, one in self.partitions.items() if one.id]
        moved = [name for name in made if only in (None, name)]
        if not there or only and only not in made:
            # a transaction that failed may have made the partition
            assert answer.status == 404 or there, answer.body
            return
        if only:
            one = self.partitions[only]
            place = len(one.messages) if to == "end" else min(at, len(one.messages))
            # A cursor may stand further than the model's: a pop passes over what was deleted or is for another group.
            stood = place >= one.cursors[group].next and all(left >= place for left in one.left(group))
            assert answer.json["updated"] or stood, answer.body
        else:
            # with the partition Default, which a queue has where it was configured
            assert len(made) <= answer.json["partitionsUpdated"] <= len(self.partitions) + 1, (answer.body, made)
        for name in moved:
            one = self.partitions[name]
            one.cursors[group] = Cursor(next=len(one.messages) if to == "end" else min(at, len(one.messages)),
                                        known=one.cursors[group].known)
        self.void(group, moved)

    def drop_group(self) -> None:
        """The group begins afresh."""
        group = self.chance.choice(GROUPS)
        known = [name for name, one in self.partitions.items() if one.cursors[group].known]
        answer = self.client.request("DELETE", f"/api/v1/consumer-groups/{group}/queues/{quote(self.queue)}")
        assert len(known) <= answer.json["deletedPartitions"] <= len(self.partitions) + 1, (answer.body, known)
        for one in self.partitions.values():
            one.cursors[group] = Cursor()
        self.void(group, [*self.partitions])

    def is_there(self, group: str) -> bool:
        """Says whether the queue has the group."""
        found = self.client.get(f"/api/v1/consumer-groups?queue={quote(self.queue)}").json
        return group in [one["name"] for one in found]

    def void(self, group: str, names: list[str]) -> None:
        """What was delivered of these partitions cannot be acknowledged any more."""
        for n, (holder, messages) in enumerate(self.held):
            if holder == group:
                late = [m for m in messages if m["partition"] in names]
                self.held[n] = (group, [m for m in messages if m["partition"] not in names])
                if late:
                    results = self.client.ack_batch([ack_of(m) for m in late], group)
                    assert {one["error"] for one in results} == {"Invalid or expired lease"}, results
        self.held = [(holder, messages) for holder, messages in self.held if messages]

    def delete(self) -> None:
        """One message that nobody holds; its id stays taken, its dead letters go."""
        name = self.chance.choice([*self.partitions])
        one = self.partitions[name]
        free = [at for at in range(len(one.messages)) if not one.leased(at)]
        if not free:
            return
        at = self.chance.choice(free)
        answer = self.client.request("DELETE", f"/api/v1/messages/{one.id}/{one.messages[at][0]}")
        assert answer.json["success"] is (at not in one.gone or any(at == other for other, _ in one.dead)), answer.body
        one.gone.add(at)
        one.dead = [(other, group) for other, group in one.dead if other != at]

    def retry_dead(self) -> None:
        """A dead letter becomes a new message of its partition, for the group whose it was."""
        found = [(name, at, group) for name, one in self.partitions.items() for at, group in one.dead
                 if sum(at == other for other, _ in one.dead) == 1]
        if not found:
            return
        name, at, group = self.chance.choice(found)
        one = self.partitions[name]
        answer = self.client.post(f"/api/v1/messages/{one.id}/{one.messages[at][0]}/retry")
        assert answer.json["success"] is True, answer.body
        one.dead.remove((at, group))
        one.addressed[len(one.messages)] = group
        one.messages.append((answer.json["newTransactionId"], one.messages[at][1]))

    def drop_queue(self) -> None:
        assert self.client.delete(self.queue)["deleted"] is True
        self.begin()

    # -- the end -------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Gives all leases back and reads every group to its end: all that was stored comes once, in order. Dead
        letters are there."""
        while self.held:
            group, messages = self.held.pop()
            live = {m["partition"]: m for m in messages if self.partitions[m["partition"]].cursors[group].lease}
            assert all(one["success"]
                       for one in self.client.ack_batch([ack_of(m, "retry") for m in live.values()], group))
            for name in live:
                self.partitions[name].cursors[group].lease = None
        for group in GROUPS:
            while any(p.left(group) for p in self.partitions.values()):
                messages = until(lambda group=group: self.rest(group), group)
                self.delivered(group, messages, 500, 5, None)
                for message in messages:
                    self.partitions[message["partition"]].cursors[group].begin(message["offset"] + 1)
            assert all(client.pop(self.queue, consumerGroup=group) == [] for client in self.clients)
        found = self.client.get(f"/api/v1/dlq?queue={quote(self.queue)}&limit=1000").json["messages"]
        assert sorted((one["partition"], one["data"]) for one in found) == sorted(
            (name, one.messages[at][1]) for name, one in self.partitions.items() for at, _ in one.dead)

    def rest(self, group: str) -> list[dict]:
        """Some of what the group has left. A pop of one partition always asks the database, so it needs no word from
        the other daemon."""
        where = self.chance.choice([*self.partitions]) if len(self.clients) > 1 else None
        return self.chance.choice(self.clients).pop(self.queue, where, consumerGroup=group, batch=500,
                                                    partitions=5, autoAck=True)
