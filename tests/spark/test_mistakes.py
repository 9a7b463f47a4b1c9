"""Mistakes in queries: the first line of Spark's exception has the connector's sentence, and no traceback is before it
(docs/spark.md, Errors)."""
from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from support.client import Client
from support.daemon import Daemon
from support.log import stored
from support.ports import free_port

from queend.spark.compat import LIMITS
from queend.spark.jobs import JobError
from queend.spark.jobs.fault import failing

NOBODY = {"url": "http://127.0.0.1:1", "retryTimeoutMs": "100"}
AWAY = 'Unreachable: no daemon answers (http://127.0.0.1:1: [Errno 111] Connection refused); set the option "url" to'
# of a read → options, schema → sentence
READS: dict[str, tuple[dict[str, str], str | None, str]] = {
    "address": (NOBODY, None, AWAY),
    "no-url": ({"url": "127.0.0.1:6632"}, None, 'OptionError: option "url" must be a list of URLs like http://host:'),
    "queue": ({"subscribe": "nobody's"}, None, "NoQueue: there is no queue \"nobody's\" at URL: check its name and"),
    "column": ({}, "payload string", 'SchemaError: unknown column "payload"; the columns of a queue are key, value,'),
    "schema": ({}, "offset string", 'SchemaError: column "offset" is bigint, not string: select it as bigint, and'),
    "option": ({"startingOffset": "earliest"}, None,
               'OptionError: there is no option "startingoffset"; did you mean startingOffsets?'),
    "kafka": ({"kafka.sasl.mechanism": "PLAIN"}, None,
              'OptionError: there is no option "kafka.sasl.mechanism": '),
    "no-queue": ({"subscribe": ""}, None,
                 'OptionError: no queue is given: set the option "subscribe" (names separated by commas),'),
    "partition": ({"subscribe": "", "assign": '{"QUEUE": [0]}'}, None,
                  'OptionError: option "assign" names partition "0", which queue \'QUEUE\' does not have: partitions'),
    "lost": ({"startingOffsets": '{"QUEUE": {"Default": 77}}'}, None,
             "DataLost: queue 'QUEUE', partition 'Default': "),
}
# of a write → options, query → sentence
WRITES: dict[str, tuple[dict[str, str], str, str]] = {
    "address": (NOBODY, "'1' value", AWAY),
    "column": ({}, "'1' value, 2 n",
               'SchemaError: unknown column "n"; the columns of a queue are value, queue, topic, partition, key,'),
    "json": ({}, "'hello' value", "RowRefused: queue 'QUEUE.out', partition 'Default', row 0 of Spark partition 0: URL "
                                  "answered 400: Invalid JSON: unexpected byte at byte 0 (row 0, field payload); write "
                                  "value as a struct,"),
    "option": ({"qeueu": "x"}, "'1' value", 'OptionError: there is no option "qeueu"; did you mean queue?'),
    "no-queue": ({"queue": ""}, "'1' value",
                 'SchemaError: no queue is given: set the option "queue", or add a column "queue"'),
    "partition": ({}, "'1' value, 1.5D partition", 'SchemaError: column "partition" is double; it must be binary or'),
}


def first_line(error: pytest.ExceptionInfo[PySparkException]) -> str:
    """Returns what a user reads first. Spark begins a line after `the Python worker:`. Before 4.2 it puts two lines
    first."""
    text = str(error.value).replace("the Python worker:\n", "the Python worker: ")
    text = text.removeprefix("\n  An exception was thrown from the Python worker. Please see the stack trace below.\n")
    assert "Traceback" not in text
    return text.splitlines()[0]


