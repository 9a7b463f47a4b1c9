"""Windows over a queue into another one and into Parquet: each once, also when the stream is killed, or its last epoch
runs again."""
from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.wait import until

from queend.spark.jobs import JobError, aggregate

from jobs import Job

SCHEMA = "customer string, cents long, at long"
SUMS = ("count(*) AS orders", "sum(cents) AS cents")
START = 1_700_000_000 // 3600 * 3600


def quiet(text: str) -> None:
    pass


def events(client: Client, queue: str, *seconds: int, customer: str = "a") -> None:
    client.push_items([{"queue": queue, "partition": customer,
                        "payload": {"customer": customer, "cents": 5, "at": START + one}} for one in seconds])


def results(client: Client, queue: str) -> dict[tuple, tuple]:
    """Windows by key and the seconds of their start and end; none twice."""
    answer = client.post("/api/v1/offsets", {"queue": queue})
    found: dict[tuple, tuple] = {}
    for one in answer.json["partitions"] if answer.status == 200 else ():
        (entry,) = client.post("/api/v1/fetch",
                               {"entries": [{"queue": queue, "partition": one["name"], "offset": 0}]}).json["entries"]
        for record in entry["records"]:
            value = record["payload"]
            name = (one["name"], *(round(Moment(value[side]).seconds) for side in ("start", "end")))
            assert name not in found
            found[name] = (value["orders"], value["cents"])
    return found


class Moment:
    def __init__(self, text: str):
        from datetime import datetime

        self.seconds = datetime.fromisoformat(text).timestamp() - START


def job(spark: SparkSession, daemon: Daemon, queue: str, folder: Path, **more: object) -> partial:
    return partial(aggregate, spark, queue, str(folder / "checkpoint"),
                   **{"schema": SCHEMA, "time": "timestamp_seconds(at)", "watermark": "30 seconds", "by": ("customer",),
                      "select": SUMS,
                                                                       "once": True, "say": quiet, "url": daemon.url,
                                                                           **more})


@pytest.mark.parametrize(("how", "expected"), [
    ({"window": "1 minute"}, {("a", 0, 60): (3, 15), ("b", 60, 120): (1, 5)}),
    ({"window": "2 minutes", "slide": "1 minute"}, {("a", -60, 60): (3, 15), ("a", 0, 120): (3, 15),
                                                    ("b", 0, 120): (1, 5), ("b", 60, 180): (1, 5)}),
    ({"session": "20 seconds"}, {("a", 0, 35): (2, 10), ("a", 50, 70): (1, 5), ("b", 90, 110): (1, 5)}),
], ids=["tumbling", "sliding", "session"])
def test_windows(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path, how: dict,
                 expected: dict) -> None:
    run = job(spark, daemon, queue, tmp_path, to=f"{queue}.out", **how)
    events(client, queue, 0, 15, 50)
    events(client, queue, 90, customer="b")
    client.push(queue, {"customer": "c"}, partition="c")    # without a time
    said = run()
    assert (said["rows"], said["untimed"], said["partitions"]) == (5, 1, 3)
    events(client, queue, 3600, customer="end")    # the watermark passes all of them
    assert run()["rows"] == 1
    events(client, queue, 10)    # too late
    assert run()["late"] > 0
    assert {name: value for name, value in results(client, f"{queue}.out").items() if name[0] != "end"} == expected

    # the last epoch once more: nothing is stored twice
    commits = tmp_path / "checkpoint/stream/commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    for one in commits.glob(f"*{last}*"):
        one.unlink()
    before = results(client, f"{queue}.out")
    run()
    assert results(client, f"{queue}.out") == before


def test_a_table(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    run = job(spark, daemon, queue, tmp_path, table=str(tmp_path / "table"), window="1 minute", group="totals")
    events(client, queue, 0, 15, 70)
    run()
    events(client, queue, 3600)
    run()
    found = spark.read.parquet(str(tmp_path / "table"))
    assert found.columns == ["start", "end", "customer", "orders", "cents"]
    assert sorted((row.customer, row.orders, row.cents) for row in found.collect()) == [("a", 1, 5), ("a", 2, 10)]


@pytest.mark.parametrize(("given", "text"), [
    ({"to": None}, "give one target for the result"), ({"session": "5 minutes"}, "give one kind of window"),
    ({"window": None, "session": "1 minute", "slide": "1 minute"}, "cannot slide"),
    ({"time": "at"}, 'the time "at" is bigint; expected a timestamp'), ({"window": "five"}, "five"),
    ({"schema": "customer strin"}, "strin"),
    ({"select": ("sum(euros)",)}, "with name `euros` cannot be resolved"),
], ids=["place", "kinds", "slide", "time", "window", "schema", "column"])
def test_what_cannot_be_is_said(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path,
                                given: dict, text: str) -> None:
    client.push(queue, 1)
    with pytest.raises(JobError) as caught:
        job(spark, daemon, queue, tmp_path, **{"to": "out", "window": "1 minute", **given})()
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_a_checkpoint_is_of_one_question(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                         tmp_path: Path) -> None:
    client.push(queue, {"at": START})
    job(spark, daemon, queue, tmp_path, to="out", window="1 minute")()
    with pytest.raises(JobError, match="is the checkpoint of another job: window differ"):
        job(spark, daemon, queue, tmp_path, to="out", window="2 minutes")()


def test_killed_while_it_runs(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path) -> None:
    """The command, without --once: it runs until it is killed; another run goes on where it was."""
    minutes, each = 30, 40
    for minute in range(minutes):
        events(client, queue, *(minute * 60 + n for n in range(each)), customer=f"c{minute % 3}")
    out = f"{queue}.out"
    words = ["aggregate", queue, str(tmp_path / "checkpoint"), "--to", out, "--schema", SCHEMA, "--time",
             "timestamp_seconds(at)", "--watermark", "30s", "--window", "1m",
             "--by", "customer", "--select", SUMS[0], "--select", SUMS[1], "--most", "240", "--url", daemon.url]
    with Job(tmp_path / "run", *words) as run:
        until(lambda: run.over() or results(client, out), "windows are told", 300)
        assert not run.over(), run.err.read_text()
    events(client, queue, 7200, customer="end")
    job(spark, daemon, queue, tmp_path, to=out, window="1 minute")()
    counted: Counter = Counter()
    for (_, start, _), (orders, _) in results(client, out).items():
        counted[start // 60] += orders
    assert counted == {minute: each for minute in range(minutes)}
