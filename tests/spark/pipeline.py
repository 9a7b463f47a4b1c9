"""A stream from one queue to another that does not end, run as a program so that it can be killed: url, source, target,
checkpoint, rows of a trigger."""
from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import queend.spark  # noqa: F401 - Spark finds the data source


def main(url: str, source: str, target: str, checkpoint: str, rows: str) -> None:
    spark = (SparkSession.builder.master("local[2, 4]").config("spark.ui.enabled", "false")
             .config("spark.driver.memory", "1g")
             .config("spark.driver.host", "127.0.0.1").config("spark.local.dir", f"{checkpoint}.local").getOrCreate())
    frame = spark.readStream.format("queend").options(url=url, subscribe=source, startingOffsets="earliest",
                                                      maxOffsetsPerTrigger=rows, minPartitions="2")
    query = (frame.schema("key string, value string").load().writeStream.format("queend")
             .options(url=url, queue=target, batchRows="500",
                      checkpointLocation=checkpoint).trigger(processingTime="0 seconds").start())
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
