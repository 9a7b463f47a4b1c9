"""Random histories of clients at few keys, over two daemons, while everything goes wrong that can. A checker says
whether they could have happened one after another (support/linear).

A round has its own servers, daemons and seed, which is printed. `make test-faults` plays rounds for minutes
(FAULT_SECONDS); FAULT_SEED begins with a seed that was printed, FAULT_KINDS names what goes wrong (KINDS)."""
from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from threading import Event, Lock
from typing import Any

import psycopg
import pytest
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone
from support.linear import Call, contradiction
from support.pair import Pair
from support.ports import free_port
from support.postgres import Postgres
from support.troubles import Troubles

from queend.postgres.migrate import migrate

SECONDS = float(os.environ.get("FAULT_SECONDS", "12")) / 4
ROUND = min(SECONDS, 60.0)
DAEMONS, CLIENTS, NS = 2, 8, "history"
KEYS, LIFE_S = "abc", 1.0      # used at once, and for how long: an order is looked for among few calls
KINDS = ["freeze", "cut", "fail over", "kill a daemon", "restart the database", "kill a backend", "stop a daemon",
         "freeze the server", "end sessions", "slow network", "slow commits"]
KINDS = [kind for kind in KINDS if kind in os.environ.get("FAULT_KINDS", ",".join(KINDS)).split(",")]


class History:
    """What the clients did, by key. Any thread."""

    def __init__(self) -> None:
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self.told: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, key: str, call: Call) -> None:
        with self._lock:
            self.calls[key].append(call)
            self.told[f"{call.op} {'unknown' if call.answer is None else call.answer.get('reason', 'done')}"] += 1

    def version(self, key: str, dice: random.Random) -> int:
        """A version of late, or one that may never have been."""
        with self._lock:
            seen = [call.answer["version"] for call in self.calls[key][-6:]
                    if call.answer and call.answer.get("version")]
        return dice.choice([*seen, 1])


class Round(Troubles):
    longest = SECONDS / 4

    def __init__(self, folder: Path, seed: str, major: int | None):
        self.folder, self.dice, self.happened = folder, random.Random(seed), []
        self.pair = Pair(folder, major)
        self.pair.primary.execute("CREATE DATABASE history")
        self.dsn = self.pair.dsn("history")
        migrate(self.dsn)
        self.history, self.over = History(), Event()
        self.ports = [free_port() for _ in range(DAEMONS)]
        self.checker, self.stage = Calm(), Scene([])
        self.stage.daemons += [self.start(place) for place in range(DAEMONS)]

    def start(self, place: int) -> Daemon:
        return Daemon(self.dsn, PORT=self.ports[place], DB_STATEMENT_TIMEOUT=2500, LIBQUEEN_INFLIGHT_DEADLINE_MS=3000,
                      DB_CONNECTION_TIMEOUT=1000, QUEEND_SLOTS=4, QUEEND_PATIENCE_MS=3000)

    def do_fail_over(self, left: float) -> None:
        """What the new server has is what the keys are then: writes of the last second are gone."""
        begun, rows = time.monotonic(), {}

        def look(server: Postgres) -> set[Any]:
            rows.clear()
            with psycopg.connect(server.dsn(dbname="history")) as session:
                rows.update({key: (version, value) for key, version, value in session.execute(
                    "SELECT key, version, value::int FROM queend.kv WHERE ns = %s", (NS,))})
            return set()
        self.pair.fail_over(look)
        for key in list(self.history.calls):
            version, value = rows.get(key, (0, None))
            self.history.add(key, Call("restore", begun, time.monotonic(), value, version, {}))

    def client(self, number: int) -> None:
        dice = random.Random(f"{self.dice.random()}/{number}")
        values = iter(range(number * 10**6, 10**9))
        while not self.over.is_set():
            try:
                with self.stage.daemons[dice.randrange(DAEMONS)].client(8) as client:
                    for _ in range(dice.randint(1, 20)):
                        if self.over.is_set() or not self.ask(client, dice, values):
                            break
            except OSError:
                time.sleep(0.05)  # nobody listens there: a daemon was killed

    def ask(self, client: Any, dice: random.Random, values: Any) -> bool:
        """One call. Returns whether the connection is of further use."""
        key = f"{dice.choice(KEYS)}{int(time.monotonic() / LIFE_S)}"
        op = dice.choice(("get", "get", "put", "put", "incr", "delete", "check"))
        call = Call(op, 0.0)
        wire: dict[str, Any] = {"op": op, "ns": NS, "key": key}
        if op in ("put", "incr"):
            wire["ttlSeconds"] = 86400
        if op == "put":
            wire["value"] = call.value = next(values)
        if op == "check" or op in ("put", "delete") and dice.random() < 0.6:
            wire["expect"] = call.expect = dice.choice((0, self.history.version(key, dice)))
        rides = dice.random() < 0.2
        call.begun = time.monotonic()
        try:
            answer = (client.post("/api/v1/transaction", {"operations": [], "kv": [wire]}) if rides
                      else client.post("/api/v1/kv", {"operations": [wire]}))
            assert answer.status in (200, 503), (answer.status, answer.body)
            if answer.status == 200:
                call.answer, call.ended = answer.json["results"][0], time.monotonic()
        except (OSError, Gone):
            self.history.add(key, call)
            return False
        self.history.add(key, call)
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
    with tempfile.TemporaryDirectory(prefix="queend-keys-") as name:
        os.chmod(name, 0o755)
        one = Round(Path(name), seed, major)
        try:
            one.play(seconds)
            print(f"\nFAULT_SEED={seed} keys: {dict(Counter(kind for kind, _, _ in one.happened))};"
                  f" {dict(sorted(one.history.told.items()))}", flush=True)
            for key, calls in one.history.calls.items():
                around = contradiction(calls)
                assert not around, f"FAULT_SEED={seed} {one.happened} {key}:\n" + "\n".join(map(str, around))
        finally:
            one.end()


def test_keys_are_linearizable(request: pytest.FixtureRequest) -> None:
    """In the ordinary run one round of a few seconds, else rounds of a minute."""
    end, seeds = time.monotonic() + SECONDS, random.Random()
    seed = os.environ.get("FAULT_SEED", "1")
    while True:
        play(seed, ROUND, request.config.getoption("--postgres"))
        if time.monotonic() + ROUND > end:
            break
        seed = str(seeds.randrange(10**9))
