"""Random histories of timers over two daemons, while daemons and backends are killed, stand still and are cut off. At
the end, the messages must be those that the answers promised. Each timer that was acknowledged as scheduled, and
neither replaced nor cancelled, was stored once and not early. One that was cancelled or replaced was not stored.

A round has its own servers, daemons and seed, which is printed. `make test-faults` plays rounds for minutes
(FAULT_SECONDS); FAULT_SEED begins with a seed that was printed, FAULT_KINDS names what goes wrong (KINDS)."""
from __future__ import annotations

import base64
import os
import random
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone
from support.pair import Pair
from support.ports import free_port
from support.troubles import Troubles
from support.wait import until

from queend.postgres.migrate import migrate

SECONDS = float(os.environ.get("FAULT_SECONDS", "12")) / 4
ROUND = min(SECONDS, 60.0)
DAEMONS, CLIENTS, PARTITIONS, QUEUE = 2, 8, 5, "history"
DELAYS_MS = (0, 0, 5, 50, 300, 1500)
KINDS = ["freeze", "cut", "kill a daemon", "restart the database", "kill a backend", "stop a daemon", "end sessions",
         "slow network"]
KINDS = [kind for kind in KINDS if kind in os.environ.get("FAULT_KINDS", ",".join(KINDS)).split(",")]
FIRES, MAY_FIRE, NEVER = "fires", "may fire", "never"


class Promises:
    """What each schedule was promised: whether its message is stored, and not before when. Any thread."""

    def __init__(self) -> None:
        self.fate: dict[str, str] = {}             # by transaction id
        self.due: dict[str, str] = {}
        self.told: Counter[str] = Counter()
        self._lock = Lock()

    def keep(self, txn: str | None, fate: str, word: str, due: str | None = None) -> None:
        with self._lock:
            self.told[word] += 1
            if txn is not None:
                self.fate[txn] = fate
            if txn is not None and due:
                self.due[txn] = due


