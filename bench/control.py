"""How many statements at a time: fixed numbers against the numbers the daemon finds by itself, on PostgreSQL as it is and
slowed by 10 ms. See docs/performance-control.md.

    python bench/control.py [--seconds N] [--slow none,commit,trip] [--only push1,...] [--settings adaptive,s1,...] [--postgres MAJOR]

One JSON line per run on standard output, a table on standard error."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generator import HERE, OUT, run_load
from run import open_cluster
from server import Daemon

from queend.service import embedded

SLOW_US = 10_000
DATABASES = {"none": {}, "commit": {"SLOW_COMMIT_US": str(SLOW_US)}, "trip": {"SLOW_TRIP_US": str(SLOW_US)}}
# What is fixed where something is; every other number of calls at a time stays adaptive.
STREAMS = {f"s{n}": {"QUEEND_PUSH_STREAMS": str(n)} for n in (1, 2, 4, 8)}
CALLS = {f"c{n}": {"QUEEN_VEGAS_MIN_LIMIT": str(n), "QUEEN_VEGAS_MAX_LIMIT": str(n)} for n in (1, 2, 4, 6)}
PUSH1 = dict(kind="push", name="push", conns=64, items=1, partitions=1000, ids=7)
PUSH100 = dict(kind="push", name="push", conns=16, items=100, partitions=1000, ids=7)
POP = dict(kind="pop", name="pop", conns=16, batch=50, wait=1, timeout=2000)
SCENARIOS = {
    "push1": (STREAMS, [PUSH1]),
    "push100": (STREAMS, [PUSH100]),
    "push1000few": (STREAMS, [dict(PUSH100, conns=8, items=1000, partitions=10)]),
    "pop50": (CALLS, [dict(POP, lease=0)]),
    "cycle": (CALLS, [dict(POP, lease=1)]),
    "pipeline": (STREAMS | CALLS, [PUSH1, dict(POP, lease=1)]),
}


def build_shim() -> Path:
    OUT.mkdir(exist_ok=True)
    target = OUT / "slow.so"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", target, HERE / "slow" / "slow.c", "-ldl"], check=True)
    return target


class Bench:
    def __init__(self, cluster, words):
        self.cluster, self.seconds, self.warm, self.fill, self.runs, self.filled = cluster, words.seconds, words.warm, words.fill, 0, False

    def run(self, scenario: str, setting: dict) -> dict:
        """One daemon with one setting under one load; messages per second of the role that counts, and CPU per message."""
        fixed, roles = SCENARIOS[scenario]
        os.environ.update(setting)
        try:
            server = Daemon(self.cluster)
        finally:
            for name in setting:
                del os.environ[name]
        try:
            self.runs += 1
            queue = f"control-{self.runs}" if roles[0]["kind"] == "push" else "control-filled"
            server.prepare(queue, 1000)
            if queue == "control-filled" and not self.filled:       # something to take, by every run as a group of its own
                self.filled = True
                run_load(server.host, server.port, 0, 120, [dict(PUSH100, queue=queue, count=self.fill)], lambda: None, lambda: None)
            before, after = [], []

            def read(to: list) -> None:
                to += [server.cpu_seconds(), self.cluster.cpu_seconds(), self.cluster.transactions()]

            roles = [dict(role, queue=queue) | (dict(group=f"g{self.runs}") if role["kind"] == "pop" else {}) for role in roles]
            report = run_load(server.host, server.port, self.warm, self.seconds, roles, lambda: read(before), lambda: read(after))
            role = report["roles"][roles[-1]["name"]]
            faults = [r["error"] for r in report["roles"].values() if r["errors"]]
            if faults:
                raise SystemExit(f"bench: {faults[0]}")
            n = max(role["messages"], 1)
            return dict(rate=role["messages"] / report["seconds"], p50_ms=role["p50_ms"], p99_ms=role["p99_ms"],
                        cpu_us=(after[0] + after[1] - before[0] - before[1]) / n * 1e6, per_commit=n / max(after[2] - before[2], 1))
        finally:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Fixed against adaptive concurrency.")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--fill", type=int, default=1_000_000)
    parser.add_argument("--slow", default=",".join(DATABASES))
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--settings", default="")
    parser.add_argument("--postgres", type=int)
    words = parser.parse_args()
    shim = build_shim()
    for slow in words.slow.split(","):
        before = dict(embedded.ENVIRONMENT)
        embedded.ENVIRONMENT.update(LD_PRELOAD=str(shim), **DATABASES[slow])
        cluster = open_cluster(words.postgres)
        embedded.ENVIRONMENT.clear()
        embedded.ENVIRONMENT.update(before)
        bench = Bench(cluster, words)
        try:
            for scenario in words.only.split(","):
                settings = {"adaptive": {}} | SCENARIOS[scenario][0]
                for name in words.settings.split(",") if words.settings else settings:
                    if name not in settings:
                        continue
                    got = dict(slow=slow, scenario=scenario, setting=name) | bench.run(scenario, settings[name])
                    print(json.dumps(got), flush=True)
                    print(f"{slow:7}{scenario:12}{name:9}{got['rate']:10.0f}/s p50 {got['p50_ms']:7.1f} p99 {got['p99_ms']:7.1f} {got['cpu_us']:7.1f} us"
                          f" {got['per_commit']:8.1f} per commit", file=sys.stderr, flush=True)
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
