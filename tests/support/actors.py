"""Who takes part in a random history: producers over HTTP and SQL, and consumers. Each tells the checker what it asked
and what it heard."""
from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import psycopg

from .checker import TAKEN, Checker
from .client import Client, ack_of, pop_target
from .crowd import Crowd
from .daemon import Daemon
from .feed import Feed
from .http import Answer, Gone
from .socket_feed import SocketFeed

LEASE = 5
NAMES = {"namespace": "histories", "task": "history"}      # what the queue is filed under
# How a consumer asks. One that asks again does not wait; the last two are told over a stream.
WAITERS = ("queue", "again", "partition", "namespace", "task", "autopilot", "events", "socket")
STREAMED = WAITERS[-2:]
OLD_ENOUGH = 20.0  # seconds a client waits for an answer


@dataclass
class Stage:
    """What all share. `daemons` changes while they run."""

    queue: str
    seed: str
    checker: Checker
    daemons: list[Daemon]
    dsn: str
    quiet: threading.Event = field(default_factory=threading.Event)  # no more pushes
    over: threading.Event = field(default_factory=threading.Event)  # no more pops
    silence: threading.Event = field(default_factory=threading.Event)  # no pops for a while
    told: dict[str, int] = field(default_factory=dict)

    def tell(self, what: str, number: int = 1) -> None:
        self.told[what] = self.told.get(what, 0) + number

    def drain(self, crowd: Crowd, patience: float = 60.0) -> None:
        """Until all of it was consumed, or for so many seconds nothing more was. To count a long history keeps the
        actors from going on: between two counts they have four times as long."""
        least, since = None, time.monotonic()
        while True:
            begun = time.monotonic()
            missing = len(self.checker.missing())
            took = time.monotonic() - begun
            if missing == 0 or begun >= since + patience or crowd.failures:
                return
            if least is None or missing < least:
                least, since = missing, begun + took
            self.over.wait(max(0.5, 4 * took))


class Actor:
    """Its choices come from the seed; what it meets does not."""

    def __init__(self, stage: Stage, name: str):
        self.stage, self.name, self.checker = stage, name, stage.checker
        self.dice = random.Random(f"{stage.seed}.{name}")
        self.clients: dict[int, Client] = {}
        self.number = 0
        self.line: Any = name  # whose messages keep the order they were asked in

    def ask(self, place: int, method: str, target: str, body: Any = None) -> Answer | None:
        """One request to a daemon. None: nobody knows what came of it."""
        client = self.clients.pop(place, None)
        try:
            client = client or Client(self.stage.daemons[place].address, OLD_ENOUGH)
            answer = client.request(method, target, body)
        except (OSError, Gone, AssertionError):     # AssertionError: cut in the middle of a head
            if client:
                client.close()
            self.stage.over.wait(0.02)  # the address refuses: no need to spin
            return None
        self.clients[place] = client
        if answer.status >= 500:
            assert answer.status == 503 and "retry-after" in answer.headers, (answer.status, answer.body)
            self.stage.over.wait(0.02)
        return answer

    def key(self, partition: str) -> str:
        key = f"{self.name}.{self.number}"
        self.number += 1
        self.checker.push_asked(key, partition, self.line, time.monotonic())
        return key


class Producer(Actor):
    """Over HTTP, one request at a time. named: with ids of its own, asked again until answered, of any of its daemons;
    else once."""

    def __init__(self, stage: Stage, name: str, named: bool, places: list[int]):
        super().__init__(stage, name)
        self.named, self.places = named, places

    def run(self) -> None:
        while not self.stage.quiet.is_set():
            place = self.dice.choice(self.places)
            # What one daemon has in its buffer comes after what another has stored meanwhile: the order is that of what
            # was asked of one.
            self.line = (self.name, place) if not self.named else self.name if len(self.places) == 1 else (
                self.name, self.number)
            self.push(place)
            self.stage.quiet.wait(self.dice.choice([0.01, 0.05, 0.2]))

    def push(self, place: int) -> None:
        items, keys = [], []
        for _ in range(self.dice.choice([1, 1, 2, 5, 30])):
            partition = f"{self.name}-{self.dice.randrange(3)}" if self.dice.random() < 0.7 else "all"
            key = self.key(partition)
            keys.append(key)
            items.append({"queue": self.stage.queue, "partition": partition, "payload": key,
                          **({"transactionId": key} if self.named else {})})
        while True:
            answer = self.ask(place, "POST", "/api/v1/push", {"items": items})
            if answer is not None and answer.status == 201:
                break
            assert answer is None or answer.status == 503, (answer.status, answer.body)
            self.stage.tell("push unknown")
            if not self.named or self.stage.over.is_set():
                return
            place = self.dice.choice(self.places)
        at = time.monotonic()
        for key, item in zip(keys, answer.json, strict=True):
            if item["status"] == "failed" and item.get("code") == "unavailable":
                self.checker.push_refused(key)      # docs/failover.md: others of its request were stored
            else:
                assert item["status"] in TAKEN, item
                self.checker.push_answered(key, item["status"], at)
            self.stage.tell(item["status"])