class Round(Troubles):
    longest = SECONDS / 4

    def __init__(self, folder: Path, seed: str, major: int | None):
        self.folder, self.dice, self.happened = folder, random.Random(seed), []
        self.pair = Pair(folder, major)
        self.pair.primary.execute("CREATE DATABASE history")
        self.dsn = self.pair.dsn("history")
        migrate(self.dsn)
        self.promises, self.over = Promises(), Event()
        self.ports = [free_port() for _ in range(DAEMONS)]
        self.checker, self.stage = Calm(), Scene([])
        self.stage.daemons += [self.start(place) for place in range(DAEMONS)]

    def start(self, place: int) -> Daemon:
        return Daemon(self.dsn, PORT=self.ports[place], DB_STATEMENT_TIMEOUT=2500, LIBQUEEN_INFLIGHT_DEADLINE_MS=3000,
                      DB_CONNECTION_TIMEOUT=1000, QUEEND_SLOTS=4, QUEEND_PATIENCE_MS=3000)

    def client(self, number: int) -> None:
        dice = random.Random(f"{self.dice.random()}/{number}")
        names: Iterator[str] = (f"{number}/{n}" for n in range(10**9))
        while not self.over.is_set():
            try:
                with self.stage.daemons[dice.randrange(DAEMONS)].client(8) as client:
                    for _ in range(dice.randint(1, 20)):
                        if self.over.is_set() or not self.life(client, dice, next(names)):
                            break
            except OSError:
                time.sleep(0.05)  # nobody listens there: a daemon was killed

    def life(self, client: Any, dice: random.Random, key: str) -> bool:
        """Schedules a timer, and replaces or cancels it at times. Returns whether the connection is of further use."""
        before: str | None = None
        for _ in range(dice.choice((1, 1, 2, 3))):
            txn = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            answer = self.ask(client, dice, {
                "op": "schedule", "queue": QUEUE, "timerKey": key, "delayMs": dice.choice(DELAYS_MS), "txn": txn,
                "partition": str(dice.randrange(PARTITIONS)), "payload": base64.b64encode(b"1").decode()})
            if answer is None:
                self.promises.keep(before, MAY_FIRE, "unknown")
                self.promises.keep(txn, MAY_FIRE, "schedule unknown")
                return False
            self.promises.keep(before, NEVER if answer["status"] == "rescheduled" else FIRES, answer["status"])
            self.promises.keep(txn, FIRES, "schedule", answer["deliverAt"])
            before = txn
            if dice.random() < 0.3:
                time.sleep(dice.uniform(0, 0.1))      # so that some fire meanwhile
        if dice.random() < 0.4:
            answer = self.ask(client, dice, {"op": "cancel", "queue": QUEUE, "timerKey": key})
            if answer is None:
                self.promises.keep(before, MAY_FIRE, "cancel unknown")
                return False
            self.promises.keep(before, NEVER if answer["status"] == "cancelled" else FIRES, answer["status"])
        return True

    def ask(self, client: Any, dice: random.Random, op: dict[str, Any]) -> dict[str, Any] | None:
        """The result of an operation by one of its routes; None if nothing is known about it."""
        try:
            if op["op"] == "cancel" and dice.random() < 0.5:
                answer = client.request("DELETE", f"/api/v1/timers/{QUEUE}/{op['timerKey']}")
                return answer.json if self.served(answer) else None
            if dice.random() < 0.3:
                answer = client.post("/api/v1/transaction", {"operations": [], "timers": [op]})
            else:
                answer = client.post("/api/v1/timers", {"operations": [op]})
            return answer.json["results"][0] if self.served(answer) else None
        except (OSError, Gone):
            return None

    def served(self, answer: Any) -> bool:
        assert answer.status in (200, 503), (answer.status, answer.body)
        return answer.status == 200

    def play(self, seconds: float) -> None:
        end, kinds = time.monotonic() + seconds, []
        crowd = Crowd()
        crowd.all(self.client, range(CLIENTS))
        try:
            while time.monotonic() < end and not crowd.failures:
                kinds = kinds or self.dice.sample(KINDS, len(KINDS))
                self.trouble(kinds.pop(), end)
                self.wait(0.0, 1.0, max(0.0, end - time.monotonic()))
        finally:
            self.over.set()
        crowd.join()

    def stored(self) -> list[dict[str, Any]]:
        """The messages, once no timer is left."""
        def left() -> int:
            with self.stage.daemons[0].client() as client:
                answer = client.get(f"/api/v1/timers/{QUEUE}?mode=count")
                return answer.json["count"] if answer.status == 200 else 1
        until(lambda: not left(), "all timers have fired")
        found: list[dict[str, Any]] = []
        with self.stage.daemons[0].client() as client:
            for partition in range(PARTITIONS):
                while some := client.pop(QUEUE, str(partition), batch=1000, autoAck="true"):
                    found += some
        return found

    def end(self) -> None:
        for daemon in self.stage.daemons:
            if daemon.process.poll() is None:
                daemon.kill()
        self.pair.stop()


class Calm:
    """Of the troubles: nothing here depends on when they were."""

    def trouble(self, begin: float, end: float) -> None:
        pass


class Scene:
    def __init__(self, daemons: list[Daemon]):
        self.daemons = daemons


def play(seed: str, seconds: float, major: int | None) -> None:
    # Not below pytest's own folder: the servers' account walks the path.
    with tempfile.TemporaryDirectory(prefix="queend-timers-") as name:
        os.chmod(name, 0o755)
        one = Round(Path(name), seed, major)
        try:
            one.play(seconds)
            messages = one.stored()
            promises = one.promises
            print(f"\nFAULT_SEED={seed} timers: {dict(Counter(kind for kind, _, _ in one.happened))};"
                  f" {dict(sorted(promises.told.items()))}; {len(messages)} stored", flush=True)
            times = Counter(message["transactionId"] for message in messages)
            wrong = {txn: (fate, times[txn]) for txn, fate in promises.fate.items()
                     if times[txn] > 1 or fate == FIRES and not times[txn] or fate == NEVER and times[txn]}
            early = [message["transactionId"] for message in messages
                     if message["createdAt"] < promises.due.get(message["transactionId"], "")]
            assert not wrong and not early, f"FAULT_SEED={seed} {one.happened}: {wrong} early: {early}"
            assert not times.keys() - promises.fate.keys()
        finally:
            one.end()


def test_each_timer_fires_once_and_not_early(request: pytest.FixtureRequest) -> None:
    """In the ordinary run one round of a few seconds, else rounds of a minute."""
    end, seeds = time.monotonic() + SECONDS, random.Random()
    seed = os.environ.get("FAULT_SEED", "1")
    while True:
        play(seed, ROUND, request.config.getoption("--postgres"))
        if time.monotonic() + ROUND > end:
            break
        seed = str(seeds.randrange(10**9))
