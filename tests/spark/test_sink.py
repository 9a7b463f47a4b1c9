"""Frames written into queues, in batches: what is stored, once, in order, and what is said where it cannot be."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.client import Client, data
from support.daemon import Daemon

from queend.spark.letters import Letters
from queend.spark.link import Link
from queend.spark.settings import Options, SinkSettings


def write(frame: DataFrame, daemon: Daemon, **options: object) -> None:
    writer = frame.write.format("queend").mode("append").option("url", daemon.url)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


def stored(client: Client, queue: str, partition: str = "Default") -> list[dict]:
    answer = client.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": partition, "offset": 0}]})
    return answer.json["entries"][0]["records"]


def test_every_column(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    frame = spark.sql(f"""select '{{"n": 1}}' value, '{queue}' queue, 'a' partition, 'k' key, 't-1' transactionId,
                      '{parent}' traceparent, null deliverAt
                          union all select '2', '{queue}', null, 'k', null, null, timestamp '2001-01-01 00:00:00'
                          union all select null, '{queue}', null, null, null, null, null""").coalesce(1)
    write(frame, daemon)
    (one,) = client.pop(queue, "a")
    assert (one["data"], one["transactionId"], one["traceparent"]) == ({"n": 1}, "t-1", parent)
    assert data(client.pop(queue, "k", batch=9)) == [2]
    assert data(client.pop(queue, "Default", batch=9)) == [None]


def test_what_may_be_delivered_later(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    write(spark.sql("select '1' value, current_timestamp() + interval 1 hour deliverAt").coalesce(1), daemon,
          queue=queue)
    assert client.pop(queue) == []
    assert len(stored(client, queue)) == 1


VALUES = {
    "binary": ("encode('{\"a\": 1}', 'utf-8')", {"a": 1}),
    "struct": ("struct(1 as a, 'x\"\\\\\\n' as b, array(1.5D, null, double('NaN')) as c, null as d, true as e)",
               {"a": 1, "b": 'x"\\\n', "c": [1.5, None, None], "d": None, "e": True}),
    "map": ("map('a', 1, 'b', null)", {"a": 1, "b": None}),
    "numbered": ("map(7, struct(array() as x))", {"7": {"x": []}}),
    "array": ("array('x', 'y', null)", ["x", "y", None]),
    "nested": ("struct(map('k', array(struct(date'2020-01-02' as d, 1.20BD as n))) as m, timestamp'2020-01-02 "
               "03:04:05.5' as t, X'00ff' as r)",
               {"m": {"k": [{"d": "2020-01-02", "n": "1.20"}]}, "t": "2020-01-02T03:04:05.500000Z", "r": "AP8="}),
    "none": ("if(rand() < 2, null, struct(1 as a))", None),
}


@pytest.mark.parametrize("value", VALUES)
def test_kinds_of_values(spark: SparkSession, daemon: Daemon, client: Client, queue: str, value: str) -> None:
    text, expected = VALUES[value]
    write(spark.sql(f"select {text} as value"), daemon, queue=queue)
    assert data(client.pop(queue)) == [expected]


@pytest.mark.parametrize("lanes", [1, 3])
def test_order_within_a_key(spark: SparkSession, daemon: Daemon, client: Client, queue: str, lanes: int) -> None:
    """Each Spark partition has keys of its own; small requests, several at a time."""
    rows, keys = 6000, 7
    frame = spark.range(0, rows, 1, 2).select(F.concat(F.spark_partition_id(), F.lit("-"),
                                                       F.col("id") % keys).alias("key"),
                                              F.col("id").cast("string").alias("value"))
    write(frame, daemon, queue=queue, batchRows=250, requestsInFlight=lanes)
    seen: list[int] = []
    for part in range(2):
        for key in range(keys):
            numbers = [one["payload"] for one in stored(client, queue, f"{part}-{key}")]
            assert numbers == sorted(numbers)
            seen += numbers
    assert sorted(seen) == list(range(rows))


def test_a_wave_of_one_key_is_several_requests(spark: SparkSession, daemon: Daemon, client: Client,
                                               queue: str) -> None:
    """With two requests in flight a wave has 20 000 rows. All of one key go to one lane, and a request has 10 000."""
    frame = spark.range(0, 25_000, 1, 1).selectExpr("cast(id as string) value", "'a' key")
    write(frame, daemon, queue=queue, requestsInFlight=2)
    assert client.post("/api/v1/offsets", {"queue": queue}).json["partitions"][0]["highWatermark"] == 25_000
    assert [one["payload"] for one in stored(client, queue, "a")][:9] == list(range(9))


def test_times_in_structs_are_in_utc(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    previous = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        write(spark.sql("select struct(timestamp'2020-01-02 03:04:05.5' as t, array(timestamp'2020-07-02 12:00:00') as "
                        "l) value"), daemon, queue=queue)
    finally:
        spark.conf.set("spark.sql.session.timeZone", previous)
    assert data(client.pop(queue)) == [{"t": "2020-01-01T18:04:05.500000Z", "l": ["2020-07-02T03:00:00.000000Z"]}]


def test_a_job_that_runs_again_stores_nothing_twice(spark: SparkSession, daemon: Daemon, client: Client,
                                                    queue: str) -> None:
    frame = spark.range(0, 5000, 1, 2).select(F.col("id").cast("string").alias("value"))
    for rows in (700, 900):
        write(frame, daemon, queue=queue, queryId="load-1", batchRows=rows)
    assert client.post("/api/v1/offsets", {"queue": queue}).json["partitions"][0]["highWatermark"] == 5000
    write(frame, daemon, queue=queue, queryId="load-2")
    assert client.post("/api/v1/offsets", {"queue": queue}).json["partitions"][0]["highWatermark"] == 10_000


def test_tasks_that_fail_and_run_again(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                       tmp_path: Path) -> None:
    """The source of the rows fails in the middle of each task's first run, when some of them are stored."""
    def fail_once(part: int, rows):  # noqa: ANN001, ANN202
        mark = tmp_path / f"failed-{part}"
        for n, row in enumerate(rows):
            if n == 1500 and not mark.exists():
                mark.touch()
                raise RuntimeError("as if the executor was lost")
            yield row
    numbers = spark.sparkContext.parallelize(range(4000), 2).mapPartitionsWithIndex(fail_once).map(lambda n: (str(n),))
    previous = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        write(spark.createDataFrame(numbers, "value string"), daemon, queue=queue, batchRows=400)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", previous)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["failed-0", "failed-1"]
    found = [one["payload"] for one in stored(client, queue)]
    assert sorted(found) == list(range(4000))


