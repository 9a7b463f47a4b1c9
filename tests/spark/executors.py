"""Two executors with speculation: a task hangs in its middle until its copy got as far; then both write. Run as a
program: url, queue, folder, rows. Prints what was read back."""
from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from queend.spark import QueendDataSource

PARTS = 3


def main(url: str, queue: str, folder: str, rows: str) -> None:
    total = int(rows)

    def slow(part: int, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        task = TaskContext.get()
        assert task is not None
        for at, n in enumerate(numbers):
            if part == 1 and at == total // PARTS // 2:
                Path(folder, f"half-{task.attemptNumber()}").touch()
                while not Path(folder, "half-1").exists():
                    time.sleep(0.05)
            yield f"{part}-{n % 5}", str(n)

    settings = {
        "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1",
        "spark.local.dir": f"{folder}/local", "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "100ms",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(QueendDataSource)
    numbers = spark.sparkContext.parallelize(range(total), PARTS).mapPartitionsWithIndex(slow)
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
