"""docs/spark.md: the quick start runs, and the tables name every option and column."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon

from queend.spark.records import KINDS
from queend.spark.settings import LINK, SINK, SOURCE
from queend.spark.shape import COLUMNS

TEXT = (Path(__file__).parents[2] / "docs/spark.md").read_text()


def test_the_quick_start_runs(spark: SparkSession, daemon: Daemon, client: Client,
                              capfd: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code
    names: dict = {}
    exec(code[1].replace("http://127.0.0.1:6632", daemon.url), names)  # noqa: S102
    totals = {row.partition: row[1] for row in names["totals"].collect()}
    assert totals == {f"customer-{n}": sum(range(n, 1000, 10)) * 5 for n in range(10)}


def test_every_option_and_column_is_told() -> None:
    told = set(re.findall(r"`([a-zA-Z]+)`", TEXT))
    assert set(LINK) | set(SINK) | set(SOURCE) | set(COLUMNS) | set(KINDS) <= told
