"""docs/spark.md: the commands of the jobs run as they are printed, in a folder of their own; and without Spark they
say what is missing."""
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import PACKAGE, Daemon
from support.postgres import running

from queend.cli import app

COMMANDS = re.findall(r"^queend (spark (?!lag ).*)$", (Path(__file__).parents[2] / "docs/spark.md").read_text(),
                      re.MULTILINE)    # lag needs no session: test_lag.py
BARE = "import sys; sys.modules['pyspark'] = None; from queend.cli import main; main()"


@pytest.fixture(scope="module")
def shop():  # noqa: ANN201
    with running(tcp=True) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        with psycopg.connect(server.dsn(dbname="shop"), autocommit=True) as connection:
            connection.execute("CREATE TABLE customers AS SELECT n AS id, 'c' || n AS name FROM generate_series(1, "
                               "20) AS n")
        yield server


def test_the_commands_run(spark: SparkSession, daemon: Daemon, client: Client, shop, tmp_path: Path,
                          capfd: pytest.CaptureFixture[str]) -> None:  # noqa: ANN001
    """In this process, whose session they take."""
    client.push_items([{"queue": "orders", "partition": f"customer-{n % 9}",
                        "payload": {"id": n, "cents": 5 * n}} for n in range(90)])
    assert len(COMMANDS) == 9
    said: dict[str, list[int]] = {}
    for command in COMMANDS:
        words = shlex.split(command.replace("/data/", f"{tmp_path}/").replace("127.0.0.1:5432",
                                                                              f"127.0.0.1:{shop.port}"))
        capfd.readouterr()
        assert app([*words, "--url", daemon.url, "--master", "local[2]"],
                   standalone_mode=False) == 0, (command, capfd.readouterr().err)
        out, err = capfd.readouterr()
        done = json.loads(out)
        said.setdefault(done["job"], []).append(done["rows"])
    assert said == {"archive": [90, 0], "read": [10], "replay": [90, 100], "dlq": [0], "dlq redrive": [0],
                    "aggregate": [90], "backfill": [20]}
    assert len(list(tmp_path.glob("customer-7/*.json"))) == 1


@pytest.mark.parametrize("job", ["archive", "read", "replay", "dlq", "aggregate", "backfill", "lag"])
def test_without_spark(job: str) -> None:
    run = subprocess.run([sys.executable, "-c", BARE, "spark", job, *(("x",) * 3)],
                         env={**os.environ, "PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr == ("queend: the Spark jobs need pyspark: install queend with its extra `spark` "
                          "(docs/install.md)\n")
