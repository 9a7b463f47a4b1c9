"""What a source plans, asked of its own classes without a session of Spark."""
from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support.client import Client
from support.daemon import Daemon

from queend.spark import plan
from queend.spark.settings import Options
from queend.spark.source import BatchReader, StreamReader
from queend.spark.wanted import SourceSettings

COLUMNS = StructType([StructField("partition", StringType()), StructField("value", StringType()),
                      StructField("offset", LongType())])


class Reading:
    """Readers of one queue."""

    def __init__(self, url: str, queue: str):
        self.url, self.queue = url, queue

    def settings(self, streaming: bool, options: dict[str, str]) -> SourceSettings:
        return SourceSettings.of(Options({"url": self.url, "subscribe": self.queue, **options}), streaming)

    def batch(self, **options: str) -> list[dict]:
        reader = BatchReader(self.settings(False, options), COLUMNS)
        return rows(reader, reader.partitions())

    def stream(self, **options: str) -> StreamReader:
        return StreamReader(self.settings(True, {"startingOffsets": "earliest", **options}), COLUMNS)


def rows(reader: BatchReader | StreamReader, tasks: list) -> list[dict]:
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def trigger(reader: StreamReader, start: dict, most: int | None = None) -> tuple[dict, list[dict]]:
    """The position after a trigger, and its records."""
    end = reader.latestOffset(start, ReadMaxRows(most) if most else ReadAllAvailable())
    return end, rows(reader, reader.partitions(start, end))


@pytest.fixture
def reading(daemon: Daemon, queue: str) -> Reading:
    return Reading(daemon.url, queue)


def fill(client: Client, queue: str, sizes: dict[str, int]) -> None:
    client.push_items([{"queue": queue, "partition": name, "payload": n} for name, size in sizes.items()
                       for n in range(size)])


@pytest.mark.parametrize("change", ["first is gone", "first is exchanged", "in another order"])
def test_answers_are_joined_by_partition(reading: Reading, client: Client, queue: str, change: str,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the answers that planning asks for, partitions come and go."""
    fill(client, queue, {"a": 10, "b": 20, "c": 30})
    real, answers = plan.table_of, []

    def table_of(*asked: object) -> pa.Table:
        answers.append(real(*asked))
        if len(answers) % 2:
            return answers[-1]
        table = answers[-1]
        new = table.slice(0, 1).set_column(table.column_names.index("number"), "number",
                                           pa.array([2**31 - 1], table.schema.field("number").type))
        more = {"first is gone": table.slice(0, 0), "first is exchanged": new.cast(table.schema),
                "in another order": table.slice(0, 1)}[change]
        return pa.concat_tables([table.slice(1), more])
    monkeypatch.setattr(plan, "table_of", table_of)
    until_then = {"endingTimestamp": "4000000000000"}
    assert len(reading.batch(**until_then)) == 60, "a partition that is gone from the answer ends at its head"
    since = [row["partition"] for row in reading.batch(startingTimestamp="0")]
    assert {name: since.count(name) for name in "bc"} == {"b": 20, "c": 30}


def test_all_partitions_are_served_in_proportion(reading: Reading, client: Client, queue: str) -> None:
    reader = reading.stream()
    client.push(queue, 0, partition="p0")
    at = reader.initialOffset()
    seen: dict[str, int] = {}
    for _ in range(20):
        fill(client, queue, {f"p{n}": 1 for n in range(300)})
        at, got = trigger(reader, at, 100)
        assert len(got) == 100
        for row in got:
            seen[row["partition"]] = seen.get(row["partition"], 0) + 1
    assert len(seen) == 300 and max(seen.values()) <= 12, "2000 records of 300 partitions: 7 of each"


def test_a_small_partition_is_served_beside_large_ones(reading: Reading, client: Client, queue: str) -> None:
    fill(client, queue, {"small": 10, "large": 990})
    reader, small = reading.stream(), 0
    at = reader.initialOffset()
    for turn in range(1, 11):
        at, got = trigger(reader, at, 100)
        small += sum(row["partition"] == "small" for row in got)
        assert turn - 1 <= small <= turn + 1
    assert small == 10
