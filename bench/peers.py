"""The same loads against queend and other message systems, one after the other on this machine. See METHODOLOGY.md.

    python bench/peers.py [--seconds N] [--only queend,nats,natsids,quorum,classic,pgmq] [--postgres MAJOR] [--write]

One JSON line per system and load on standard output, the tables on standard error; --write puts them into
bench/results/peers.md. Exit 1 when a system holds other than what it confirmed, or refused something."""

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import fsync_ms
from environment import ROOT, environment
from process import busy_seconds
from render import place, shortened, table

from peers.nats import Nats, NatsIds
from peers.pgmq import Pgmq
from peers.queend import Queend
from peers.rabbitmq import Classic, Quorum
from peers.system import System

SYSTEMS = {"queend": Queend, "nats": Nats, "natsids": NatsIds, "quorum": Quorum, "classic": Classic, "pgmq": Pgmq}
PUSH = {"push1": dict(kind="push", conns=64, items=1), "push100": dict(kind="push", conns=16, items=100)}
POP = dict(kind="pop", conns=16, items=50)
DOCUMENT = ROOT / "bench" / "results" / "peers.md"
COLUMNS = [("load", "load"), ("system", "system"), ("msg/s", "messages_per_s"), ("of queend", "rate_ratio"),
           ("p50 ms", "p50_ms"), ("p99 ms", "p99_ms"), ("push p50 ms", "push_p50_ms"),
           ("server CPU us", "cpu_us"), ("of queend", "cpu_ratio"), ("generator CPU us", "load_cpu_us"),
           ("disk B", "disk_bytes"), ("cores of others", "others")]


