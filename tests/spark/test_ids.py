"""Ids of the sink: what a task may do again, and what comes of it. Without a session of Spark."""
from __future__ import annotations

import hashlib
import random
import struct
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType
from support.client import Client
from support.daemon import Daemon
from support.log import stored

from queend.spark import ids as ids_module
from queend.spark._digests import Digests
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


class ByHand:
    """The ids of a task, row by row, as the connector has always made them: an epoch that runs again after an update
    must find its rows."""

    def __init__(self, block: int):
        self.block, self.rows, self.seen = block, 0, Counter()

    def texts(self, columns: dict[str, pa.Array]) -> list[str]:
        lists = [column.to_pylist() if isinstance(column, pa.BinaryArray) else column.cast(pa.string()).to_pylist()
                 for _, column in sorted(columns.items())]
        return [self.text(row) for row in zip(*lists, strict=True)]

    def text(self, row: tuple) -> str:
        if self.rows % self.block == 0:
            self.seen.clear()
        content = hashlib.sha256(f"q\0{7}\0{3}\0{self.rows // self.block}".encode()).digest()[:16]
        for value in row:
            value = value.encode() if isinstance(value, str) else value
            content += b"-:" if value is None else b"%d:%b" % (len(value), value)
        digest = hashlib.sha256(content).digest()[:16]
        before, self.rows = self.seen[digest], self.rows + 1
        self.seen[digest] += 1
        if before:
            digest = hashlib.sha256(digest + struct.pack(">Q", before)).digest()[:16]
        made = digest.hex()
        return f"{made[:8]}-{made[8:12]}-8{made[13:16]}-a{made[17:20]}-{made[20:32]}"


KINDS = {"payload": pa.binary(), "queue": pa.string(), "partition": pa.large_string(), "traceparent": pa.string(),
         "deliverAt": pa.timestamp("us", "UTC")}


@pytest.mark.parametrize("block", [4, 70, 1000])
def test_ids_are_those_of_all_versions(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(ids_module, "BLOCK", block)
    dice = random.Random(block)
    task, by_hand = RowIds("q", 7, 3), ByHand(block)
    sizes = [0, 1, 9, 10, 100, 463, 464, 465, 511, 512, 513, 3000]     # 512: bytes that are hashed together

    def value(kind: pa.DataType) -> str | datetime | None:
        if pa.types.is_timestamp(kind):
            return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(microseconds=dice.randrange(3))
        return None if dice.random() < 0.1 else dice.choice("aé") * dice.choice(sizes)

    for n in (0, 1, 63, 64, 65, 200, 0, 5000):
        skipped = dice.randrange(10)
        columns = {name: pa.array([value(kind) for _ in range(skipped + n)], kind).slice(skipped)
                   for name, kind in KINDS.items()}
        made = task.texts(columns)
        made.validate(full=True)
        assert made.to_pylist() == by_hand.texts(columns)
        assert len(task.seen) == len(by_hand.seen) * (by_hand.rows % block > 0)


@pytest.mark.parametrize(("ends", "valid", "wide"), [
    ([0, 3, 9], None, False), ([0, 3, 2], None, False), ([-1, 3, 5], None, False), ([0, 3], None, False),
    ([0, 3, 5], b"", False), ([0, 3, 2**40], None, True), ([0, 3, -2**40], None, True)])
def test_a_column_that_is_damaged(ends: list[int], valid: bytes | None, wide: bool) -> None:
    packed = struct.pack(f"{len(ends)}{'q' if wide else 'i'}", *ends)
    with pytest.raises(ValueError):
        Digests().spell(b"k" * 16, [(valid, packed, b"abcde", 0, wide)], 0, 2, bytearray(72))


@pytest.mark.parametrize(("key", "first", "n", "room"), [(b"k", 0, 2, 72), (b"k" * 16, 0, 2, 71), (b"k" * 16, 1, 2, 72),
                                                         (b"k" * 16, -1, 1, 72), (b"k" * 16, 0, -1, 72)])
def test_rows_that_do_not_fit(key: bytes, first: int, n: int, room: int) -> None:
    column = (None, struct.pack("4i", 0, 1, 2, 3), b"abc", 0, False)
    with pytest.raises(ValueError):
        Digests().spell(key, [column], first, n, bytearray(room))


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
