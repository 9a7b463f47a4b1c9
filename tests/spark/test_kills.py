"""A stream from queue to queue while everything around it is killed: nothing is lost, doubled or overtaken."""
from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.log import heads, stored
from support.ports import free_port
from support.wait import until

KILLS = int(os.environ.get("SPARK_KILLS", 4))
ROWS = int(os.environ.get("SPARK_ROWS", 30_000))
SEED = os.environ.get("FAULT_SEED", "spark")
KINDS = ("all", "daemon", "worker", "jvm")
KEYS = 20


class Run:
    """The program, and the processes it started."""

    def __init__(self, url: str, queue: str, folder: Path, rows: int):
        self.log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYSPARK_PYTHON": sys.executable,
                       "SPARK_LOCAL_IP": "127.0.0.1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("pipeline.py")), url, queue,
                                             f"{queue}.out", str(folder / "checkpoint"), str(rows)],
                                            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)

    def lives(self) -> bool:
        return self.process.poll() is None

    def story(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def found(self, word: str, leaves: bool = False) -> list[int]:
        """Processes below whose command has the word; leaves: only those without a process of their own."""
        below: list[int] = []
        parents: set[int] = set()
        todo = [self.process.pid]
        while todo:
            pid = todo.pop()
            try:
                children = [int(one) for task in Path(f"/proc/{pid}/task").iterdir()
                            for one in (task / "children").read_text().split()]
                if word in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
                    below.append(pid)
            except OSError:
                continue      # it has ended
            if children:
                parents.add(pid)
            todo += children
        return [pid for pid in below if not leaves or pid not in parents]

    def kill(self, pids: list[int]) -> int:
        """How many of them lived."""
        hit = 0
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                hit += 1
            except ProcessLookupError:
                pass
        return hit

    def end(self) -> None:
        """All of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def test_everything_is_killed(start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    """With SIGKILL, again and again: all processes of Spark at once, the daemon, the Python workers, the JVM. Each time
    the stream is under way."""
    dice, step = random.Random(SEED), ROWS // (KILLS + 2)
    own = start_daemon(PORT=free_port())
    with own.client() as client:
        for at in range(0, ROWS, 5000):
            client.push_items([{"queue": queue, "partition": f"k{n % KEYS}", "payload": n}
                               for n in range(at, min(ROWS, at + 5000))])

    def done() -> int:
        with own.client() as client:
            return sum(heads(client, f"{queue}.out").values())

    run, before = None, ""
    try:
        for kill in range(KILLS):
            kind = KINDS[kill % len(KINDS)]
            goal = done() + dice.randrange(step // 4, step)
            while run is None or not run.lives() or done() < goal:
                if run is not None and not run.lives():
                    # a worker that is killed may end the query, a daemon may not
                    assert before != "daemon", run.story()
                    run.end()
                if run is None or not run.lives():
                    run, before = Run(own.url, queue, tmp_path, max(500, step // 6)), "daemon"
                until(lambda: not run.lives() or done() >= goal, f"{goal} rows", 600)  # noqa: B023
            before = kind
            if kind == "daemon":
                assert done() < ROWS
                own.kill()
                own = start_daemon(own.conninfo, PORT=own.port)
                continue
            # Workers come and go with their tasks: the next ones are hit.
            word, leaves = {"all": ("", False), "worker": ("pyspark.daemon", True),
                            "jvm": ("org.apache.spark", False)}[kind]
            until(lambda: run.kill(run.found(word, leaves)), f"a {kind} to kill", 60)  # noqa: B023
            assert done() < ROWS, f"all was done before {kind} was killed"
            if kind != "worker":
                until(lambda: not run.lives(), "the program's end")  # noqa: B023
            if not run.lives():
                run.end()
        if run is None or not run.lives():
            run = Run(own.url, queue, tmp_path, max(500, step // 2))
        while done() < ROWS:
            until(lambda: not run.lives() or done() >= ROWS, "all rows", 900)  # noqa: B023
            if not run.lives():     # a worker that was killed may have ended the query
                run.end()
                run = Run(own.url, queue, tmp_path, max(500, step // 2))
    finally:
        if run is not None:
            run.end()
        shutil.rmtree(tmp_path / "checkpoint.local", ignore_errors=True)
    with own.client() as client:
        for key in range(KEYS):
            check(client, f"{queue}.out", key)


def check(client: Client, queue: str, key: int) -> None:
    assert stored(client, queue, f"k{key}") == list(range(key, ROWS, KEYS))
    assert heads(client, queue)[f"k{key}"] == len(range(key, ROWS, KEYS))