class Program(Actor):
    """SQL with transactions that stay open for a while: the outbox, or the log itself."""

    def __init__(self, stage: Stage, name: str, outbox: bool, longest: float):
        super().__init__(stage, name)
        self.outbox, self.longest = outbox, longest

    def run(self) -> None:
        while not self.stage.quiet.is_set():
            keys = []
            try:
                with psycopg.connect(self.stage.dsn, connect_timeout=5) as session:
                    for _ in range(self.dice.randint(1, 3)):
                        keys.append(self.push(session))
                    self.stage.quiet.wait(self.dice.choice([0.0, 0.0, self.dice.uniform(1.0, self.longest)]))
                    session.commit()
            except psycopg.Error:
                self.stage.tell("sql unknown", len(keys))
                self.stage.quiet.wait(0.2)
                continue
            at = time.monotonic()
            for key in keys:
                self.checker.committed(key, at)
            self.stage.tell("sql", len(keys))
            self.stage.quiet.wait(self.dice.choice([0.1, 0.5, 2.0]))

    def push(self, session: psycopg.Connection) -> str:
        partition = f"{self.name}-{self.dice.randrange(2)}"
        key = self.key(partition)
        if self.outbox:
            session.execute("SELECT queen.push(%s, %s, to_json(%s::text))", (self.stage.queue, partition, key))
        else:
            item = {"queue": self.stage.queue, "partition": partition, "payload": key, "transactionId": key}
            session.execute("SELECT queen.push_messages_v3(%s::jsonb)", (json.dumps([item]),))
        return key


class Consumer(Actor):
    """Pops of some daemons, by one kind of WAITERS; None: of any partition, now and then without waiting. Mostly it
    acknowledges what it gets; now and then it is busy for a while, or gone."""

    def __init__(self, stage: Stage, name: str, group: str, places: list[int], waiter: str | None = None):
        super().__init__(stage, name)
        self.group, self.places, self.waiter = group, places, waiter
        # how often it is gone when nothing is pushed any more: then no later message covers up what stays behind
        self.leaves = 3

    def run(self) -> None:
        while not self.stage.over.is_set():
            if self.stage.silence.is_set():
                self.stage.over.wait(0.05)
                continue
            place, waits = self.dice.choice(self.places), self.dice.random() < 0.8
            if self.waiter:
                waits = self.waiter != "again"
            partition = self.dice.choice(self.checker.partitions()) if self.waiter == "partition" else None
            target = self.target(waits, partition)
            asked = time.monotonic()
            answer = self.ask(place, "GET", target)
            ended = time.monotonic()
            if answer is None or answer.status == 503:
                self.checker.pop_unanswered(self.group, asked, ended, LEASE)
                continue
            assert answer.status in (200, 204), (answer.status, answer.body)
            messages = answer.json["messages"] if answer.status == 200 else []
            pop = self.checker.popped(self.group, [(m["partition"], m["offset"], m["data"]) for m in messages],
                                      asked, ended, LEASE, f"daemon {place}", wildcard=partition is None, waits=waits,
                                      partition=partition)
            if messages:
                self.settle(place, pop, messages)
            elif not waits:
                self.stage.over.wait(0.1)

    def target(self, waits: bool, partition: str | None) -> str:
        filed = {self.waiter: NAMES[self.waiter]} if self.waiter in NAMES else {}
        pilot = self.waiter == "autopilot" or self.waiter is None and self.dice.random() < 0.2
        sizes = {} if self.waiter == "autopilot" else {"batch": self.dice.choice([1, 10, 100])}
        timeout = 1000
        if partition is not None and self.stage.quiet.is_set():
            sizes, timeout = {"batch": 1000}, 200      # it looks at one of many: what is left would take minutes
        if partition is None and self.waiter != "autopilot":
            sizes["partitions"] = self.dice.choice([1, 3, 10, 64])
        return pop_target(None if filed else self.stage.queue, partition, consumerGroup=self.group, wait=waits,
                          timeout=timeout, **filed, **sizes, **({"autopilot": True} if pilot else {}))

    def settle(self, place: int, pop: Any, messages: list[dict]) -> None:
        chance = self.dice.random()
        if self.stage.quiet.is_set():
            self.leaves -= 1
            chance = chance * 0.04 if self.leaves >= 0 else 1.0
        if chance < 0.02:
            return
        if chance < 0.06:
            self.extend(place, pop, messages)
        if chance < 0.04:
            return
        if chance < 0.08:
            self.stage.quiet.wait(self.dice.uniform(1.0, LEASE - 1.0))
        elif chance < 0.2:
            place = self.dice.randrange(len(self.stage.daemons))    # whoever it asks, it is acknowledged
        results = self.acknowledge(place, {"consumerGroup": self.group,
                                           "acknowledgments": [ack_of(m) for m in messages]})
        if results is None:
            self.stage.tell("ack unknown")
            self.checker.ack_unanswered(pop)
            return
        at = time.monotonic()
        confirmed = [(m["partition"], m["offset"])
                     for m, one in zip(messages, results, strict=True) if one["success"]]
        self.checker.ack_answered(pop, confirmed, at, released=len(confirmed) == len(messages))
        self.stage.tell("consumed", len(confirmed))
        self.stage.tell("refused", len(messages) - len(confirmed))

    def acknowledge(self, place: int, body: dict) -> list[dict] | None:
        """None: nobody knows what came of it."""
        answer = self.ask(place, "POST", "/api/v1/ack/batch", body)
        assert answer is None or answer.status in (200, 503), (answer.status, answer.body)
        return answer.json if answer is not None and answer.status == 200 else None

    def extend(self, place: int, pop: Any, messages: list[dict]) -> None:
        """Somewhere between the end that is known to the daemons and twice that."""
        seconds = self.dice.randint(LEASE, 2 * LEASE)
        self.ask(place, "POST", f"/api/v1/lease/{messages[0]['leaseId']}/extend", {"seconds": seconds})
        self.checker.extended(pop, time.monotonic() + seconds)
        self.stage.tell("extended")


