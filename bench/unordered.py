"""Jobs without order: how long workers take for them, and single jobs a second beside pgmq. Each system by itself, in
turns.

    python bench/unordered.py [--rounds N] [--seconds N] [--workers N] [--postgres MAJOR]

The wave: 30 jobs of 0.2 s (a sleep), pushed at once, and ten workers that wait for them; from the push to the last
acknowledgment, of some waves the median and the slowest. Jobs are pushed without an id, by the Python client, which
makes ids, and with random ids. Single jobs: workers that take one job, and acknowledge it, in a closed loop; the best
of the rounds is shown. CPU is that of the server, with PostgreSQL's. pgmq comes from PyPI (its SQL).
Prints two tables."""

import argparse
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import open_cluster
from server import served

from peers.pgmq import Pgmq
from peers.queend import Queend
from peers.system import System
from queend.client import Client, Push

JOBS, WORK_S, WORKERS, WAVES = 30, 0.2, 10, 9
BACKLOG = 40_000
OPTIONS: dict[str, dict] = {"one partition": {}, "without order": {"ordered": False}}


class Ordered(Queend):
    name = "queend, one partition"
    options: dict = {}

    def create(self, queue: str) -> None:
        self.server.call("POST", "/api/v1/configure", {"queue": queue, "options": {"leaseTime": 300, **self.options}})

    def fill(self, queue: str, count: int) -> None:
        for at in range(0, count, 1000):
            self.server.call("POST", "/api/v1/push?format=counts", {"items": [
                {"queue": queue, "payload": {"job": at + n}} for n in range(1000)]})


class Free(Ordered):
    name = "queend, without order"
    options = {"ordered": False}


class Jobs(Pgmq):
    def fill(self, queue: str, count: int) -> None:
        self.run(queue, 0, 60, [dict(kind="push", conns=4, items=100, count=count)], lambda: None, lambda: None)


def wave(url: str, queue: str, push: Callable[[Client, str], None]) -> float:
    """Seconds from the push of the jobs to the last acknowledgment."""
    left, done, ends = [JOBS], threading.Lock(), threading.Event()

    def work() -> None:
        with Client(url) as client:
            while not ends.is_set():
                for job in client.pop(queue, batch=1, wait=1):
                    time.sleep(WORK_S)
                    client.ack(job)
                    with done:
                        left[0] -= 1
                        if left[0] == 0:
                            ends.set()

    threads = [threading.Thread(target=work) for _ in range(WORKERS)]
    with Client(url) as client:
        for thread in threads:
            thread.start()
        time.sleep(0.3)          # all of them wait
        began = time.monotonic()
        push(client, queue)
        ends.wait()
        took = time.monotonic() - began
    for thread in threads:
        thread.join()
    return took


def waves(major: int | None) -> None:
    pushes: dict[str, Callable[[Client, str], None]] = {
        "no id": lambda client, queue: client.call("POST", "/api/v1/push", body={
            "items": [{"queue": queue, "payload": n} for n in range(JOBS)]}),
        "ids of the client": lambda client, queue: client.push_many(Push(queue, n) for n in range(JOBS)),
        "random ids": lambda client, queue: client.call("POST", "/api/v1/push", body={
            "items": [{"queue": queue, "payload": n, "transactionId": str(uuid.uuid4())} for n in range(JOBS)]})}
    took: dict[tuple[str, str], list[float]] = {}
    with served(open_cluster(major)) as (_, daemon):
        url = f"http://{daemon.host}:{daemon.port}"
        for turn in range(WAVES):
            for name, options in OPTIONS.items():
                for how, push in pushes.items():
                    if not options and (turn > 0 or how != "no id"):
                        continue          # 6 s each, and always the same
                    queue = f"wave-{turn}-{name}-{how}".replace(" ", "-")
                    daemon.call("POST", "/api/v1/configure", {"queue": queue, "options": options})
                    took.setdefault((name, how), []).append(wave(url, queue, push))
    slow = statistics.median(took["one partition", "no id"])
    print("| queue | jobs pushed with | waves | median s | slowest s | of one partition |")
    print("|---|---|---|---|---|---|")
    for (name, how), seconds in took.items():
        middle = statistics.median(seconds)
        print(f"| {name} | {how} | {len(seconds)} | {middle:.2f} | {max(seconds):.2f} | {middle / slow:.3f} |")


def singles(major: int | None, rounds: int, seconds: float, workers: int) -> None:
    best: dict[str, dict] = {}
    for turn in range(rounds):
        for kind in (Ordered, Free, Jobs):
            system: System = kind(major)
            try:
                system.start()
                system.create("jobs")
                system.fill("jobs", BACKLOG)
                spent: list[dict[str, float]] = []
                report = system.run("jobs", 0.5, seconds, [dict(kind="pop", conns=workers, items=1, **(
                    {"delivery": 0} if kind is not Jobs else {}))], lambda s=spent, y=system: s.append(y.cpu_seconds()),
                    lambda s=spent, y=system: s.append(y.cpu_seconds()))
                got = report["roles"]["pop"]
                if got["errors"]:
                    raise SystemExit(f"bench: {system.name}: {got['errors']} errors: {got['error']}")
                rate = got["messages"] / report["seconds"]
                if system.name not in best or rate > best[system.name]["rate"]:
                    best[system.name] = {"rate": rate, "cpu": sum(spent[1][part] - spent[0][part] for part in spent[0])
                                         / max(got["messages"], 1) * 1e6}
            finally:
                system.stop()
    print("\n| system | workers | single jobs a second | CPU us each |")
    print("|---|---|---|---|")
    for name, got in best.items():
        print(f"| {name} | {workers} | {got['rate']:,.0f} | {got['cpu']:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Jobs without order.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--postgres", type=int, metavar="MAJOR")
    words = parser.parse_args()
    waves(words.postgres)
    singles(words.postgres, words.rounds, words.seconds, words.workers)


if __name__ == "__main__":
    main()
