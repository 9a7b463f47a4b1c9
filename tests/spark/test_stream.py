"""Streams out of queues and into them: checkpoints, new partitions, epochs that run twice, what is gone, and everything killed."""
from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.wait import until

from queend.spark.position import packed, unpacked

KILLS = int(os.environ.get("SPARK_KILLS", 2))
ROWS = int(os.environ.get("SPARK_ROWS", 30_000))
SEED = os.environ.get("FAULT_SEED", "spark")


def heads(client: Client, queue: str) -> dict[str, int]:
    found, after = {}, None
    while True:
        answer = client.post("/api/v1/offsets", {"queue": queue, **({"after": after} if after else {})})
        if answer.status == 404:
            return {}
        found |= {one["name"]: one["highWatermark"] for one in answer.json["partitions"]}
        after = answer.json["next"]
        if after is None:
            return found


def stored(client: Client, queue: str, partition: str = "Default") -> list:
    found: list = []
    while True:
        (entry,) = client.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": len(found)}]}).json["entries"]
        if not entry["records"]:
            return found
        found += [one["payload"] for one in entry["records"]]


class Pipe:
    """From one queue to another, as far as there is something to read."""

    def __init__(self, spark: SparkSession, url: str, source: str, folder: Path):
        self.spark, self.url, self.source, self.folder = spark, url, source, folder
        self.target = f"{source}.out"

    def run(self, **options: object) -> StreamingQuery:
        reader = self.spark.readStream.format("queend").options(url=self.url, subscribe=self.source, startingOffsets="earliest")
        for name, value in options.items():
            reader = reader.option(name, str(value))
        writer = reader.schema("key string, value string").load().writeStream.format("queend")
        query = writer.options(url=self.url, queue=self.target, checkpointLocation=str(self.folder)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query


@pytest.fixture
def pipe(spark: SparkSession, daemon: Daemon, queue: str, tmp_path: Path) -> Pipe:
    return Pipe(spark, daemon.url, queue, tmp_path / "checkpoint")


def test_a_stream_goes_on_where_it_was(pipe: Pipe, client: Client, queue: str) -> None:
    client.push(queue, *range(1000), partition="a")
    client.push(queue, *range(300), partition="b")
    pipe.run(maxOffsetsPerTrigger=400, commitGroup="spark")
    assert stored(client, pipe.target, "a") == list(range(1000)) and stored(client, pipe.target, "b") == list(range(300))
    epochs = {int(one.name) for one in (pipe.folder / "commits").iterdir() if one.name.isdigit()}
    assert len(epochs) == 4
    lag = sum(one["offsetLag"] for one in client.get("/api/v1/consumer-groups/spark").json[queue]["partitions"])
    assert 0 < lag <= 400    # Spark tells of an epoch when the next one begins
    client.push(queue, *range(1000, 1100), partition="a")
    client.push(queue, *range(50), partition="new")
    assert [one["data"] for one in client.pop(queue, "new", consumerGroup="spark", batch=3)] == [0, 1, 2]
    pipe.run(commitGroup="spark")
    assert stored(client, pipe.target, "a") == list(range(1100)) and stored(client, pipe.target, "new") == list(range(50))

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
        connection.execute("""INSERT INTO queend.floors SELECT p.id, 15 FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = 15""", (queue,))
    with pytest.raises(Exception, match="DataLost") as caught:
        pipe.run()
    assert "records 10 to 19 cannot be read: OFFSET_OUT_OF_RANGE; the log has 15 to 20. With failOnDataLoss=false" in str(caught.value)
    pipe.run(failOnDataLoss="false")
    assert stored(client, pipe.target) == [*range(10), *range(15, 20)]


def test_offsets_are_kept_small() -> None:
    dice = random.Random(1)
    position = {"orders": {number: dice.randrange(1000) for number in range(7, 200_000, 2)}, "e": {}}
    text = json.dumps(packed(position))
    assert unpacked(json.loads(text)) == position
    assert packed({"e": {}, "orders": dict(reversed(position["orders"].items()))}) == packed(position)
    assert len(text) < 3 * 100_000


def program(daemon: Daemon, queue: str, folder: Path, rows: int) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, str(Path(__file__).with_name("pipeline.py")), daemon.url, queue, f"{queue}.out", str(folder / "checkpoint"), str(rows)],
                                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def test_everything_is_killed(start_daemon: Callable[..., Daemon], queue: str, tmp_path: Path) -> None:
    """The driver, its JVM and its Python workers die together, again and again, and once the daemon: nothing is lost, doubled or overtaken."""
    dice, keys = random.Random(SEED), 20
    own = start_daemon()
    with own.client() as client:
        for at in range(0, ROWS, 5000):
            client.push_items([{"queue": queue, "partition": f"k{n % keys}", "payload": n} for n in range(at, min(ROWS, at + 5000))])
    step = ROWS // (KILLS + 2)
    for kill in range(KILLS + 1):
        run = program(own, queue, tmp_path, max(1000, step // 3))
        try:
            if kill == KILLS:
                assert run.wait(900) == 0, (tmp_path / "log").read_text()[-3000:]
                break
            with own.client() as client:
                goal = min(ROWS - 1, sum(heads(client, f"{queue}.out").values()) + dice.randrange(step // 4, step))
                until(lambda: run.poll() is not None or sum(heads(client, f"{queue}.out").values()) >= goal, "rows arrive", 300)  # noqa: B023
            if kill == 0:
                own.kill()
                own = start_daemon(own.conninfo, PORT=own.port)
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    with own.client() as client:
        for key in range(keys):
            assert stored(client, f"{queue}.out", f"k{key}") == list(range(key, ROWS, keys))
    shutil.rmtree(tmp_path / "checkpoint.local", ignore_errors=True)
