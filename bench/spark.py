"""Spark in and out of a queue: rows per second and processor time, against a sink and a source that do nothing, against
Spark's own JDBC sink and source on the same PostgreSQL, and against Parquet. Payloads of 130 bytes.

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
from engine import TASKS, WHO, Cost, Memory, session, written  # noqa: E402
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
SCHEMA = "key binary, value binary, offset long"
COMMITTED = 100_000   # partitions of the largest queue that is committed
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
        return SCHEMA

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


class Case:
    """One way to write or read rows. Holds the fastest of its rounds."""

    def __init__(self, name: str, run: Callable[[int], object]):
        """run: takes the number of the round, -1 to warm up."""
        self.name, self.run = name, run
        self.took = float("inf")                   # seconds
        self.spent = [0.0, 0.0, 0.0]               # processor seconds per million rows: Spark, daemon, PostgreSQL
        self.memory = [0.0] * len(WHO)             # MB: the maximum of all rounds

    def round(self, number: int, rows: int, cost: Cost, daemon: int) -> None:
        memory, before, began = Memory(daemon), cost.now(), time.monotonic()
        self.run(number)
        took = time.monotonic() - began
        if took < self.took:
            self.took, self.spent = took, cost.since(before, rows)
        self.memory = [max(most) for most in zip(self.memory, *memory.stop(), strict=True)]


class Bench:
    def __init__(self, given: argparse.Namespace, cluster: Cluster, daemon: Daemon, spark: SparkSession, folder: str):
        self.given, self.cluster, self.daemon, self.spark = given, cluster, daemon, spark
        self.cost = Cost(cluster, daemon)
        self.url = f"http://{daemon.host}:{daemon.port}"
        self.rows, self.parquet = given.rows, f"{folder}/rows.parquet"
        self.cases: dict[str, Case] = {}
        self.jdbc = {"url": f"jdbc:postgresql://127.0.0.1:{open_port(cluster)}/{cluster.connection.info.dbname}",
                     "driver": "org.postgresql.Driver", "user": cluster.connection.info.user, "dbtable": "bench_rows"}

    def measure(self, ways: dict[str, Callable[[int], object]]) -> None:
        """Runs all ways in turns: a round of each, then the next round of each. So what else the machine does is shared
        by all."""
        cases = [Case(name, run) for name, run in ways.items()]
        self.rows = min(WARM, self.given.rows)
        for case in cases:
            case.run(-1)
        self.rows = self.given.rows
        for number in range(self.given.rounds):
            for case in cases:
                case.round(number, self.rows, self.cost, self.daemon.process.pid)
        for case in cases:
            self.cases[case.name] = case
            print(*self.line(case), sep=" | ", flush=True)

    def rate(self, case: Case) -> float:
        """Returns rows per second."""
        return self.given.rows / case.took

    def line(self, case: Case) -> list[str]:
        return [case.name, f"{self.rate(case):,.0f}", *(f"{one:.2f}" for one in (*case.spent, sum(case.spent))),
                *(f"{case.memory[place]:.0f}" for place in (0, 2))]

    def aims(self) -> list[str]:
        """Returns the rows of the aims whose cases were measured."""
        def row(what: str, aim: str, share: Callable[[Case, Case], float], own: str, other: str) -> list[str]:
            if own not in self.cases or other not in self.cases:
                return []
            return [f"| {what} | {aim} | {share(self.cases[own], self.cases[other]):.2f} |"]

        def seconds(own: Case, other: Case) -> float:
            return sum(own.spent) / sum(other.spent)

        def rates(own: Case, other: Case) -> float:
            return self.rate(own) / self.rate(other)

        once = "write: queend, exactly once"
        return [*row("reading: processor seconds of all three, of JDBC's", "at most 0.80", seconds, "read: queend",
                     "read: JDBC"),
                *row("writing exactly once: processor seconds of all three, of JDBC's", "at most 0.33", seconds, once,
                     "write: JDBC"),
                *row("writing exactly once: rows per second, of a sink that does nothing", "at least 0.70", rates, once,
                     "write: nothing")]

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

        ways = {"write: nothing": lambda _: self.frame().write.format("nothing").mode("append").save(),
                "write: queend, exactly once": queue,
                "write: queend, at least once": lambda n: queue(n, delivery="at-least-once"),
                "write: Parquet": lambda _: self.frame().write.mode("overwrite").parquet(self.parquet)}
        if Path(JAR).exists():
            ways["write: JDBC"] = jdbc
        self.measure(ways)

    # -- into Spark ---------------------------------------------------------------------------------------------------

    def read(self) -> None:
        def ends(name: str, schema: str | None, **options: str | int) -> Callable[[int], None]:
            def run(_: int) -> None:
                reader = self.spark.read.format(name).options(**options)
                (reader.schema(schema) if schema else reader).load().write.format("noop").mode("overwrite").save()
            return run

        queue = {"url": self.url, "subscribe": "in-0-0", "minPartitions": TASKS}
        stored = f"{self.parquet}.read"     # the columns and the offsets that the queue has
        self.spark.read.format("queend").options(**queue).schema(SCHEMA).load().write.parquet(stored)
        ways = {"read: nothing": ends("nothing", None, rows=self.given.rows),
                "read: queend": ends("queend", SCHEMA, **queue),
                "read: queend, all columns": ends("queend", None, **queue),
                "read: queend, value alone": ends("queend", "value binary", **queue),
                "read: Parquet": ends("parquet", SCHEMA, path=stored)}
        if Path(JAR).exists():
            with psycopg.connect(self.cluster.dsn, autocommit=True) as connection:
                connection.execute("ALTER TABLE bench_rows ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY")
                connection.execute("VACUUM ANALYZE bench_rows")
            ways["read: JDBC"] = ends("jdbc", None, **self.jdbc, partitionColumn="id", lowerBound=1,
                                      upperBound=self.given.rows, numPartitions=TASKS, fetchsize=10_000)
        self.measure(ways)

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
            told.append(f"| {partitions:,} | {min(took):.2f} | {len(tasks)} | {self.commit(queue, partitions)} |")
            print(told[-1], flush=True)
        return told

    def commit(self, queue: str, partitions: int) -> str:
        """Returns how long the first commit of a group takes, as a stream with commitGroup makes it."""
        if partitions > COMMITTED:
            return ""
        from queend.spark.link import Link
        from queend.spark.settings import LinkSettings, Options

        with Link(LinkSettings.of(Options({"url": self.url}))) as link:
            began = time.monotonic()
            link.commit("bench", [{"queue": queue, "partition": f"p{n}", "offset": 1} for n in range(partitions)])
            return f"{time.monotonic() - began:.2f}"

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
        bench = Bench(given, cluster, daemon, spark, folder)
        if {"write", "read"} & set(given.only):
            bench.write()
        if "read" in given.only:
            bench.read()
        planned = bench.plan() if "plan" in given.only else []
        others = bench.cost.others()
        spark.stop()
    report(given, bench, planned, others)


def report(given: argparse.Namespace, bench: Bench, planned: list[str], others: float) -> None:
    text = (f"{given.rows:,} rows, the best of {given.rounds} rounds in turns, `local[{TASKS}]` on {os.cpu_count()}"
            f" cores; other work on the machine took {others:.2f} cores.\n\n")
    text += ("| | rows/s | Spark s | daemon s | PostgreSQL s | all three s | daemon MB | Python worker MB"
             " |\n|---|---|---|---|---|---|---|---|\n")
    text += "\n".join("| " + " | ".join(bench.line(case)) + " |" for case in bench.cases.values())
    text += "\n\n| | aim | measured |\n|---|---|---|\n" + "\n".join(bench.aims())
    text += "\n\n| partitions | planned in s | tasks | committed in s |\n|---|---|---|---|\n"
    text += "\n".join(planned) + "\n"
    print(text)
    rates = {name: bench.rate(case) for name, case in bench.cases.items()}
    print(json.dumps({"rows": given.rows, "rates": rates}))
    if given.write:
        written(TABLE, "<!-- measured -->\n", "<!-- end -->\n", text)
        PLOT.write_text(bars(f"Spark, thousand rows per second ({given.rows:,} rows of 130 bytes)",
                             {name: rate / 1000 for name, rate in rates.items()}))


if __name__ == "__main__":
    main()
