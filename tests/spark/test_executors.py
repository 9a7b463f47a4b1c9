"""A cluster of two executors, which runs as a program of its own: the session of the other tests is on threads."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.log import stored

from queend.spark.settings import Options, SinkSettings
from queend.spark.shape import Shape
from queend.spark.sink import Sink, Written

ROWS, PARTS, KEYS = 9000, 3, 5


def test_two_executors(daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    """A task that failed runs again, in either of them: its rows are stored once, in order."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYSPARK_PYTHON": sys.executable,
                   "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(tmp_path / "work")}
    program = str(Path(__file__).with_name("executors.py"))
    run = subprocess.run([sys.executable, program, daemon.url, queue, str(tmp_path), str(ROWS)], env=environment,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-3000:]
    said = json.loads(run.stdout.strip().splitlines()[-1])
    assert (tmp_path / "failed").exists()
    assert said["executors"] == 2 and said["tasks"] == 4
    assert sorted(int(value) for _, value, _ in said["rows"]) == list(range(ROWS))
    for part in range(PARTS):
        mine = range(part * ROWS // PARTS, (part + 1) * ROWS // PARTS)
        for key in range(KEYS):
            assert stored(client, queue, f"{part}-{key}") == [n for n in mine if n % KEYS == key]


def test_a_task_and_its_copy(daemon: Daemon, client: Client, queue: str) -> None:
    """What speculation does, at its worst: both write the same rows at the same time, request by request. In
    test_cluster.py Spark itself starts the copy."""
    schema = StructType([StructField("key", StringType()), StructField("value", StringType())])
    settings = SinkSettings.of(Options({"url": daemon.url, "queue": queue, "batchRows": "200"}))
    numbers, start = [str(n) for n in range(ROWS)], threading.Barrier(2)
    batches = [pa.record_batch({"key": [f"k{int(n) % KEYS}" for n in numbers[at:at + 500]],
                                "value": numbers[at:at + 500]})
               for at in range(0, ROWS, 500)]

    def write() -> Written:
        sink = Sink(settings, Shape.of(schema, queue), "query", 7, 3)
        start.wait(60)
        return sink.write(iter(batches))

    with ThreadPoolExecutor(2) as pool:
        both = [one.result(120) for one in [pool.submit(write) for _ in range(2)]]
    assert sum(one.rows for one in both) == sum(one.duplicates for one in both) == ROWS
    for key in range(KEYS):
        assert stored(client, queue, f"k{key}") == list(range(key, ROWS, KEYS))
