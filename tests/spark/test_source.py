"""Queues read as frames, in batches: which columns, from where to where, in how many tasks."""
from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.client import Client
from support.daemon import Daemon

from queend.spark.link import Link
from queend.spark.marks import queues_of
from queend.spark.settings import Options
from queend.spark.wanted import SourceSettings

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, daemon: Daemon, queue: str) -> Read:
    """A frame of the test's queue, unless options say otherwise."""
    def frame(schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("queend").option("url", daemon.url)
        named = {"subscribe", "subscribePattern", "assign"} & set(options)
        for name, value in (({} if named else {"subscribe": queue}) | options).items():
            reader = reader.option(name, value if isinstance(value, str) else json.dumps(value))
        return (reader.schema(schema) if schema else reader).load()
    return frame


def numbers(frame: DataFrame) -> list[int]:
    return [int(row[0]) for row in frame.selectExpr("cast(value as string)").collect()]


def test_a_query_for_kafka_runs(read: Read, client: Client, queue: str) -> None:
    stored = client.push(queue, {"n": 1}, partition="käy", traceparent=PARENT)
    stored += client.push(queue, 2, partition="käy", transactionId="t-2")
    frame = read()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "id", "transactionId",
                             "traceparent"]
    first, second = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "topic", "partition", "offset",
                                     "timestamp", "id", "transactionId", "traceparent").collect()
    assert first[:5] == ("käy", '{"n": 1}', queue, "käy", 0) and second[:5] == ("käy", "2", queue, "käy", 1)
    assert [first.id, second.id] == [one["message_id"] for one in stored]
    assert (first.traceparent, second.traceparent, second.transactionId) == (PARENT, None, "t-2")
    assert isinstance(first.timestamp, datetime) and first.timestamp <= second.timestamp


def test_erased_messages_are_left_out(read: Read, client: Client, queue: str) -> None:
    for partition in ("a", "b"):
        client.push_items([{"queue": queue, "partition": partition, "payload": n, "transactionId": f"{n}"}
                           for n in range(4)])
    for partition, n in (("a", 0), ("a", 2), ("b", 3)):
        assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/{partition}/messages/{n}").json["success"]
    assert sorted(numbers(read())) == [0, 1, 1, 2, 3]


def test_headers(read: Read, client: Client, queue: str) -> None:
    client.push(queue, 1, traceparent=PARENT)
    client.push(queue, 2)
    first, second = read(includeHeaders="true").collect()
    assert [(one.key, bytes(one.value)) for one in first.headers] == [("traceparent", PARENT.encode())]
    assert second.headers is None
    assert list(first.asDict()) == ["key", "value", "topic", "partition", "offset", "timestamp", "headers", "id",
                                    "transactionId", "traceparent"]


def test_columns_that_are_wanted(read: Read, client: Client, queue: str) -> None:
    client.push(queue, {"n": 1})
    (row,) = read("value string, offset long, timestampType int").collect()
    assert tuple(row) == ('{"n": 1}', 0, 1)
    with pytest.raises(Exception, match='column "offset" is bigint, not string'):
        read("offset string").collect()
    with pytest.raises(Exception, match='unknown column "payload"'):
        read("payload string").collect()


def test_where_it_begins_and_ends(read: Read, client: Client, queue: str) -> None:
    client.push(queue, *range(10), partition="a")
    client.push(queue, *range(10, 20), partition="b")
    at = {queue: {"a": 3, "b": -1}}
    assert numbers(read(startingOffsets=at)) == list(range(3, 10))
    assert numbers(read(startingOffsets={queue: {"a": 8, "b": -2}},
                        endingOffsets={queue: {"b": 2, "a": -1}})) == [8, 9, 10, 11]
    assert numbers(read(assign={queue: ["b"]}, endingOffsets={queue: {"b": 3}})) == [10, 11, 12]
    assert numbers(read(startingOffsets=at).where("offset >= 5 and offset < 8")) == [5, 6, 7]
    assert numbers(read().where("partition = 'b' and offset in (0, 9)")) == [10, 19]
    assert numbers(read().where("partition in ('b', null) and offset in (0, 9)")) == [10, 19]
    assert numbers(read().where("partition in ('b', 'c', null)")) == list(range(10, 20))


