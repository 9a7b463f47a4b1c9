"""Queues and partitions that are deleted, or deleted and made again, under a stream or a batch that reads them."""
from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.client import Client
from support.daemon import Daemon
from support.log import stored
from trigger_limits import ReadAllAvailable, ReadMaxRows, needs_limits

from queend.spark.plan import DataLost
from queend.spark.records import usual
from queend.spark.settings import Options
from queend.spark.source import BatchReader, StreamReader
from queend.spark.wanted import SourceSettings

# What is in the new queue; 10 records were in the old one.
CHANGES = {"deleted": None, "made again with fewer records": 4, "made again with more records": 25}
changes = pytest.mark.parametrize("records", CHANGES.values(), ids=CHANGES)
ways = pytest.mark.parametrize(("records", "by"), [(None, "subscribe"), (4, "subscribePattern"), (25, "subscribe")],
                               ids=CHANGES)


class Stream:
    """From one queue to another, over one checkpoint."""

    def __init__(self, spark: SparkSession, url: str, source: str, folder: Path):
        self.spark, self.url, self.source, self.folder = spark, url, source, folder
        self.target = f"{source}.out"
        self.query: StreamingQuery | None = None

    def start(self, strict: bool, **options: str) -> StreamingQuery:
        wanted = options or {"subscribe": self.source}
        reader = self.spark.readStream.format("queend").options(
            url=self.url, startingOffsets="earliest", failOnDataLoss=str(strict).lower(), **wanted)
        writer = reader.schema("key string, value string").load().writeStream.format("queend")
        self.query = writer.options(url=self.url, queue=self.target, checkpointLocation=str(self.folder)).start()
        return self.query

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


@pytest.fixture
def stream(spark: SparkSession, daemon: Daemon, queue: str, tmp_path: Path) -> Iterator[Stream]:
    one = Stream(spark, daemon.url, queue, tmp_path / "checkpoint")
    yield one
    one.stop()


def names(by: str, queue: str) -> dict[str, str]:
    return {by: queue if by == "subscribe" else re.escape(queue)}


def change(client: Client, queue: str, records: int | None) -> None:
    client.delete(queue)
    if records is not None:
        client.push(queue, *range(100, 100 + records))


@ways
@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is stopped"])
def test_a_stream_ends_where_data_is_lost(stream: Stream, client: Client, queue: str, records: int | None, by: str,
                                          running: bool) -> None:
    client.push(queue, *range(10))
    query = stream.start(True, **names(by, queue))
    query.processAllAvailable()
    if not running:
        query.stop()
    change(client, queue, records)
    if not running:
        query = stream.start(True, **names(by, queue))
    # A stream that runs may look between the deletion and the new queue.
    what = f"was deleted{'' if records is None else ' and made again' if not running else '( and made again)?'}"
    sentence = f"DataLost: queue {re.escape(repr(queue))} {what} after this stream had begun to read it"
    with pytest.raises(Exception, match=sentence):
        query.processAllAvailable()
    assert not query.isActive
    assert stored(client, stream.target) == [*range(10)]


@ways
@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is stopped"])
def test_a_stream_goes_on_with_what_is_there(stream: Stream, client: Client, queue: str, records: int | None, by: str,
                                             running: bool) -> None:
    client.push(queue, *range(10))
    query = stream.start(False, **names(by, queue))
    query.processAllAvailable()
    if not running:
        query.stop()
    change(client, queue, records)
    if not running:
        query = stream.start(False, **names(by, queue))
    query.processAllAvailable()
    new = [*range(100, 100 + (records or 0))]
    assert stored(client, stream.target) == [*range(10), *new]
    client.push(queue, *range(200, 220))
    query.processAllAvailable()
    assert query.isActive
    assert stored(client, stream.target) == [*range(10), *new, *range(200, 220)]


def test_a_checkpoint_without_numbers_of_queues_goes_on(stream: Stream, client: Client, queue: str) -> None:
    client.push(queue, *range(10))
    query = stream.start(True)
    query.processAllAvailable()
    query.stop()
    for one in (stream.folder / "offsets").iterdir():
        if one.name.isdigit():
            *head, position = one.read_text().splitlines()
            values = json.loads(position)
            del values["numbers"]
            one.write_text("\n".join([*head, json.dumps(values)]))
            (one.parent / f".{one.name}.crc").unlink()
    client.push(queue, *range(10, 15))
    query = stream.start(True)
    query.processAllAvailable()
    assert stored(client, stream.target) == [*range(15)]
    change(client, queue, 3)
    with pytest.raises(Exception, match="was deleted( and made again)? after this stream had begun to read it"):
        query.processAllAvailable()


