"""An archive of a queue and the read of it: rows per second, processor time and memory, in thirds of each phase, so
that growth is seen.
Payloads of 130 bytes.

python bench/spark_archive.py [--rows N] [--partitions N] [--write]
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from cluster import OWN_SETTINGS, Cluster  # noqa: E402
from process import busy_seconds, cpu_seconds, descendants, rss_mb  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from server import Daemon  # noqa: E402

TASKS = 2
WARM = 100_000
PAYLOAD = "to_json(named_struct('n', id, 'text', repeat('x', 112 - length(string(id)))))"    # 130 bytes
TABLE = ROOT / "bench/results/spark.md"
BEGIN, END = "<!-- archive measured -->\n", "<!-- end of archive -->\n"
WHO = ("daemon", "JVM", "Python worker")


class Memory(threading.Thread):
    """The memory of the daemon, Spark's JVM and the largest of its Python workers, twice a second."""

    def __init__(self, daemon: int):
        super().__init__(daemon=True)
        self.process, self.done = daemon, threading.Event()
        self.seen: list[list[float]] = []
        self.start()

    def run(self) -> None:
        while not self.done.wait(0.5):
            now = [0.0, 0.0, 0.0]
            for pid in descendants(os.getpid()):
                try:
                    words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
                    place = 0 if pid == self.process else 1 if words[0].endswith(b"java") else None
                    if place is None and any(b"pyspark" in word for word in words[1:]):
                        place = 2
                    if place is not None:
                        now[place] = max(now[place], rss_mb(pid))
                except (OSError, RuntimeError):
                    pass      # it has ended
            self.seen.append(now)

    def stop(self) -> list[str]:
        """Of each the most in every third."""
        self.done.set()
        self.join()
        third = max(1, -(-len(self.seen) // 3))
        return [" ".join(f"{max(one[place] for one in self.seen[at:at + third]):.0f}" for at in range(0, len(self.seen),
                                                                                                      third))
                for place in range(len(WHO))]


class Bench:
    def __init__(self, cluster: Cluster, daemon: Daemon, rows: int):
        self.cluster, self.daemon, self.rows = cluster, daemon, rows
        self.lines: list[tuple] = []
        self.rates: dict[str, float] = {}

    def measure(self, name: str, run: Callable[[], int]) -> None:
        memory, before, began = Memory(self.daemon.process.pid), self.cpu(), time.monotonic()
        rows = run()
        took = time.monotonic() - began
        if rows != self.rows:
            raise SystemExit(f"{name}: {rows} rows instead of {self.rows}")
        spent = [(b - a) / rows * 1e6 for a, b in zip(before, self.cpu(), strict=True)]
        self.rates[name] = rows / took
        self.lines.append((name, f"{rows / took:,.0f}", *(f"{one:.2f}" for one in spent), *memory.stop()))
        print(*self.lines[-1], sep=" | ", flush=True)

    def cpu(self) -> tuple[float, float, float]:
        daemon, server = self.daemon.cpu_seconds(), self.cluster.cpu_seconds()
        return cpu_seconds(os.getpid()) - daemon - server, daemon, server    # both are children of this process


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--partitions", type=int, default=1000)
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--write", action="store_true", help=f"the table of {TABLE.relative_to(ROOT)}")
    given = arguments.parse_args()
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"})
    cluster, daemon = Cluster(given.postgres, OWN_SETTINGS), None
    with tempfile.TemporaryDirectory() as folder:
        try:
            daemon = Daemon(cluster)
            settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
                        "spark.driver.memory": "2g",
                        "spark.driver.host": "127.0.0.1", "spark.local.dir": f"{folder}/local",
                        "spark.sql.warehouse.dir": folder, "spark.sql.session.timeZone": "UTC"}
            spark = SparkSession.builder.master(f"local[{TASKS}]").config(map=settings).getOrCreate()
            spark.sparkContext.setLogLevel("ERROR")
            began, busy = time.monotonic(), busy_seconds()
            bench = Bench(cluster, daemon, given.rows)
            own = sum(bench.cpu())
            phases(given, bench, spark, f"{folder}/archive")
            others = (busy_seconds() - busy - sum(bench.cpu()) + own) / (time.monotonic() - began)
            size = sum(one.stat().st_size for one in Path(folder, "archive/queue=orders").rglob("*.parquet"))
            spark.stop()
        finally:
            if daemon:
                daemon.stop()
            cluster.stop()
    report(given, bench, size, others)


def phases(given: argparse.Namespace, bench: Bench, spark: SparkSession, cold: str) -> None:
    from queend.spark import QueendDataSource
    from queend.spark.jobs.archive import archive
    from queend.spark.jobs.read import export

    spark.dataSource.register(QueendDataSource)
    link = {"url": f"http://{bench.daemon.host}:{bench.daemon.port}"}

    def fill(queue: str = "orders", rows: int = given.rows) -> int:
        frame = spark.range(0, rows, 1, TASKS).selectExpr(f"concat('p', id DIV 100 % {given.partitions}) key",
                                                          f"{PAYLOAD} value")
        frame.write.format("queend").options(**link, queue=queue, delivery="at-least-once").mode("append").save()
        return rows

    fill("warm", WARM)    # what Java compiles and loads is no part of what a row costs
    archive(spark, "warm", cold, **link)
    export(spark, "warm", cold, **link)
    bench.measure("write (at least once)", fill)
    bench.measure("archive", lambda: archive(spark, "orders", cold, **link)["rows"])
    bench.measure("read: archive", lambda: export(spark, "orders", cold, **link)["rows"])


def report(given: argparse.Namespace, bench: Bench, size: int, others: float) -> None:
    text = (f"{given.rows:,} rows in {given.partitions:,} partitions, `local[{TASKS}]` on {os.cpu_count()} cores; "
            f"other work on the machine took {others:.2f} cores.\n"
            f"The archive has {size / given.rows:.0f} bytes a row.\n\n")
    text += ("| | rows/s | Spark s | daemon s | PostgreSQL s | " + " | ".join(f"{one} MB"
                                                                              for one in WHO)
             + " |\n|---|---|---|---|---|---|---|---|\n")
    text += "\n".join("| " + " | ".join(line) + " |" for line in bench.lines) + "\n"
    print(text)
    print(json.dumps({"rows": given.rows, "rates": bench.rates, "bytes": size}))
    if given.write:
        before, _, rest = TABLE.read_text().partition(BEGIN)
        TABLE.write_text(before + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