class Runs:
    def __init__(self, warm: float, seconds: float):
        self.warm, self.seconds, self.lines, self.faults = warm, seconds, [], []

    def one(self, system: System, load: str, queue: str, roles: list[dict], warm: float | None = None,
            of: str | None = None) -> dict:
        """One load, its figures per message of role `of` (the last one without) added to the lines."""
        before, after, machine, disk = {}, {}, [], system.disk_bytes()
        report = system.run(queue, self.warm if warm is None else warm, self.seconds, roles,
                            lambda: (before.update(system.cpu_seconds()), machine.append(busy_seconds())),
                            lambda: (machine.append(busy_seconds()), after.update(system.cpu_seconds())))
        # some give room back as messages are taken
        disk = system.disk_bytes() - disk if roles[-1]["kind"] == "push" else None
        for role in report["roles"].values():
            if role["errors"]:
                self.faults.append(f"{system.name}, {load}: {role['errors']} errors, first: {role['error']}")
        got = report["roles"][of or roles[-1]["kind"]]
        stored = report["roles"].get("push", {}).get("stored", 0)
        messages = max(got["messages"], 1)
        parts = {part: (after[part] - before[part]) / messages * 1e6 for part in after}
        spent = report["cpu_seconds"] + sum(after[part] - before[part] for part in after)
        line = dict(load=load, system=system.name, messages_per_s=got["messages"] / report["seconds"],
                    cpu_us=sum(parts.values()), cpu_parts_us=parts,
                    load_cpu_us=report["cpu_seconds"] / messages * 1e6,
                    disk_bytes=disk / stored if disk and stored else None, messages=got["messages"],
                    others=max(0.0, (machine[1] - machine[0] - spent) / report["seconds"]))
        if "push" in report["roles"] and "pop" in report["roles"]:
            popped = report["roles"]["pop"]
            line |= dict(p50_ms=popped["delivery_p50_ms"], p99_ms=popped["delivery_p99_ms"],
                         push_p50_ms=report["roles"]["push"]["p50_ms"],
                         pushed_per_s=report["roles"]["push"]["messages"] / report["seconds"])
        elif "push" in report["roles"]:
            line |= dict(p50_ms=got["p50_ms"], p99_ms=got["p99_ms"])
            if (held := system.count(queue)) != stored:
                self.faults.append(f"{system.name}, {load}: {stored} messages were confirmed, it holds {held}")
        self.lines.append(line | dict(stored=stored))
        print(f"  {system.name}, {load}: {line['messages_per_s']:.0f} msg/s, {line['cpu_us']:.1f} us",
              file=sys.stderr, flush=True)
        return self.lines[-1]

    def all(self, system: System) -> None:
        for load, role in PUSH.items():
            system.create(load)
            stored = self.one(system, load, load, [role])["stored"]
        self.one(system, "consume", "push100", [dict(POP, count=stored * 95 // 100)], 0)
        system.create("pipeline")
        self.one(system, "pipeline", "pipeline", [PUSH["push1"], POP])
        if system.autopilot:
            system.create("autopilot")
            self.one(system, "pipeline, autopilot", "autopilot", [PUSH["push1"], dict(POP, autopilot=1)])
        system.create("latency")
        self.one(system, "latency", "latency", [dict(kind="push", conns=32, items=1, rate=200), POP], of="push")

    def compare(self) -> None:
        ours = {line["load"]: line for line in self.lines if line["system"] == Queend.name}
        for line in self.lines:
            own = ours.get(line["load"])
            if own and own is not line and line["cpu_us"]:
                line |= dict(rate_ratio=line["messages_per_s"] / own["messages_per_s"],
                             cpu_ratio=line["cpu_us"] / own["cpu_us"])
        order = list(dict.fromkeys(line["load"] for line in self.lines))
        self.lines.sort(key=lambda line: order.index(line["load"]))


def tables(runs: Runs, systems: list[dict], where: dict) -> str:
    text = table(runs.lines, COLUMNS) + "\n" + table(
        systems, [("system", "name"), ("version", "version"), ("a message counts as stored", "durability")])
    return text + (f"\n{where['date'][:10]}, commit `{where['commit']}`, {where['cpus']} processors,"
                   f" windows of {runs.seconds:g} s,\n"
                   f"`fdatasync` of 8 kB {where['fsync_ms']:g} ms before and {where['fsync_after_ms']:g} ms"
                   " after the run.\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="queend and its peers under the same loads.")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a measured window")
    parser.add_argument("--only", default=",".join(SYSTEMS), metavar="NAMES",
                        help="comma-separated: " + " ".join(SYSTEMS))
    parser.add_argument("--postgres", type=int, metavar="MAJOR",
                        help="for queend and pgmq alike; default: 15, or what queend takes where that is missing")
    parser.add_argument("--write", action="store_true", help=f"the tables into {DOCUMENT.name}, when all systems ran")
    words = parser.parse_args()
    names = words.only.split(",")
    if set(names) - set(SYSTEMS):
        parser.error(f"unknown system: {', '.join(sorted(set(names) - set(SYSTEMS)))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    runs, systems, where = Runs(min(1.0, words.seconds / 4), words.seconds), [], environment(None, words.seconds < 3)
    disk = Path(os.environ.get("QUEEND_BENCH_DIR") or tempfile.gettempdir())
    where["fsync_ms"] = fsync_ms(disk)
    for name in names:
        system = SYSTEMS[name](words.postgres)
        try:
            system.start()
            systems.append(dict(name=system.name, version=system.version, durability=system.durability))
            runs.all(system)
        finally:
            system.stop()
    where["fsync_after_ms"] = fsync_ms(disk)
    runs.compare()
    for line in runs.lines:
        print(json.dumps(shortened(line) | {"environment": where}), flush=True)
    text = tables(runs, systems, where)
    print(text, file=sys.stderr)
    if words.write and not runs.faults and set(names) == set(SYSTEMS):  # a part of the table is none
        DOCUMENT.write_text(place(DOCUMENT.read_text(), "peers", text))
    for fault in runs.faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if runs.faults else 0


if __name__ == "__main__":
    sys.exit(main())