class Reading:
    """Readers of one queue, without a session."""

    def __init__(self, url: str, queue: str):
        self.url, self.queue = url, queue

    def settings(self, streaming: bool, strict: bool) -> SourceSettings:
        return SourceSettings.of(Options({"url": self.url, "subscribe": self.queue, "startingOffsets": "earliest",
                                          "failOnDataLoss": str(strict).lower()}), streaming)

    def batch(self, strict: bool) -> BatchReader:
        return BatchReader(self.settings(False, strict), usual(False))

    def stream(self, strict: bool) -> StreamReader:
        return StreamReader(self.settings(True, strict), usual(False))


@pytest.fixture
def reading(daemon: Daemon, queue: str) -> Reading:
    return Reading(daemon.url, queue)


def values(reader: BatchReader | StreamReader, tasks: list) -> list[int]:
    return [int(row["value"]) for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


@changes
def test_a_batch_whose_queue_goes_after_it_was_planned(reading: Reading, client: Client, queue: str,
                                                       records: int | None) -> None:
    client.push(queue, *range(10))
    strict, lax = reading.batch(True), reading.batch(False)
    planned = strict.partitions(), lax.partitions()
    change(client, queue, records)
    with pytest.raises(DataLost, match="records 0 to 9 cannot be read: it was deleted, or deleted and made again"):
        values(strict, planned[0])
    assert values(lax, planned[1]) == []
    if records:
        again = reading.batch(True)
        assert values(again, again.partitions()) == [*range(100, 100 + records)]


@changes
def test_a_real_batch_whose_queue_goes_after_it_was_planned(spark: SparkSession, daemon: Daemon, client: Client,
                                                            queue: str, records: int | None) -> None:
    client.push(queue, *range(10))

    def planned(strict: str):
        frame = spark.read.format("queend").options(url=daemon.url, subscribe=queue, failOnDataLoss=strict).load()
        assert frame.rdd.getNumPartitions() == 1    # plans
        return frame
    strict, lax = planned("true"), planned("false")
    change(client, queue, records)
    with pytest.raises(Exception, match="records 0 to 9 cannot be read: it was deleted, or deleted and made again"):
        strict.rdd.collect()
    assert lax.rdd.collect() == []


@needs_limits
def test_a_partition_made_again_under_a_stream(reading: Reading, client: Client, queue: str,
                                               exchange: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    client.push(queue, *range(10), partition="a")
    readers = {strict: reading.stream(strict) for strict in (True, False)}
    at = {strict: reader.latestOffset(reader.initialOffset(), ReadMaxRows(4)) for strict, reader in readers.items()}
    exchange("a", *range(100, 120))
    strict, lax = readers[True], readers[False]
    end = strict.latestOffset(at[True], ReadAllAvailable())
    with pytest.raises(DataLost, match="a partition was deleted before its records 4 to 9 were read"):
        strict.partitions(at[True], end)
    end = lax.latestOffset(at[False], ReadAllAvailable())
    with caplog.at_level(logging.WARNING, "queend.spark"):
        assert values(lax, lax.partitions(at[False], end)) == [*range(100, 120)]
    assert "a partition was deleted before its records 4 to 9 were read" in caplog.text
    client.push(queue, 120, partition="a")
    last = lax.latestOffset(end, ReadAllAvailable())
    assert values(lax, lax.partitions(end, last)) == [120]
    for reader in readers.values():
        reader.stop()


@needs_limits
def test_progress_is_told_of_the_partition_that_was_read(daemon: Daemon, client: Client, queue: str,
                                                         exchange: Callable[..., None]) -> None:
    settings = SourceSettings.of(Options({"url": daemon.url, "subscribe": queue, "startingOffsets": "earliest",
                                          "commitGroup": "spark"}), True)
    reader = StreamReader(settings, usual(False))
    client.push(queue, *range(10), partition="a")
    read = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    exchange("a", *range(5))
    reader.latestOffset(read, ReadAllAvailable())
    reader.commit(read)
    assert [one["data"] for one in client.pop(queue, "a", consumerGroup="spark", batch=9)] == [*range(5)]
    reader.stop()
