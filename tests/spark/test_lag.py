"""The lag of a stream: in Spark's progress, and as `queend spark lag` reads it from a checkpoint."""
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import PACKAGE, Daemon
from trigger_limits import needs_limits

from queend.spark.compat import LIMITS
from queend.spark.jobs import JobError, lag
from queend.spark.records import usual
from queend.spark.settings import Options
from queend.spark.source import StreamReader
from queend.spark.unlimited import UnlimitedReader
from queend.spark.wanted import SourceSettings

TEXT = (Path(__file__).parents[2] / "docs/spark.md").read_text()


def printed(daemon: Daemon, checkpoint: str, *words: str) -> str:
    """Runs the command of the page."""
    (command,) = re.findall(r"^queend (spark lag .*)$", TEXT, re.M)
    own = shlex.split(command.replace("/data/checkpoint", checkpoint))
    done = subprocess.run([sys.executable, "-m", "queend", *own, *words, "--url", daemon.url], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_limits
def test_the_lag_of_a_stream(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    """Of a checkpoint that Spark wrote."""
    client.push(queue, *range(30), partition="a")
    client.push(queue, *range(10), partition="b")
    frame = spark.readStream.format("queend").options(url=daemon.url, subscribe=queue, startingOffsets="earliest",
                                                      maxOffsetsPerTrigger="15").load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(
        availableNow=True).start()
    query.awaitTermination()
    first, *_, last = [json.loads(one["sources"][0]["latestOffset"]) for one in query.recentProgress
                       if one["numInputRows"]]
    assert first["read"] == {queue: {"partitions": 2, "offsets": 40, "behind": 25}}
    assert first["minOffsetsBehindLatest"] < first["avgOffsetsBehindLatest"] < first["maxOffsetsBehindLatest"]
    assert (last["read"][queue]["behind"], last["maxOffsetsBehindLatest"]) == (0, 0)
    assert json.loads(query.lastProgress["sources"][0]["endOffset"])["read"] == {queue: {"partitions": 2,
                                                                                         "offsets": 40}}
    (shown,) = re.findall(r"^```json\n(.*?)^```", TEXT, re.M | re.S)
    assert list(json.loads(shown)) == list(last)
    assert list(json.loads(shown)["read"]["orders"]) == list(last["read"][queue])
    client.push(queue, *range(4), partition="a")
    client.push(queue, *range(3), partition="new")
    (row,) = json.loads(printed(daemon, str(tmp_path), "-o", "json"))
    assert row.pop("oldestSeconds") >= 0
    assert row == {"source": 0, "queue": queue, "partitions": 3, "partitionsBehind": 2, "lag": 7, "lost": 0,
                   "avgOffsetsBehindLatest": 2.3, "maxOffsetsBehindLatest": 4, "minOffsetsBehindLatest": 0,
                   "state": "ok"}
    head, line = printed(daemon, tmp_path.as_uri()).splitlines()
    assert head.split() == ["queue", "partitions", "behind", "lag", "lost", "oldest", "state", "source"]
    assert line.split()[:5] == [queue, "3", "2", "7", "0"]


class Checkpoint:
    """A checkpoint as Spark lays it out, of a reader that Spark would have driven."""

    def __init__(self, folder: Path, url: str, **options: str):
        self.folder, self.url, self.batches = folder, url, 0
        settings = SourceSettings.of(Options({"url": url, "startingOffsets": "earliest", **options}), streaming=True)
        self.reader = (StreamReader if LIMITS else UnlimitedReader)(settings, usual(False))
        self.position = self.reader.initialOffset()

    def batch(self, finished: bool = True, version: str = "v1") -> None:
        limits = (self.position, self.reader.getDefaultReadLimit()) if LIMITS else ()
        self.position = self.reader.latestOffset(*limits)
        for name, text in (("offsets", f"{version}\n{{}}\n-\n{json.dumps(self.position)}"), ("commits", "v1\n{}")):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            if finished or name == "offsets":
                (self.folder / name / str(self.batches)).write_text(text)
        self.batches += 1

    def rows(self) -> list[dict]:
        return lag(str(self.folder), url=self.url)


@pytest.fixture
def checkpoint(daemon: Daemon, queue: str, client: Client, tmp_path: Path) -> Checkpoint:
    client.push(queue, *range(10), partition="a")
    return Checkpoint(tmp_path / "checkpoint", daemon.url, subscribe=queue)


def test_a_planned_batch_is_not_read_yet(checkpoint: Checkpoint, client: Client, queue: str) -> None:
    checkpoint.batch()
    client.push(queue, *range(5), partition="a")
    checkpoint.batch(finished=False)
    (row,) = checkpoint.rows()
    assert (row["lag"], row["source"]) == (5, 1)
    (checkpoint.folder / "commits" / "1").write_text("v1\n{}")
    assert [(one["lag"], one["oldestSeconds"]) for one in checkpoint.rows()] == [(0, None)]


def test_only_assigned_partitions_count(daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        client.push(queue, *range(10), partition=name)
    one = Checkpoint(tmp_path, daemon.url, assign=json.dumps({queue: ["a"]}))
    one.batch()
    assert [(row["lag"], row["partitions"]) for row in one.rows()] == [(0, 1)]


def test_what_retention_took_is_lost(checkpoint: Checkpoint, client: Client, daemon: Daemon, queue: str) -> None:
    checkpoint.batch()
    client.push(queue, *range(5), partition="a")
    client.push(queue, *range(5), partition="a")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:    # as retention does it
        connection.execute("""INSERT INTO queend.floors
                           SELECT p.id, 15 FROM queend.partitions p
                           JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = 15""", (queue,))
    (row,) = checkpoint.rows()
    assert (row["lag"], row["lost"], row["state"]) == (5, 5, "ok")


def test_a_queue_that_is_deleted_or_created_again(checkpoint: Checkpoint, client: Client, queue: str) -> None:
    checkpoint.batch()
    client.request("DELETE", f"/api/v1/resources/queues/{queue}")
    assert [(row["lag"], row["state"]) for row in checkpoint.rows()] == [(0, "deleted")]
    client.push(queue, *range(4), partition="a")
    assert [(row["lag"], row["state"]) for row in checkpoint.rows()] == [(4, "recreated")]


def test_the_folder_of_an_aggregate_is_a_checkpoint(daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    client.push(queue, 1)
    one = Checkpoint(tmp_path / "stream", daemon.url, subscribe=queue)
    one.batch()
    client.push(queue, 2)
    assert [row["lag"] for row in lag(str(tmp_path), url=daemon.url)] == [1]


def test_what_cannot_be_is_said(checkpoint: Checkpoint, daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is no checkpoint of a stream: it has no offsets"):
        lag(str(tmp_path / "none"), url=daemon.url)
    checkpoint.batch(finished=False)
    with pytest.raises(JobError, match="has not finished a micro-batch yet"):
        checkpoint.rows()
    checkpoint.batch(version="v7")
    with pytest.raises(JobError, match="has offsets in Spark's format 'v7'; this command reads 'v1'"):
        checkpoint.rows()
    (checkpoint.folder / "offsets" / "1").write_text('v1\n{}\n{"logOffset":3}')
    with pytest.raises(JobError, match="has no source queend"):
        checkpoint.rows()
    with pytest.raises(JobError, match="cannot be read: Unrecognized filesystem type"):
        lag("nowhere://a/b", url=daemon.url)
