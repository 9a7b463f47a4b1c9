"""Random steps of a history: what producers, consumers and operators do, over HTTP and in SQL."""
from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import urlencode

import psycopg

from .client import Client, ack_of
from .truth import Truth

QUEUES, PARTITIONS = ("orders", "mails", "bills", "notes"), ("a", "b", "c")
GROUPS = ("first", "second", "__QUEUE_MODE__")      # the second one begins `new`
PAST = "2020-01-01T00:00:00Z"
MOST = 40       # messages of a partition: then it is cleared
REMEMBERED, SHOWN = 100, 300      # steps and messages; characters of a step
TRY_AGAIN = b"What this group has to consume is not known yet"      # a scan takes long: the machine is busy
PHASE = 2000    # steps between two changes of what is busy

Took = Callable[[Any], None]      # what an answer brings: its JSON, or the value of the SQL function


@dataclass
class Step:
    """One request: over HTTP (method, target, body), or in SQL (method None, target the statement)."""

    method: str | None
    target: str
    body: Any = None
    took: Took | None = None

    def __str__(self) -> str:
        return f"{self.method or 'SQL'} {self.target} {'' if self.body is None else json.dumps(self.body)}"[:SHOWN]


class Steps:
    """Makes steps by chance and takes them at daemons of one database and in SQL. Some queues are busy for PHASE steps;
    of the others messages are deleted, cursors move, options change, so that only these changes tell the figures of
    them. At most MOST messages stay in a partition."""

    def __init__(self, clients: list[Client], database: psycopg.Connection, seed: int):
        self.clients, self.database, self.dice = clients, database, Random(seed)
        self.taken: list[tuple[str, list[dict]]] = []      # group, messages of a pop
        self.known: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)      # partition id, transaction id
        self.did: deque[str] = deque(maxlen=REMEMBERED)
        self.count = self.refused = 0
        self.busy: list[str] = []
        self.weights: list[int] = []
        self.acts: list[tuple[Callable[[str, str], Step | None], int]] = [
            (self.push, 40), (self.pop, 40), (self.ack, 40), (self.transaction, 3), (self.extend, 2)]
        self.rare: list[tuple[Callable[[str, str], Step | None], int]] = [
            (self.seek, 8), (self.remove, 12), (self.configure, 6), (self.redrive, 6), (self.bury, 6), (self.commit, 6),
            (self.clear, 3), (self.subscribe, 2), (self.join, 3), (self.leave, 3), (self.erase, 6), (self.detach, 2),
            (self.drop, 1)]

    def take(self, number: int, truth: Truth | None) -> None:
        """Takes so many steps. Requests of one connection leave one after the other, their answers are read then."""
        if self.count % PHASE < number:
            self.busy = self.dice.sample(QUEUES, self.dice.choice((1, 1, 2, 4)))
            self.weights = [weight * self.dice.choice((1, 1, 3)) for _, weight in self.acts]
        self.count += number
        sent: list[tuple[Client, Step]] = []
        asked: list[Step] = []
        for step in [*self.full(truth), *(self.step() for _ in range(number))]:
            if step is None:
                continue
            self.did.append(str(step))
            if step.method is None:
                asked.append(step)
            else:
                client = self.dice.choice(self.clients)
                client.send(step.method, step.target, None if step.body is None else json.dumps(step.body).encode())
                sent.append((client, step))
        for step in asked:
            (value,) = self.database.execute(step.target, step.body).fetchone()
            if step.took:
                step.took(value)
        for client, step in sent:
            answer = client.receive()
            if answer.status == 503 and TRY_AGAIN in answer.body:
                self.refused += 1
                continue
            assert answer.status < 500, (str(step), answer.status, answer.body)
            if step.took and answer.status < 300 and answer.body:
                step.took(answer.json)

    def step(self) -> Step | None:
        dice = self.dice
        if dice.random() < 0.95:
            (act, _), = dice.choices(self.acts, self.weights)
            return act(dice.choice(self.busy), dice.choice(GROUPS))
        (act, _), = dice.choices(self.rare, [weight for _, weight in self.rare])
        return act(dice.choice(QUEUES), dice.choice(GROUPS))

    def full(self, truth: Truth | None) -> list[Step]:
        return [Step("DELETE", f"/api/v1/queues/{queue.name}/clear?partition={part.name}")
                for queue in (truth.queues.values() if truth else ())
                for part in queue.partitions.values() if part.total > MOST]

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    # -- producers and consumers ---------------------------------------------------------------------------------------

    def push(self, queue: str, group: str) -> Step:
        items = [{"queue": queue, "partition": self.dice.choice(PARTITIONS), "payload": self.dice.random()}
                 for _ in range(self.dice.choice((1, 1, 2, 5)))]
        if self.chance(0.04):
            return Step(None, "SELECT queen.push_messages_v3(%s::jsonb)->'items'", (json.dumps(items),), self.pushed)
        if self.chance(0.1):
            items[0]["delayMs"] = self.dice.choice((1, 50, 1000, 3_600_000))
        return Step("POST", "/api/v1/push", {"items": items}, self.pushed)

    def pushed(self, items: list[dict]) -> None:
        self.known += [(one["partition_id"], one["transaction_id"]) for one in items]

    def pop(self, queue: str, group: str) -> Step:
        part, automatic = self.dice.choice((None, None, *PARTITIONS)), self.chance(0.3)
        batch, partitions = self.dice.choice((1, 3, 20)), self.dice.choice((1, 3))

        def popped(answer: Any) -> None:
            found = answer["messages"] if isinstance(answer, dict) else answer[0]["result"].get("messages", [])
            self.known += [(one["partitionId"], one["transactionId"]) for one in found]
            if found and not automatic:
                self.taken.append((group, found))
        if self.chance(0.04):
            return Step(None, "SELECT queen.pop_unified_batch_v4(%s::jsonb)", (json.dumps([
                {"queue_name": queue, "partition_name": part or "", "consumer_group": group, "batch_size": batch,
                 "max_partitions": partitions, "auto_ack": automatic,
                 **({"sub_mode": "new", "sub_from": "now"} if group == "second" else {})}]),), popped)
        where = "" if part is None and self.chance(0.2) else f"/queue/{queue}" + (f"/partition/{part}" if part else "")
        return Step("GET", f"/api/v1/pop{where}?" + urlencode({
            "batch": batch, **({} if part else {"partitions": partitions}),
            **({} if where else {"namespace": "shop"}),
            **({} if group == GROUPS[-1] else {"consumerGroup": group}),
            **({"subscriptionMode": "new"} if group == "second" else {}),
            **({"autoAck": "true"} if automatic else {}),
            **({"leaseSeconds": self.dice.choice((1, 300))} if self.chance(0.2) else {})}), None, popped)

    def ack(self, queue: str, group: str) -> Step | None:
        found = self.some()
        if found is None:
            return None
        group, messages = found
        status = self.dice.choices(("completed", "failed", "retry", "dlq"), (16, 2, 2, 2))[0]
        more = {"delayMs": self.dice.choice((0, 500, 5000))} if status == "retry" else {}
        if self.chance(0.04):
            return Step(None, "SELECT queen.ack_messages_v2(%s::jsonb)", (json.dumps(
                [ack_of(one, status, consumerGroup=group, **more) for one in messages]),))
        return Step("POST", "/api/v1/ack/batch", {"consumerGroup": group, "acknowledgments": [
            ack_of(one, status, **more) for one in messages]})

    def some(self) -> tuple[str, list[dict]] | None:
        """Messages that were popped: all of one pop, or some of them."""
        if not self.taken:
            return None
        group, found = self.taken.pop(self.dice.randrange(len(self.taken)))
        if self.chance(0.4):
            some = self.dice.sample(found, self.dice.randint(1, len(found)))
            left = [one for one in found if one not in some]
            if left and self.chance(0.5):
                self.taken.append((group, left))
            return group, some
        return group, found

    def transaction(self, queue: str, group: str) -> Step | None:
        found = self.some()
        if found is None:
            return None
        group, messages = found
        operations = [{"type": "push", "items": [{"queue": queue, "partition": self.dice.choice(PARTITIONS),
                                                  "payload": 1}]},
                      *({"type": "ack", "consumerGroup": group, **ack_of(one)} for one in messages)]
        if self.chance(0.3):
            return Step(None, "SELECT queen.execute_transaction_v2(%s::jsonb)",
                        (json.dumps({"operations": operations}),))
        return Step("POST", "/api/v1/transaction", {"operations": operations})

    def extend(self, queue: str, group: str) -> Step | None:
        if not self.taken:
            return None
        lease = self.dice.choice(self.taken)[1][0]["leaseId"]
        if self.chance(0.3):
            return Step(None, "SELECT queen.renew_lease_v2(%s::jsonb)",
                        (json.dumps([{"leaseId": lease, "extendSeconds": 2}]),))
        return Step("POST", f"/api/v1/lease/{lease}/extend", {"seconds": 2})

    # -- operators -----------------------------------------------------------------------------------------------------

    def seek(self, queue: str, group: str) -> Step:
        if self.chance(0.2):
            return Step(None, "SELECT queen.seek_consumer_group_v1(%s, %s, seek_to_end => true)", (group, queue))
        one = f"/partitions/{self.dice.choice(PARTITIONS)}" if self.chance(0.5) else ""
        return Step("POST", f"/api/v1/consumer-groups/{group}/queues/{queue}{one}/seek",
                    self.dice.choice(({"toEnd": True}, {"timestamp": PAST}, {"offset": self.dice.randrange(20)})))

    def remove(self, queue: str, group: str) -> Step | None:
        if not self.known:
            return None
        part, transaction = self.dice.choice(self.known)
        if self.chance(0.3):
            return Step(None, "SELECT queen.delete_message_v1(%s, %s)", (part, transaction))
        return Step("DELETE", f"/api/v1/messages/{part}/{transaction}")

    def bury(self, queue: str, group: str) -> Step | None:
        """Moves a message into the dead letters, or one from there back."""
        if not self.known:
            return None
        part, transaction = self.dice.choice(self.known)
        if self.chance(0.5):
            return Step("POST", f"/api/v1/messages/{part}/{transaction}/retry")
        return Step("POST", f"/api/v1/messages/{part}/{transaction}/dlq", {"consumerGroup": group})

    def configure(self, queue: str, group: str) -> Step:
        options = self.dice.choice((
            {"delayedProcessing": 0}, {"delayedProcessing": 2}, {"delayedProcessing": 3600},
            {"retentionEnabled": True, "retentionSeconds": 1}, {"retentionEnabled": True, "retentionSeconds": 0,
                                                                "completedRetentionSeconds": 1},
            {"leaseTime": 1}, {"leaseTime": 300}, {"retryLimit": 0}, {"retryLimit": 3}, {"retentionEnabled": False}))
        names = {"namespace": self.dice.choice(("", "shop", "shop")), "task": self.dice.choice(("", "send"))}
        if self.chance(0.2):
            return Step(None, "SELECT queen.configure_queue_v1(%s, %s::jsonb)",
                        (queue, json.dumps({**options, **names})))
        return Step("POST", "/api/v1/configure", {"queue": queue, **names, "options": options})

    def redrive(self, queue: str, group: str) -> Step:
        if self.chance(0.5):
            return Step("POST", "/api/v1/dlq/redrive", {"queue": queue, "limit": 3})
        if self.chance(0.5):
            return Step("DELETE", f"/api/v1/dlq?queue={queue}&consumerGroup={group}")
        return Step(None, "WITH gone AS (DELETE FROM queen.dead_letter_queue WHERE queue = %s AND consumer_group = %s"
                          " RETURNING 1) SELECT count(*) FROM gone", (queue, group))

    def commit(self, queue: str, group: str) -> Step:
        return Step("POST", f"/api/v1/consumer-groups/{group}/offsets", {"entries": [
            {"queue": queue, "partition": self.dice.choice(PARTITIONS), "offset": self.dice.randrange(200)}]})

    def clear(self, queue: str, group: str) -> Step:
        one = f"?partition={self.dice.choice(PARTITIONS)}" if self.chance(0.7) else ""
        return Step("DELETE", f"/api/v1/queues/{queue}/clear{one}")

    def erase(self, queue: str, group: str) -> Step | None:
        """Erases some messages by their ids, or all of a partition."""
        part = self.dice.choice(PARTITIONS)
        if self.chance(0.2):
            wanted: dict[str, Any] = {"partition": part}
        elif self.known:
            some = self.dice.sample(list(self.known), min(3, len(self.known)))
            wanted = {"transactionIds": [transaction for _, transaction in some]}
        else:
            return None
        if self.chance(0.3):
            return Step(None, """SELECT CASE WHEN EXISTS (
                SELECT FROM queen.partitions p WHERE p.queue = %s AND p.name = COALESCE(%s, p.name))
                THEN queen.erase_v1(%s::jsonb) END""",
                        (queue, wanted.get("partition"), json.dumps({"queue": queue, **wanted})))
        return Step("POST", f"/api/v1/queues/{queue}/erase", wanted)

    def detach(self, queue: str, group: str) -> Step:
        """Deletes a partition; a later push makes it again, with another number."""
        part = self.dice.choice(PARTITIONS)
        if self.chance(0.3):
            return Step(None, "SELECT queen.delete_partition_v1(%s, %s)", (queue, part))
        return Step("DELETE", f"/api/v1/queues/{queue}/partitions/{part}")

    def subscribe(self, queue: str, group: str) -> Step:
        return Step("POST", f"/api/v1/consumer-groups/{group}/subscription", {"subscriptionTimestamp": PAST})

    def join(self, queue: str, group: str) -> Step:
        """A group that comes to a quiet queue."""
        return self.pop(queue, group)

    def leave(self, queue: str, group: str) -> Step:
        keep = "?deleteMetadata=false" if self.chance(0.3) else ""
        if self.chance(0.2):
            return Step(None, "SELECT queen.delete_consumer_group_for_queue_v1(%s, %s)", (group, queue))
        return Step("DELETE", f"/api/v1/consumer-groups/{group}/queues/{queue}{keep}")

    def drop(self, queue: str, group: str) -> Step:
        if self.chance(0.2):
            return Step(None, "SELECT queen.delete_queue_v1(%s)", (queue,))
        return Step("DELETE", f"/api/v1/resources/queues/{queue}")
