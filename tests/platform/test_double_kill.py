"""The PostgreSQL of the daemon killed in part under load, and the daemon a moment later, or in the middle of its next
start: it serves again, with all it ever answered.

`make test-kills` does it 200 times (KILLS, FAULT_SEED) and prints how long it took.
"""
from __future__ import annotations

import os
import random
import signal
import statistics
import threading
import time
from pathlib import Path

from support.client import Client
from support.crowd import Crowd
from support.daemon import Daemon
from support.http import Gone
from support.prepared import data_folder
from support.wait import until

KILLS = int(os.environ.get("KILLS", "3"))
SEED = int(os.environ.get("FAULT_SEED", "1"))
PRODUCERS = 4


class Producers:
    """Push one batch after the other, each repeated until it is answered, to whichever daemon serves."""

    def __init__(self) -> None:
        self.address: tuple[str, int] | None = None
        self.answered = [0] * PRODUCERS     # batches
        self.stored = 0                     # answers that came from the database
        self.enough = threading.Event()

    def produce(self, who: int) -> None:
        dice, client = random.Random(f"{SEED}.{who}"), None
        while not self.enough.is_set():
            items = [{"queue": "kills", "partition": str(dice.randrange(50)),
                      "transactionId": f"{who}.{self.answered[who]}.{n}",
                      "payload": dice.randbytes(100).hex()} for n in range(50)]
            while not self.enough.is_set():
                try:
                    if client is None or client.address != self.address:
                        client = Client(self.address or ("127.0.0.1", 1), 30)
                    answer = client.post("/api/v1/push", {"items": items})
                except (OSError, Gone):
                    client = None
                    self.enough.wait(0.01)      # nobody listens: no need to spin
                    continue
                if answer.status == 201:
                    self.answered[who] += 1
                    self.stored += answer.json[0]["status"] != "buffered"
                    break


def parts(folder: Path) -> list[int]:
    """The processes of the server in there, the first one aside."""
    keeper = int((folder / "pg" / "postmaster.pid").read_text().split("\n", 1)[0])
    return [int(one) for one in Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()]


def test_it_serves_again_after_any_two_kills(tmp_path: Path) -> None:
    dice, load, took = random.Random(SEED), Producers(), []
    daemon = Daemon.own(data_folder(tmp_path))
    with Crowd() as crowd:
        for who in range(PRODUCERS):
            crowd.go(load.produce, who)
        try:
            daemon.await_ready()
            for round_ in range(KILLS):
                load.address = daemon.address
                enough = load.stored + dice.randrange(10, 60)
                until(lambda: load.stored > enough, "batches are stored")
                os.kill(dice.choice(parts(tmp_path)), signal.SIGKILL)
                time.sleep(dice.random() * 0.7)      # any moment of what follows
                daemon.kill()
                if dice.random() < 0.4:
                    hasty = Daemon.own(tmp_path)
                    time.sleep(dice.random() * 2)
                    hasty.kill()
                before, begin = load.stored, time.monotonic()
                daemon = Daemon.own(tmp_path)
                daemon.await_ready()
                load.address = daemon.address
                until(lambda: load.stored > before, "batches are stored again")
                took.append(time.monotonic() - begin)
                print(f"{round_}: {took[-1]:.2f} s", flush=True)
        finally:
            load.enough.set()
    print(f"{len(took)} double kills, {sum(load.answered)} batches answered; served again after "
          f"{min(took):.2f} / {statistics.median(took):.2f} / {max(took):.2f} s (least, median, most)")
    with daemon.client() as client:
        until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
        wanted = {f"{who}.{number}.{n}" for who in range(PRODUCERS)
                  for number in range(load.answered[who]) for n in range(50)}
        seen: list[str] = []
        while messages := client.pop("kills", batch=5000, partitions=50, autoAck=True):
            seen += [message["transactionId"] for message in messages]
        assert len(seen) == len(set(seen)), "a message is there twice"
        assert wanted <= set(seen), f"{len(wanted - set(seen))} messages are lost"
    assert daemon.end() == 0
