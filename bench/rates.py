"""Do others flow at full rate while one queue is limited? In turns of one run, consumers of a free queue alone, and
beside as many consumers of a queue with groupRateLimit and queueRateLimit that wait for tokens all the time. Prints
messages a second of both queues, and the ratio of the free one's.

.venv/bin/python bench/rates.py [--rounds N] [--seconds N] [--rate N] [--clients N] [--postgres MAJOR]
"""
from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.daemon import Daemon  # noqa: E402
from support.postgres import running  # noqa: E402

PARTITIONS = 8


def flow(daemon: Daemon, queue: str, stop: threading.Event, done: list[int], feeds: bool) -> None:
    """One client: what it pushes (a free queue's) and pops until it is told to stop."""
    n = 0
    with daemon.client() as client:
        while not stop.is_set():
            if feeds:
                client.push(queue, *range(20), partition=f"p{n % PARTITIONS}")
            n += len(client.pop(queue, batch=20, partitions=PARTITIONS, autoAck=True, wait=True, timeout=1000))
    done.append(n)


def turn(daemon: Daemon, clients: int, seconds: float, limited: bool) -> tuple[float, float]:
    stop, free, paced = threading.Event(), [], []
    threads = [threading.Thread(target=flow, args=(daemon, "free", stop, free, True)) for _ in range(clients)]
    if limited:
        threads += [threading.Thread(target=flow, args=(daemon, "limited", stop, paced, False)) for _ in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    took = time.monotonic() - began
    return sum(free) / took, sum(paced) / took


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=5)
    options.add_argument("--rate", type=int, default=50)
    options.add_argument("--clients", type=int, default=4)
    options.add_argument("--postgres", type=int, default=None)
    args = options.parse_args()
    with running(args.postgres) as server, Daemon(server.database(), NUM_WORKERS=1) as daemon:
        with daemon.client() as client:
            client.configure("limited", groupRateLimit=args.rate, queueRateLimit=args.rate)
            for part in range(PARTITIONS):
                client.push("limited", *range(1000), partition=f"p{part}")
        turn(daemon, args.clients, 1, False)
        ratios = []
        for _ in range(args.rounds):
            alone, _ = turn(daemon, args.clients, args.seconds, False)
            beside, paced = turn(daemon, args.clients, args.seconds, True)
            ratios.append(beside / alone)
            print(f"free alone {alone:8.0f}/s   beside {beside:8.0f}/s   limited {paced:6.1f}/s of {args.rate}"
                  f"   ratio {beside / alone:.2f}", flush=True)
        print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
