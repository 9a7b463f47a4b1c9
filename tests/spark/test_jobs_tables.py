"""Archives as tables of Delta and Iceberg, read by delta-rs and pyiceberg: the rows of the queue, each once, whatever
ends a run."""
from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon

from queend.spark.jobs import JobError, archive, read
from queend.spark.jobs.archive import opened_table
from queend.spark.jobs.manifest import Entry, Manifest
from queend.spark.jobs.store import Store

from jobs import Job

Rows = dict[str, list[tuple[int, int]]]
NAMES = ["partition", "offset", "timestamp", "id", "transactionId", "headers", "value"]


def quiet(text: str) -> None:
    pass


def iceberg(cold: Path, queue: str) -> Table:
    return load_catalog("queend", type="sql", uri=f"sqlite:///{cold}/_iceberg/catalog.db").load_table(("queend", queue))


class Delta:
    """What other programs find in the Delta table of an archive."""

    kind = "delta"

    def table(self, cold: Path, queue: str) -> pa.Table:
        return DeltaTable(cold).to_pyarrow_table(filters=[("queue", "=", queue)], columns=NAMES)

    def entries(self, cold: Path, queue: str) -> list[int]:
        """The number of each transaction of the queue that has files."""
        app, found = f"queend:{json.loads(first_entry(cold, queue).read_text())['queueId']}", []
        for name in sorted((cold / "_delta_log").glob("0*.json")):
            actions = [json.loads(line) for line in name.read_text().splitlines()]
            found += [one["txn"]["version"] for one in actions if one.get("txn", {}).get("appId") == app]
        return found


class Iceberg:
    """What other programs find in an Iceberg table of an archive."""

    kind = "iceberg"

    def table(self, cold: Path, queue: str) -> pa.Table:
        return iceberg(cold, queue).scan(selected_fields=tuple(NAMES)).to_arrow()

    def entries(self, cold: Path, queue: str) -> list[int]:
        try:
            table = iceberg(cold, queue)
        except NoSuchTableError:
            return []
        snapshots = {one.snapshot_id: one for one in table.snapshots()}
        return [int(snapshots[one.snapshot_id].summary["queend-entry"]) for one in table.history()]


def first_entry(cold: Path, queue: str) -> Path:
    (found,) = [one for one in cold.glob("_queend/*/0000000000.json") if json.loads(one.read_text())["queue"] == queue]
    return found


def whole(table: pa.Table) -> list[dict]:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()


@pytest.fixture(params=[Delta, Iceberg], ids=lambda kind: kind.kind)
def lake(request: pytest.FixtureRequest) -> Delta | Iceberg:
    return request.param()


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    return tmp_path / "cold é"


@pytest.fixture
def store(spark: SparkSession, daemon: Daemon, queue: str, cold: Path, lake: Delta | Iceberg) -> Callable[..., dict]:
    return partial(archive, spark, queue, str(cold), table=[lake.kind], say=quiet, url=daemon.url)


@pytest.fixture
def rows(lake: Delta | Iceberg, cold: Path, queue: str) -> Callable[..., Rows]:
    """Offsets and payloads by partition, in order of the offsets."""

    def found(name: str = queue) -> Rows:
        seen: Rows = {}
        for row in lake.table(cold, name).select(["partition", "offset", "value"]).to_pylist():
            seen.setdefault(row["partition"], []).append((row["offset"], json.loads(row["value"])))
        return {name: sorted(one) for name, one in seen.items()}
    return found


