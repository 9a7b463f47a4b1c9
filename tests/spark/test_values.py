"""Values that are bytes or text, not JSON: what is stored, and what comes back."""
from __future__ import annotations

import base64
import json
import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from support.client import Client
from support.daemon import Daemon
from support.log import stored

from queend.spark.settings import OptionError
from queend.spark.values import read, written

BYTES = [b"", b"\0", b"\0\0a", b"\xff\xfe\x80", "käse".encode(), b'"\\', bytes(range(256)), b"x" * 1000, None]
TEXTS = ["", "\0", 'a"b\\c', "käse 🧀", "\n\t\x1f\x7f", "null", "\\u0041", '"', "x" * 1000, None]


def test_bytes_and_their_json() -> None:
    dice = random.Random(29)
    values = [*BYTES, *(dice.randbytes(n) for n in range(300))]
    json_texts = written(pa.array(values, pa.binary()), "base64")
    assert [None if one is None else json.loads(one) for one in json_texts.to_pylist()] == [
        None if one is None else base64.b64encode(one).decode() for one in values]
    assert read(json_texts.fill_null("null"), "base64", str).to_pylist() == values
    assert written(pa.array(["käse"]), "base64").to_pylist() == [json.dumps(base64.b64encode("käse".encode()).decode())]


def test_texts_and_their_json() -> None:
    json_texts = written(pa.array(TEXTS), "text")
    assert [None if one is None else json.loads(one) for one in json_texts.to_pylist()] == TEXTS
    assert written(pa.array([one and one.encode() for one in TEXTS], pa.binary()), "text") == json_texts
    found = read(json_texts.fill_null("null"), "text", str).to_pylist()
    assert found == [None if one is None else one.encode() for one in TEXTS]
    assert written(pa.nulls(3), "text").null_count == written(pa.nulls(3), "base64").null_count == 3


def test_json_of_other_programs() -> None:
    texts = pa.array([json.dumps("käse"), r'"\ud83e\uddc0\/\u0000"', ' "spaced" ', "null", '"YWI="', '"\\ud800"'])
    assert [None if one is None else one.decode() for one in read(texts, "text", str).to_pylist()] == [
        "käse", "🧀/\0", "spaced", None, "YWI=", "?"]
    assert read(pa.array(['"YWI\\u003d"']), "base64", str).to_pylist() == [b"ab"]


NO_BASE64 = ["no base64", "YQ", "YQ==\\n", "YQ==YQ==", "YW-_", "=", "käse"]


@pytest.mark.parametrize(("form", "text"), [("text", "7"), ("text", '{"a": 1}'), ("base64", '["YQ=="]'),
                                            ("base64", "true"), *(("base64", f'"{one}"') for one in NO_BASE64)])
def test_a_value_of_another_form_is_named(form: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(pa.array(['"YQ=="', None, text]), form, "row {}".format)
    what = "a JSON string of base64" if form == "base64" else "a JSON string"
    assert str(caught.value) == f'option "valueFormat" is {form}, but the value of row 2 is not {what}'


@pytest.mark.parametrize("form", ["base64", "text"])
def test_a_round_trip(spark: SparkSession, daemon: Daemon, client: Client, queue: str, form: str) -> None:
    values = BYTES if form == "base64" else TEXTS
    frame = spark.createDataFrame([(one, n) for n, one in enumerate(values)],
                                  f"value {'binary' if form == 'base64' else 'string'}, key int")
    frame.write.format("queend").options(url=daemon.url, queue=queue, valueFormat=form).mode("append").save()
    (said,) = stored(client, queue, "1")
    assert said == ("AA==" if form == "base64" else "\0")
    reader = spark.read.format("queend").options(url=daemon.url, subscribe=queue, valueFormat=form)
    found = {int(row.partition): row.value for row in reader.load().select("partition", "value").collect()}
    raw = [one.encode() if isinstance(one, str) else one for one in values]
    assert [found[n] for n in range(len(values))] == raw
    if form == "text":
        texts = {int(row.partition): row.value for row in reader.schema("value string, partition string").load()
                 .collect()}
        assert [texts[n] for n in range(len(values))] == values


def test_what_cannot_be_is_said(spark: SparkSession, daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, "YQ==", {"n": 1}, partition="a")
    reader = spark.read.format("queend").options(url=daemon.url, subscribe=queue, valueFormat="base64")
    where = f"the value of queue '{queue}', partition 'a', offset 1 is not a JSON string of base64"
    with pytest.raises(Exception, match=where):
        reader.schema("value binary").load().collect()
    with pytest.raises(Exception, match='column "value" is binary with valueFormat=base64, not string'):
        reader.schema("value string").load().collect()
    writer = spark.sql("select struct(1 as a) value").write.format("queend").mode("append").options(
        url=daemon.url, queue=queue)
    with pytest.raises(Exception, match='column "value" is struct; with valueFormat=text it must be binary or'):
        writer.option("valueFormat", "text").save()
    broken = spark.sql("select X'61ff' value").write.format("queend").mode("append").options(
        url=daemon.url, queue=queue, valueFormat="text")
    with pytest.raises(Exception, match="partition 'Default', row 0 of Spark partition 0: .* answered 400"):
        broken.save()
