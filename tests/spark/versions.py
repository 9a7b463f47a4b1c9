"""What the connector does on one version of PySpark. A program that this version runs: url, folder, and `classic` or
`connect`. `serve` runs the server of Spark Connect.

Prints a JSON object with what was tried: `yes`, `no`, `refused`, or a condition. Ends with an error if a record is
lost, stored twice, out of order or changed."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from queend.spark import batch_writer, read_batch, write_batch

ROWS, KEYS = 1000, 7
PUSHED = "spark.sql.python.filterPushdown.enabled"
SOURCES = pyspark.__version__ >= "4"      # Python data sources
DOCUMENT = Path(__file__).parents[2] / "docs/spark.md"


def session(folder: Path, **more: str) -> SparkSession:
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.memory": "1g",
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",    # a short run
                "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder / "warehouse",
                "spark.sql.session.timeZone": "UTC", "spark.ui.showConsoleProgress": "false", PUSHED: "true", **more}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


def serve(folder: Path) -> None:
    """Runs a server of Spark Connect until standard input ends. Prints its port."""
    spark = session(folder, **{"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
                               "spark.connect.grpc.binding.address": "127.0.0.1",
                               "spark.connect.grpc.binding.port": "0"})
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    print(getattr(service, "MODULE$").localPort(), flush=True)
    sys.stdin.read()
    spark.stop()


class Tried:
    """The session, the daemon's address, and a folder for checkpoints."""

    def __init__(self, url: str, folder: str, server: int | None = None):
        self.url, self.folder, self.connect = url, Path(folder), server is not None
        self.prefix = f"{'connect' if server else 'classic'}-{pyspark.__version__}-{os.getpid()}"
        self.remote = f"sc://127.0.0.1:{server}"
        self.spark = (SparkSession.builder.remote(self.remote).config(PUSHED, "true").getOrCreate()
                      if server else session(self.folder))

    def another(self) -> SparkSession:
        """Returns a new session."""
        return SparkSession.builder.remote(self.remote).create() if self.connect else self.spark.newSession()

    def ask(self, path: str, wanted: Any) -> Any:
        with urlopen(Request(self.url + path, json.dumps(wanted).encode(),
                             {"Content-Type": "application/json"})) as answer:
            return json.load(answer)

    def queue(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def rows(self, first: int = 0, end: int = ROWS) -> DataFrame:
        """Returns numbers as records. Those of one key are in one Spark partition, in order."""
        frame = self.spark.range(first, end, 1, 2).selectExpr(f"concat('k', id % {KEYS}) AS key",
                                                              "struct(id AS n, timestamp_seconds(id) AS at) AS value")
        return frame.repartition(2, "key").sortWithinPartitions("value.n")

    def full(self) -> str:
        """Writes all rows into a queue, once however often it is called, and returns its name."""
        writer = self.rows().write.format("queend").options(url=self.url, queue=self.queue("full"), queryId="once")
        writer.mode("append").save()
        return self.queue("full")

    def read(self, queue: str, **options: object) -> DataFrame:
        reader = self.spark.read.format("queend").options(url=self.url, subscribe=queue)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    def check(self, queue: str, numbers: range | list[int]) -> None:
        """Fails unless the queue has these numbers, each once, in order in its partition."""
        for key in range(KEYS):
            found: list[int] = []
            while True:
                entry = {"queue": queue, "partition": f"k{key}", "offset": len(found)}
                (said,) = self.ask("/api/v1/fetch", {"entries": [entry]})["entries"]
                if not said.get("records"):
                    break
                found += [one["payload"]["n"] for one in said["records"]]
            assert found == [one for one in numbers if one % KEYS == key], (queue, key, found)


def refused(function: Callable[[], Any], words: str) -> None:
    """Fails unless the function ends with an error that has these words."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - of Spark, in a class of each version
        assert words in str(error), error
    else:
        raise AssertionError(f"no error with: {words}")


# -- what is tried -----------------------------------------------------------------------------------------------------

def functions(tried: Tried) -> str:
    """read_batch and write_batch; a write that is repeated."""
    queue = tried.queue("functions")
    said = write_batch(tried.rows(), url=tried.url, queue=queue, queryId="once", batchRows=100)
    assert (said.rows, said.duplicates) == (ROWS, 0)
    said = write_batch(tried.rows(), url=tried.url, queue=queue, queryId="once")
    assert said.duplicates == ROWS
    tried.check(queue, range(ROWS))
    frame = read_batch(tried.spark, url=tried.url, subscribe=queue, minPartitions=3)
    records = frame.selectExpr("partition", "CAST(key AS STRING) = partition AS same", "offset", "topic", "timestamp",
                               "get_json_object(CAST(value AS STRING), '$.n') AS n").collect()
    assert sorted(int(one.n) for one in records) == list(range(ROWS)) and all(one.same for one in records)
    assert all(one.topic == queue and one.timestamp.year > 2000 for one in records)
    narrow = read_batch(tried.spark, "value string, offset bigint", url=tried.url, subscribe=queue)
    assert narrow.columns == ["value", "offset"] and narrow.count() == ROWS
    late = json.dumps({queue: {f"k{key}": -1 for key in range(KEYS)}})
    assert read_batch(tried.spark, url=tried.url, subscribe=queue, startingOffsets=late).count() == 0
    refused(lambda: write_batch(tried.rows(), url=tried.url, queue=queue, batchRow=1), "did you mean batchRows")
    refused(lambda: read_batch(tried.spark, url=tried.url, subscribe="none").count(), "there is no queue 'none'")
    return "yes"


def for_each_batch(tried: Tried) -> str:
    """A stream of files into a queue by batch_writer; its last epoch runs twice."""
    queue, files = tried.queue("each"), str(tried.folder / f"{tried.prefix}-files")
    checkpoint = tried.folder / f"{tried.prefix}-each"
    name = {"queryId": "each"} if tried.connect else {}

    def run() -> None:
        frame = tried.spark.readStream.schema("key string, value struct<n: bigint, at: timestamp>").parquet(files)
        writer = batch_writer(url=tried.url, queue=queue, **name)
        writing = frame.writeStream.foreachBatch(writer).option("checkpointLocation", str(checkpoint))
        writing.trigger(availableNow=True).start().awaitTermination()

    tried.rows(0, 500).write.parquet(files)
    run()
    tried.rows(500, ROWS).write.mode("append").parquet(files)
    run()
    _forget_last(checkpoint)
    run()
    tried.check(queue, range(ROWS))
    return "yes"


def document(tried: Tried) -> str:
    """The example of docs/spark.md, as printed."""
    (code,) = re.findall(r"^```python\n(from queend.spark import batch_writer.*?)^```", DOCUMENT.read_text(),
                         re.M | re.S)
    files = str(tried.folder / "document")
    tried.rows().selectExpr("key", "to_json(value) AS value").write.parquet(files)
    names = {"spark": tried.spark, "url": tried.url, "orders": tried.rows(),
             "stream": tried.spark.readStream.schema("key string, value string").parquet(files)}
    for name in ("orders", "copies"):
        code = code.replace(f'"{name}"', f'"{tried.queue(name)}"')
    exec(code.replace("/data", str(tried.folder)), names)  # noqa: S102
    assert names["frame"].count() == ROWS
    (query,) = tried.spark.streams.active
    query.processAllAvailable()
    query.stop()
    for name in ("orders", "copies"):
        tried.check(tried.queue(name), range(ROWS))
    return "yes"


def found(tried: Tried) -> str:
    """format("queend") without register: here, in another thread, in a new session."""
    if not SOURCES:
        refused(lambda: tried.read("any"), "queend")
        return "no"
    queue = tried.full()
    tried.full()    # the same write again
    tried.check(queue, range(ROWS))
    assert tried.read(queue).count() == ROWS
    assert tried.another().read.format("queend").options(url=tried.url, subscribe=queue).load().count() == ROWS
    counts: list[int] = []

    def work() -> None:
        tried.spark.createDataFrame([], "id int")    # activates the session in this thread, as docs/spark.md says
        tried.rows(0, 10).write.format("queend").options(url=tried.url, queue=f"{queue}-thread").mode("append").save()
        counts.append(tried.read(f"{queue}-thread").count())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert counts == [10]
    refused(lambda: tried.read(queue, startingOfsets="earliest").count(), "did you mean startingOffsets")
    refused(lambda: tried.rows().write.format("queend").options(url=tried.url).mode("append").save(), "no queue")
    return "yes"


def streams(tried: Tried) -> str:
    """From queue to queue, with a restart, new partitions, and a last epoch that runs twice."""
    if not SOURCES:
        return "no"
    source, target = tried.queue("source"), tried.queue("target")
    checkpoint = tried.folder / f"{tried.prefix}-stream"

    def push(first: int, end: int) -> None:
        tried.rows(first, end).write.format("queend").options(url=tried.url, queue=source).mode("append").save()

    def run() -> None:
        reader = tried.spark.readStream.format("queend").options(url=tried.url, subscribe=source,
                                                                 startingOffsets="earliest", commitGroup="spark")
        frame = reader.schema("key string, value string").load()
        writer = frame.writeStream.format("queend").options(url=tried.url, queue=target, batchRows="100",
                                                            checkpointLocation=str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    push(0, 500)
    run()
    push(500, ROWS)
    run()
    tried.check(target, range(ROWS))
    _forget_last(checkpoint)
    run()
    tried.check(target, range(ROWS))
    push(ROWS, ROWS + 100)
    run()
    run()
    tried.check(target, range(ROWS + 100))
    return "yes"


def limits(tried: Tried) -> str:
    """maxOffsetsPerTrigger."""
    if not SOURCES:
        return "no"
    queue, checkpoint = tried.full(), tried.folder / f"{tried.prefix}-limits"
    frame = tried.spark.readStream.format("queend").options(
        url=tried.url, subscribe=queue, startingOffsets="earliest", maxOffsetsPerTrigger="300")

    def run() -> None:
        writer = frame.load().writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    if pyspark.__version__ < "4.2":
        refused(run, f'"maxOffsetsPerTrigger" needs PySpark 4.2: PySpark {pyspark.__version__[:3]} has no limits')
        return "refused"
    run()
    assert len(_numbers(checkpoint / "commits")) == 4
    return "yes"


def sql(tried: Tried) -> str:
    """CREATE TABLE, INSERT INTO, writeTo. If Spark asks for the columns that a query lacks, they are given as null."""
    if not SOURCES:
        return "no"
    spark, queue, said = tried.spark, tried.queue("table"), "yes"
    spark.sql("DROP TABLE IF EXISTS orders_in")
    spark.sql(f"CREATE TABLE orders_in USING queend OPTIONS (url '{tried.url}', subscribe '{queue}')")

    def whole(frame: DataFrame) -> DataFrame:
        lacking = [one for one in spark.table("orders_in").schema if one.name not in frame.columns]
        return frame.select("*", *(lit(None).cast(one.dataType).alias(one.name) for one in lacking))

    made = tried.rows(0, 100).selectExpr("binary(key) AS key", "binary(to_json(value)) AS value")
    made.createOrReplaceTempView("made")
    try:
        spark.sql("INSERT INTO orders_in (key, value) SELECT * FROM made")
    except Exception as error:  # noqa: BLE001 - of Spark, in a class of each version
        assert "Cannot find data for the output column `topic`" in str(error), error
        said = "all columns"
        whole(made).createOrReplaceTempView("made")
        spark.sql("INSERT INTO orders_in BY NAME SELECT * FROM made")
    tried.check(queue, range(100))
    frame = tried.rows(100, 200).selectExpr("key AS partition", "binary(to_json(value)) AS value")
    (frame if said == "yes" else whole(frame)).writeTo("orders_in").append()
    tried.check(queue, range(200))
    assert spark.sql("SELECT count(*) FROM orders_in WHERE partition <> 'k9'").collect()[0][0] == 200
    spark.sql(f"CREATE TABLE copied USING queend OPTIONS (url '{tried.url}', queue '{queue}-copy')")
    spark.sql("INSERT INTO copied SELECT * FROM orders_in")
    tried.check(f"{queue}-copy", range(200))
    # a frame that was read from a table is written where the query says
    frame = spark.table("copied").selectExpr(f"'{tried.queue('elsewhere')}' AS topic", "partition", "value")
    frame.write.format("queend").options(url=tried.url).mode("append").save()
    tried.check(tried.queue("elsewhere"), range(200))
    tried.check(f"{queue}-copy", range(200))
    refused(lambda: spark.sql("INSERT OVERWRITE orders_in SELECT * FROM copied"), "")
    for name in ("orders_in", "copied"):
        spark.sql(f"DROP TABLE {name}")
    return said


def filters(tried: Tried) -> str:
    """Conditions limit what is fetched if the session says so; without, the result is the same."""
    if not SOURCES:
        return "no"
    queue = tried.full()
    whole, tasks = sum(-(-len(range(key, ROWS, KEYS)) // 10) for key in range(KEYS)), []
    for value in ("true", "false"):
        tried.spark.conf.set(PUSHED, value)
        frame = tried.read(queue, maxRecordsPerPartition=10).where("partition = 'k3' AND offset >= 50 AND offset < 60")
        assert sorted(one.offset for one in frame.collect()) == list(range(50, 60))
        tasks.append(frame.rdd.getNumPartitions())
    tried.spark.conf.set(PUSHED, "true")
    assert tasks in ([1, whole], [whole, whole]), tasks
    return "yes" if tasks[0] == 1 else "no"


def _numbers(folder: Path) -> list[int]:
    return sorted(int(one.name) for one in folder.iterdir() if one.name.isdigit())


def _forget_last(checkpoint: Path) -> None:
    """Removes the commit of the last epoch, as if Spark had been killed before it: the epoch runs again."""
    last = _numbers(checkpoint / "commits")[-1]
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


CLASSIC = (functions, for_each_batch, document, found, streams, limits, sql, filters)
CONNECT = (functions, for_each_batch, found, streams, limits, sql)


def main(url: str, folder: str, kind: str, *names: str) -> None:
    if kind == "serve":
        serve(Path(folder))
    elif kind == "connect":
        with subprocess.Popen([sys.executable, __file__, url, folder, "serve"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin and server.stdout
            with server.stdin:
                everything(Tried(url, folder, int(server.stdout.readline())), CONNECT, names)
    else:
        everything(Tried(url, folder), CLASSIC, names)


def everything(tried: Tried, functions: tuple[Callable[[Tried], str], ...], names: tuple[str, ...]) -> None:
    """Tries the functions; with names, those alone."""
    said = {}
    try:
        for one in (one for one in functions if not names or one.__name__ in names):
            print(f"{one.__name__} …", file=sys.stderr)    # an error follows the name of what was tried
            said[one.__name__] = one(tried)
    finally:
        tried.spark.stop()    # before the server of Spark Connect: a client without it waits for minutes
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
