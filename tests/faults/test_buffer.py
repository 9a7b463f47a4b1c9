"""A random history of pushes with the daemon killed, the database killed and stopped, and maintenance switched: what
was answered `queued`, `buffered` or `duplicate` is there once, and each producer's messages stand in their order.

`make test-faults` runs it for a quarter of its time (FAULT_SECONDS, FAULT_SEED).
"""
from __future__ import annotations

import os
import random
import threading
from collections import Counter
from pathlib import Path

from support.client import Client, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone
from support.postgres import Postgres
from support.wait import until

SECONDS = float(os.environ.get("FAULT_SECONDS", "24")) / 4  # the other histories take the rest
SEED = int(os.environ.get("FAULT_SEED", "1"))
PRODUCERS, PARTITIONS = 6, 4


class History:
    """One daemon on one database, its producers, and what they were told."""

    def __init__(self, postgres: Postgres, folder: Path, queue: str):
        self.postgres, self.queue = postgres, queue
        self.settings = {"QUEEND_BUFFER_BYTES": 256 << 20, "FILE_BUFFER_DIR": folder,
                         "FILE_BUFFER_EVENTS_PER_FILE": 500, "FILE_BUFFER_MAX_BATCH": 300,
                         "LIBQUEEN_INFLIGHT_DEADLINE_MS": 2000, "DB_CONNECTION_TIMEOUT": 1000, "QUEEND_SLOTS": 4}
        self.conninfo = postgres.database()
        self.daemon = Daemon(self.conninfo, **self.settings)
        self.kept: dict[int, list[tuple[int, int]]] = {who: [] for who in range(PRODUCERS)}   # (partition, number)
        self.words: Counter[str] = Counter()
        self.enough = threading.Event()

    def produce(self, who: int) -> None:
        """One request at a time, repeated with the same ids until it is answered with 201."""
        dice, number, client = random.Random(f"{SEED}.{who}"), 0, None
        while not self.enough.is_set():
            items, places = [], []
            for _ in range(dice.choice((1, 1, 1, 5, 140))):
                partition = dice.randrange(PARTITIONS) if dice.random() < 0.5 else who % PARTITIONS
                items.append({"queue": self.queue, "partition": str(partition), "transactionId": f"{who}.{number}",
                              "payload": [who, number]})
                places.append((partition, number))
                number += 1
            while True:
                try:
                    client = client or Client(self.daemon.address, 60)
                    answer = client.post("/api/v1/push", {"items": items})
                except (OSError, Gone):
                    client = None
                    self.enough.wait(0.01)  # the address refuses: no need to spin
                    continue
                if answer.status == 201:
                    break
                assert answer.status == 503 and "retry-after" in answer.headers, (answer.status, answer.body)
                self.enough.wait(0.01)
            words = [item["status"] for item in answer.json]
            assert set(words) <= {"queued", "buffered", "duplicate"}, answer.json
            self.words.update(words)
            self.kept[who] += places
            self.enough.wait(0.005)  # a load that the buffer's drain has room for

    def trouble(self, dice: random.Random) -> str:
        """One thing goes wrong, and right again."""
        what = dice.choice(("kill", "away", "away and kill", "hang", "maintenance", "maintenance and kill", "stop"))
        if what in ("away", "away and kill"):
            with self.postgres.away():
                self.settle(dice)
        elif what == "hang":
            with self.postgres.frozen():
                self.settle(dice)
        elif what.startswith("maintenance"):
            self.switch(True)
            self.settle(dice)
        if what.endswith("kill"):
            self.daemon.kill()
            self.daemon = Daemon(self.conninfo, **self.settings)
            self.settle(dice)
        elif what == "stop":
            self.daemon.stop()
            self.daemon = Daemon(self.conninfo, **self.settings)
        if what.startswith("maintenance"):
            self.switch(False)
        return what

    def switch(self, on: bool) -> None:
        with self.daemon.client() as client:
            until(lambda: client.post("/api/v1/system/maintenance", {"enabled": on}).status == 200,
                  "maintenance is switched")

    def settle(self, dice: random.Random) -> None:
        """Until the producers were told something, or nothing for a while."""
        before = self.words.total()
        self.enough.wait(dice.uniform(0.0, 0.3))
        for _ in range(100):
            if self.words.total() > before:
                return
            self.enough.wait(0.02)


def test_nothing_is_lost_doubled_or_out_of_order(postgres, queue, tmp_path):
    history = History(postgres, tmp_path / "buffer", queue)
    crowd = Crowd()
    crowd.all(history.produce, range(PRODUCERS))
    dice, happened = random.Random(SEED), []

    def stored_again() -> None:
        before = history.words["queued"]
        until(lambda: history.words["queued"] > before or crowd.failures, "pushes are stored again", 60)

    clock = threading.Timer(SECONDS, lambda: None)
    clock.start()
    while clock.is_alive() or len(happened) < 3:
        assert not crowd.failures, crowd.failures
        happened.append(history.trouble(dice))
        if dice.random() < 0.5:     # else the next one meets a buffer that drains
            stored_again()
    stored_again()
    history.enough.set()
    crowd.join()
    with history.daemon.client() as client:
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty", 60)
        found: dict[int, list] = {}
        for partition in range(PARTITIONS):
            found[partition] = []
            while messages := client.pop(queue, str(partition), batch=1000, autoAck=True):
                found[partition] += data(messages)
        # A killed daemon may leave half a record that no client was told of: the next start keeps it in `quarantine`.
        assert client.get("/api/v1/status/buffers").json["failed"] <= sum(what.endswith("kill") for what in happened)
    for partition, messages in found.items():
        for who in range(PRODUCERS):
            got = [number for producer, number in messages if producer == who]
            assert got == [number for place, number in history.kept[who] if place == partition], (
                partition, who, happened)
    print(f"\n{len(happened)} troubles: {dict(Counter(happened))}; {history.words.total()} messages:"
          f" {dict(history.words)}, {sum(map(len, found.values()))} found")
    history.daemon.stop()
