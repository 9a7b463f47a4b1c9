"""Archives as Delta tables, read by delta-rs: the rows of the queue, each once, whatever ends a run."""
from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon

from queend.spark.jobs import JobError, archive, read
from queend.spark.jobs.archive import COLUMNS
from queend.spark.jobs.deltatable import ArchiveDelta
from queend.spark.jobs.manifest import Entry, Manifest
from queend.spark.jobs.store import Store

from jobs import Job

Rows = dict[str, list[tuple[int, int]]]
NAMES = ["partition", "offset", "timestamp", "id", "transactionId", "value"]


def quiet(text: str) -> None:
    pass


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def store(spark: SparkSession, daemon: Daemon, queue: str, cold: Path) -> Callable[..., dict]:
    return partial(archive, spark, queue, str(cold), table=["delta"], say=quiet, url=daemon.url)


def rows(cold: Path, queue: str) -> Rows:
    """Offsets and payloads by partition, in order of the offsets, as another program finds them."""
    found: Rows = {}
    table = DeltaTable(cold).to_pyarrow_table(filters=[("queue", "=", queue)])
    for row in table.select(["partition", "offset", "value"]).to_pylist():
        found.setdefault(row["partition"], []).append((row["offset"], json.loads(row["value"])))
    return {name: sorted(one) for name, one in found.items()}


def versions(cold: Path) -> list[tuple[str, int]]:
    """Queue id and entry of each transaction that has files."""
    found = []
    for name in sorted((cold / "_delta_log").glob("0*.json")):
        actions = [json.loads(line) for line in name.read_text().splitlines()]
        found += [(one["txn"]["appId"], one["txn"]["version"]) for one in actions if "txn" in one]
    return found


def test_each_record_once(spark: SparkSession, store: Callable[..., dict], client: Client, queue: str, cold: Path,
                          daemon: Daemon) -> None:
    client.push(queue, *range(100), partition="a")
    client.push(queue, *range(7), partition="käy/ü")
    assert store(batch_rows=60, file_rows=25)["entries"] == 2
    client.push(queue, 1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", transactionId="t-1")
    assert store()["rows"] == 1
    assert store()["rows"] == 0
    assert rows(cold, queue) == {"a": [(n, n) for n in range(100)], "käy/ü": [(n, n) for n in range(7)],
                                 "Default": [(0, 1)]}
    app = f"queend:{Manifest(Store(spark, str(cold)), queue).identity}"
    assert versions(cold) == [(app, 1), (app, 2), (app, 3)]
    ours = read(spark, queue, str(cold), hot=False).select(*NAMES, "headers", "date").toArrow()
    theirs = DeltaTable(cold).to_pyarrow_table(columns=[*NAMES, "headers", "date"])
    for table in (ours, theirs):
        assert table.column("timestamp").type.tz == "UTC"
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert ours.sort_by(order).to_pylist() == theirs.sort_by(order).to_pylist()
    counted = QueryBuilder().register("archive", DeltaTable(cold)).execute(
        f"SELECT count(*) AS n, min(\"offset\") AS low, max(\"offset\") AS high FROM archive "
        f"WHERE queue = '{queue}' AND partition = 'a'").read_all()
    assert [counted[name][0].as_py() for name in ("n", "low", "high")] == [100, 0, 99]
    stats = DeltaTable(cold).get_add_actions(flatten=True)
    assert sum(stats["num_records"].to_pylist()) == 108
    assert (min(stats["min.offset"].to_pylist()), max(stats["max.offset"].to_pylist())) == (0, 99)
    assert spark.read.parquet(str(cold)).count() == 108    # the log is hidden from plain readers


def test_an_archive_that_was_there_before(spark: SparkSession, store: Callable[..., dict], client: Client, queue: str,
                                          cold: Path) -> None:
    """It becomes a table with all its batches, and follows again after runs without the option."""
    client.push(queue, *range(30))
    store(table=(), batch_rows=10)
    assert store()["rows"] == 0
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(30)]}
    client.push(queue, *range(30, 40))
    store(table=())
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(30)]}
    client.push(queue, *range(40, 50))
    store()
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(50)]}
    assert [number for _, number in versions(cold)] == [1, 2, 3, 4, 5]


def test_several_queues_in_one_archive(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                       cold: Path) -> None:
    names = [queue, f"{queue} [é]/b%2F"]
    for number, name in enumerate(names):
        client.push(name, *range(number, number + 20))
        archive(spark, name, str(cold), table=["delta"], say=quiet, url=daemon.url)
    for number, name in enumerate(names):
        assert rows(cold, name) == {"Default": [(n, n + number) for n in range(20)]}
    assert DeltaTable(cold).to_pyarrow_table().num_rows == 40


