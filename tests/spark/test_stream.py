"""Streams out of queues and into them: checkpoints, new partitions, epochs that run twice, what is gone."""
from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.client import Client
from support.daemon import Daemon
from support.log import heads, stored
from trigger_limits import needs_limits

from queend.spark.position import packed, unpacked


class Pipe:
    """From one queue to another, as far as there is something to read."""

    def __init__(self, spark: SparkSession, url: str, source: str, folder: Path):
        self.spark, self.url, self.source, self.folder = spark, url, source, folder
        self.target = f"{source}.out"

    def run(self, **options: object) -> StreamingQuery:
        reader = self.spark.readStream.format("queend").options(url=self.url, subscribe=self.source,
                                                                startingOffsets="earliest")
        for name, value in options.items():
            reader = reader.option(name, str(value))
        writer = reader.schema("key string, value string").load().writeStream.format("queend")
        query = writer.options(url=self.url, queue=self.target,
                               checkpointLocation=str(self.folder)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query


@pytest.fixture
def pipe(spark: SparkSession, daemon: Daemon, queue: str, tmp_path: Path) -> Pipe:
    return Pipe(spark, daemon.url, queue, tmp_path / "checkpoint")


@needs_limits
def test_a_stream_goes_on_where_it_was(pipe: Pipe, client: Client, queue: str) -> None:
    client.push(queue, *range(1000), partition="a")
    client.push(queue, *range(300), partition="b")
    pipe.run(maxOffsetsPerTrigger=400, commitGroup="spark")
    assert stored(client, pipe.target, "a") == list(range(1000))
    assert stored(client, pipe.target, "b") == list(range(300))
    epochs = {int(one.name) for one in (pipe.folder / "commits").iterdir() if one.name.isdigit()}
    assert len(epochs) == 4
    lag = sum(one["offsetLag"] for one in client.get("/api/v1/consumer-groups/spark").json[queue]["partitions"])
    assert 0 < lag <= 400    # Spark tells of an epoch when the next one begins
    client.push(queue, *range(1000, 1100), partition="a")
    client.push(queue, *range(50), partition="new")
    assert [one["data"] for one in client.pop(queue, "new", consumerGroup="spark", batch=3)] == [0, 1, 2]
    pipe.run(commitGroup="spark")
    assert stored(client, pipe.target, "a") == list(range(1100))
    assert stored(client, pipe.target, "new") == list(range(50))

    # an epoch that was written, of which the checkpoint does not know
    last = max(int(one.name) for one in (pipe.folder / "commits").iterdir() if one.name.isdigit())
    for one in (pipe.folder / "commits").glob(f"*{last}*"):
        one.unlink()
    before = heads(client, pipe.target)
    query = pipe.run()
    assert query.lastProgress["numInputRows"] == 150
    assert heads(client, pipe.target) == before


def test_what_retention_took(pipe: Pipe, client: Client, queue: str, daemon: Daemon) -> None:
    import psycopg

    client.push(queue, *range(10))
    pipe.run()
    client.push(queue, *range(10, 15))
    client.push(queue, *range(15, 20))
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:    # as retention does it
        connection.execute("""INSERT INTO queend.floors
                           SELECT p.id, 15 FROM queend.partitions p
                           JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = 15""", (queue,))
    with pytest.raises(Exception, match="DataLost") as caught:
        pipe.run()
    said = "records 10 to 19 cannot be read: OFFSET_OUT_OF_RANGE; the log has 15 to 20. With failOnDataLoss=false"
    assert said in str(caught.value)
    pipe.run(failOnDataLoss="false")
    assert stored(client, pipe.target) == [*range(10), *range(15, 20)]


def test_offsets_are_kept_small() -> None:
    dice = random.Random(1)
    position = {"orders": {number: dice.randrange(1000) for number in range(7, 200_000, 2)}, "e": {}}
    text = json.dumps(packed(position, {"orders": 7}))
    assert unpacked(json.loads(text)) == position
    assert packed({"e": {}, "orders": dict(reversed(position["orders"].items()))}, {}) == packed(position, {})
    assert len(text) < 3 * 100_000