def test_each_record_once(spark: SparkSession, store: Callable[..., dict], client: Client, queue: str, cold: Path,
                          lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    client.push(queue, *range(100), partition="a")
    client.push(queue, *range(7), partition="käy/ü")
    assert store(batch_rows=60, file_rows=25)["entries"] == 2
    client.push(queue, 1, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", transactionId="t-1")
    assert store()["rows"] == 1
    assert store()["rows"] == 0
    assert rows() == {"a": [(n, n) for n in range(100)], "käy/ü": [(n, n) for n in range(7)], "Default": [(0, 1)]}
    assert lake.entries(cold, queue) == [1, 2, 3]
    ours = whole(read(spark, queue, str(cold), hot=False).select(*NAMES).toArrow())
    if lake.kind == "iceberg":    # pyiceberg shows a list that is null as an empty one
        ours = [{**row, "headers": row["headers"] or []} for row in ours]
    assert whole(lake.table(cold, queue)) == ours
    assert spark.read.parquet(str(cold)).count() == 108    # the table's own files are hidden from plain readers


def test_an_archive_that_was_there_before(store: Callable[..., dict], client: Client, queue: str, cold: Path,
                                          lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    """It becomes a table with all its batches, and follows again after runs without the option."""
    client.push(queue, *range(30))
    store(table=(), batch_rows=10)
    assert store()["rows"] == 0
    assert rows() == {"Default": [(n, n) for n in range(30)]}
    client.push(queue, *range(30, 40))
    store(table=())
    assert rows() == {"Default": [(n, n) for n in range(30)]}
    client.push(queue, *range(40, 50))
    store(table=["delta", "iceberg"])
    assert rows() == {"Default": [(n, n) for n in range(50)]}
    assert lake.entries(cold, queue) == [1, 2, 3, 4, 5]


def test_several_queues_in_one_archive(spark: SparkSession, daemon: Daemon, client: Client, queue: str, cold: Path,
                                       lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    names = [queue, f"{queue}.x [é]/b%2F"]
    for number, name in enumerate(names):
        client.push(name, *range(number, number + 20))
        archive(spark, name, str(cold), table=[lake.kind], say=quiet, url=daemon.url)
    for number, name in enumerate(names):
        assert rows(name) == {"Default": [(n, n + number) for n in range(20)]}


def test_ended_between_entry_and_transaction(store: Callable[..., dict], client: Client, queue: str, cold: Path,
                                             lake: Delta | Iceberg, rows: Callable[..., Rows],
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
    assert rows() == {"Default": [(n, n) for n in range(10)]}
    assert store()["rows"] == 0
    assert rows() == {"Default": [(n, n) for n in range(20)]}
    assert lake.entries(cold, queue) == [1, 2]


def test_killed_between_entry_and_transaction(daemon: Daemon, client: Client, queue: str, tmp_path: Path, cold: Path,
                                              lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    """With SIGKILL, at once when a batch has its entry; a job that was faster is run again and killed again."""
    keys, total = 5, 20_000
    for at in range(0, total, 5000):
        client.push_items([{"queue": queue, "partition": f"k{n % keys}", "payload": n} for n in range(at, at + 5000)])
    entries = lambda: sum(name[0] == "0" for found in os.walk(cold / "_queend") for name in found[2]) - 1  # noqa: E731
    words = ("archive", queue, str(cold), "--url", daemon.url, "--table", lake.kind, "--batch-rows", "1000")
    between = []
    while not between or between[-1] == 0 and len(between) < 5:
        with Job(tmp_path / f"run-{len(between)}", *words) as run:
            goal = entries() + 2
            while entries() < goal and not run.over():    # without a pause: this moment is short
                pass
            run.kill()
            assert not run.out.read_text(), "it ended before it was killed"
        between.append(entries() - len(lake.entries(cold, queue)))
    assert between[-1] == 1, between
    with Job(tmp_path / "last", *words) as run:
        assert 0 < run.done()["rows"] < total
    assert rows() == {f"k{key}": [(n // keys, n) for n in range(key, total, keys)] for key in range(keys)}
    assert lake.entries(cold, queue) == list(range(1, entries() + 1))


def test_two_runs_side_by_side(store: Callable[..., dict], client: Client, queue: str, cold: Path,
                               lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    """Another run archives the same between this one's plan and its commit: one of them counts, in the table too."""
    client.push(queue, *range(30))
    behind: list[int] = []

    def other(text: str) -> None:
        if "batch 1" in text and not behind:
            behind.append(store()["rows"])
    with pytest.raises(JobError, match="another run archived"):
        store(batch_rows=10, say=other)
    assert behind == [20]
    assert rows() == {"Default": [(n, n) for n in range(30)]}
    assert lake.entries(cold, queue) == [1, 2]


def test_many_that_follow_at_once(spark: SparkSession, store: Callable[..., dict], daemon: Daemon, client: Client,
                                  queue: str, cold: Path, lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    """Four at a time create the table and add the entries of two queues."""
    names = [queue, f"{queue}.b"]
    for name in names:
        client.push(name, *range(60))
        archive(spark, name, str(cold), batch_rows=10, say=quiet, url=daemon.url)
    target = Store(spark, str(cold))

    def follow(name: str) -> None:
        opened_table(lake.kind, target).follow(Manifest(target, name))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(follow, names * 2))
    for name in names:
        assert rows(name) == {"Default": [(n, n) for n in range(60)]}
        assert lake.entries(cold, name) == list(range(1, 7))


def test_a_table_ahead_of_its_archive(store: Callable[..., dict], client: Client, queue: str, cold: Path,
                                      lake: Delta | Iceberg, rows: Callable[..., Rows]) -> None:
    for start in (0, 10):
        client.push(queue, *range(start, start + 10))
        store()
    (entry,) = cold.glob("_queend/*/0000000002.json")
    entry.rename(entry.with_suffix(".away"))
    with pytest.raises(JobError, match="has entry 2 of queue .* but the manifest ends at 1"):
        store()
    assert rows() == {"Default": [(n, n) for n in range(20)]}


def test_a_delta_table_and_other_programs(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                          cold: Path) -> None:
    """They may compact it and remove old files: the archive's files stay."""
    store = partial(archive, spark, queue, str(cold), table=["delta"], say=quiet, url=daemon.url)
    client.push(queue, *range(30))
    store(batch_rows=10)
    counted = QueryBuilder().register("archive", DeltaTable(cold)).execute(
        'SELECT count(*) AS n, min("offset") AS low, max("offset") AS high FROM archive').read_all()
    assert [counted[name][0].as_py() for name in ("n", "low", "high")] == [30, 0, 29]
    files = DeltaTable(cold).get_add_actions(flatten=True)
    found = zip(*(files[name].to_pylist() for name in ("num_records", "min.offset", "max.offset")), strict=True)
    assert sorted(found) == [(10, 0, 9), (10, 10, 19), (10, 20, 29)]
    with pytest.raises(Exception, match="append-only"):
        DeltaTable(cold).delete("offset = 3")
    assert DeltaTable(cold).optimize.compact()["numFilesRemoved"] == 3
    assert DeltaTable(cold).vacuum(dry_run=False) == []
    DeltaTable(cold).create_checkpoint()
    client.push(queue, *range(30, 40))
    assert store()["rows"] == 10
    assert sorted(Delta().table(cold, queue).column("offset").to_pylist()) == list(range(40))
    frame = read(spark, queue, str(cold), hot=False)
    assert sorted(row.offset for row in frame.select("offset").collect()) == list(range(40))


def test_an_iceberg_table_and_other_programs(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                             cold: Path) -> None:
    """A snapshot of another program, and expired snapshots: the next entry is found all the same. A day is one
    partition."""
    store = partial(archive, spark, queue, str(cold), table=["iceberg"], say=quiet, url=daemon.url)
    client.push(queue, *range(30))
    store(batch_rows=10)
    table = iceberg(cold, queue)
    low = table.scan(row_filter="offset < 10")
    assert [task.file.record_count for task in low.plan_files()] == [10] and low.to_arrow().num_rows == 10
    table.delete("offset < 10")
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.snapshots()][:-1]).commit()
    client.push(queue, *range(30, 40))
    assert store()["rows"] == 10
    assert sorted(Iceberg().table(cold, queue).column("offset").to_pylist()) == list(range(10, 40))
    frame = read(spark, queue, str(cold), hot=False)
    assert sorted(row.offset for row in frame.select("offset").collect()) == list(range(40))
    copied = shutil.copytree(cold, f"{cold}.copy")
    with pytest.raises(JobError, match="is that of another folder"):
        archive(spark, queue, str(copied), table=["iceberg"], say=quiet, url=daemon.url)


def test_where_no_table_can_be(spark: SparkSession, daemon: Daemon, client: Client, queue: str, cold: Path) -> None:
    client.push(queue, *range(10))
    store = partial(archive, spark, queue, say=quiet, url=daemon.url)
    with pytest.raises(JobError, match="no table can be 'parquet'; expected delta or iceberg"):
        store(str(cold), table=["parquet"])
    with pytest.raises(JobError, match="catalog 'lake' is for Iceberg"):
        store(str(cold), table=["delta"], catalog="lake")
    with pytest.raises(JobError, match="a%b cannot be a table: only s3://bucket/prefix, or a folder"):
        store(f"{cold}/a%b", table=["delta"])
    store(str(cold), table=["delta"])
    log = cold / "_delta_log/00000000000000000000.json"
    whole = log.read_bytes()
    log.write_bytes(b"{")
    client.push(queue, *range(10, 20))
    with pytest.raises(JobError, match="Delta table") as caught:
        store(str(cold), table=["delta"])
    assert "\n" not in str(caught.value)
    log.write_bytes(whole)
    assert store(str(cold), table=["delta"])["rows"] == 10
    assert Delta().table(cold, queue).num_rows == 20
