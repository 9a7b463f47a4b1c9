"""Queues into Parquet and back as one space of offsets: each record once, whatever ends a run, and no gap that nobody
was told of."""
from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.client import Client
from support.daemon import Daemon
from support.ports import free_port
from support.wait import until

from queend.spark.jobs import JobError, archive, read
from queend.spark.jobs.manifest import Entry, Manifest
from queend.spark.jobs.store import Store

from jobs import Job

Run = Callable[..., dict]


def quiet(text: str) -> None:
    pass


@pytest.fixture
def store(spark: SparkSession, daemon: Daemon, queue: str, tmp_path: Path) -> Run:
    return partial(archive, spark, queue, str(tmp_path / "cold"), say=quiet, url=daemon.url)


@pytest.fixture
def both(spark: SparkSession, daemon: Daemon, queue: str, tmp_path: Path) -> Callable[..., DataFrame]:
    return partial(read, spark, queue, str(tmp_path / "cold"), url=daemon.url)


def rows(frame: DataFrame) -> dict[str, list[tuple[int, int]]]:
    """Offsets and payloads by partition, in order of the offsets."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in frame.select("partition", "offset", "value").collect():
        found.setdefault(row.partition, []).append((row.offset, json.loads(row.value)))
    return {name: sorted(one) for name, one in found.items()}


def floor(daemon: Daemon, queue: str, partition: str, offset: int) -> None:
    """As retention sets it."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("""INSERT INTO queend.floors
                           SELECT p.id, %s FROM queend.partitions p
                           JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s AND
                           p.name = %s
                              ON CONFLICT (partition_id) DO UPDATE SET floor = excluded.floor""",
                           (offset, queue, partition))


def lag(client: Client, queue: str, group: str) -> int:
    return sum(one["offsetLag"] for one in client.get(f"/api/v1/consumer-groups/{group}").json[queue]["partitions"])


def test_each_record_once(spark: SparkSession, store: Run, both: Callable[..., DataFrame], client: Client, queue: str,
                          tmp_path: Path) -> None:
    client.push(queue, *range(100), partition="a")
    client.push(queue, *range(7), partition="käy/ü")
    first = store(batch_rows=60)
    assert [first[name] for name in ("rows", "partitions", "entries", "lost")] == [107, 2, 2, 0]
    assert first["offsets"] == {"from": 0, "to": 107}
    assert store()["rows"] == 0
    client.push(queue, *range(100, 120), partition="a")
    client.push(queue, 1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", transactionId="t-1")
    assert rows(both()) == {"a": [(n, n) for n in range(120)],
                            "käy/ü": [(n, n) for n in range(7)], "Default": [(0, 1)]}
    assert store()["rows"] == 21
    assert rows(both()) == rows(both(hot=False)) == {"a": [(n, n) for n in range(120)],
                                                     "käy/ü": [(n, n) for n in range(7)], "Default": [(0, 1)]}
    (one,) = both(hot=False).where("partition = 'Default'").collect()
    assert one.transactionId == "t-1" and one.topic == queue and one.headers[0].key == "traceparent"
    plain = spark.read.parquet(str(tmp_path / "cold"))    # whoever knows nothing of the manifest reads the same
    assert plain.where(plain.queue == queue).count() == 128 and {"queue", "date"} <= set(plain.columns)
    assert lag(client, queue, "archive") == 0
    assert not list((tmp_path / "cold/_work").rglob("*.parquet"))


def test_what_retention_may_drop(start_daemon: Callable[..., Daemon], spark: SparkSession, queue: str,
                                 tmp_path: Path) -> None:
    """The group holds back what is not archived. What is archived goes, and is read all the same."""
    own = start_daemon(RETENTION_INTERVAL=100)
    options = {"url": own.url, "say": quiet}
    with own.client() as client:
        client.push(queue, *range(50))
        archive(spark, queue, str(tmp_path / "cold"), **options)
        client.push(queue, *range(50, 80))
        client.configure(queue, retentionEnabled=True, completedRetentionSeconds=1)
        marks = lambda: client.post("/api/v1/offsets", {"queue": queue}).json["partitions"][0]  # noqa: E731
        until(lambda: marks()["logStartOffset"] == 50, "what is archived is removed", 120)
        assert lag(client, queue, "archive") == 30
        assert rows(read(spark, queue, str(tmp_path / "cold"), url=own.url)) == {"Default": [(n, n) for n in range(80)]}
        assert archive(spark, queue, str(tmp_path / "cold"), **options)["rows"] == 30
        until(lambda: marks()["logStartOffset"] == 80, "the rest is removed", 120)
        assert rows(read(spark, queue, str(tmp_path / "cold"), url=own.url)) == {"Default": [(n, n) for n in range(80)]}


def test_what_was_lost_is_told(store: Run, both: Callable[..., DataFrame], daemon: Daemon, client: Client,
                               queue: str) -> None:
    for n in range(0, 40, 10):
        client.push(queue, *range(n, n + 10), partition="a")
    floor(daemon, queue, "a", 10)    # before the archive began: nobody misses it
    store()
    assert rows(both()) == {"a": [(n, n) for n in range(10, 40)]}
    for n in range(40, 60, 10):
        client.push(queue, *range(n, n + 10), partition="a")
    floor(daemon, queue, "a", 50)
    lost = "partition 'a': records 40 to 49 were removed before they were archived. With --allow-gaps"
    with pytest.raises(JobError, match=lost):
        store()
    with pytest.raises(JobError, match=lost):
        both()
    assert rows(both(allow_gaps=True)) == {"a": [(n, n) for n in [*range(10, 40), *range(50, 60)]]}
    assert store(allow_gaps=True)["lost"] == 10
    with pytest.raises(JobError, match=lost):
        both()
    assert rows(both(allow_gaps=True)) == {"a": [(n, n) for n in [*range(10, 40), *range(50, 60)]]}


def test_another_queue_of_the_same_name(store: Run, both: Callable[..., DataFrame], client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    store()
    client.delete(queue)
    with pytest.raises(JobError, match=f"there is no queue '{queue}'"):
        store()
    client.push(queue, *range(9))
    with pytest.raises(JobError, match="has the archive of another queue named .* into another folder"):
        store()
    with pytest.raises(JobError, match="are no one space of offsets. With --cold the archive alone is read"):
        both()
    assert rows(both(hot=False)) == {"Default": [(n, n) for n in range(5)]}


def test_a_queue_that_goes_in_the_middle(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                         tmp_path: Path) -> None:
    """Deleted, and made again, while a batch is on its way: between two of them."""
    client.push(queue, *range(20))
    told: list[str] = []

    def swap(text: str) -> None:
        told.append(text)
        if "batch 1" in text:
            client.delete(queue)
            client.push(queue, *range(1000, 1030))
    with pytest.raises(JobError, match="was deleted and created again during the run"):
        archive(spark, queue, str(tmp_path / "cold"), batch_rows=10, say=swap, url=daemon.url)
    assert rows(read(spark, queue, str(tmp_path / "cold"), hot=False)) == {"Default": [(n, n) for n in range(10)]}


def test_a_partition_that_came_again(store: Run, both: Callable[..., DataFrame], daemon: Daemon, client: Client,
                                     queue: str) -> None:
    """Removed as idle, its offsets begin anew: it is another one, and both are kept."""
    client.push(queue, 1, 2, partition="a")
    store()
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("UPDATE queend.partitions p SET name = 'gone' FROM queend.queues q WHERE q.id = p.queue_id "
                           "AND q.name = %s AND p.name = 'a'", (queue,))
    client.configure(f"{queue}.other")    # daemons look again
    client.push(queue, 3, partition="b")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("UPDATE queend.partitions p SET name = 'a' FROM queend.queues q WHERE q.id = p.queue_id "
                           "AND q.name = %s AND p.name = 'b'", (queue,))
    assert store()["rows"] == 1
    assert rows(both(hot=False)) == {"a": [(0, 1), (0, 3), (1, 2)]}


def test_a_partition_that_comes_again_in_the_middle(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                                    tmp_path: Path, exchange: Callable[..., None],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are archived, then it is removed and made again, then the offsets are committed: not for the new
    one."""
    client.push(queue, *range(10), partition="a")
    committed = Manifest.commit

    def commit(manifest: Manifest, entry: Entry) -> None:
        committed(manifest, entry)
        if entry.number == 1:
            exchange("a", *range(100, 105))

    monkeypatch.setattr(Manifest, "commit", commit)
    assert archive(spark, queue, str(tmp_path / "cold"), group="cold", say=quiet, url=daemon.url)["rows"] == 10
    assert [one["data"] for one in client.pop(queue, "a", consumerGroup="cold", batch=9)] == [*range(100, 105)]