class Asked:
    """Runs one query, as a batch or as a stream."""

    def __init__(self, spark: SparkSession, url: str, queue: str, folder: Path, streaming: bool):
        self.spark, self.url, self.queue, self.folder, self.streaming = spark, url, queue, folder, streaming

    def frame(self, schema: str | None = None, **options: str) -> DataFrame:
        reader = (self.spark.readStream if self.streaming else self.spark.read).format("queend")
        reader = reader.options(url=self.url, subscribe=self.queue).options(**options)
        if self.streaming:
            reader = reader.options(**{"startingOffsets": "earliest", **options})
        return (reader.schema(schema) if schema else reader).load()

    def read(self, schema: str | None, **options: str) -> None:
        frame = self.frame(schema, **options)
        if not self.streaming:
            frame.collect()
            return
        self._finish(frame.writeStream.format("noop"))

    def write(self, frame: DataFrame, **options: str) -> None:
        options = {"url": self.url, "queue": f"{self.queue}.out", **options}
        if not self.streaming:
            frame.write.format("queend").options(**options).mode("append").save()
            return
        self._finish(frame.writeStream.format("queend").options(**options))

    def _finish(self, writer) -> None:  # noqa: ANN001
        query = writer.option("checkpointLocation", str(self.folder)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()


@pytest.fixture(params=["batch", "stream"])
def asked(request: pytest.FixtureRequest, spark: SparkSession, daemon: Daemon, client: Client,
          tmp_path: Path) -> Iterator[Asked]:
    queue = re.sub(r"\W", "-", request.node.name)
    client.push(queue, 1, 2, 3)
    yield Asked(spark, daemon.url, queue, tmp_path / "checkpoint", request.param == "stream")


@pytest.mark.parametrize("mistake", READS)
def test_a_mistake_in_a_read(asked: Asked, mistake: str) -> None:
    options, schema, sentence = READS[mistake]
    with pytest.raises(PySparkException) as caught:
        asked.read(schema, **{name: value.replace("QUEUE", asked.queue) for name, value in options.items()})
    assert sentence.replace("QUEUE", asked.queue).replace("URL:", f"{asked.url}:") in first_line(caught)


@pytest.mark.parametrize("mistake", WRITES)
def test_a_mistake_in_a_write(asked: Asked, mistake: str) -> None:
    options, query, sentence = WRITES[mistake]
    with pytest.raises(PySparkException) as caught:
        asked.write(asked.frame().limit(1).selectExpr(*re.split(", ", query)), **options)
    assert sentence.replace("QUEUE", asked.queue).replace("URL", asked.url) in first_line(caught)


def test_a_stream_that_begins_behind_the_end(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                             tmp_path: Path) -> None:
    """With failOnDataLoss=false it begins at the end, not at the given offset."""
    asked = Asked(spark, daemon.url, queue, tmp_path / "checkpoint", True)
    options = {"startingOffsets": json.dumps({queue: {"Default": 77}}), "failOnDataLoss": "false"}
    client.push(queue, 1, 2, 3)
    asked.write(asked.frame("value string", **options))
    client.push(queue, 4)
    asked.write(asked.frame("value string", **options))
    assert stored(client, f"{queue}.out") == [4]


def test_a_wrong_token(spark: SparkSession, start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    own = start_daemon(JWT_ENABLED="true", JWT_SECRET="s" * 40)
    sentence = (f"Refused: {own.url} answered 401: Token decode error: no JSON Web Token; set the option \"token\" or "
                '"tokenFile" to a valid token')
    for streaming in (False, True):
        with pytest.raises(PySparkException) as caught:
            Asked(spark, own.url, queue, tmp_path / "checkpoint", streaming).read(None, token="wrong")
        assert sentence in first_line(caught)


def test_a_daemon_that_is_full(spark: SparkSession, start_daemon: Callable[..., Daemon], queue: str,
                               tmp_path: Path) -> None:
    full = start_daemon(QUEEND_MAX_CONNECTIONS=1)
    with full.client() as holder:
        assert holder.get("/livez").status == 200
        for streaming in (False, True):
            with pytest.raises(PySparkException) as caught:
                Asked(spark, full.url, queue, tmp_path / "checkpoint", streaming).read(None, retryTimeoutMs="100")
            assert (f"Unreachable: no daemon answers ({full.url}: it answered 503: Too many connections are open); set"
                    in first_line(caught))


def test_a_daemon_that_is_stopped(spark: SparkSession, start_daemon: Callable[..., Daemon], queue: str,
                                  tmp_path: Path) -> None:
    """In the middle of a batch, and of a stream."""
    sentence = r"Unreachable: given up after \d+ attempts? in \d+ s; .*Connection refused; start the daemon, or raise "
    own = start_daemon(PORT=free_port())
    pid = own.process.pid

    def rows(numbers: Iterator[int]) -> Iterator[tuple[str]]:
        for n in numbers:
            if n == 5000:
                with suppress(ProcessLookupError):     # a second attempt of the task
                    os.kill(pid, signal.SIGKILL)
            yield (str(n),)

    frame = spark.createDataFrame(spark.sparkContext.parallelize(range(9000), 1).mapPartitions(rows), "value string")
    with pytest.raises(PySparkException) as caught:
        Asked(spark, own.url, queue, tmp_path, False).write(frame, batchRows="100", retryTimeoutMs="200")
    assert re.search(sentence, first_line(caught))

    own = start_daemon(own.conninfo, PORT=own.port)
    with own.client() as client:
        client.push(queue, 1, 2)
    limit = {"maxOffsetsPerTrigger": "1"} if LIMITS else {}
    stream = Asked(spark, own.url, queue, tmp_path, True).frame(retryTimeoutMs="200", **limit)
    query = stream.writeStream.foreachBatch(lambda batch, number: own.kill()).start()
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination()
    assert re.search(sentence, first_line(caught))


def test_other_errors_keep_their_traceback(asked: Asked, spark: SparkSession) -> None:
    """After an error of ours, in workers that may be used again."""
    class Faulty(DataSource):
        @classmethod
        def name(cls) -> str:
            return "faulty"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: object) -> DataSourceReader:
            raise IndexError("a fault")

    spark.dataSource.register(Faulty)
    with pytest.raises(PySparkException) as caught:
        asked.read("payload string")
    assert first_line(caught)
    with pytest.raises(PySparkException, match="Traceback(.|\n)*IndexError: a fault"):
        spark.read.format("faulty").load().collect()


def test_a_job_has_one_line(asked: Asked) -> None:
    with pytest.raises(JobError) as caught, failing("orders"):
        asked.read("offset string")
    assert str(caught.value) == ('orders: column "offset" is bigint, not string: select it as bigint, and cast it in '
                                 "the query")
