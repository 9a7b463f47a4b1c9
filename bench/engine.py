"""Spark as the benchmarks use it: a session on this machine, what a run costs, who holds how much memory."""
from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from cluster import ROOT, Cluster
from process import busy_seconds, cpu_seconds, descendants, rss_mb
from pyspark.sql import SparkSession
from server import Daemon

TASKS = 2
WHO = ("daemon", "JVM", "Python worker")


def session(folder: str, **settings: str) -> SparkSession:
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
                       "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "bench")])})
    usual = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g",
             "spark.driver.host": "127.0.0.1", "spark.local.dir": f"{folder}/local", "spark.sql.warehouse.dir": folder,
             "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.master(f"local[{TASKS}]").config(map=usual | settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Cost:
    """Seconds of processors: of Spark, of the daemon, of PostgreSQL; and cores that were busy with something else."""

    def __init__(self, cluster: Cluster, daemon: Daemon):
        self.cluster, self.daemon = cluster, daemon
        self.began, self.busy, self.first = time.monotonic(), busy_seconds(), sum(self.now())

    def now(self) -> tuple[float, float, float]:
        daemon, server = self.daemon.cpu_seconds(), self.cluster.cpu_seconds()
        return cpu_seconds(os.getpid()) - daemon - server, daemon, server    # both are children of this process

    def since(self, before: tuple[float, float, float], rows: int) -> list[float]:
        """Per million rows."""
        return [(b - a) / rows * 1e6 for a, b in zip(before, self.now(), strict=True)]

    def others(self) -> float:
        return (busy_seconds() - self.busy - sum(self.now()) + self.first) / (time.monotonic() - self.began)


class Memory(threading.Thread):
    """MB of the daemon, Spark's JVM and the largest of its Python workers, some times a second, until `stop`."""

    def __init__(self, daemon: int):
        super().__init__(daemon=True)
        self.process, self.done = daemon, threading.Event()
        self.seen: list[list[float]] = []
        self.start()

    def run(self) -> None:
        while not self.done.wait(0.3):
            now = [0.0] * len(WHO)
            for pid in descendants(os.getpid()):
                try:
                    words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
                    place = (0 if pid == self.process else 1 if words[0].endswith(b"java") else
                             2 if b"pyspark.daemon" in words else None)
                    if place is not None:
                        now[place] = max(now[place], rss_mb(pid))
                except (OSError, RuntimeError):
                    pass      # it has ended
            self.seen.append(now)

    def stop(self) -> list[list[float]]:
        self.done.set()
        self.join()
        return self.seen


def written(page: Path, begin: str, end: str, text: str) -> None:
    """The text in the page, between two marks."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2])