def test_by_time(read: Read, client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    cut = read().selectExpr("max(timestamp)").collect()[0][0].replace(tzinfo=UTC)
    client.push(queue, 3)
    later = read("value string, timestamp timestamp").where(F.col("timestamp") > F.lit(cut))
    assert numbers(later) == [3]
    assert numbers(read().where(F.col("timestamp") <= F.lit(cut))) == [1, 2]
    ms = int(cut.timestamp() * 1000)
    assert numbers(read(startingTimestamp=str(ms))) == [1, 2, 3]
    later = {"startingOffsetsByTimestampStrategy": "latest"}
    assert numbers(read(startingTimestamp=str(ms + 3_600_000), **later)) == []
    with pytest.raises(Exception, match=f'"startingTimestamp": queue .{queue}. has no record stored at or after'):
        read(startingTimestamp=str(ms + 3_600_000)).collect()
    assert numbers(read(endingOffsetsByTimestamp={queue: {"Default": 1}})) == []
    assert numbers(read(startingOffsetsByTimestamp={queue: {"Default": ms + 3_600_000}}, **later)) == []


def test_several_queues(read: Read, client: Client, queue: str) -> None:
    for n, name in enumerate(("x", "y", "z")):
        client.push(f"{queue}.{name}", n)
    assert sorted(numbers(read(subscribe=f"{queue}.x, {queue}.y"))) == [0, 1]
    assert sorted(numbers(read(subscribePattern=f"{queue}[.](y|z)"))) == [1, 2]
    assert numbers(read(subscribePattern=f"{queue}[.]none")) == []
    assert numbers(read(subscribePattern=f"{queue}[.].*").where(f"topic = '{queue}.z'")) == [2]


def test_a_pattern_finds_its_queues_however_many_there_are(start_daemon: Callable[..., Daemon]) -> None:
    own = start_daemon()
    names = [f"q{n:04}" for n in range(1005)]      # a page of the list is 1000
    settings = SourceSettings.of(Options({"url": own.url, "subscribePattern": "q.*"}), streaming=False)
    with own.client() as client, Link(settings.link) as link:
        client.push_items([{"queue": name, "payload": 1} for name in names])
        assert queues_of(link, settings) == tuple(names)


def test_many_small_partitions_are_few_tasks(read: Read, client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": f"p{n % 1500}", "payload": n} for n in range(4000)])
    frame = read()
    assert frame.rdd.getNumPartitions() == 1
    assert sorted(numbers(frame)) == list(range(4000))
    assert read(minPartitions="7").rdd.getNumPartitions() == 7
    assert sorted(numbers(read(minPartitions="7"))) == list(range(4000))


def test_a_large_partition_is_cut(read: Read, client: Client, queue: str) -> None:
    for n in range(0, 9000, 3000):
        client.push(queue, *range(n, n + 3000))
    assert [len(part) for part in read(maxRecordsPerPartition="2500").rdd.glom().collect()] == [2250] * 4
    assert numbers(read(maxRecordsPerPartition="2500")) == list(range(9000))
    assert numbers(read(fetchBytes="5000")) == list(range(9000))


def test_without_filters_told(spark: SparkSession, read: Read, client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert numbers(read().where("offset > 2")) == [3, 4]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_encrypted_queues_are_read(spark: SparkSession, start_daemon: Callable[..., Daemon], queue: str) -> None:
    own = start_daemon(QUEEN_ENCRYPTION_KEY="ab" * 32)
    with own.client() as client:
        client.configure(queue, encryptionEnabled=True)
        client.push(queue, {"secret": 1})
        reader = spark.read.format("queend").option("url", own.url).option("subscribe", queue)
        rows = reader.schema("value string").load().collect()
    assert [json.loads(row.value) for row in rows] == [{"secret": 1}]


@pytest.mark.parametrize(("options", "text"), [
    ({"subscribe": ""}, 'no queue is given: set the option "subscribe"'),
    ({"subscribe": "a", "assign": '{"a": ["b"]}'}, 'options "subscribe" and "assign" cannot be combined'),
    ({"subscribe": "nobody's"}, "there is no queue \"nobody's\""),
    ({"subscribePattern": "("}, 'option "subscribePattern" is not a regular expression'),
    ({"startingOffsets": "newest"}, 'option "startingOffsets" must be like {"orders": {"customer-7": 42}}'),
    ({"startingOffsets": "latest"}, 'cannot be latest in a batch'),
    ({"startingOfset": "earliest"}, 'there is no option "startingofset"; did you mean startingOffsets?'),
    ({"startingOffsets": '{"QUEUE": {"Default": 7}}'},
     "partition 'Default': the starting offset 7 is not there, the log has 0 to 1"),
], ids=["none", "two", "unknown", "pattern", "word", "latest", "typo", "offset"])
def test_what_cannot_be_is_said(read: Read, client: Client, queue: str, options: dict, text: str) -> None:
    client.push(queue, 1)
    with pytest.raises(Exception) as caught:
        read(**{name: value.replace("QUEUE", queue) for name, value in options.items()}).collect()
    assert text in str(caught.value)


def test_offsets_that_are_not_there(read: Read, client: Client, queue: str) -> None:
    client.push(queue, 1)
    assert numbers(read(startingOffsets={queue: {"Default": 7}}, failOnDataLoss="false")) == []