class Listener(Consumer):
    """A consumer that is told: it keeps a stream for a while, as events or over a WebSocket, and acknowledges what
    comes. Then it leaves, mostly in the middle of something, and comes back."""

    feed: Feed | SocketFeed
    free: bool
    since: float

    def run(self) -> None:
        while not self.stage.over.is_set():
            if self.stage.silence.is_set():
                self.stage.over.wait(0.05)
                continue
            self.since = time.monotonic()
            try:
                self.listen(self.dice.choice(self.places))
            except OSError:
                self.stage.over.wait(0.02)      # it was cut, or nothing came for a while
            # what was claimed for it and never came; what had to come before that counts as late
            self.checker.pop_unanswered(self.group, self.since, time.monotonic(), LEASE)

    def listen(self, place: int) -> None:
        credit = self.dice.choice([1, 10, 100, 300]) if not self.stage.quiet.is_set() else 300
        window = self.dice.choice([0, 0, credit])
        kind = {"events": Feed, "socket": SocketFeed}.get(self.waiter) or self.dice.choice([Feed, SocketFeed])
        end, patience = time.monotonic() + self.dice.choice([0.5, 5.0, 20.0]), self.dice.choice([1.0, 5.0])
        begin = time.monotonic()    # what comes may have been claimed at any time since
        self.free = True            # nothing that came is without a confirmed acknowledgment: it has all its credit
        with kind(self.stage.daemons[place].address, self.stage.queue, timeout=patience, consumerGroup=self.group,
                  credit=credit, release=self.dice.random() < 0.5, heartbeat=30,
                  **({"window": window} if window else {})) as self.feed:
            if self.feed.status == 503:      # neither that daemon nor its database knows the names as yet
                raise ConnectionRefusedError(self.feed.text)
            asked = time.monotonic()
            while time.monotonic() < end and not self.stage.over.is_set() and not self.stage.silence.is_set():
                try:
                    came = self.feed.window()["messages"] if window else [self.feed.message()]
                except TimeoutError:
                    if self.free:
                        self.since = time.monotonic()
                        self.checker.popped(self.group, [], asked, self.since, LEASE, f"stream of {place}", waits=True)
                    if self.dice.random() < 0.3:
                        raise
                    continue
                asked = time.monotonic()
                pop = self.checker.popped(self.group, [(m["partition"], m["offset"], m["data"]) for m in came],
                                          begin, time.monotonic(), LEASE, f"stream of {place}",
                                          wildcard=False)
                self.settle(place, pop, came)
                self.free = self.free and pop.released < float("inf")
                self.stage.tell("streamed", len(came))

    def acknowledge(self, place: int, body: dict) -> list[dict] | None:
        if isinstance(self.feed, Feed) or self.dice.random() < 0.5:
            return super().acknowledge(place, body)
        try:
            answer = self.feed.ask({"ack": body})
        except OSError:
            self.feed.wire.close()      # an answer that comes late is not the next one's
            return None
        assert answer["status"] in (200, 503), answer
        return answer["ack"] if answer["status"] == 200 else None
