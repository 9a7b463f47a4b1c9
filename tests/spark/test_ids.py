"""Ids of the sink: what a task may do again, and what comes of it. Without a session of Spark."""
from __future__ import annotations

import uuid
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from support.client import Client
from support.daemon import Daemon
from support.log import stored

from queend.spark import ids as ids_module
from queend.spark.ids import RowIds
from queend.spark.settings import Options, SinkSettings
from queend.spark.shape import Shape
from queend.spark.sink import Sink, Written


def made(values: list, query: str = "q", epoch: int = 0, part: int = 0, **columns: list) -> list[str]:
    arrays = {"payload": pa.array(values, pa.string()), **{name: pa.array(one) for name, one in columns.items()}}
    return RowIds(query, epoch, part).texts(arrays).to_pylist()


def test_ids_are_of_the_content_whatever_its_order() -> None:
    values = ["1", "2", "1", None, "", "1"]
    first = made(values)
    assert len(set(first)) == 6 and {uuid.UUID(one).version for one in first} == {8}
    assert Counter(made(values[::-1])) == Counter(first)
    assert made(["1", "2"])[1] == first[1], "what follows does not matter"
    assert made([]) == []


def test_whatever_is_stored_of_a_row_tells_it_apart() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    rows = [made(["v"], partition=["k"]), made(["v"], partition=["l"]), made(["kv"], partition=[""]), made(["v"]),
            made(["v"], partition=[None], traceparent=["k"]), made(["v"], deliverAt=[at]), made(["v"], query="r"),
            made(["v"], epoch=1), made(["v"], part=1), made(["v"], partition=["k"], queue=["x"])]
    assert len({one for row in rows for one in row}) == len(rows)


def test_a_long_task_counts_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "BLOCK", 4)
    task = RowIds("q", 0, 0)
    batches = [pa.array(["1"] * n) for n in (3, 6, 0, 2)]
    got = [one for batch in batches for one in task.texts({"payload": batch}).to_pylist()]
    assert len(got) == len(set(got)) == 11 and len(task.seen) == 1
    assert got == made(["1"] * 11)


class Task:
    """Tasks of one epoch that write to a queue."""

    def __init__(self, daemon: Daemon, queue: str):
        self.settings = SinkSettings.of(Options({"url": daemon.url, "queue": queue, "batchRows": "100"}))
        self.shape = Shape.of(StructType([StructField("key", StringType()), StructField("value", StringType())]), queue)

    def write(self, values: list[int], part: int = 0) -> Written:
        batch = pa.record_batch({"key": ["k"] * len(values), "value": [str(one) for one in values]})
        return Sink(self.settings, self.shape, "query", 0, part).write(iter([batch]))


@pytest.mark.parametrize("again", [[*range(1000)], [*range(500, 1000), *range(500)], [*range(0, 1000, 2)]],
                         ids=["the same", "in another order", "fewer rows"])
def test_a_task_that_runs_again(daemon: Daemon, client: Client, queue: str, again: list[int]) -> None:
    """The first attempt died after half of its rows."""
    task = Task(daemon, queue)
    task.write([*range(500)])
    done = task.write(again)
    assert done.rows + done.duplicates == len(again)
    assert sorted(stored(client, queue, "k")) == sorted({*range(500), *again}), "nothing is lost, nothing is doubled"


def test_a_query_that_was_changed(daemon: Daemon, client: Client, queue: str) -> None:
    """An epoch ran with a filter; it runs again without."""
    task = Task(daemon, queue)
    task.write([*range(0, 1000, 2)])
    task.write([*range(1000)])
    assert sorted(stored(client, queue, "k")) == [*range(1000)]


def test_equal_rows_are_all_stored(daemon: Daemon, client: Client, queue: str) -> None:
    task = Task(daemon, queue)
    for part in 0, 1, 0:
        task.write([7] * 300, part)
    assert stored(client, queue, "k") == [7] * 600


def test_rows_that_move_to_other_tasks_are_doubled(daemon: Daemon, client: Client, queue: str) -> None:
    """As with another minPartitions: none is lost."""
    task = Task(daemon, queue)
    task.write([*range(100)])
    task.write([*range(50)], 0)
    task.write([*range(50, 100)], 1)
    assert Counter(stored(client, queue, "k")) == {n: 1 + (n >= 50) for n in range(100)}
