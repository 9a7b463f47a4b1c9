"""Where the time of one push goes at a fifth of the load: system calls of the daemon and of PostgreSQL, with their
moments, put together.

    python bench/roundtrip.py [--rate 9000] [--seconds 2] [--postgres MAJOR]

The load of bench/sweeps/latency.py: single pushes on a schedule, 32 parked pops. `perf record` notes reads, writes and
flushes of both sides (tracepoints: it needs root and tracefs), which costs each of them a microsecond or two. Prints
one line per step: us at the 10th, 50th and 90th percentile."""

import argparse
import bisect
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the checkout's own queend

from lab import Lab
from process import descendants
from sweeps.latency import commit_ms

EVENTS = ",".join(f"syscalls:sys_{side}_{name}" for name in ("read", "write", "sendto", "recvfrom", "fdatasync")
                  for side in ("enter", "exit"))
LINE = re.compile(r"\s*(\d+)/(\d+)\s+([\d.]+):\s+syscalls:sys_(enter|exit)_(\w+):\s*(.*)")
PUSH_BYTES = 250  # a request of the load that is longer is a push, not a pop


def record(path: Path, pids: list[int], seconds: float) -> None:
    subprocess.run(["perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-m", "4M", "-e", EVENTS, "-o", path, "-p",
                    ",".join(map(str, pids)),
                    "--", "sleep", str(seconds)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def events(path: Path) -> list[tuple]:
    """(us, process, thread, enter?, name, rest of the line), by time."""
    text = subprocess.run(["perf", "script", "-i", path, "-F", "pid,tid,time,event,trace"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    found = (LINE.match(line) for line in text.splitlines())
    return sorted((float(m[3]) * 1e6, int(m[1]), int(m[2]), m[4] == "enter", m[5], m[6]) for m in found if m)


def transferred(result: str) -> int:
    value = int(result, 16) if result.startswith("0x") else 0
    return value if value < 1 << 60 else 0  # negative: an error


def backend_calls(trace: list[tuple], daemon: int) -> list[dict]:
    """Calls that committed, as PostgreSQL saw them."""
    calls, running = [], {}
    for at, process, thread, enter, name, rest in trace:
        if process == daemon:
            continue
        if name == "recvfrom" and not enter and transferred(rest):
            running[thread] = {"received": at}
        elif name == "fdatasync" and thread in running:
            running[thread]["flush" if enter else "flushed"] = at
        elif name == "sendto" and enter and "flushed" in running.get(thread, {}):
            calls.append(running.pop(thread) | {"sent": at})
    return sorted(calls, key=lambda call: call["received"])


def daemon_side(trace: list[tuple], daemon: int) -> tuple[list, list, list, list]:
    """Calls (sent, first bytes back), and the moments of reads of clients, of pushes among them, and of writes to
    clients."""
    calls, sent, begun, reads, pushes, writes = [], {}, {}, [], [], []
    for at, process, thread, enter, name, rest in trace:
        if process != daemon:
            continue
        if enter:
            begun[thread] = at, rest.partition(",")[0]
            continue
        since, fd = begun.get(thread, (at, ""))
        size = transferred(rest)
        if name == "sendto":
            sent.setdefault(fd, since)
        elif name == "recvfrom" and size and fd in sent:
            calls.append((sent.pop(fd), at))
        elif name == "read" and size:
            reads.append(at)
            if size > PUSH_BYTES:
                pushes.append(at)
        elif name == "write" and size:
            writes.append(since)
    return sorted(calls), reads, pushes, writes


def steps(trace: list[tuple], daemon: int) -> dict[str, list[float]]:
    calls, reads, pushes, writes = daemon_side(trace, daemon)
    backend = backend_calls(trace, daemon)
    received = [call["received"] for call in backend]
    out = defaultdict(list)
    sent = [call[0] for call in calls]
    for at in pushes:
        i = bisect.bisect_left(sent, at)
        if i < len(sent):
            out["request read → call sent"].append(sent[i] - at)
    for since, back in calls:
        i = bisect.bisect_left(received, since)
        if i == len(backend) or backend[i]["sent"] > back:
            continue  # nothing was committed by it
        b = backend[i]
        out["call sent → PostgreSQL has it"].append(b["received"] - since)
        out["PostgreSQL executes"].append(b["flush"] - b["received"])
        out["flush of the commit"].append(b["flushed"] - b["flush"])
        out["flushed → answer sent"].append(b["sent"] - b["flushed"])
        out["answer sent → daemon has it"].append(back - b["sent"])
        out["the whole call"].append(back - since)
        until = next(iter(reads[bisect.bisect_left(reads, back):]), back)
        first = bisect.bisect_left(writes, back)
        answers = writes[first:bisect.bisect_left(writes, until)]
        if answers:
            out["daemon has it → first answer"].append(answers[0] - back)
            out["daemon has it → last answer"].append(answers[-1] - back)
            out["(answers per call)"].append(len(answers))
    return out


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rate", type=float, default=9000)
    words.add_argument("--seconds", type=float, default=2)
    words.add_argument("--postgres", type=int, metavar="MAJOR")
    words = words.parse_args()
    with Lab.opened(words.postgres, QUEEND_PUSH_STREAMS="1") as lab:
        lab.prepare("latency", 1000)
        push = dict(kind="push", name="push", queue="latency", conns=64, items=1, partitions=1000, rate=words.rate)
        pop = dict(kind="pop", name="pop", queue="latency", conns=32, batch=50, wait=1, timeout=5000, delivery=1)
        lab.load(0, 10, pop | dict(wait=0, count=1000))
        commit = commit_ms(lab.cluster.dsn)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace"
            pids = descendants(lab.server.process.pid) + descendants(lab.cluster.embedded.pid)
            noting = Thread(target=lambda: (time.sleep(1.5), record(path, pids, words.seconds)))
            noting.start()
            report = lab.load(1, words.seconds + 2, push, pop)[0]
            noting.join()
            found = steps(events(path), lab.server.process.pid)
        print(f"a bare commit {commit * 1000:.0f} us, push p50 {report['roles']['push']['p50_ms'] * 1000:.0f}"
              f" us\n{'':30}{'p10':>8}{'p50':>8}{'p90':>8}")
        for name, values in found.items():
            values.sort()
            print(f"{name:30}" + "".join(f"{values[len(values) * share // 10]:8.0f}" for share in (1, 5, 9)))


if __name__ == "__main__":
    main()
