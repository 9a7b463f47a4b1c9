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


@pytest.mark.parametrize("headers", ["array(struct('a' as key, encode('b', 'utf-8') as value))", "map('a', 'b')",
                                     "array(struct('a' as key, 'b' as value))"])
def test_headers_are_stored(spark: SparkSession, daemon: Daemon, client: Client, queue: str, headers: str) -> None:
    frame = spark.sql(f"select '1' value, {headers} headers union all select '2', null")
    frame.coalesce(1).write.format("queend").mode("append").options(url=daemon.url, queue=queue).save()
    assert [(one["data"], one.get("headers")) for one in client.pop(queue, batch=9)] == [(1, {"a": "b"}), (2, None)]
    rows = spark.read.format("queend").options(url=daemon.url, queue=queue, includeHeaders="true").load().collect()
    assert [[(one.key, bytes(one.value)) for one in row.headers or []] for row in rows] == [[("a", b"b")], []]


def test_headers_that_are_no_text(spark: SparkSession, daemon: Daemon, queue: str) -> None:
    frame = spark.sql("select '1' value, array(struct('a' as key, X'FF' as value)) headers")
    with pytest.raises(Exception, match="header 'a' has bytes that are no text in UTF-8"):
        frame.write.format("queend").mode("append").options(url=daemon.url, queue=queue).save()
    with pytest.raises(Exception, match='column "headers" is string; it must be array<struct'):
        spark.sql("select '1' value, 'x' headers").write.format("queend").mode("append").options(
            url=daemon.url, queue=queue).save()
