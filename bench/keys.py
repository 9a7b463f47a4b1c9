"""Keys and locks beside Redis: a closed loop of single operations, each system by itself, in turns.

    python bench/keys.py [--seconds N] [--rounds N] [--conns 1,64] [--postgres MAJOR]

Redis runs with its append-only file, flushed before each answer (`always`) and once a second (`everysec`). queend
flushes before each answer. CPU is that of the server, for queend with PostgreSQL's. The best of the rounds is shown, by
rate.
Prints a table. `make bench-keys` installs Redis."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import open_cluster
from generator import HERE, build, follow
from peers.redis import Redis
from peers.system import System
from server import served

PROGRAM = [HERE / "keys" / "main.c", HERE / "load" / "text.c"]
OPERATIONS, KEYS = ("put", "get", "incr", "lock"), 10_000


class Queend(System):
    name, wire, durability = "queend", "http", "flushed before the answer"

    def __init__(self, major: int | None) -> None:
        super().__init__(major)
        self.context = served(open_cluster(major))

    def start(self) -> None:
        self.cluster, self.daemon = self.context.__enter__()
        self.host, self.port = self.daemon.host, self.daemon.port

    def cpu_seconds(self) -> dict[str, float]:
        return {"daemon": self.daemon.cpu_seconds(), "postgres": self.cluster.cpu_seconds()}

    def stop(self) -> None:
        self.context.__exit__(None, None, None)
        super().stop()


def measured(system: System, operation: str, conns: int, seconds: float) -> dict:
    """One load: what the generator tells, and CPU of the system in us per operation."""
    spent: list[dict[str, float]] = []
    report = follow([build("keys", PROGRAM), system.wire, system.host, str(system.port), str(conns), str(seconds),
                     operation, str(KEYS)], lambda: spent.append(system.cpu_seconds()),
                    lambda: spent.append(system.cpu_seconds()))
    if report["errors"]:
        raise SystemExit(f"bench: {system.name} {operation}: {report['errors']} errors: {report['error']}")
    count = max(report["operations"], 1)
    return {"rate": report["operations"] / report["seconds"], "p50": report["p50_ms"], "p99": report["p99_ms"],
            "cpu": sum(spent[1][part] - spent[0][part] for part in spent[0]) / count * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description="Keys and locks beside Redis.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--conns", default="1,64")
    parser.add_argument("--postgres", type=int, metavar="MAJOR")
    words = parser.parse_args()
    all_conns = [int(one) for one in words.conns.split(",")]
    best: dict[tuple[str, str, int], dict] = {}
    for _ in range(words.rounds):
        for system in (Queend(words.postgres), Redis("always"), Redis("everysec")):
            try:
                system.start()
                measured(system, "put", 64, 2.0)       # most of the keys that are read
                for conns in all_conns:
                    for operation in OPERATIONS:
                        got = measured(system, operation, conns, words.seconds)
                        where = (operation, system.name, conns)
                        if where not in best or got["rate"] > best[where]["rate"]:
                            best[where] = got
            finally:
                system.stop()
    print("| operation | clients | system | per second | CPU us each | p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|---|")
    for (operation, name, conns), got in sorted(best.items(), key=lambda one: (OPERATIONS.index(one[0][0]), one[0][2])):
        print(f"| {operation} | {conns} | {name} | {got['rate']:,.0f} | {got['cpu']:.1f} | {got['p50']:.2f} |"
              f" {got['p99']:.2f} |")


if __name__ == "__main__":
    main()
