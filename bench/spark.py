"""Spark in and out of a queue: rows per second and processor time, against a sink and a source that do nothing and
against Spark's own JDBC sink and source on the same PostgreSQL. Payloads of 130 bytes.

python bench/spark.py [--rows N] [--rounds N] [--only write read plan] [--plan PARTITIONS …] [--write]
"""
from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import psycopg  # noqa: E402
import pyarrow as pa  # noqa: E402
from cluster import OWN_SETTINGS, Cluster  # noqa: E402
from engine import TASKS, Cost, Memory, session, written  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from pyspark.sql.datasource import (  # noqa: E402
    DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition, WriterCommitMessage)
from pyspark.sql.types import StructType  # noqa: E402
from plot import bars  # noqa: E402
from server import Daemon, served  # noqa: E402

JAR = "/usr/share/java/postgresql.jar"
# 130 bytes, cheap to make
PAYLOAD = "concat('{\"n\":', id, ',\"text\":\"', substr('%s', 1, 114 - length(string(id))), '\"}')" % ("x" * 114)
TABLE = ROOT / "bench/results/spark.md"
PLOT = ROOT / "bench/results/plots/spark-rates.svg"
WARM = 200_000    # rows before anything is measured: Java compiles what runs often


class NoWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class NoReader(DataSourceReader):
    """As many rows of the same schema and size, made before and handed over again and again."""

    def __init__(self, rows: int):
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows // TASKS) for _ in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        n = 10_000
        batch = pa.record_batch({"key": pa.array([b"p1"] * n), "value": pa.array([b"x" * 130] * n),
                                 "offset": pa.array(range(n), pa.int64())})
        for _ in range(partition.value // n):
            yield batch


class Nothing(DataSource):
    @classmethod
    def name(cls) -> str:
        return "nothing"

    def schema(self) -> str:
        return "key binary, value binary, offset long"

    def reader(self, schema: StructType) -> NoReader:
        return NoReader(int(self.options["rows"]))

    def writer(self, schema: StructType, overwrite: bool) -> NoWriter:
        return NoWriter()


def open_port(cluster: Cluster) -> str:
    """JDBC cannot use the socket the daemon uses: whoever is on this machine may connect by TCP while the benchmark
    runs."""
    access = Path(cluster.one("SHOW hba_file"))
    access.write_text(access.read_text() + "host all all 127.0.0.1/32 trust\n")
    cluster.one("SELECT pg_reload_conf()")
    return str(cluster.one("SHOW port"))


class Bench:
    def __init__(self, given: argparse.Namespace, cluster: Cluster, daemon: Daemon, spark: SparkSession):
        self.given, self.cluster, self.daemon, self.spark = given, cluster, daemon, spark
        self.cost = Cost(cluster, daemon)
        self.url = f"http://{daemon.host}:{daemon.port}"
        self.lines: list[tuple] = []
        self.rows = given.rows
        self.rates: dict[str, float] = {}
        self.jdbc = {"url": f"jdbc:postgresql://127.0.0.1:{open_port(cluster)}/{cluster.connection.info.dbname}",
                     "driver": "org.postgresql.Driver", "user": cluster.connection.info.user, "dbtable": "bench_rows"}

    def measure(self, name: str, run: Callable[[int], object]) -> None:
        """The best of some rounds, its processor seconds per million rows (Spark, daemon, PostgreSQL), and the most
        memory of all rounds."""
        rows, best = self.given.rows, None
        self.rows = min(WARM, rows)
        run(-1)
        self.rows = rows
        memory = Memory(self.daemon.process.pid)
        for number in range(self.given.rounds):
            before = self.cost.now()
            began = time.monotonic()
            run(number)
            took = time.monotonic() - began
            spent = self.cost.since(before, rows)
            if best is None or took < best[0]:
                best = (took, *spent)
        self.rates[name], seen = rows / best[0], memory.stop()
        self.lines.append((name, f"{rows / best[0]:,.0f}", *(f"{one:.2f}" for one in best[1:]),
                           *(f"{max(one[place] for one in seen):.0f}" for place in (0, 2))))
        print(*self.lines[-1], sep=" | ", flush=True)

    # -- out of Spark ------------------------------------------------------------------------------------------------

    def frame(self) -> DataFrame:
        return self.spark.range(0, self.rows, 1,
                                TASKS).selectExpr("concat('p', spark_partition_id()) key", f"{PAYLOAD} value")

    def write(self) -> None:
        def queue(number: int, **options: str) -> None:
            self.frame().write.format("queend").options(url=self.url, queue=f"in-{number}-{len(options)}",
                                                        **options).mode("append").save()

        def jdbc(_: int) -> None:
            self.frame().write.format("jdbc").options(**self.jdbc, batchsize="10000").mode("overwrite").save()

        self.measure("write: nothing", lambda _: self.frame().write.format("nothing").mode("append").save())
        self.measure("write: queend, exactly once", queue)
        self.measure("write: queend, at least once", lambda n: queue(n, delivery="at-least-once"))
        if Path(JAR).exists():
            self.measure("write: JDBC", jdbc)

    # -- into Spark ---------------------------------------------------------------------------------------------------

    def read(self) -> None:
        sink = lambda frame: frame.write.format("noop").mode("overwrite").save()  # noqa: E731
        reader = self.spark.read.format("queend").options(url=self.url, subscribe="in-0-0").schema(
            "key binary, value binary, offset long")
        self.measure("read: nothing",
                     lambda _: sink(self.spark.read.format("nothing").option("rows", self.rows).load()))
        self.measure("read: queend", lambda _: sink(reader.option("minPartitions", TASKS).load()))
        if Path(JAR).exists():
            with psycopg.connect(self.cluster.dsn, autocommit=True) as connection:
                connection.execute("ALTER TABLE bench_rows ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY")
            parted = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(self.given.rows),
                      "numPartitions": str(TASKS), "fetchsize": "10000"}
            self.measure("read: JDBC",
                         lambda _: sink(self.spark.read.format("jdbc").options(**self.jdbc, **parted).load()))

    # -- planning -----------------------------------------------------------------------------------------------------

    def plan(self) -> list[str]:
        from queend.spark.link import Link
        from queend.spark.plan import Bounds, batch_ranges, tasks_of
        from queend.spark.settings import Options
        from queend.spark.wanted import SourceSettings

        told = []
        for partitions in self.given.plan:
            queue = f"plan-{partitions}"
            self.fill(queue, partitions)
            settings = SourceSettings.of(Options({"url": self.url, "subscribe": queue}), False)
            took = []
            for _ in range(3):
                began = time.monotonic()
                with Link(settings.link) as link:
                    tasks = tasks_of(batch_ranges(link, settings, Bounds()), settings)
                took.append(time.monotonic() - began)
            told.append(f"| {partitions:,} | {min(took):.2f} | {len(tasks)} |")
            print(told[-1], flush=True)
        return told

    def fill(self, queue: str, partitions: int) -> None:
        """One record in each, through the sink's own way in."""
        from queend.spark.link import ARROW, Link
        from queend.spark.settings import LinkSettings, Options

        with Link(LinkSettings.of(Options({"url": self.url}))) as link:
            for at in range(0, partitions, 10_000):
                names = [f"p{n}" for n in range(at, min(partitions, at + 10_000))]
                out = pa.BufferOutputStream()
                table = pa.table({"partition": names, "payload": ["1"] * len(names)})
                with pa.ipc.new_stream(out, table.schema) as writer:
                    writer.write_table(table)
                link.post(f"/api/v1/push?format=counts&queue={queue}", memoryview(out.getvalue()), ARROW)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=5_000_000)
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--plan", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    arguments.add_argument("--only", nargs="*", default=["write", "read", "plan"], choices=["write", "read", "plan"])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--write", action="store_true", help=f"the tables of {TABLE.relative_to(ROOT)}")
    given = arguments.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster = Cluster(given.postgres, {**OWN_SETTINGS, "listen_addresses": "127.0.0.1", "port": str(port)})
    with tempfile.TemporaryDirectory() as folder, served(cluster) as (cluster, daemon):
        spark = session(folder, **({"spark.driver.extraClassPath": JAR} if Path(JAR).exists() else {}))
        from queend.spark import QueendDataSource

        for one in (QueendDataSource, Nothing):
            spark.dataSource.register(one)
        bench = Bench(given, cluster, daemon, spark)
        if {"write", "read"} & set(given.only):
            bench.write()
        if "read" in given.only:
            bench.read()
        planned = bench.plan() if "plan" in given.only else []
        others = bench.cost.others()
        spark.stop()
    report(given, bench, planned, others)


def report(given: argparse.Namespace, bench: Bench, planned: list[str], others: float) -> None:
    text = (f"{given.rows:,} rows, the best of {given.rounds} rounds, `local[{TASKS}]` on {os.cpu_count()} cores;"
            f" other work on the machine took {others:.2f} cores.\n\n")
    text += ("| | rows/s | Spark s | daemon s | PostgreSQL s | daemon MB | Python worker MB"
             " |\n|---|---|---|---|---|---|---|\n")
    text += "\n".join("| " + " | ".join(line) + " |" for line in bench.lines)
    text += "\n\n| partitions | planned in s | tasks |\n|---|---|---|\n" + "\n".join(planned) + "\n"
    print(text)
    print(json.dumps({"rows": given.rows, "rates": bench.rates}))
    if given.write:
        written(TABLE, "<!-- measured -->\n", "<!-- end -->\n", text)
        PLOT.write_text(bars(f"Spark, thousand rows per second ({given.rows:,} rows of 130 bytes)",
                             {name: rate / 1000 for name, rate in bench.rates.items()}))


if __name__ == "__main__":
    main()
