"""The programs of docs/spark-recipes.md run as typed, in folders and with addresses of the test."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.log import heads, stored

TEXT = (Path(__file__).parents[2] / "docs/spark-recipes.md").read_text()
PROGRAMS = {re.findall(r"\w+", code)[0]: code for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)}


def run(spark: SparkSession, name: str, folder: Path, **names: Any) -> None:
    """Runs a program until its stream has read all records."""
    exec(PROGRAMS[name].replace("/data", str(folder)), {"spark": spark, **names})  # noqa: S102
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.fixture(scope="module")
def orders(daemon: Daemon) -> None:
    with daemon.client() as client:
        for customer, time, cents in (("anna", "10:00:05", 100), ("ben", "10:00:20", 50), ("anna", "10:00:50", 200),
                                      ("anna", "10:01:10", 7), ("ben", "10:05:00", 1)):
            client.push("orders", {"at": f"2026-01-01T{time}Z", "cents": cents}, partition=customer)


def test_windows(spark: SparkSession, daemon: Daemon, client: Client, orders: None, tmp_path: Path) -> None:
    """The last order is beyond the watermark of the others: their minutes are complete."""
    run(spark, "windows", tmp_path, url=daemon.url)
    assert {key: sorted((one["minute"], one["cents"]) for one in stored(client, "minutes", key))
            for key in heads(client, "minutes")} == {
        "anna": [("2026-01-01T10:00:00.000000Z", 300), ("2026-01-01T10:01:00.000000Z", 7)],
        "ben": [("2026-01-01T10:00:00.000000Z", 50)]}


def test_changed_results(spark: SparkSession, daemon: Daemon, client: Client, orders: None, tmp_path: Path) -> None:
    run(spark, "changed", tmp_path, url=daemon.url)
    client.push("orders", {"at": "2026-01-01T09:00:00Z", "cents": 0}, partition="ben")
    run(spark, "changed", tmp_path, url=daemon.url)
    assert {key: stored(client, "counts", key) for key in heads(client, "counts")} == {
        "anna": [{"count": 3}], "ben": [{"count": 2}, {"count": 3}]}


def test_upserts(spark: SparkSession, daemon: Daemon, client: Client, tmp_path: Path) -> None:
    """An epoch that the checkpoint does not know any more runs again, after a newer state was stored."""
    client.push("states", {"city": "Bern"}, {"city": "Basel"}, partition="anna")
    client.push("states", {"city": "Chur"}, partition="ben")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute(PROGRAMS["upsert"].splitlines()[0].partition(": ")[2])
        run(spark, "upsert", tmp_path, url=daemon.url, database=daemon.conninfo)
        found = connection.execute("SELECT name, state->>'city', position FROM customers ORDER BY name").fetchall()
        assert found == [("anna", "Basel", 1), ("ben", "Chur", 0)]
        connection.execute("UPDATE customers SET state = '{\"city\": \"Genf\"}', position = 9 WHERE name = 'ben'")
        for one in (tmp_path / "states/commits").glob("*0*"):
            one.unlink()
        run(spark, "upsert", tmp_path, url=daemon.url, database=daemon.conninfo)
        found = connection.execute("SELECT name, state->>'city', position FROM customers ORDER BY name").fetchall()
        assert found == [("anna", "Basel", 1), ("ben", "Genf", 9)]


def test_the_merge_is_sql_of_spark(spark: SparkSession) -> None:
    (statement,) = re.findall(r'"""\s*(MERGE.*?)"""', PROGRAMS["merge"], re.S)
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
    assert "MergeIntoTable" in plan.toString()


def test_programs_that_are_not_run_say_so() -> None:
    assert {name for name, code in PROGRAMS.items() if "not run here" not in code.splitlines()[0]} == {
        "windows", "changed", "upsert"}
    for code in PROGRAMS.values():
        compile(code, "recipe", "exec")
