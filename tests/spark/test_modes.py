"""Modes of writing that a queue does not have, and columns that it does not store: the answers say what to do."""
from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.log import heads


@pytest.mark.parametrize(("mode", "text"), [
    ("overwrite", 'a queue cannot be overwritten: use mode("append")'),
    ("errorifexists", 'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"'),
    ("ignore", 'cannot be written in the "Ignore" mode. Please use either the "Append"'),
], ids=["overwrite", "errorifexists", "ignore"])
def test_modes_of_a_batch(spark: SparkSession, daemon: Daemon, client: Client, queue: str, mode: str,
                          text: str) -> None:
    client.push(queue, 1)
    with pytest.raises(Exception) as caught:
        spark.sql("select '2' value").write.format("queend").mode(mode).options(url=daemon.url, queue=queue).save()
    assert text in str(caught.value)
    assert heads(client, queue) == {"Default": 1}


@pytest.mark.parametrize(("mode", "text"), [
    ("update", "queend does not support Update mode"),
    ("complete", 'a queue cannot be overwritten, so there is no outputMode("complete"): use "append", or foreachBatch'),
], ids=["update", "complete"])
def test_modes_of_a_stream(spark: SparkSession, daemon: Daemon, client: Client, queue: str, tmp_path: Path, mode: str,
                           text: str) -> None:
    (tmp_path / "events.json").write_text('{"key": "a"}\n')
    counts = spark.readStream.schema("key string").json(str(tmp_path)).groupBy("key").count().selectExpr(
        "key", "string(count) value")
    writer = counts.writeStream.format("queend").outputMode(mode).trigger(availableNow=True)
    query = writer.options(url=daemon.url, queue=f"{queue}.out", checkpointLocation=f"{tmp_path}/checkpoint").start()
    with pytest.raises(Exception, match=re.escape(text)):
        query.awaitTermination()
    assert heads(client, f"{queue}.out") == {}


def test_headers_are_not_stored(spark: SparkSession, daemon: Daemon, queue: str) -> None:
    frame = spark.sql("select '1' value, array(struct('a' as key, X'00' as value)) headers")
    with pytest.raises(Exception, match='column "headers" cannot be stored: messages have no headers but the trace '
                                        'context, which is the column "traceparent"'):
        frame.write.format("queend").mode("append").options(url=daemon.url, queue=queue).save()
