"""Dead letters counted, and brought back by a predicate."""
from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support.client import Client, data
from support.daemon import Daemon

from queend.spark.jobs import JobError, report, revive


def quiet(text: str) -> None:
    pass


@pytest.fixture
def dead(client: Client, queue: str) -> str:
    """A queue with six dead letters of one group and one of another."""
    client.push_items([{"queue": queue, "partition": f"p{n % 2}", "payload": {"n": n}} for n in range(8)])
    for group, bad in (("billing", (0, 1, 2, 3, 6, 7)), ("shipping", (3,))):
        while some := client.pop(queue, batch=4, consumerGroup=group):
            for one in some:
                n = one["data"]["n"]
                client.ack(one, "dlq" if n in bad else "completed", group, lease=False,
                           **({"error": "timeout" if n % 3 else "bad address"} if n in bad else {}))
    return queue


def test_a_report(spark: SparkSession, daemon: Daemon, dead: str) -> None:
    said = report(spark, dead, say=quiet, url=daemon.url)
    assert (said["rows"], said["partitions"]) == (7, 2)
    counts = {(one["group"], one["error"]): (one["count"], one["hour"]) for one in said["counts"]}
    assert counts == {("billing", "timeout"): (3, 3), ("billing", "bad address"): (3, 3),
                      ("shipping", "bad address"): (1, 1)}
    assert all(0 <= one["newest"] <= one["oldest"] < 3600 for one in said["counts"])
    assert report(spark, dead, "shipping", say=quiet, url=daemon.url)["rows"] == 1
    assert report(spark, dead, where="error like '%time%'", say=quiet, url=daemon.url)["rows"] == 3
    assert report(spark, f"{dead}.none", say=quiet, url=daemon.url)["counts"] == []


def test_those_a_predicate_finds(spark: SparkSession, daemon: Daemon, client: Client, dead: str) -> None:
    wanted = "error = 'timeout' and cast(get_json_object(value, '$.n') as int) > 1"
    assert revive(spark, wanted, dead, dry=True, say=quiet, url=daemon.url)["rows"] == 2
    assert report(spark, dead, say=quiet, url=daemon.url)["rows"] == 7
    said = revive(spark, wanted, dead, say=quiet, url=daemon.url)
    assert (said["rows"], said["redriven"]) == (2, 2)
    assert report(spark, dead, say=quiet, url=daemon.url)["rows"] == 5
    assert revive(spark, wanted, dead, say=quiet, url=daemon.url)["redriven"] == 0
    came = [one for _ in range(2) for one in data(client.pop(dead, batch=9, consumerGroup="billing"))]
    assert sorted(one["n"] for one in came) == [2, 7]
    assert client.pop(dead, consumerGroup="shipping") == []
    assert revive(spark, "`group` = 'shipping'", dead, to=f"{dead}.again", say=quiet, url=daemon.url)["redriven"] == 1
    assert data(client.pop(f"{dead}.again", batch=9)) == [{"n": 3}]
    with pytest.raises(JobError, match="with name `eror` cannot be resolved"):
        revive(spark, "eror = 'x'", dead, say=quiet, url=daemon.url)


def test_more_than_a_page(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, *range(2300))
    while some := client.pop(queue, batch=1000):
        client.ack_batch([{"transactionId": one["transactionId"], "partitionId": one["partitionId"], "status": "dlq",
                           "error": "x"} for one in some])
    assert report(spark, queue, say=quiet, url=daemon.url)["rows"] == 2300
    assert revive(spark, "true", queue, say=quiet, url=daemon.url)["redriven"] == 2300 and client.dead(queue) == 0
    got: list = []
    while some := client.pop(queue, batch=1000, autoAck=True):
        got += data(some)
    assert got == list(range(2300))