def test_a_refused_row_is_named(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    frame = spark.range(0, 300, 1, 1).selectExpr("if(id = 217, '{bad', cast(id as string)) value",
                                                 "concat('p', id % 3) key")
    bad = "partition 'p1', row 217 of Spark partition 0: .* answered 400: Invalid JSON"
    with pytest.raises(Exception, match=bad) as caught:
        write(frame, daemon, queue=queue, requestsInFlight=2)
    assert f"queue '{queue}'" in str(caught.value)


@pytest.mark.parametrize("where", ["queue", "path"])
def test_refused_rows_go_elsewhere(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path,
                                   where: str) -> None:
    bad = {17, 18, 500, 999}
    frame = spark.range(0, 1000, 1, 1).selectExpr(f"if(id in ({','.join(map(str, bad))}), 'no json ' || id, cast(id as "
                                                  "string)) value", "'a' key")
    options = {"deadLetterQueue": f"{queue}-dead"} if where == "queue" else {"deadLetterPath": tmp_path / "dead"}
    for _ in range(2):    # as a task that runs again
        write(frame, daemon, queue=queue, onError="deadletter", batchRows=600, queryId="q", **options)
    assert [one["payload"] for one in stored(client, queue, "a")] == [n for n in range(1000) if n not in bad]
    if where == "queue":
        letters = [one["payload"] for one in stored(client, f"{queue}-dead", "a")]
    else:
        (file,) = (tmp_path / "dead").glob("*.ndjson")
        letters = [json.loads(line) for line in file.read_text().splitlines()]
    assert {one["row"] for one in letters} == bad and len(letters) == 4
    assert all(one["value"] == f"no json {one['row']}" and one["error"].startswith("Invalid JSON")
               and one["queue"] == queue for one in letters)


def letters(daemon: Daemon, queue: str, folder: Path | None = None) -> Letters:
    """The letters of one run of a task."""
    where = {"deadLetterPath": str(folder)} if folder else {"deadLetterQueue": f"{queue}-dead"}
    said = {"url": daemon.url, "queue": queue, "onError": "deadletter", **where}
    return Letters(SinkSettings.of(Options(said)), "q-0-0")


def refused(queue: str, row: int, id_: str, partition: str = "a") -> dict:
    return {"queue": queue, "partition": partition, "sparkPartition": 0, "row": row, "error": "Invalid JSON",
            "transactionId": id_, "value": f"no json {id_}"}


def test_letters_of_a_task_whose_rows_come_in_another_order(daemon: Daemon, client: Client, queue: str) -> None:
    """After a shuffle, a task that runs again has its rows in another order. The number of a row names another one."""
    for first, second in (("x", "y"), ("y", "x"), ("z", "x")):
        one = letters(daemon, queue)
        with Link(one.settings.link) as link:
            one.add(refused(queue, 0, first), link)
            one.add(refused(queue, 1, second), link)
            one.add(refused(f"{queue}-2", 2, first), link)
    found = [(one["payload"]["queue"], one["payload"]["transactionId"]) for one in stored(client, f"{queue}-dead", "a")]
    assert sorted(found) == sorted((name, one) for one in "xyz" for name in (queue, f"{queue}-2"))


def test_a_letter_that_is_not_stored_is_an_error(daemon: Daemon, client: Client, queue: str) -> None:
    client.configure(f"{queue}-dead", maxSize=1)
    one = letters(daemon, queue)
    with Link(one.settings.link) as link:
        one.add(refused(queue, 0, "x"), link)
        with pytest.raises(RuntimeError, match=f"dead-letter queue '{queue}-dead'.* row 1 of Spark partition 0"):
            one.add(refused(queue, 1, "y"), link)


@pytest.mark.parametrize("partition", ["k" * 300, "a\0b"], ids=["long", "nul"])
def test_a_letter_whose_partition_is_no_name(daemon: Daemon, client: Client, queue: str, partition: str) -> None:
    one = letters(daemon, queue)
    with Link(one.settings.link) as link:
        one.add(refused(queue, 0, "x", partition), link)
    (letter,) = [one["payload"] for one in stored(client, f"{queue}-dead")]
    assert letter["partition"] == partition


def test_copies_of_a_task_write_files_of_their_own(daemon: Daemon, queue: str, tmp_path: Path) -> None:
    """A speculative copy writes while the first one does."""
    copies = [letters(daemon, queue, tmp_path) for _ in range(2)]
    for one in copies:
        one.add(refused(queue, 0, "x"), None)
    opened: list[str] = []
    move = fs.LocalFileSystem.move

    class Slow(fs.LocalFileSystem):
        def move(self, src: str, dest: str) -> None:
            opened.append(src)
            move(self, src, dest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fs, "LocalFileSystem", Slow)
        for one in copies:
            one.close()
    (file,) = tmp_path.iterdir()
    assert file.name == "q-0-0.ndjson" and len(set(opened)) == 2


def test_the_next_daemon_is_asked(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    writer = spark.sql("select '1' value").write.format("queend").mode("append")
    writer.option("url", f"http://127.0.0.1:1,{daemon.url}").option("queue", queue).option("retryMs", 1).save()
    assert data(client.pop(queue)) == [1]


@pytest.mark.parametrize(("columns", "options", "text"), [
    ("'1' x", {}, 'unknown column "x"; the columns of a queue are value, queue'),
    ("1 value", {}, 'column "value" is integer; it must be'),
    ("'1' queue", {}, 'column "value" is missing'),
    ("'1' value", {"queue": ""}, 'no queue is given: set the option "queue"'),
    ("'1' value", {"batchrow": 3}, 'there is no option "batchrow"; did you mean batchRows?'),
    ("'1' value", {"batchRows": 0}, 'option "batchRows" must be an integer from 1 to 10000, not "0"'),
    ("'1' value", {"url": "localhost:1"}, '"localhost:1" is invalid'),
    ("'1' value", {"url": "http://[::1"}, '"http://[::1" is invalid'),
    ("'1' value", {"url": "http://127.0.0.1:port"}, '"http://127.0.0.1:port" is invalid'),
    ("'1' value", {"onError": "deadletter"}, 'onError=deadletter requires the option'),
    ("'1' value", {"url": "http://127.0.0.1:1", "retries": 1, "retryMs": 1}, 'set the option "url" to its address'),
])
def test_what_cannot_be_is_said(spark: SparkSession, daemon: Daemon, queue: str, columns: str, options: dict,
                                text: str) -> None:
    with pytest.raises(Exception) as caught:
        write(spark.sql(f"select {columns}"), daemon, **{"queue": queue, **options})
    assert text in str(caught.value)
