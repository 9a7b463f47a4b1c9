"""Names are bounded in bytes wherever they come from: 255, as pushes and pops have it."""
from __future__ import annotations

from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.client import Client
from support.daemon import Daemon

FITS, LONG = "é" * 127 + "x", "é" * 127 + "xy"      # 255 and 256 bytes


@pytest.fixture
def sql(daemon: Daemon):
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("field", ["queue", "namespace", "task"])
def test_of_a_queue_configured_from_sql(sql, queue: str, field: str) -> None:
    """The bound holds in the function that every interface ends in, too."""
    for function in ("queend.configure(%(queue)s, %(namespace)s, %(task)s, '{}')",
                     "queen.configure_queue_v1(%(queue)s, jsonb_build_object("
                     "'namespace', %(namespace)s::text, 'task', %(task)s::text))"):
        names = {"queue": queue, "namespace": "n", "task": "t"}
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="at most 255 bytes"):
            sql.execute(f"SELECT {function}", names | {field: LONG})
        fits = FITS if field != "queue" else queue.ljust(255, "x")
        assert sql.execute(f"SELECT {function}", names | {field: fits}).fetchone()[0]["configured"]


@pytest.mark.parametrize("statement", [
    "SELECT * FROM queend.resolve(ARRAY[%(queue)s], ARRAY[%(long)s])",
    "SELECT * FROM queend.resolve(ARRAY[%(long)s], ARRAY['p'])",
    "SELECT queen.pop_unified_batch_v4(jsonb_build_array(jsonb_build_object("
    "'queue_name', %(queue)s::text, 'consumer_group', %(long)s::text)))",
    "SELECT * FROM queen.pop_sm_resolve(%(queue)s, %(long)s)"])
def test_what_is_made_on_the_way_is_bounded(client: Client, sql, queue: str, statement: str) -> None:
    client.configure(queue)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="at most 255 bytes, and has 256"):
        sql.execute(statement, {"queue": queue, "long": LONG})


@pytest.mark.parametrize("field, fits, long", [
    ("consumerGroup", FITS, LONG), ("traceNames", FITS, LONG), ("traceNames", [FITS, "a"], ["a", LONG]),
    ("traceNames", ["a"] * 100, ["a"] * 101), ("eventType", "é" * 50, "é" * 50 + "x")])
def test_of_a_trace(client: Client, sql, queue: str, field: str, fits: Any, long: Any) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    trace = {"transactionId": message["transactionId"], "partitionId": message["partitionId"], "data": 1}
    assert client.post("/api/v1/traces", trace | {field: fits}).status == 201
    answer = client.post("/api/v1/traces", trace | {field: long})
    assert answer.status == 400 and field in answer.json["error"], answer
    ((told,),) = sql.execute("SELECT queen.record_trace_v1(%s)", (Jsonb(trace | {field: fits}),)).fetchall()
    assert told["success"]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=field):
        sql.execute("SELECT queen.record_trace_v1(%s)", (Jsonb(trace | {field: long}),))
    path = f"/api/v1/traces/{message['partitionId']}/{message['transactionId']}"
    assert len(client.get(path).json["traces"]) == 2, "nothing was cut to fit"


def test_of_a_stream(client: Client, queue: str) -> None:
    """Its group is `streams.` and its name, and has to be one that can be popped for."""
    client.configure(queue)
    body = {"source_queue": queue, "config_hash": "h"}
    answer = client.post("/streams/v1/queries", body | {"name": "x" * 248})
    assert answer.status == 400 and "247 bytes" in answer.json["error"], answer
    assert client.post("/streams/v1/queries", body | {"name": "x" * 247}).json["success"]
    assert client.pop(queue, consumerGroup="streams." + "x" * 247) == []


def test_of_a_group_that_commits_offsets(client: Client, queue: str) -> None:
    client.push(queue, 1)
    entries = {"entries": [{"queue": queue, "offset": 1}]}
    answer = client.post(f"/api/v1/consumer-groups/{quote(LONG)}/offsets", entries)
    assert answer.status == 400 and "at most 255 bytes" in answer.json["error"], answer.body
    assert client.post(f"/api/v1/consumer-groups/{quote(FITS)}/offsets", entries).json["entries"][0]["offset"] == 1
