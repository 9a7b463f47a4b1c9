"""Archives and queries into queues: in order per key, once, whatever ends a run."""
from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.log import stored
from support.wait import until

from queend.spark.jobs import JobError, archive, replay

from jobs import Job


def quiet(text: str) -> None:
    pass


def total(client: Client, queue: str) -> int:
    answer = client.post("/api/v1/offsets", {"queue": queue})
    return sum(one["highWatermark"] for one in answer.json["partitions"]) if answer.status == 200 else 0


def test_an_archive_with_filters(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                 tmp_path: Path) -> None:
    client.push_items([{"queue": queue, "partition": f"k{n % 3}", "payload": {"n": n, "kind": n % 2},
                        "transactionId": f"t-{n}"} for n in range(60)])
    archive(spark, queue, str(tmp_path / "cold"), say=quiet, url=daemon.url)
    client.push(queue, {"n": 60, "kind": 0}, partition="k0")
    out = f"{queue}.out"
    again = partial(replay, spark, out, "job-1", archive=str(tmp_path / "cold"), queue=queue, say=quiet, url=daemon.url)
    odd = again(where="get_json_object(value, '$.kind') = '1'")
    assert (odd["rows"], odd["offsets"]) == (30, {"from": 0, "to": 30})
    assert again(where="get_json_object(value, '$.kind') = '1'")["offsets"] == {"from": 30, "to": 30}
    for key in range(3):
        assert [one["n"] for one in stored(client, out, f"k{key}")] == [n for n in range(key, 60, 3) if n % 2]
    # by another key the records are in the order in which they were stored; the ids are still theirs
    other = partial(replay, spark, f"{queue}.kinds", "job-2", archive=str(tmp_path / "cold"), queue=queue,
                    key="get_json_object(value, '$.kind')", hot=True, say=quiet, url=daemon.url)
    assert other()["rows"] == 61
    assert other(keep_ids=True)["rows"] == 61
    kinds = [[one["n"] for one in stored(client, f"{queue}.kinds", kind)] for kind in "01"]
    assert sorted(kinds[0][:31]) == list(range(0, 61, 2)) and sorted(kinds[1][:30]) == list(range(1, 60, 2))
    (entry,) = client.post("/api/v1/fetch",
                           {"entries": [{"queue": f"{queue}.kinds", "partition": "1", "offset": 30}]}).json["entries"]
    assert {one["transactionId"] for one in entry["records"]} == {f"t-{n}" for n in range(1, 60, 2)}


def test_any_query(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    """Rows that are alike in everything are as many as they are; ties and partitions that come otherwise the second
    time change nothing."""
    query = ("SELECT concat('k', id % 4) AS key, struct(id DIV 8 AS n) AS value, id DIV 40 AS at "
             "FROM range(0, 400, 1, {parts})")
    for parts in (3, 5):
        done = replay(spark, queue, "job", sql=query.format(parts=parts), order=("at",), tasks=parts, say=quiet,
                      url=daemon.url)
        assert (done["rows"], done["offsets"]["to"]) == (400, 400)
    for key in range(4):
        numbers = [one["n"] for one in stored(client, queue, f"k{key}")]
        assert sorted(numbers) == [n // 8 for n in range(key, 400, 4)]
        assert [n // 5 for n in numbers] == sorted(n // 5 for n in numbers)


@pytest.mark.parametrize(("given", "text"), [
    ({}, "nothing to replay: give an archive or a query"),
    ({"archive": "x"}, "the archive may have several queues: name one"),
    ({"sql": "SELEC 1"}, "Syntax error at or near 'SELEC'"),
    ({"sql": "SELECT 1 AS x"},
     "A column, variable, or function parameter with name `value` cannot be resolved. Did you mean one of the "
     "following? [`x`]."),
    ({"sql": "SELECT 1 AS value"}, '"value" is integer; expected JSON text'),
    ({"sql": "SELECT '1' AS value", "keep_ids": True}, 'has no column "transactionId" to keep'),
    ({"sql": "SELECT '{bad' AS value"}, "answered 400: Invalid JSON"),
    ({"sql": "SELECT * FROM parquet.`/nowhere/at/all`"}, "Path does not exist"),
], ids=["nothing", "which", "syntax", "column", "type", "ids", "json", "path"])
def test_what_cannot_be_is_said(spark: SparkSession, daemon: Daemon, queue: str, given: dict, text: str) -> None:
    with pytest.raises(JobError) as caught:
        replay(spark, queue, "job", say=quiet, url=daemon.url, **given)
    assert text in str(caught.value) and "\n" not in str(caught.value) and "SQLSTATE" not in str(caught.value)


def test_killed_and_run_again(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    rows, keys = 60_000, 7
    spark.range(0, rows, 1, 3).selectExpr("concat('k', id % 7) key", "cast(id as string) value",
                                          "id at").write.parquet(str(tmp_path / "rows"))
    query = f"SELECT * FROM parquet.`{tmp_path / 'rows'}`"
    with Job(tmp_path / "run", "replay", queue, "--job", "load", "--sql", query, "--order", "at", "--tasks", "3",
             "--url", daemon.url) as run:
        until(lambda: run.over() or total(client, queue) > 0, "rows arrive", 300)
        run.kill()
        assert not run.out.read_text()
    done = replay(spark, queue, "load", sql=query, order=("at",), tasks=5, say=quiet, url=daemon.url)
    assert done["rows"] == rows and done["partitions"] == keys
    for key in range(keys):
        assert stored(client, queue, f"k{key}") == list(range(key, rows, keys))
