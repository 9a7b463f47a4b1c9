"""Two executors; a task fails in its middle, after it has stored rows, and runs again. Run as a program: url, queue,
folder, rows. Prints what was read back."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

import queend.spark  # noqa: F401 - Spark finds the data source

PARTS = 3


def main(url: str, queue: str, folder: str, rows: str) -> None:
    total = int(rows)

    def made(part: int, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        task = TaskContext.get()
        assert task is not None
        for at, n in enumerate(numbers):
            if part == 1 and at == total // PARTS // 2 and task.attemptNumber() == 0:
                Path(folder, "failed").touch()
                raise RuntimeError("the first attempt ends here")
            yield f"{part}-{n % 5}", str(n)

    settings = {
        "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1",
        "spark.local.dir": f"{folder}/local", "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    numbers = spark.sparkContext.parallelize(range(total), PARTS).mapPartitionsWithIndex(made)
    frame = spark.createDataFrame(numbers, "key string, value string")
    frame.write.format("queend").options(url=url, queue=queue, batchRows="300").mode("append").save()
    reader = spark.read.format("queend").options(url=url, subscribe=queue, minPartitions="4")
    read = reader.schema("partition string, value string, offset long").load()
    found = read.rdd.mapPartitions(lambda rows: [(os.getppid(), [tuple(row) for row in rows])]).collect()
    print(json.dumps({"executors": len({parent for parent, _ in found}), "tasks": len(found),
                      "rows": [row for _, rows in found for row in rows]}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