def test_two_runs_side_by_side(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    """Another run archives the same between this one's plan and its commit: one of them counts."""
    client.push(queue, *range(30))
    cold = str(tmp_path / "cold")
    archive(spark, queue, cold, say=quiet, url=daemon.url)
    client.push(queue, *range(30, 50))
    behind: list[int] = []

    def other(text: str) -> None:
        if "batch 1" in text and not behind:
            behind.append(archive(spark, queue, cold, say=quiet, url=daemon.url)["rows"])
    with pytest.raises(JobError,
                       match="another run archived .* at the same time; its batch was kept, and the batch of this run "
                             "was dropped"):
        archive(spark, queue, cold, batch_rows=10, say=other, url=daemon.url)
    assert behind == [10]
    assert rows(read(spark, queue, cold, url=daemon.url)) == {"Default": [(n, n) for n in range(50)]}
    assert not list((tmp_path / "cold/_work").rglob("*.parquet"))


@pytest.mark.parametrize("harm", ["cut", "missing", "swapped", "file", "short"])
def test_a_manifest_that_is_not_whole(store: Run, both: Callable[..., DataFrame], client: Client, queue: str,
                                      tmp_path: Path, harm: str) -> None:
    for n in range(3):
        client.push(queue, n)
        store()
    before = rows(both(hot=False))
    (folder,) = (tmp_path / "cold/_queend").iterdir()
    entry, text = folder / "0000000002.json", {"cut": "0000000002.json cannot be read, it is damaged or cut short",
                                               "missing": "0000000002.json is missing",
                                               "swapped": "is entry 1 of queue",
                                               "file": "0000000002-00000.parquet is missing",
                                               "short": "bytes instead of"}[harm]
    (data,) = (tmp_path / "cold").rglob("0000000002-*.parquet")
    kept, whole = entry.read_bytes(), data.read_bytes()
    {"cut": lambda: entry.write_bytes(kept[:-40]), "missing": entry.unlink,
     "swapped": lambda: entry.write_bytes((folder / "0000000001.json").read_bytes()),
     "file": data.unlink, "short": lambda: data.write_bytes(whole[:-1])}[harm]()
    for job in (both, *((store,) if harm in ("cut", "missing", "swapped") else ())):
        with pytest.raises(JobError, match=text):
            job()
    entry.write_bytes(kept)
    data.write_bytes(whole)
    assert rows(both(hot=False)) == before


def test_on_a_file_system_that_is_not_here(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                           tmp_path: Path) -> None:
    """Through Hadoop's client alone, as on a cluster: a view that is mounted, on this disk in the end."""
    (tmp_path / "far").mkdir()
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.far.link./cold", f"file://{tmp_path}/far")
    cold = "viewfs://far/cold/a"
    client.push(queue, *range(30))
    assert archive(spark, queue, cold, batch_rows=20, say=quiet, url=daemon.url)["rows"] == 30
    client.push(queue, *range(30, 50))
    assert rows(read(spark, queue, cold, url=daemon.url)) == {"Default": [(n, n) for n in range(50)]}
    manifest = Manifest(Store(spark, cold), queue)
    assert manifest.store.local is None and len(manifest.entries) == 3
    for file in manifest.entries[-1].files:
        manifest.store.move(file["path"], file["from"])
    assert archive(spark, queue, cold, say=quiet, url=daemon.url)["rows"] == 20
    with pytest.raises(JobError, match="another run archived"):
        manifest.commit(manifest.next(manifest.identity or ""))
    assert rows(read(spark, queue, cold, hot=False)) == {"Default": [(n, n) for n in range(50)]}
    assert spark.read.parquet(cold).count() == 50 and not list((tmp_path / "far").rglob("_work/*/*"))
    entry = next((tmp_path / "far").rglob("0000000002.json"))
    entry.write_bytes(entry.read_bytes()[:-9])
    entry.with_name(".0000000002.json.crc").unlink(missing_ok=True)
    with pytest.raises(JobError, match="0000000002.json cannot be read, it is damaged or cut short"):
        read(spark, queue, cold, hot=False)


def test_files_that_were_not_moved(spark: SparkSession, store: Run, both: Callable[..., DataFrame], client: Client,
                                   queue: str, tmp_path: Path) -> None:
    """A run that ended behind its entry: what it wrote is read where it is, and moved by the next one."""
    client.push(queue, *range(10))
    store()
    manifest = Manifest(Store(spark, str(tmp_path / "cold")), queue)
    for file in manifest.entries[-1].files:
        manifest.store.move(file["path"], file["from"])
    assert rows(both()) == {"Default": [(n, n) for n in range(10)]}
    store()
    assert all((tmp_path / "cold" / file["path"]).exists() for file in manifest.entries[-1].files)
    assert rows(both()) == {"Default": [(n, n) for n in range(10)]}


def written(folder: Path) -> bool:
    """Whether there is a file of Parquet; folders may go while they are looked at."""
    return any(name.endswith(".parquet") for _, _, names in os.walk(folder) for name in names)


def test_killed_again_and_again(daemon: Daemon, spark: SparkSession, client: Client, queue: str,
                                tmp_path: Path) -> None:
    keys, total = 5, 20_000
    for at in range(0, total, 5000):
        client.push_items([{"queue": queue, "partition": f"k{n % keys}", "payload": n} for n in range(at, at + 5000)])
    cold = tmp_path / "cold"
    words = ("archive", queue, str(cold), "--url", daemon.url, "--batch-rows", "1500", "--file-rows", "400")
    entries = lambda: len(list((cold / "_queend").rglob("0*.json")))  # noqa: E731
    # behind the entry of a batch, and in the middle of another's files
    for number, ready in enumerate((lambda: entries() >= 2, lambda: entries() >= 4 and written(cold / "_work"))):
        with Job(tmp_path / f"run-{number}", *words) as run:
            until(lambda: run.over() or ready(), "a batch is written", 300)  # noqa: B023
            assert not run.over(), run.err.read_text()
    assert "rows in" in run.err.read_text()
    done = archive(spark, queue, str(cold), say=quiet, url=daemon.url)
    assert 0 < done["rows"] <= total - 3 * 1500
    expected = {f"k{key}": [(n // keys, n) for n in range(key, total, keys)] for key in range(keys)}
    assert rows(read(spark, queue, str(cold), hot=False)) == expected
    assert rows(read(spark, queue, str(cold), url=daemon.url)) == expected
    assert spark.read.parquet(str(cold)).count() == total


def test_the_daemon_is_killed(start_daemon: Callable[..., Daemon], spark: SparkSession, queue: str,
                              tmp_path: Path) -> None:
    """It comes back and the job goes on, as if nothing had been."""
    own = start_daemon(PORT=free_port())
    with own.client() as client:
        for at in range(0, 20_000, 5000):
            client.push(queue, *range(at, at + 5000))
    back: list[Thread] = []

    def kill(text: str) -> None:
        if "batch 1" in text:
            own.kill()
            back.append(Thread(target=start_daemon, args=(own.conninfo,), kwargs={"PORT": own.port}))
            back[0].start()
    try:
        assert archive(spark, queue, str(tmp_path / "cold"), batch_rows=8000, say=kill, url=own.url)["rows"] == 20_000
    finally:
        back[0].join()
    assert rows(read(spark, queue, str(tmp_path / "cold"), url=own.url)) == {"Default": [(n, n) for n in range(20_000)]}


def test_a_full_disk(daemon: Daemon, spark: SparkSession, client: Client, queue: str, tmp_path: Path) -> None:
    """The target is a file system of 1 MB. What was archived before stays, nothing else counts, and there is no trace
    in Java."""
    cold = tmp_path / "cold"
    cold.mkdir()
    client.push(queue, *range(10))
    archive(spark, queue, str(cold), say=quiet, url=daemon.url)
    dice = random.Random(1)
    for _ in range(40):
        client.push(queue, *[dice.randbytes(1000).hex() for _ in range(100)])
    script = f"mount -t tmpfs -o size=1m tmpfs {cold}.full && cp -r {cold}/. {cold}.full && exec \"$@\""
    (tmp_path / "cold.full").mkdir()
    inside = subprocess.run(["unshare", "-rm", "sh", "-c", f"{script}; true", "-", "true"], capture_output=True,
                            text=True)
    assert inside.returncode == 0, inside.stderr
    with Job(tmp_path / "run", "archive", queue, f"{cold}.full", "--url", daemon.url,
             before=("unshare", "-rm", "sh", "-c", script, "-")) as run:
        text = run.failed()
    assert "No space left on device. This batch was dropped; earlier batches are kept" in text
    assert rows(read(spark, queue, str(cold), hot=False)) == {"Default": [(n, n) for n in range(10)]}


@pytest.mark.parametrize(("target", "text"),
                         [("nofs://x/y", "nofs://x/y': No FileSystem for scheme \"nofs\""),
                          ("/proc/nothing", "cannot write /proc/nothing: No such file"),
                                              ("/dev/null", "cannot write /dev/null: ")],
                         ids=["scheme", "proc", "file"])
def test_where_nothing_can_be_written(store: Run, client: Client, queue: str, spark: SparkSession, daemon: Daemon,
                                      target: str, text: str) -> None:
    client.push(queue, 1)
    with pytest.raises(JobError) as caught:
        archive(spark, queue, target, say=quiet, url=daemon.url)
    assert text in str(caught.value)


def test_what_is_not_there_is_said(both: Callable[..., DataFrame], spark: SparkSession, daemon: Daemon, client: Client,
                                   queue: str, tmp_path: Path) -> None:
    client.push(queue, 1)
    with pytest.raises(JobError, match=f"there is no archive of queue '{queue}' in {tmp_path}/cold"):
        both()
    with pytest.raises(JobError, match="given up after 1 attempt in .* s; http://127.0.0.1:1: "):
        archive(spark, queue, str(tmp_path / "cold"), say=quiet, url="http://127.0.0.1:1", retries="0")
    with Job(tmp_path / "run", "archive", "nobody's", str(tmp_path / "cold"), "--url", daemon.url) as run:
        assert f'queend: there is no queue "nobody\'s" at {daemon.url}' == run.failed()
