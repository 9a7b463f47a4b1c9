"""One session of Spark for the whole folder: it takes ten seconds to start."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyspark
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import PACKAGE, Daemon

from queend.spark.jobs.backfill import JAR

TESTS = Path(__file__).parents[1]
FOUND = PACKAGE / "queend/spark/found"    # Spark finds the data source there; in a wheel, beside queend


def pytest_report_header() -> str:
    """Names the version of PySpark: `make test-spark-tutorials` runs the tests on several."""
    return f"pyspark: {pyspark.__version__}"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
                      PYTHONPATH=os.pathsep.join([str(PACKAGE), str(FOUND), str(TESTS)]))
    settings = {
        "spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2", "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse", "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC", "spark.jars": JAR,
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
    }
    builder = SparkSession.builder.master("local[2, 3]").appName("queend-tests")    # a task may fail twice
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()


@pytest.fixture
def exchange(daemon: Daemon, client: Client, queue: str) -> Callable[..., None]:
    """Takes a partition away and makes it again with these records."""

    def exchanged(partition: str, *records: int) -> None:
        with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
            (number,) = connection.execute("""SELECT p.id FROM queend.partitions p JOIN queend.queues q
                     ON q.id = p.queue_id WHERE q.name = %s AND p.name = %s""", (queue, partition)).fetchone()
            connection.execute("DELETE FROM queend.log WHERE partition_id = %s", (number,))
            (removed,) = connection.execute(
                "SELECT removed FROM queend.partitions_clean(%s, 1, queend.now_us() + 1000)", (number - 1,)).fetchone()
            assert removed == 1
        client.push(queue, *records, partition=partition)
    return exchanged
