"""What it is worth that daemons tell each other: from a push at one daemon to the pop that waits at another, and from
the end of a lease there to the pop that takes what is left here. With peers over UDP, over HTTP and without, in turns
of one run.

    python bench/notices.py [--pairs N] [--rounds N] [--postgres MAJOR]

One message at a time: the pop waits before the push or the acknowledgment leaves, so a time is of one machine's clock
and has the commit in it. Prints the table of bench/results/notices.md."""
from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import gettempdir

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.client import Client, pop_target  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.postgres import running  # noqa: E402
from support.wait import until  # noqa: E402

SECRET = "0123456789abcdef" * 4
WAYS = ("UDP", "HTTP", "none")


class Pair:
    """Two daemons on one database that tell each other in this way."""

    def __init__(self, conninfo: str, way: str):
        self.way, one, other = way, free_port(), free_port()
        shared = {"QUEEN_SYNC_SECRET": SECRET, "NUM_WORKERS": 1}
        ports = {"UDP": ({"QUEEN_UDP_NOTIFY_PORT": one, "QUEEN_UDP_PEERS": f"127.0.0.1:{other}"},
                         {"QUEEN_UDP_NOTIFY_PORT": other, "QUEEN_UDP_PEERS": f"127.0.0.1:{one}"}),
                 "HTTP": ({"PORT": one, "QUEEN_PEERS": f"http://127.0.0.1:{other}"},
                          {"PORT": other, "QUEEN_PEERS": f"http://127.0.0.1:{one}"}), "none": ({}, {})}[way]
        self.a, self.b = (Daemon.plain(conninfo, **shared, **more) for more in ports)
        self.pushes: list[float] = []
        self.leases: list[float] = []
        with self.a.client() as a, self.b.client() as b:
            if way != "none":
                for client in (a, b):
                    until(lambda client=client: client.get("/health").json["shared_state"]["server_health"][
                        "servers_alive"], "they hear each other")
            a.push(way, "first", partition="p")
            a.push(f"{way}-leases", "first", partition="p")
            a.pop(way, autoAck=True)
            a.pop(f"{way}-leases", autoAck=True)
            b.pop(way, autoAck=True)
            b.pop(f"{way}-leases", autoAck=True)

    def stop(self) -> None:
        self.a.stop()
        self.b.stop()

    def waits(self, client: Client, beside: Client, queue: str) -> None:
        client.send("GET", pop_target(queue, wait=True, timeout=60_000, autoAck=True))
        until(lambda: beside.metric("queend_worker_parked") == 1, "it waits")

    def measure(self, pairs: int) -> None:
        with self.a.client() as a, self.b.client() as b, self.b.client() as beside:
            for n in range(pairs):
                self.waits(b, beside, self.way)
                began = time.monotonic()
                a.push(self.way, n, partition="p")
                assert b.receive().json["messages"]
                self.pushes.append(1000 * (time.monotonic() - began))
            queue = f"{self.way}-leases"
            for n in range(pairs):
                a.push(queue, n, n, partition="p")
                (message,) = a.pop(queue, "p")
                self.waits(b, beside, queue)
                began = time.monotonic()
                a.ack(message)
                assert b.receive().json["messages"]
                self.leases.append(1000 * (time.monotonic() - began))


def burst(pair: Pair, connections: int = 8, each: int = 500) -> str:
    """Single pushes as fast as they go, over 80 partitions: what the daemon tells of them."""
    def push(number: int) -> None:
        with pair.a.client() as own:
            for n in range(each):
                own.push(f"{pair.way}-burst", n, partition=f"{number}.{n % 10}")

    with pair.a.client() as client:
        def told() -> dict:
            return client.get("/internal/api/inter-instance/stats").json["transport"]

        before, began = told(), time.monotonic()
        with ThreadPoolExecutor(connections) as pool:
            list(pool.map(push, range(connections)))
        took, after = time.monotonic() - began, told()
    return (f"A burst of {connections * each} pushes in {took:.1f} s: {after['sent'] - before['sent']} packets with "
            f"{after['entriesTold'] - before['entriesTold']} entries over UDP.")


def line(what: str, way: str, took: list[float]) -> str:
    at = statistics.quantiles(took, n=100)
    return f"| {what} | {way} | {at[49]:.1f} | {at[89]:.1f} | {at[98]:.1f} | {len(took)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100, help="of each kind in a round; without peers a tenth of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgres", type=int, default=None)
    given = parser.parse_args()
    with running(given.postgres, below=gettempdir()) as postgres:
        pairs = [Pair(postgres.database(), way) for way in WAYS]
        for _ in range(given.rounds):
            for pair in pairs:
                pair.measure(given.pairs if pair.way != "none" else max(2, given.pairs // 10))
        told = burst(pairs[0])
        for pair in pairs:
            pair.stop()
    print(f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}.\n")
    print("| from … to the pop that waits at another daemon, ms | peers | p50 | p90 | p99 | how many |")
    print("|---|---|---|---|---|---|")
    for what, name in (("a push", "pushes"), ("the end of a lease", "leases")):
        for pair in pairs:
            print(line(what, pair.way, getattr(pair, name)))
    print(f"\n{told}")


if __name__ == "__main__":
    main()
