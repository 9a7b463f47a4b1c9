"""What a source plans, asked of its own classes without a session of Spark."""
from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support.client import Client
from support.daemon import Daemon
from trigger_limits import ReadAllAvailable, ReadMaxRows

from queend.spark import marks, plan
from queend.spark.datasource import QueendDataSource
from queend.spark.link import Link, Unreachable
from queend.spark.settings import OptionError, Options
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


@pytest.mark.parametrize(("page", "first", "others"), [
    (7, 3, ()), (7, 3, (5,)), (1, 1, (2, 30)), (100, 20, (20,)), (40, 39, ()), (3, 1, (1, 2, 3, 4, 50))], ids=str)
def test_pages_on_several_connections(reading: Reading, client: Client, queue: str, page: int, first: int,
                                      others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition once, in order of creation, wherever pages are guessed to begin. others: partitions of another
    queue that are created in between, so that numbers jump."""
    monkeypatch.setattr(marks, "PAGE", page)
    monkeypatch.setattr(marks, "FIRST_PAGE", first)
    names, gaps = [f"p{n}" for n in range(40)], iter(others)
    for at in range(0, 40, 6):
        client.push_items([{"queue": queue, "partition": name, "payload": int(name[1:])} for name in names[at:at + 6]])
        client.push_items([{"queue": f"{queue}.other", "partition": f"{at}-{n}", "payload": 0}
                           for n in range(next(gaps, 0))] or [{"queue": queue, "partition": "p0", "payload": 0}])
    with Link(reading.settings(False, {}).link) as link:
        table, timed = marks.table_of(link, queue), marks.table_of(link, queue, 0)
    assert sorted(table.column("name").to_pylist()) == sorted(names)
    numbers = table.column("number").to_pylist()
    assert numbers == sorted(set(numbers)) == timed.column("number").to_pylist()
    assert sum(table.column("highWatermark").to_pylist()) == 40 + sum(not n for n in (*others, *[0] * 7)[:7])
    assert timed.column("offset").to_pylist() == [0] * 40


def test_a_group_is_told_what_changed(reading: Reading, client: Client, queue: str) -> None:
    """All partitions the first time, in several calls; then those with new records."""
    count = 2500    # three calls
    fill(client, queue, {f"p{n}": 1 for n in range(count)})
    reader = reading.stream(commitGroup="told")
    at, _ = trigger(reader, reader.initialOffset())
    reader.commit(at)
    assert lags(client, queue) == {}
    client.post(f"/api/v1/consumer-groups/told/queues/{queue}/partitions/p7/seek", {"offset": 0})
    fill(client, queue, {"p8": 3})
    assert lags(client, queue) == {"p7": 1, "p8": 3}
    at, got = trigger(reader, at)
    assert len(got) == 3
    reader.commit(at)
    assert lags(client, queue) == {"p7": 1}


def lags(client: Client, queue: str) -> dict[str, int]:
    """The partitions in which the group has a lag."""
    found = client.get("/api/v1/consumer-groups/told?limit=10000").json[queue]["partitions"]
    return {one["partition"]: one["offsetLag"] for one in found if one["offsetLag"]}


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


@pytest.mark.parametrize("options", [{}, {"url": "http://127.0.0.1:1"}, {"url": "http://no.such.host.invalid:6632"}],
                         ids=["missing", "refused", "unknown"])
def test_an_address_without_a_daemon_is_told(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By every way a query begins; by a stream with its first call. The first try is enough here."""
    monkeypatch.setattr("queend.spark.link.FIRST", 0.5)
    monkeypatch.setattr("queend.spark.settings.HERE", "http://127.0.0.1:1")
    source = QueendDataSource({"subscribe": "q", **options})
    sink = QueendDataSource({"queue": "q", **options})
    schema = StructType([StructField("value", StringType())])
    for begin in (lambda: source.reader(COLUMNS), lambda: source.streamReader(COLUMNS).initialOffset(),
                  lambda: sink.writer(schema, False), lambda: sink.streamWriter(schema, False)):
        with pytest.raises(Unreachable, match='^no daemon answers [(]http://.*[)]; set the option "url"'):
            begin()


def test_options_for_kafka_are_told() -> None:
    with pytest.raises(OptionError, match='no option "kafka.bootstrap.servers": .* set the option "url"'):
        QueendDataSource({"kafka.bootstrap.servers": "broker:9092", "subscribe": "q"}).reader(COLUMNS)


@pytest.mark.parametrize(("option", "value"), [
    ("assign", '{"QUEUE": [0, 1]}'), ("startingOffsets", '{"QUEUE": {"0": 3}}'),
    ("endingOffsets", '{"QUEUE": {"0": 3}}'), ("startingOffsetsByTimestamp", '{"QUEUE": {"0": 3}}'),
], ids=["assign", "start", "end", "time"])
def test_numbers_of_partitions_that_do_not_exist(daemon: Daemon, client: Client, queue: str, option: str,
                                                 value: str) -> None:
    client.push(queue, 1, partition="7")
    given = {option: value.replace("QUEUE", queue), **({} if option == "assign" else {"subscribe": queue})}
    for streaming in (False, True) if not option.startswith("ending") else (False,):
        settings = SourceSettings.of(Options({"url": daemon.url, **given}), streaming)
        with pytest.raises(OptionError, match=f'option "{option}" names partition "0", which queue'):
            begin(settings, streaming)
        given[option] = given[option].replace('"0"', '"7"').replace("0, 1", "7").replace(": 3", ": 0")
        settings = SourceSettings.of(Options({"url": daemon.url, **given}), streaming)
        begin(settings, streaming)
        given[option] = value.replace("QUEUE", queue)


def begin(settings: SourceSettings, streaming: bool) -> None:
    if streaming:
        StreamReader(settings, COLUMNS).initialOffset()
    else:
        BatchReader(settings, COLUMNS).partitions()


def planned(sizes: list[int], **options: str) -> list[list[plan.Range]]:
    settings = SourceSettings.of(Options({"url": "http://127.0.0.1:1", "subscribe": "q", **options}), streaming=False)
    return [task.ranges for task in plan.tasks_of([("q", f"p{n}", 0, size, n + 1) for n, size in enumerate(sizes)],
                                                  settings)]


def sizes_of(tasks: list[list[plan.Range]]) -> list[list[int]]:
    return [[one.end - one.start for one in task] for task in tasks]


@pytest.mark.parametrize(("sizes", "options", "tasks"), [
    ([41] * 5, {"minPartitions": "2"}, [[41, 41, 41], [41, 41]]),
    ([1, 1, 1, 97], {"minPartitions": "2"}, [[1, 1, 1], [97]]),
    ([97, 1, 1, 1], {"minPartitions": "3"}, [[97], [1, 1], [1]]),
    ([1, 1, 1], {"minPartitions": "3"}, [[1], [1], [1]]),
    ([90, 10], {"minPartitions": "4"}, [[22], [23], [22], [23, 10]]),
    ([3], {"minPartitions": "7"}, [[1], [1], [1]]),
    ([5, 25, 5], {"maxRecordsPerPartition": "10"}, [[5], [8], [8], [9], [5]]),
    ([4, 4, 4, 4], {"maxRecordsPerPartition": "10"}, [[4, 4], [4, 4]]),
    ([30, 30], {"maxRecordsPerPartition": "20", "minPartitions": "2"}, [[15], [15], [15], [15]]),
], ids=str)
def test_only_large_partitions_are_cut(sizes: list[int], options: dict[str, str], tasks: list[list[int]]) -> None:
    assert sizes_of(planned(sizes, **options)) == tasks


def test_each_record_is_in_one_task_and_no_partition_is_cut_for_nothing() -> None:
    dice = random.Random(38)
    for _ in range(500):
        sizes = [dice.choice((1, 3, 40, dice.randrange(1, 5000))) for _ in range(dice.randrange(1, 60))]
        least, most = dice.choice((None, dice.randrange(1, 70))), dice.choice((None, dice.randrange(1, 6000)))
        tasks = planned(sizes, **{name: str(given) for name, given in (
            ("minPartitions", least), ("maxRecordsPerPartition", most)) if given})
        story = f"{sizes=} {least=} {most=}"
        pieces = [one for task in tasks for one in task]
        at: dict[str, int] = {}
        for one in pieces:
            assert one.start == at.get(one.partition, 0) < one.end, story
            at[one.partition] = one.end
        assert at == {f"p{n}": size for n, size in enumerate(sizes)}, story
        assert len(tasks) >= min(least or 1, sum(sizes)), story
        if most:
            assert all(sum(own) <= most for own in sizes_of(tasks)), story
        if len(sizes) >= (least or 1) and (most is None or max(sizes) <= most):
            assert len(pieces) == len(sizes), story


def test_a_stream_does_not_cut_the_only_partition_with_new_records(reading: Reading, client: Client,
                                                                   queue: str) -> None:
    fill(client, queue, {"a": 10, "b": 10})
    reader = reading.stream(minPartitions="2")
    start, _ = trigger(reader, reader.initialOffset())
    fill(client, queue, {"a": 10})
    end = reader.latestOffset(start, ReadAllAvailable())
    assert sizes_of([task.ranges for task in reader.partitions(start, end)]) == [[10]]
