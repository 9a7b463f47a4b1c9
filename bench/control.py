"""How many statements at a time: fixed numbers against the numbers the daemon finds by itself, on PostgreSQL as it is
and slowed by 10 ms. See bench/results/control.md.

    python bench/control.py [--quick] [--rounds N] [--seconds N] [--slow none,commit,trip] [--only push1,...]
[--settings s1,c6,...] [--postgres MAJOR]

All daemons of a scenario run side by side on one cluster and are put under load in turns, the adaptive one before and
after every second fixed one: what else the machine does hits both. A ratio is the adaptive rate (the mean of its
windows on both sides) over the fixed one's; the median over the rounds counts. One JSON line per scenario on standard
output, a table on standard error."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from generator import HERE, OUT, run_load
from run import open_cluster
from server import Daemon

from queend.service import embedded

SLOW_US = 10_000
DATABASES = {"none": {}, "commit": {"SLOW_COMMIT_US": str(SLOW_US)}, "trip": {"SLOW_TRIP_US": str(SLOW_US)}}
STREAMS, CALLS, BOTH = ("s1", "s2", "s4"), ("c1", "c2", "c4", "c6"), ("s1c2", "s2c2", "s1c6", "s2c6")
PUSH1 = dict(kind="push", name="push", conns=64, items=1, partitions=1000, ids=7)
PUSH100 = dict(kind="push", name="push", conns=16, items=100, partitions=1000, ids=7)
POP = dict(kind="pop", name="pop", conns=16, batch=50, wait=1, timeout=2000)
# What is fixed (all of it, and of the quick run) and the load; what counts is what its last role does.
SCENARIOS = {
    "push1": (STREAMS, ("s1", "s2"), [PUSH1]),
    "push100": (STREAMS, ("s1", "s2"), [PUSH100]),
    "pop50": (CALLS, ("c2", "c6"), [dict(POP, lease=0)]),
    "cycle": (CALLS, ("c2", "c6"), [dict(POP, lease=1)]),
    "transaction": (CALLS, ("c2", "c6"), [dict(POP, lease=1, batch=10, into="control-into")]),
    # as many partitions as consumers keep up with at once
    "pipeline": (BOTH, ("s1c2", "s1c6"), [dict(PUSH1, partitions=100), dict(POP, lease=1)]),
}


def settings_of(name: str) -> dict[str, str]:
    """s2: two push streams; c6: six pops, acknowledgments and transactions each; s2c6: both. What is not named
    adapts."""
    fixed = {letter: number for letter, number in re.findall(r"([sc])(\d+)", name)}
    settings = {"QUEEND_PUSH_STREAMS": fixed["s"]} if "s" in fixed else {}
    return settings | ({"QUEEN_VEGAS_MIN_LIMIT": fixed["c"], "QUEEN_VEGAS_MAX_LIMIT": fixed["c"]}
                       if "c" in fixed else {})


def build_shim() -> Path:
    OUT.mkdir(exist_ok=True)
    target = OUT / "slow.so"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", target,
                    HERE / "slow" / "slow.c", "-ldl"], check=True)
    return target


def open_slow(slow: str, major: int | None):
    """A cluster whose PostgreSQL is slowed."""
    before = dict(embedded.ENVIRONMENT)
    embedded.ENVIRONMENT.update(LD_PRELOAD=str(build_shim()), **DATABASES[slow])
    try:
        return open_cluster(major)
    finally:
        embedded.ENVIRONMENT.clear()
        embedded.ENVIRONMENT.update(before)


class Contender:
    """One daemon with one setting, and what it reached."""

    def __init__(self, name: str, server: Daemon):
        self.name, self.server, self.rates, self.messages, self.cpu, self.commits = name, server, [], 0, 0.0, 0

    def told(self) -> dict:
        return dict(rate=statistics.median(self.rates), cpu_us=self.cpu / max(self.messages, 1) * 1e6,
                    per_commit=self.messages / max(self.commits, 1))


class Bench:
    def __init__(self, cluster, words):
        self.cluster, self.words, self.windows, self.filled, self.daemons, self.warmed = (
            cluster, words, 0, False, {}, set())

    def fill(self, server) -> None:
        """Something to take, by every window as a group of its own."""
        server.prepare("control-filled", 1000)
        run_load(server.host, server.port, 0, 120, [dict(PUSH100, queue="control-filled", count=self.words.fill)],
                 lambda: None, lambda: None)
        self.filled = True

    def window(self, contender: Contender, roles: list[dict], seconds: float, counts: bool = True) -> float:
        """A load; messages per second of the role that counts."""
        server, before, after = contender.server, [], []
        self.windows += 1
        pushes = roles[0]["kind"] == "push"
        queue = f"control-{self.windows}" if pushes else "control-filled"
        if pushes:
            server.prepare(queue, roles[0]["partitions"])
        elif not self.filled:
            self.fill(server)

        def read(to: list) -> None:
            to += [server.cpu_seconds() + self.cluster.cpu_seconds(), self.cluster.transactions()]

        roles = [dict(role, queue=queue) | (dict(group=f"g{self.windows}") if role["kind"] == "pop" else {})
                 for role in roles]
        report = run_load(server.host, server.port, self.words.warm, seconds, roles, lambda: read(before),
                          lambda: read(after))
        faults = [role["error"] for role in report["roles"].values() if role["errors"]]
        if faults:
            raise SystemExit(f"bench: {faults[0]}")
        messages = report["roles"][roles[-1]["name"]]["messages"]
        if counts:
            contender.rates.append(messages / report["seconds"])
            contender.messages += messages
            contender.cpu += after[0] - before[0]
            contender.commits += after[1] - before[1]
        return messages / report["seconds"]

    def scenario(self, scenario: str, names: list[str]) -> dict:
        """The adaptive daemon against the fixed ones, in turns."""
        roles = SCENARIOS[scenario][-1]
        self.keep(names)
        fixed = [Contender(name, self.daemons[name]) for name in names]
        adaptive = Contender("adaptive", Daemon(self.cluster))
        try:
            for turn in fixed:
                if turn.server not in self.warmed:
                    self.window(turn, roles, self.words.seconds, counts=False)
                    self.warmed.add(turn.server)
            self.window(adaptive, roles, self.words.settle, counts=False)
            order = [turn for at in range(0, len(fixed), 2) for turn in (adaptive, *fixed[at:at + 2])]
            order = order * self.words.rounds + [adaptive]
            rates = [self.window(turn, roles, self.words.seconds) for turn in order]
        finally:
            adaptive.server.stop()
        ratios = {}
        for at, turn in enumerate(order):
            if turn is not adaptive:
                left = max(i for i in range(at) if order[i] is adaptive)
                right = min(i for i in range(at, len(order)) if order[i] is adaptive)
                ratios.setdefault(turn.name, []).append((rates[left] + rates[right]) / 2 / max(rates[at], 1e-9))
        ratio = {name: statistics.median(several) for name, several in ratios.items()}
        best = min(ratio, key=ratio.get)
        return dict(scenario=scenario, ratio=ratio[best], best=best, load=os.getloadavg()[0], ratios=ratios,
                    settings={turn.name: turn.told() for turn in [adaptive, *fixed]})

    def keep(self, names: list[str]) -> None:
        """Exactly these fixed daemons run."""
        for name in [name for name in self.daemons if name not in names]:
            self.daemons.pop(name).stop()
        for name in names:
            if name not in self.daemons:
                self.daemons[name] = Daemon(self.cluster, **settings_of(name))


def say(slow: str, got: dict) -> None:
    for name, of in got["settings"].items():
        ratio = f"{statistics.median(got['ratios'][name]) * 100:5.0f} %" if name in got["ratios"] else "       "
        print(f"{slow:7}{got['scenario']:12}{name:9}{of['rate']:10.0f}/s {of['cpu_us']:7.1f} us {of['per_commit']:8.1f}"
              f" per commit {ratio}", file=sys.stderr, flush=True)
    print(f"{slow:7}{got['scenario']:12}{got['ratio'] * 100:.0f} % of the best fixed ({got['best']}),"
          f" load {got['load']:.1f}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fixed against adaptive concurrency.")
    parser.add_argument("--quick", action="store_true", help="slowed databases only, two fixed settings per scenario")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, help="of a window; default: 1, quick: 0.8")
    parser.add_argument("--warm", type=float, default=0.4, help="before it")
    parser.add_argument("--settle", type=float,
                        help="of load on the adaptive daemon before the first window; default: 4, quick: 3")
    parser.add_argument("--fill", type=int, help="messages to take; default: 600 000, quick: half of it")
    parser.add_argument("--slow", default="")
    parser.add_argument("--only", default=",".join(SCENARIOS))
    parser.add_argument("--settings", default="", help="instead of the scenario's own")
    parser.add_argument("--postgres", type=int)
    words = parser.parse_args()
    words.seconds, words.settle = words.seconds or (0.8 if words.quick else 1.0), words.settle or (
        3.0 if words.quick else 4.0)
    words.fill = words.fill or (300_000 if words.quick else 600_000)
    began, ratios = time.monotonic(), {}
    for slow in (words.slow or ("commit,trip" if words.quick else ",".join(DATABASES))).split(","):
        cluster = open_slow(slow, words.postgres)
        bench = Bench(cluster, words)
        try:
            for name in words.only.split(","):
                got = bench.scenario(name, words.settings.split(",") if words.settings
                                     else list(SCENARIOS[name][words.quick]))
                ratios[slow, name] = got
                print(json.dumps(dict(slow=slow) | got), flush=True)
                say(slow, got)
        finally:
            bench.keep([])
            cluster.stop()
    print(f"\nadaptive / best fixed, {time.monotonic() - began:.0f} s", file=sys.stderr)
    for (slow, name), got in ratios.items():
        print(f"{slow:7}{name:12}{got['ratio'] * 100:5.0f} % {got['best']}", file=sys.stderr)


if __name__ == "__main__":
    main()
