"""A table over JDBC into a queue: each row once by its key, in order where one is asked for, also when the job is
killed."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.log import stored
from support.postgres import Postgres, running
from support.wait import until

from queend.spark.jobs import JobError, backfill

from jobs import Job

ROWS = 40_000


def quiet(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def shop() -> Iterator[Postgres]:
    """A server with a table, by TCP: JDBC knows no sockets in folders."""
    with running(tcp=True) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE TABLE orders AS SELECT n AS id, 'c' || n % 5 AS customer, n * 3 AS cents, "
                               f"date '2026-01-01' + n % 90 AS day FROM generate_series(1, {ROWS}) AS n")
            connection.execute("CREATE VIEW few AS SELECT * FROM orders WHERE id <= 200")
            connection.execute("CREATE TABLE nothing (id int)")
        yield server


def jdbc(shop: Postgres) -> str:
    return f"jdbc:postgresql://127.0.0.1:{shop.port}/postgres"


def test_a_table(spark: SparkSession, shop: Postgres, daemon: Daemon, client: Client, queue: str) -> None:
    for parts in (4, 3):
        said = backfill(spark, jdbc(shop), "few", queue, "j", id=("id",), key="customer", order=("id",), parts=parts,
                        user="postgres", say=quiet, url=daemon.url)
        assert (said["rows"], said["partitions"], said["offsets"]["to"], said["table"]) == (200, 5, 200, "few")
    for n in range(5):
        found = stored(client, queue, f"c{n}")
        assert [one["id"] for one in found] == [one for one in range(1, 201) if one % 5 == n]
        assert found[0].keys() == {"id", "customer", "cents", "day"}
    said = backfill(spark, jdbc(shop), "(SELECT id, day FROM few) AS days", f"{queue}.days", "j", id=("id",),
                    value="named_struct('n', id)", where="id % 2 = 0", split="day", parts=4,
                    user="postgres", say=quiet, url=daemon.url)
    assert said["rows"] == 100 and sorted(one["n"] for one in stored(client, f"{queue}.days")) == list(range(2, 201, 2))
    assert backfill(spark, jdbc(shop), "nothing", queue, "j", id=("id",), user="postgres", say=quiet,
                    url=daemon.url)["rows"] == 0


@pytest.mark.parametrize(("given", "text"), [
    ({"table": "orders_"}, 'relation "orders_" does not exist'),
    ({"id": ("nr",)}, 'the table has no column "nr"; its columns are id, customer, cents, day'),
    ({"id": ()}, "name the columns of the primary key"),
    ({"jdbc": "jdbc:postgresql://127.0.0.1:1/x"}, "Connection refused"),
    ({"driver": "org.example.Driver"}, "the JDBC driver org.example.Driver was not found"),
    ({"where": "pric > 1"}, "with name `pric` cannot be resolved"),
    ({"user": "keeper"}, "password"), ({"split": "customer"}, 'the column "customer" is string: only numbers, dates '
                                                              'and times can be split'),
    ({"split": "x"}, 'no column "x"'),
], ids=["table", "column", "key", "server", "driver", "where", "user", "split", "nothing"])
def test_what_cannot_be_is_said(spark: SparkSession, shop: Postgres, daemon: Daemon, queue: str, given: dict,
                                text: str) -> None:
    wanted = {"jdbc": jdbc(shop), "table": "orders", "to": queue, "job": "j", "id": ("id",), "user": "postgres",
              "parts": 2, "say": quiet, "url": daemon.url, **given}
    with pytest.raises(JobError) as caught:
        backfill(spark, **wanted)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_killed_and_run_again(spark: SparkSession, shop: Postgres, daemon: Daemon, client: Client, queue: str,
                              tmp_path: Path) -> None:
    """The command finds Debian's driver by itself. A row that comes meanwhile is taken by the second run."""
    def total() -> int:
        answer = client.post("/api/v1/offsets", {"queue": queue})
        return sum(one["highWatermark"] for one in answer.json["partitions"]) if answer.status == 200 else 0
    words = ["backfill", jdbc(shop), "orders", queue, "--job", "load", "--id", "id", "--key", "customer", "--order",
             "id", "--user", "postgres", "--parts", "4", "--url", daemon.url]
    with Job(tmp_path / "run", *words) as run:
        until(lambda: run.over() or total() > 0, "rows arrive", 300)
        run.kill()
    with psycopg.connect(shop.dsn(), autocommit=True) as connection:
        connection.execute("INSERT INTO orders VALUES (%s, 'c0', 1, '2026-05-01')", (ROWS + 1,))
        connection.execute("UPDATE orders SET cents = 0 WHERE id = 5")
    said = backfill(spark, jdbc(shop), "orders", queue, "load", id=("id",), key="customer", order=("id",), parts=3,
                    user="postgres", say=quiet, url=daemon.url)
    assert said["rows"] == ROWS + 1 and total() == ROWS + 1
    for n in range(5):
        assert [one["id"] for one in stored(client, queue, f"c{n}")] == [
            one for one in range(1, ROWS + 1) if one % 5 == n] + ([ROWS + 1] if n == 0 else [])
