"""How queend grows: sweeps over batch size, connections, groups, partitions, backlog, parked pops. See METHODOLOGY.md.

    python bench/scale.py [--quick] [--only shape,groups] [--postgres MAJOR] [--write]
    python bench/scale.py --render      tables and plots again from bench/results/plots/scale.json, nothing is measured

One JSON line per point on standard output, tables on standard error. --write: the run becomes
bench/results/plots/scale.json, the plots beside it and the tables of bench/results/scale.md are made from it; sweeps
that were not run keep their last figures. Exit 1 when any answer was wrong."""

import argparse
import json
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the checkout's own queend

import published
import render
from environment import environment
from lab import Lab
from sweeps import backlog, groups, latency, parked, partitions, shape

SWEEPS = {sweep.NAME: sweep for sweep in (shape, groups, partitions, backlog, parked, latency)}
PLOTS = ROOT / "bench" / "results" / "plots"
DOCUMENT = ROOT / "bench" / "results" / "scale.md"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(sweep, words) -> tuple[dict, list[str]]:
    """A sweep in a cluster of its own, so that it neither finds what others stored nor keeps their disk. Returns its
    figures and faults."""
    with Lab.opened(words.postgres, profile=words.profile, **getattr(sweep, "DAEMON", {})) as lab:
        where, points = environment(lab.cluster, words.quick), []
        for point in sweep.run(lab, words.quick):
            points.append(render.shortened(point))
            print(json.dumps({"sweep": sweep.NAME} | points[-1] | {"environment": where}), flush=True)
        return {"environment": where, "points": points}, [f"{sweep.NAME}: {fault}" for fault in lab.faults]


def aims_table(runs: dict) -> str:
    lines = ["| aim | bound | measured | | |", "|---|---|---|---|---|"]
    for name, sweep in SWEEPS.items():
        for what, bound, value, met, remark in sweep.aims(runs[name]["points"]) if name in runs else []:
            lines.append(f"| {what} | {bound} | {render.cell(value)} |"
                         f" {'' if met is None else 'met' if met else '**missed**'} | {remark} |")
    return "\n".join(lines) + "\n"


def told(run: dict) -> str:
    """Where a sweep was measured, in a line below its table."""
    e = run["environment"]
    return (f"\n{e['date'][:10]}, commit `{e['commit']}`, PostgreSQL {e['postgres'].split()[0]},"
            f" {e['cpus']} processors, "
            f"fdatasync {e['fsync_ms']} ms{', quick run: rough' if e['quick'] else ''}.\n")


def write(runs: dict) -> None:
    """bench/results/plots and the tables of bench/results/scale.md from the figures."""
    PLOTS.mkdir(exist_ok=True)
    document = render.place(DOCUMENT.read_text(), "aims", aims_table(runs))
    document = render.place(document, "published", published.table(runs))
    for name, run in runs.items():
        sweep, pictures = SWEEPS[name], ""
        for plot, svg in sweep.plots(run["points"]).items():
            (PLOTS / f"{name}-{plot}.svg").write_text(svg)
            pictures += f"![{sweep.TITLE}: {plot}](plots/{name}-{plot}.svg)\n"
        document = render.place(document, name,
                                sweep.tables(run["points"]) + told(run) + ("\n" + pictures if pictures else ""))
    DOCUMENT.write_text(document)


def main() -> int:
    parser = argparse.ArgumentParser(description="How queend grows.")
    parser.add_argument("--quick", action="store_true", help="fewer points, short windows: figures are rough")
    parser.add_argument("--only", default="", metavar="NAMES", help="comma-separated sweeps: " + " ".join(SWEEPS))
    parser.add_argument("--postgres", type=int, metavar="MAJOR", help="PostgreSQL major version, as in run.py")
    parser.add_argument("--profile", action="store_true", help="perf profiles of daemon and PostgreSQL into bench/out/")
    parser.add_argument("--write", action="store_true",
                        help="make bench/results/plots and the tables of bench/results/scale.md from this run")
    parser.add_argument("--render", action="store_true", help="the same from the figures of the last run")
    words = parser.parse_args()
    names = [name for name in words.only.split(",") if name] or list(SWEEPS)
    if unknown := set(names) - set(SWEEPS):
        parser.error(f"unknown sweep: {', '.join(sorted(unknown))}")
    kept = PLOTS / "scale.json"
    runs = json.loads(kept.read_text()) if kept.exists() and (words.render or words.write) else {}
    faults = []
    if not words.render:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped
        for name in names:
            runs[name], found = measure(SWEEPS[name], words)
            faults += found
            say(f"\n## {SWEEPS[name].TITLE}\n\n{SWEEPS[name].tables(runs[name]['points'])}")
        say("\n" + aims_table(runs))
    if words.write:
        kept.write_text(json.dumps({name: runs[name] for name in SWEEPS if name in runs}, indent=1) + "\n")
    if words.write or words.render:
        write(runs)
    for fault in faults:
        say(f"FAULT {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
