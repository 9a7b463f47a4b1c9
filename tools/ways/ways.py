"""The way of a push, a pop from memory and an acknowledgment by lease: which functions of which files each passes.

    python tools/ways/ways.py PACKAGE TRACER > docs/inside/ways.md

PACKAGE holds the package `queend`, compiled with QUEEND_TRACE=1; TRACER is trace.c, compiled (`make ways` does both).
A real daemon serves each request once, alone; what it called is read back. Written is each call from one file to
another, once, in the order they come; files of core/base and core/state, which all files use, do not count, nor do the
readers of JSON and HTTP and the connection to PostgreSQL, which stand by themselves.
"""
import mmap
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, TRACER = (Path(word).resolve() for word in sys.argv[1:3])
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests")]

from support.client import Client  # noqa: E402
from support.daemon import Daemon  # noqa: E402
from support.postgres import running  # noqa: E402

CORE = ROOT / "queend" / "core"
APART = ("base", "state", "json", "arrow", "seal", "http", "pg")
TIMERS = ("worker_on_tick", "drain_on_timer")      # what they do is of no request
QUIET = 200     # calls in 50 ms of a daemon that only looks at its timers
HEAD = """# The way of a request

Which functions of which files a request passes, read back from a daemon that served it once, alone (`make ways`).
A line is a call from one file to another, where it comes for the first time. Not shown: calls within a file, and what
stands by itself (`base`, `state`, `json`, `arrow`, `seal`, `http`, `pg`). Names of files are those of `queend/core`.
The answer's part of the way is in it: a request ends with its answer flushed.
"""

TAIL = """
## Why these stay

- `net`: a request is taken in, flushed, closed, and its connection looked at, at four moments of a loop's turn; between
  them others have it. A connection, requests out of its bytes, and answers on their way out are a file each.
- `run/engine` asks which page it is that asks (`net/origin`) and whether answers are taken (`net/budget`): two nouns,
  and others ask them, too.
- `route` takes no lock and does no I/O. A call reads a request; one or a few write its answer. A pop's answer is
  written message by message, and closed.
- `net/held`, `net/budget` and `govern/jobs` are asked wherever one client could take something from the others. That is
  memory for a body, a place among the requests in hand, or room for an answer. Before there were such shares, a push
  passed 58 files and 280 functions, a pop 56 and 256, an acknowledgment 51 and 242.
- `names`, `ready`, `memory`: each look-up and each move of a cursor is one call under a lock that its caller holds. A
  row in memory is found, held while an answer is written from it, and let go when groups have passed it.
- `govern`: a job is opened, waits and ends, a statement begins and leaves, in one place each. A linger is asked before
  a statement leaves. After its answer, the caller reports to the linger how many were served and how many wait. The
  call itself reports to the limit.
- Claims and acknowledgments by lease share a statement, and so a commit: `settle/claimcall` goes to `deliver` for the
  pops and to `settle/leasedack` for the rest.
- The database answers a push in two steps: the next batch leaves (`push/appender`), then results are told
  (`push/results`), some to other workers' requests. Before it leaves, ids, heads and claims are each asked for: three
  nouns with rules of their own. Ids and heads learn from the answer before the next batch is written.
"""


class Way(NamedTuple):
    """What a request passed. calls: (function, file, called function, its file), each pair once, without the rooms
    that stand by themselves. files, functions: how many, of all rooms."""
    calls: list[tuple[str, str, str, str]]
    files: int
    functions: int


class Trace:
    """What the daemon called, while it runs."""

    def __init__(self, path: Path, pid: int):
        with path.open("rb") as file:
            self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        module = next((PACKAGE / "queend").glob("_core.*.so"))
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        start = next(int(line.split("-")[0], 16) for line in lines if line.endswith(str(module)))
        symbols = subprocess.run(["nm", module], check=True, capture_output=True, text=True).stdout
        self.names = {start + int(at, 16): name.removeprefix("__pyx_f_6queend_5_core_")
                      for at, kind, name in re.findall(r"^(\w+) ([tT]) (\S+)$", symbols, re.M)}
        self.homes = {name: str(file.relative_to(CORE)) for file in CORE.rglob("*.pyx")
                      for name in re.findall(r"^(?:cdef|cpdef) (?!struct|enum|class|extern)[^\n(=]*?(\w+)\(",
                                             file.read_text(), re.M)}

    def at(self) -> int:
        return struct.unpack_from("<Q", self.map)[0]

    def rest(self) -> int:
        """Waits until the daemon rests; where the trace is then."""
        while True:
            before = self.at()
            time.sleep(0.05)
            if self.at() - before < QUIET:
                return self.at()

    def way(self, ask: Callable[[], object]) -> Way:
        """Returns the way of what `ask` asks, in the thread that served it."""
        first = self.rest()
        ask()
        events = [struct.unpack_from("<QQ", self.map, 16 + 16 * i) for i in range(first, self.rest())]
        calls = [(thread >> 1, thread & 1, self.names.get(at, "")) for thread, at in events]
        server = next(thread for thread, _, name in calls if name == "request_open")
        stack: list[tuple[str, str]] = []
        found: dict[tuple[str, str, str, str], None] = {}
        passed: set[tuple[str, str]] = set()
        timer = ""
        for thread, back, name in calls:
            file = self.homes.get(name)
            if thread != server or file is None:
                continue
            if timer or name in TIMERS:
                timer = "" if back and name == timer else timer or name
                continue
            passed.add((file, name))
            if file.startswith(APART):
                continue
            if back:
                if stack and stack[-1][0] == name:
                    stack.pop()
                continue
            if stack and stack[-1][1] != file:
                found[(*stack[-1], name, file)] = None
            stack.append((name, file))
        return Way(list(found), len({file for file, _ in passed}), len(passed))


def ways(client: Client, trace: Trace) -> dict[str, Way]:
    def push() -> None:
        client.push("ways", "a message", partition="p")

    def pop() -> None:
        taken[:] = client.pop("ways", "p", batch=1)

    taken: list[dict] = []
    for _ in range(3):      # names are known, ids are loaded, and the group has read all: what comes is kept for it
        push()
        pop()
        client.ack(taken[0])
    found = {"A push": trace.way(push), "A pop from memory": trace.way(pop)}
    found["An acknowledgment by lease"] = trace.way(lambda: client.ack(taken[0]))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running() as server:
        out = Path(folder) / "trace"
        daemon = Daemon(server.database(), NUM_WORKERS=1, POP_WAIT_MAX_INTERVAL_MS=30_000, LD_PRELOAD=TRACER,
                        TRACE_OUT=out)
        try:
            with daemon.client() as client:
                found = ways(client, Trace(out, daemon.pid))
        finally:
            daemon.stop()
    print(HEAD, end="")
    for title, way in found.items():
        files = {file for call in way.calls for file in (call[1], call[3])}
        print(f"\n## {title}\n\n{len(files)} files, {len(way.calls)} calls between them. With the rooms that are not "
              f"shown: {way.files} files,\n{way.functions} functions.\n\n```")
        for caller, home, called, there in way.calls:
            print(f"{home.removesuffix('.pyx')}: {caller} -> {there.removesuffix('.pyx')}: {called}")
        print("```")
    print(TAIL, end="")


if __name__ == "__main__":
    main()
