"""What the forms of a push and of a pop's answer cost the daemon: the same messages, 1000 to a request, in one run.

    python bench/formats.py [--seconds N] [--rounds N] [--postgres MAJOR]

One request is 1000 messages of one partition. A line per form: CPU of daemon and PostgreSQL per message, least of the
rounds (contention only adds), and the ratio to JSON. What the idle daemon takes by itself is measured first and taken
off."""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout's own queend

from lab import Lab

PUSHES = {f"{form}{' v4' if ids == 4 else ''}{', counts' if counts else ''}": dict(form=form, counts=counts, ids=ids)
          for ids in (7, 4) for counts in (0, 1) for form in ("json", "plain", "framed")}


def line(name: str, point: dict, base: dict) -> str:
    daemon, postgres = point["daemon_cpu_us_per_message"], point["postgres_cpu_us_per_message"]
    return (f"| {name} | {daemon:.3f} | {base['daemon_cpu_us_per_message'] / daemon:.1f} | {postgres:.3f} |"
            f" {point['wal_bytes_per_message']:.0f}"
            f" | {point['messages_per_s']:,.0f} | {point['load_cpu_us_per_message']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--postgres", type=int)
    words = parser.parse_args()
    # the random ids of all rounds: what a daemon without room does is not measured here
    with Lab.opened(words.postgres, QUEEND_DEDUPE_BYTES=str(1 << 30)) as lab:
        idle = -lab.server.cpu_seconds()
        time.sleep(3)
        idle = (idle + lab.server.cpu_seconds()) / 3
        print(f"idle: {idle * 1000:.1f} ms of CPU per second, taken off below\n")
        print("| form | daemon us | times JSON's | PostgreSQL us | WAL B | msg/s | generator us"
              " |\n|---|---|---|---|---|---|---|")
        best: dict[str, dict] = {}
        for number in range(words.rounds):
            for name, shape in PUSHES.items():
                queue = "forms-" + name.replace(" ", "-").replace(",", "")
                lab.prepare(queue, 10)
                point = lab.point(0.3, words.seconds, dict(kind="push", name="push", queue=queue, conns=8, items=1000,
                                                           partitions=10, spread="block", **shape))
                point["daemon_cpu_us_per_message"] -= idle * point["seconds"] / point["messages"] * 1e6
                if name not in best or point["daemon_cpu_us_per_message"] < best[name]["daemon_cpu_us_per_message"]:
                    best[name] = point
        for name, point in best.items():
            print(line("push " + name, point,
                       best["json" + (" v4" if " v4" in name else "") + (", counts" if "counts" in name else "")]))
        pops: dict[str, dict] = {}
        for source in ("json", "framed"):
            for frames in (0, 1):
                point = lab.point(0.2, words.seconds, dict(kind="pop", name="pop", queue="forms-" + source,
                                                           group=f"g{frames}", conns=8, batch=1000, frames=frames))
                point["daemon_cpu_us_per_message"] -= idle * point["seconds"] / point["messages"] * 1e6
                pops[f"pushed as {source}, popped {'framed' if frames else 'as JSON'}"] = point
        for name, point in pops.items():
            print(line("pop " + name, point, pops["pushed as json, popped as JSON"]))
        for fault in lab.faults:
            print("FAULT", fault)


if __name__ == "__main__":
    main()