def test_what_others_may_do_with_the_table(store: Callable[..., dict], spark: SparkSession, client: Client, queue: str,
                                           cold: Path) -> None:
    """The archive's files stay."""
    client.push(queue, *range(30))
    store(batch_rows=10)
    with pytest.raises(Exception, match="append-only"):
        DeltaTable(cold).delete("offset = 3")
    assert DeltaTable(cold).optimize.compact()["numFilesRemoved"] == 3
    assert DeltaTable(cold).vacuum(dry_run=False) == []
    DeltaTable(cold).create_checkpoint()
    client.push(queue, *range(30, 40))
    assert store()["rows"] == 10
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(40)]}
    frame = read(spark, queue, str(cold), hot=False)
    assert sorted(row.offset for row in frame.select("offset").collect()) == list(range(40))


def test_ended_between_entry_and_transaction(store: Callable[..., dict], client: Client, queue: str, cold: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    client.push(queue, *range(10))
    store()
    client.push(queue, *range(10, 20))
    committed = Manifest.commit

    def commit(manifest: Manifest, entry: Entry) -> None:
        committed(manifest, entry)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Manifest, "commit", commit)
        store()
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(10)]}
    assert store()["rows"] == 0
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(20)]}
    assert [number for _, number in versions(cold)] == [1, 2]


def test_killed_again_and_again(daemon: Daemon, client: Client, queue: str, tmp_path: Path, cold: Path) -> None:
    """With SIGKILL, at once when a batch has its entry: between that and its transaction."""
    keys, total = 5, 20_000
    for at in range(0, total, 5000):
        client.push_items([{"queue": queue, "partition": f"k{n % keys}", "payload": n} for n in range(at, at + 5000)])
    entries = lambda: sum(len(names) for _, _, names in os.walk(cold / "_queend")) - 1  # noqa: E731
    words = ("archive", queue, str(cold), "--url", daemon.url, "--table", "delta", "--batch-rows", "1000")
    between = []
    for number in range(5):
        with Job(tmp_path / f"run-{number}", *words) as run:
            goal = entries() + 2
            while entries() < goal and not run.over():    # as fast as can be: no pause
                pass
            run.kill()
            assert not run.out.read_text(), "it ended before it was killed"
        between.append(entries() - len(versions(cold)))
        if between[-1]:
            break
    assert between[-1] == 1, between
    with Job(tmp_path / "last", *words) as run:
        done = run.done()
    assert 0 < done["rows"] < total
    assert rows(cold, queue) == {f"k{key}": [(n // keys, n) for n in range(key, total, keys)] for key in range(keys)}
    assert [number for _, number in versions(cold)] == list(range(1, entries() + 1))


def test_two_runs_side_by_side(spark: SparkSession, store: Callable[..., dict], client: Client, queue: str,
                               cold: Path) -> None:
    """Another run archives the same between this one's plan and its commit: one of them counts, in the table too."""
    client.push(queue, *range(30))
    behind: list[int] = []

    def other(text: str) -> None:
        if "batch 1" in text and not behind:
            behind.append(store()["rows"])
    with pytest.raises(JobError, match="another run archived"):
        store(batch_rows=10, say=other)
    assert behind == [20]
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(30)]}


def test_many_that_follow_at_once(spark: SparkSession, store: Callable[..., dict], daemon: Daemon, client: Client,
                                  queue: str, cold: Path) -> None:
    """Four at a time add the entries of two queues."""
    names = [queue, f"{queue}.b"]
    for name in names:
        client.push(name, *range(60))
        archive(spark, name, str(cold), batch_rows=10, say=quiet, url=daemon.url)
    target = Store(spark, str(cold))
    manifests = [Manifest(target, name) for name in names * 2]
    with ThreadPoolExecutor(len(manifests)) as pool:
        list(pool.map(lambda manifest: ArchiveDelta(target, COLUMNS).follow(manifest), manifests))
    for name in names:
        assert rows(cold, name) == {"Default": [(n, n) for n in range(60)]}
    for manifest in manifests[:2]:
        assert [number for app, number in versions(cold) if app == f"queend:{manifest.identity}"] == list(range(1, 7))


def test_a_table_that_does_not_follow(store: Callable[..., dict], client: Client, queue: str, cold: Path) -> None:
    client.push(queue, *range(10))
    with pytest.raises(JobError, match="no table can be 'parquet'; expected delta"):
        store(table=["parquet"])
    store()
    log = cold / "_delta_log/00000000000000000000.json"
    whole = log.read_bytes()
    log.write_bytes(b"{")
    client.push(queue, *range(10, 20))
    with pytest.raises(JobError, match="Delta table") as caught:
        store()
    assert "\n" not in str(caught.value)
    log.write_bytes(whole)
    assert store()["rows"] == 10
    (entry,) = cold.glob("_queend/*/0000000002.json")
    entry.rename(entry.with_suffix(".away"))
    with pytest.raises(JobError, match="has entry 2 of queue .* but the manifest ends at 1"):
        store()
    assert rows(cold, queue) == {"Default": [(n, n) for n in range(20)]}
