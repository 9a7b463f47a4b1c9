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
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from cluster import OWN_SETTINGS, Cluster  # noqa: E402
from engine import TASKS, WHO, Cost, Memory, session, written  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from server import Daemon, served  # noqa: E402

WARM = 100_000
PAYLOAD = "to_json(named_struct('n', id, 'text', repeat('x', 112 - length(string(id)))))"    # 130 bytes
TABLE = ROOT / "bench/results/spark.md"
BEGIN, END = "<!-- archive measured -->\n", "<!-- end of archive -->\n"


class Bench:
    def __init__(self, cluster: Cluster, daemon: Daemon, rows: int):
        self.daemon, self.rows, self.cost = daemon, rows, Cost(cluster, daemon)
        self.lines: list[tuple] = []
        self.rates: dict[str, float] = {}

    def measure(self, name: str, run: Callable[[], int]) -> None:
        memory, before, began = Memory(self.daemon.process.pid), self.cost.now(), time.monotonic()
        rows = run()
        took = time.monotonic() - began
        if rows != self.rows:
            raise SystemExit(f"{name}: {rows} rows instead of {self.rows}")
        spent, seen = self.cost.since(before, rows), memory.stop()
        self.rates[name] = rows / took
        self.lines.append((name, f"{rows / took:,.0f}", *(f"{one:.2f}" for one in spent),
                           *(thirds([one[place] for one in seen]) for place in range(len(WHO)))))
        print(*self.lines[-1], sep=" | ", flush=True)


def thirds(seen: list[float]) -> str:
    """The most in every third."""
    third = max(1, -(-len(seen) // 3))
    return " ".join(f"{max(seen[at:at + third]):.0f}" for at in range(0, len(seen), third))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--partitions", type=int, default=1000)
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--write", action="store_true", help=f"the table of {TABLE.relative_to(ROOT)}")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(Cluster(given.postgres, OWN_SETTINGS)) as (cluster, daemon):
        spark = session(folder)
        bench = Bench(cluster, daemon, given.rows)
        phases(given, bench, spark, f"{folder}/archive")
        others = bench.cost.others()
        size = sum(one.stat().st_size for one in Path(folder, "archive/queue=orders").rglob("*.parquet"))
        spark.stop()
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
        written(TABLE, BEGIN, END, text)


if __name__ == "__main__":
    main()
