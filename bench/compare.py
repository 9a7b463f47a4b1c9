"""What a change costs: two checkouts side by side, loaded in turn.

    python bench/compare.py CHECKOUT [--only push1,cycle] [--starts N] [--turns N] [--seconds N] [--rate N]
                                      [--conns N]

CHECKOUT is another checkout of queend, built, with the state before. Each has a daemon and a PostgreSQL of its own.
Turns of a second or so change between the two, so what else the machine does meets both. Both are started anew many
times, in changing order: how many messages PostgreSQL commits at once differs by some percent from one start to the
next, and stays for as long as the daemons run. So a start counts as one measurement: its ratio is CPU per message here
over there, daemon and PostgreSQL together, each the median of the start's turns. Shown are the median of these ratios,
and the range that holds it in 95 of 100 draws of the starts. One JSON line per scenario."""

import argparse
import json
import random
import signal
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from cluster import ROOT
from lab import Lab
from scenarios import PIPELINES, PUSHES

NAMES = ("push1", "push100", "cycle", *PIPELINES)
COSTS = ("daemon_cpu_us_per_message", "postgres_cpu_us_per_message")


class Side(Lab):
    """One checkout under load."""

    conns = 0      # connections of each role; 0: as many as the scenario has

    def fill(self, queue: str, count: int) -> None:
        self.prepare(queue, PUSHES["push100"]["partitions"])
        self.load(0, 60, dict(kind="push", name="fill", queue=queue, count=count, **PUSHES["push100"]))

    def turn(self, name: str, seconds: float) -> list[float]:
        """[daemon, PostgreSQL] CPU per message of one turn, in µs; empty if no message came through."""
        queue = "compare-" + name
        if name == "cycle":
            roles = [dict(kind="pop", name=name, queue=queue, group="cycle", conns=16, batch=50, lease=1, wait=1,
                          timeout=2000, count=10**8)]
        elif name in PIPELINES:
            self.prepare(queue, 1000)
            roles = [dict(kind="push", name="push", queue=queue, conns=64, items=1, partitions=1000, ids=7),
                     dict(kind="pop", name=name, queue=queue, conns=16, lease=1, wait=1, timeout=5000, delivery=1,
                          **PIPELINES[name])]
        else:
            self.prepare(queue, PUSHES[name]["partitions"])
            roles = [dict(kind="push", name=name, queue=queue, count=10**8, **PUSHES[name])]
        if self.conns:
            roles = [{**role, "conns": self.conns} for role in roles]
        point = self.point(0.3, seconds, *roles)
        return [point[cost] for cost in COSTS if cost in point]


def interval(ratios: list[float]) -> list[float]:
    """The median of the starts' ratios, of 1000 draws of the starts: where 95 of 100 lie."""
    draws = random.Random(1)
    found = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(1000))
    return [round(found[25], 3), round(found[974], 3)]


def compared(sides: list[Side], name: str, turns: int, seconds: float, rate: int) -> list[list[list[float]]]:
    """The costs of a scenario, [turn][side][part], in µs per message. rate: messages that `cycle` finds for each second
    of its turns."""
    for side in sides if name == "cycle" else ():
        side.fill("compare-cycle", int(turns * (seconds + 0.3) * rate))
    found = []
    for number in range(turns):
        order = sides if number % 2 else sides[::-1]
        spent = {side: side.turn(name, seconds) for side in order}
        if all(spent.values()):
            found.append([spent[side] for side in sides])
        else:
            print(f"{name}: a turn without a message is left out", file=sys.stderr)
    return found


def line_of(name: str, starts: list[list[list[list[float]]]]) -> dict:
    """The line of a scenario. starts: costs as [start][turn][side][part], in µs per message."""

    def of(cost: Callable[[list[float]], float]) -> list[tuple[float, float]]:
        """Here and there, of each start the median of its turns."""
        return [(statistics.median(cost(here) for here, _ in turns),
                 statistics.median(cost(there) for _, there in turns)) for turns in starts]

    def ratio(pairs: list[tuple[float, float]]) -> float:
        return round(statistics.median(here / there for here, there in pairs), 3)

    both = of(sum)
    return dict(scenario=name, ratio=ratio(both), range=interval([here / there for here, there in both]),
                here_us=round(statistics.median(h for h, _ in both), 2),
                there_us=round(statistics.median(t for _, t in both), 2), starts=len(starts),
                **{cost.replace("cpu_us_per_message", "ratio"): ratio(of(itemgetter(i)))
                   for i, cost in enumerate(COSTS)})


def main() -> int:
    parser = argparse.ArgumentParser(description="What a change costs, against another checkout.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAMES")
    parser.add_argument("--starts", type=int, default=6, help="how often both are started")
    parser.add_argument("--turns", type=int, default=4, help="turns of each in one start")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rate", type=int, default=400_000,
                        help="messages that cycle is given for each second; a turn that finds none is left out")
    parser.add_argument("--conns", type=int, default=0, help="connections of each load, instead of the scenario's")
    parser.add_argument("--postgres", type=int, metavar="MAJOR")
    words = parser.parse_args()
    names = words.only.split(",")
    if words.seconds < 0.5 or words.turns < 2 or words.starts < 2:
        parser.error("at least 2 starts of 2 turns, of half a second or more: the kernel's ticks tell no less")
    if unknown := set(names) - set(NAMES):
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
    checkouts = [ROOT, words.checkout.resolve()]
    found: dict[str, list[list[list[list[float]]]]] = {name: [] for name in names}
    faults = []
    for number in range(words.starts):
        with ExitStack() as stack:
            opened = checkouts[::-1] if number % 2 else checkouts
            by_checkout = {at: stack.enter_context(Side.opened(words.postgres, at)) for at in opened}
            sides = [by_checkout[at] for at in checkouts]
            for side in sides:
                side.conns = words.conns
            for name in names:
                if turns := compared(sides, name, words.turns, words.seconds, words.rate):
                    found[name].append(turns)
            faults += [fault for side in sides for fault in side.faults]
    for name in names:
        if found[name]:
            print(json.dumps(line_of(name, found[name])), flush=True)
        else:
            faults.append(f"{name}: no turn with a message")
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
