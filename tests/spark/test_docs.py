"""docs/spark.md: the quick start runs, and the tables name every option and column."""
from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.log import stored

from queend.spark.compat import VERSION
from queend.spark.records import KINDS
from queend.spark.settings import LINK, SINK, SOURCE
from queend.spark.shape import COLUMNS

TEXT = (Path(__file__).parents[2] / "docs/spark.md").read_text()


def test_the_quick_start_runs(daemon: Daemon, tmp_path: Path) -> None:
    """As typed, in a Spark of its own. No environment is activated and no variable names an interpreter."""
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-c", code[1].replace("http://127.0.0.1:6632", daemon.url)], cwd=tmp_path,
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    totals = dict(re.findall(r"\| *(customer-\d) *\| *([0-9.]+) *\|", done.stdout))
    assert {name: float(total) for name, total in totals.items()} == {
        f"customer-{n}": sum(range(n, 1000, 10)) * 5 for n in range(10)}


def test_the_example_runs(spark: SparkSession, daemon: Daemon, monkeypatch: pytest.MonkeyPatch,
                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("QUEEND_URL", daemon.url)
    monkeypatch.setattr("sys.argv", ["spark_orders.py"])
    runpy.run_path(str(Path(__file__).parents[2] / "examples/spark_orders.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        f"customer-{n}: {sum(range(n, 1000, 10)) * 5} cents" for n in range(10)]


def test_the_demo_counts_every_event_once(tmp_path: Path) -> None:
    """In a Spark of its own, as `make demo-spark` runs it."""
    example = Path(__file__).parents[2] / "examples/spark_demo.py"
    done = subprocess.run([sys.executable, example], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "all 20000 events counted once" in done.stdout, done
    assert (tmp_path / "spark-demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_step_of_the_tutorial_runs(spark: SparkSession, daemon: Daemon, client: Client,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```", (Path(__file__).parents[2] / "docs/tutorial.md").read_text(),
                         re.M | re.S)
    client.push("tutorial", {"order": 1, "cents": 500}, partition="anna")
    exec(code.replace("http://localhost:6632", daemon.url).replace('"orders"', '"tutorial"'), {})  # noqa: S102
    assert re.search(r"\|\s*anna\|\s*500\|", capsys.readouterr().out)


@pytest.mark.skipif(VERSION == "4.0", reason="PySpark 4.0 asks for all columns (docs/spark.md, Versions of Spark)")
def test_the_sql_runs(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, {"n": 5}, partition="customer-7")
    client.push(queue, {"n": 6}, partition="customer-8")
    code, inserts = (block.replace("http://127.0.0.1:6632", daemon.url).replace("'orders'", f"'{queue}'").strip()
                     for block in re.findall(r"^```sql\n(.*?)^```", TEXT, re.M | re.S))
    try:
        *_, counted = [spark.sql(statement) for statement in code.removesuffix(";").split(";")]
        assert [tuple(row) for row in counted.collect()] == [(1,)]
        for statement in inserts.removesuffix(";").split(";"):
            spark.sql(statement)
        assert [one["data"] for one in client.pop(queue, "customer-7", batch=10)] == [{"n": 5}, {"cents": 500}]
        assert [one["data"] for one in client.pop(queue, "customer-8", batch=10)] == [{"n": 6}, {"cents": 1}]
        rows = spark.sql("SELECT get_json_object(string(value), '$.n'), partition FROM events").collect()
        assert sorted(map(tuple, rows), key=str) == [("5", "customer-7"), ("6", "customer-8"), (None, "customer-7"),
                                                     (None, "customer-8")]
    finally:
        spark.sql("DROP TABLE IF EXISTS orders_in")
        spark.catalog.dropTempView("events")


def test_a_table_is_copied_into_another(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    """Names and types of both are equal, so Spark gives the writer the columns of the table that is read."""
    client.push(queue, 1, 2, partition="k")
    try:
        spark.sql(f"CREATE TABLE copied USING queend OPTIONS (url '{daemon.url}', subscribe '{queue}')")
        spark.sql(f"CREATE TABLE copies USING queend OPTIONS (url '{daemon.url}', queue '{queue}-copies')")
        spark.sql("INSERT INTO copies SELECT * FROM copied")
        assert stored(client, f"{queue}-copies", "k") == stored(client, queue, "k") == [1, 2]
    finally:
        for name in ("copied", "copies"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_several_sinks_of_one_stream(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                     tmp_path: Path) -> None:
    client.push(queue, {"n": 1}, {"n": 2}, partition="a")
    (code,) = re.findall(r"^```python\n(def both.*?)^```", TEXT, re.M | re.S)
    code = code.replace("/data", str(tmp_path)).replace('"totals"', f'"{queue}-totals"')
    stream = spark.readStream.format("queend").options(
        url=daemon.url, subscribe=queue, startingOffsets="earliest").load().select("partition", "value")
    exec(code, {"stream": stream, "url": daemon.url})  # noqa: S102
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    stored = [one["data"] for one in client.pop(f"{queue}-totals", batch=10)]
    assert sorted(one["n"] for one in stored) == [1, 2]
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 2


def test_the_other_output_modes(spark: SparkSession, daemon: Daemon, client: Client, queue: str,
                                tmp_path: Path) -> None:
    """`update` stores rows that changed, `complete` all rows, each once."""
    (code,) = re.findall(r"^```python\n(def changed.*?)^```", TEXT, re.M | re.S)
    expected = {"update": [("a", 2), ("b", 1), ("b", 2)], "complete": [("a", 2), ("a", 2), ("b", 1), ("b", 2)]}
    for mode in expected:
        events = tmp_path / f"{mode}-events"
        events.mkdir()
        (events / "1.json").write_text('{"key": "a"}\n{"key": "a"}\n{"key": "b"}\n')
        totals = spark.readStream.schema("key string").json(str(events)).groupBy("key").count().selectExpr(
            "key", "string(count) value")
        own = code.replace("/data", str(tmp_path / mode)).replace('"totals"', f'"{queue}-{mode}"')
        exec(own.replace('"update"', f'"{mode}"'), {"totals": totals, "url": daemon.url})  # noqa: S102
        (query,) = spark.streams.active
        try:
            query.processAllAvailable()
            (events / "2.json").write_text('{"key": "b"}\n')
            query.processAllAvailable()
        finally:
            query.stop()
    for mode, rows in expected.items():
        found = [(name, one["data"]) for name in "ab" for one in client.pop(f"{queue}-{mode}", name, batch=10)]
        assert sorted(found) == rows


def test_every_option_and_column_is_told() -> None:
    told = set(re.findall(r"`([a-zA-Z]+)`", TEXT))
    assert set(LINK) | set(SINK) | set(SOURCE) | set(COLUMNS) | set(KINDS) <= told
