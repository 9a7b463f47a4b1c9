"""Queues into a bucket of S3 and back: a real server of HTTP, conditional puts, runs side by side, a kill."""
from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import DataFrame, SparkSession
from support.client import Client
from support.daemon import Daemon
from support.wait import until

from queend.spark.jobs import JobError, archive, read, replay
from queend.spark.jobs.archive import opened_table
from queend.spark.jobs.manifest import Manifest
from queend.spark.jobs.objectfiles import FilesReader, FilesWriter
from queend.spark.jobs.objects import ObjectStore

from jobs import Job

BUCKET = "cold"


def quiet(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    """A server of S3 with an empty bucket; its address and keys as variables of the environment."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    named = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "archive",
             "AWS_SECRET_ACCESS_KEY": "archive", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
    before = {name: os.environ.get(name) for name in named}
    os.environ.update(named)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
    yield named
    running.stop()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture
def spark_there(spark: SparkSession, server: dict[str, str]) -> SparkSession:
    """The session, whose new Python workers have the variables too."""
    for name, value in server.items():
        spark.sparkContext.environment[name] = value
    return spark


@pytest.fixture
def cold(queue: str) -> str:
    return f"s3://{BUCKET}/archives/{queue}"


def keys(cold: str) -> list[str]:
    """The objects, as another client sees them."""
    prefix = cold.removeprefix(f"s3://{BUCKET}/")
    pages = boto3.client("s3", region_name="us-east-1").get_paginator("list_objects_v2").paginate(Bucket=BUCKET,
                                                                                                  Prefix=f"{prefix}/")
    return sorted(one["Key"].removeprefix(f"{prefix}/") for page in pages for one in page.get("Contents", ()))


def rows(frame: DataFrame) -> dict[str, list[tuple[int, int]]]:
    """Offsets and payloads by partition, in order of the offsets."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in frame.select("partition", "offset", "value").collect():
        found.setdefault(row.partition, []).append((row.offset, json.loads(row.value)))
    return {name: sorted(one) for name, one in found.items()}


def test_each_record_once(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str, cold: str,
                          tmp_path: Path) -> None:
    queue = f"{queue} [é]"    # its folder has an escaped name
    store = partial(archive, spark_there, queue, cold, say=quiet, url=daemon.url)
    both = partial(read, spark_there, queue, cold, url=daemon.url)
    client.push(queue, *range(100), partition="a")
    client.push(queue, *range(7), partition="käy/ü")
    first = store(batch_rows=60, file_rows=25)
    assert [first[name] for name in ("rows", "partitions", "entries", "lost")] == [107, 2, 2, 0]
    assert store()["rows"] == 0
    client.push(queue, 1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", transactionId="t-1")
    expected = {"a": [(n, n) for n in range(100)], "käy/ü": [(n, n) for n in range(7)], "Default": [(0, 1)]}
    assert rows(both()) == expected
    assert store()["rows"] == 1
    assert rows(both()) == rows(both(hot=False)) == expected
    (one,) = both(hot=False).where("partition = 'Default'").collect()
    assert one.transactionId == "t-1" and one.topic == queue and one.headers[0].key == "traceparent"
    (hot,) = spark_there.read.format("queend").options(url=daemon.url, subscribe=queue, includeHeaders="true").load(
        ).where("partition = 'Default'").collect()
    assert (one.timestamp, one.id, one.headers) == (hot.timestamp, hot.id, hot.headers)
    # whoever knows nothing of the manifest reads the same
    found = keys(cold)
    assert not [name for name in found if name.startswith("_work/")]
    files = [name for name in found if name.startswith("queue=") and "/date=" in name]
    assert len(files) + len([name for name in found if name.startswith("_queend/")]) == len(found)
    for number, name in enumerate(files):
        prefix = cold.removeprefix(f"s3://{BUCKET}/")
        boto3.client("s3").download_file(BUCKET, f"{prefix}/{name}", str(tmp_path / f"{number}.parquet"))
    assert pq.read_table(tmp_path).num_rows == spark_there.read.parquet(str(tmp_path)).count() == 108
    again = replay(spark_there, f"{queue}.again", "job", archive=cold, queue=queue, say=quiet, url=daemon.url)
    assert (again["rows"], again["offsets"]) == (108, {"from": 0, "to": 108})


def test_a_name_belongs_to_one_writer(spark_there: SparkSession, cold: str) -> None:
    """Also if the answer was lost, so that a writer meets its own object."""
    store = ObjectStore(spark_there, cold)
    name = f"_queend/{store.escaped('a/b c%é#?')}/0000000000.json"
    assert store.names(name.rpartition("/")[0]) == []
    assert store.create(name, '{"run": "1"}', "1")
    assert not store.create(name, '{"run": "2"}', "2")
    assert store.create(name, '{"run": "1"}', "1")
    assert store.read(name) == '{"run": "1"}'
    assert store.names(name.rpartition("/")[0]) == ["0000000000.json"]
    store.move(name, "to")
    store.move(name, "to")
    assert (store.read("to"), store.size("to"), store.size(name)) == ('{"run": "1"}', 12, None)
    with pytest.raises(JobError, match="is missing: it is part of what is archived"):
        store.move(name, "elsewhere")


def batch(*offsets: int) -> pa.RecordBatch:
    """Five records a day, in the order of a task."""
    days = [date(2026, 1, 1 + offset // 5) for offset in offsets]
    headers = pa.array([[{"key": "k", "value": b"v"}] if offset % 2 else None for offset in offsets],
                       pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    return pa.record_batch({"offset": pa.array(offsets, pa.int64()), "headers": headers, "date": days})


def test_files_of_tasks(server: dict[str, str], cold: str) -> None:
    """A file per task and date, whatever the batches are; those of an attempt that failed do not count."""
    writer = FilesWriter(cold, "_work/q%5B1%5D/1", "zstd")

    def failing() -> Iterator[pa.RecordBatch]:
        yield batch(0, 1, 5)
        raise RuntimeError("the first attempt ends here")

    with pytest.raises(RuntimeError):
        writer.write(failing())
    writer.commit([writer.write(iter([batch(0, 1, 2), batch(3, 4, 5, 6), batch(7), batch(9, 10, 11)])),
                   writer.write(iter([batch(12)])), writer.write(iter([]))])
    (listed,) = [name for name in keys(cold) if name.endswith("files.json")]
    assert listed == "_work/q%5B1%5D/1/files.json"
    answer = boto3.client("s3").get_object(Bucket=BUCKET, Key=f"{cold.removeprefix(f's3://{BUCKET}/')}/{listed}")
    names = [f"_work/q%5B1%5D/1/{name}" for name, _ in json.loads(answer["Body"].read())]
    days = [name.split("/")[3] for name in names]
    assert days == ["date=2026-01-01", "date=2026-01-02", "date=2026-01-03", "date=2026-01-03"]
    assert set(names) < {name for name in keys(cold) if name.endswith(".parquet")}
    reader = FilesReader(cold, names)
    got = pa.Table.from_batches(found for task in reader.partitions() for found in reader.read(task))
    assert got.sort_by("offset").to_pylist() == batch(0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12).to_pylist()


def test_two_runs_side_by_side(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str,
                               cold: str) -> None:
    """Another run archives the same between this one's plan and its commit: one of them counts."""
    client.push(queue, *range(30))
    archive(spark_there, queue, cold, say=quiet, url=daemon.url)
    client.push(queue, *range(30, 50))
    behind: list[int] = []

    def other(text: str) -> None:
        if "batch 1" in text and not behind:
            behind.append(archive(spark_there, queue, cold, say=quiet, url=daemon.url)["rows"])
    with pytest.raises(JobError, match="another run archived .* at the same time; its batch was kept"):
        archive(spark_there, queue, cold, batch_rows=10, say=other, url=daemon.url)
    assert behind == [10]
    assert rows(read(spark_there, queue, cold, url=daemon.url)) == {"Default": [(n, n) for n in range(50)]}
    assert not [name for name in keys(cold) if name.startswith("_work/")]


def test_two_processes_and_a_kill(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str, cold: str,
                                  tmp_path: Path, server: dict[str, str]) -> None:
    """Two runs begin at once. One is killed while it has files of a batch that does not count yet; the other one ends
    by itself, or because the first one was faster. A third run finishes."""
    total = 20_000
    for at in range(0, total, 5000):
        client.push_items([{"queue": queue, "partition": f"k{n % 5}", "payload": n} for n in range(at, at + 5000)])
    words = ("archive", queue, cold, "--url", daemon.url, "--batch-rows", "1500", "--file-rows", "400")
    work = lambda: [name for name in keys(cold) if name.startswith("_work/")]  # noqa: E731
    entries = lambda: [name for name in keys(cold) if name.startswith("_queend/")]  # noqa: E731
    with Job(tmp_path / "one", *words, **server) as one, Job(tmp_path / "two", *words, **server) as two:
        until(lambda: one.over() or len(entries()) >= 3 and work(), "files of a batch", 300)
        one.kill()
        if two.ended(600):
            assert "another run archived" in two.err.read_text().splitlines()[-1], two.err.read_text()
    done = archive(spark_there, queue, cold, say=quiet, url=daemon.url)
    assert done["rows"] < total and not work()
    expected = {f"k{key}": [(n // 5, n) for n in range(key, total, 5)] for key in range(5)}
    assert rows(read(spark_there, queue, cold, hot=False)) == expected


def test_a_delta_table(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str, cold: str) -> None:
    """Two queues in one bucket, whose entries several programs add at once."""
    names = [queue, f"{queue} [é]/b"]
    for name in names:
        client.push(name, *range(30))
        archive(spark_there, name, cold, batch_rows=10, say=quiet, url=daemon.url)
    store = ObjectStore(spark_there, cold)
    manifests = [Manifest(store, name) for name in names * 2]
    with ThreadPoolExecutor(len(manifests)) as pool:
        list(pool.map(lambda manifest: opened_table("delta", store).follow(manifest), manifests))
    client.push(queue, *range(30, 40))
    assert archive(spark_there, queue, cold, table=["delta"], say=quiet, url=daemon.url)["rows"] == 10
    found = DeltaTable(cold).to_pyarrow_table(columns=["queue", "offset"]).to_pylist()
    assert sorted((row["queue"], row["offset"]) for row in found) == sorted(
        (name, n) for name in names for n in range(40 if name == queue else 30))


def test_an_iceberg_table(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str, cold: str,
                          tmp_path: Path, server: dict[str, str]) -> None:
    """Its catalog is one of pyiceberg's configuration."""
    client.push(queue, *range(30))
    with pytest.raises(JobError, match="needs --catalog"):
        archive(spark_there, queue, cold, table=["iceberg"], say=quiet, url=daemon.url)
    uri = f"sqlite:///{tmp_path}/lake.db"
    lake = {"PYICEBERG_CATALOG__LAKE__TYPE": "sql", "PYICEBERG_CATALOG__LAKE__URI": uri,
            "PYICEBERG_CATALOG__LAKE__S3__ENDPOINT": server["AWS_ENDPOINT_URL"]}
    with Job(tmp_path / "job", "archive", queue, cold, "--url", daemon.url, "--batch-rows", "10", "--table", "iceberg",
             "--catalog", "lake", **server, **lake) as job:
        assert job.done()["rows"] == 30
    table = SqlCatalog("lake", uri=uri, **{"s3.endpoint": server["AWS_ENDPOINT_URL"]}).load_table(("queend", queue))
    assert sorted(table.scan().to_arrow().column("offset").to_pylist()) == list(range(30))
    assert table.properties["queend-entry"] == "3" and table.location().startswith(cold)


@pytest.mark.parametrize(("target", "text"), [("s3://nobody/a", "NoSuchBucket"), ("s3://", "s3://")], ids=str)
def test_where_nothing_can_be_written(spark_there: SparkSession, daemon: Daemon, client: Client, queue: str,
                                      target: str, text: str) -> None:
    client.push(queue, 1)
    with pytest.raises(JobError) as caught:
        archive(spark_there, queue, target, say=quiet, url=daemon.url)
    assert text in str(caught.value) and "\n" not in str(caught.value)
