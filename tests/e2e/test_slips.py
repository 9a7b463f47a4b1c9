"""A slip is told: a value that is none, and a name that was meant to be another."""
from __future__ import annotations

from typing import Any

import pytest
from support.client import Client, ack_of, data

UUID = "01990000-0000-7000-8000-000000000001"


def refused(client: Client, method: str, target: str, body: Any = None) -> str:
    answer = client.request(method, target, body)
    assert answer.status == 400, (target, body, answer)
    return answer.json["error"]


@pytest.mark.parametrize("query, words", [
    ("batch=abc", "batch must be a whole number from 1"), ("batch=0", "batch must"), ("batch=-5", "batch must"), ("batch=10abc", "batch must"), ("batch=1.5", "batch must"),
    ("batch=99999999999", "batch must"), ("partitions=x", "partitions must"), ("timeout=soon", "timeout must"), ("timeout=-1", "timeout must"),
    ("wait=yes", "wait must be true or false"), ("wait=True", "wait must"), ("autoAck=TRUE", "autoAck must"),
    ("btach=5", "btach is no parameter; batch is one"), ("Batch=5", "Batch is no parameter; batch is one"), ("batchh=5", "batch is one"), ("atch=5", "batch is one"),
    ("consumergroup=g", "consumerGroup is one"), ("autoack=true", "autoAck is one"), ("waiT=true", "wait is one"), ("partition=a", "partitions is one"),
    ("batch=5&subscriptionMod=new", "subscriptionMode is one"), ("b%ff=1&timeuot=1", "timeout is one")])
def test_of_a_pop(client: Client, queue: str, query: str, words: str) -> None:
    client.push("slips", 1)
    for path in ("/api/v1/pop/queue/slips", "/api/v1/pop/queue/slips/partition/Default", "/api/v1/pop"):
        assert words in refused(client, "GET", f"{path}?{'namespace=n&' if path.endswith('pop') else ''}{query}")


def test_what_is_none_of_these_is_passed_over(client: Client) -> None:
    client.push("fine", 1, 2)
    assert data(client.pop("fine", batch="", timeout="", wait="", autoAck="1", color="blue", min="3")) == [1]
    assert data(client.pop("fine", batch=100_000, timeout=900_000, wait="0")) == [2]
    client.push_items([{"queue": "fine", "payload": None, "color": "blue", "data": 1, "kind": "x"}])


@pytest.mark.parametrize("item, words", [
    ({}, "payload is required (item 1, field payload)"), ({"payload": 1, "transactionID": "t"}, "transactionID is no key; transactionId is one (item 1)"),
    ({"payload": 1, "transactionid": 7}, "transactionId is one"), ({"payload": 1, "Partition": "p"}, "partition is one"), ({"payload": 1, "partitoin": "p"}, "partition is one"),
    ({"payload": 1, "delayMS": 5}, "delayMs is one"), ({"payload": 1, "deliverat": "x"}, "deliverAt is one"), ({"paylod": 1}, "payload is one")])
def test_of_a_push(client: Client, queue: str, item: dict[str, Any], words: str) -> None:
    items = [{"queue": queue, "payload": 1}, {"queue": queue, **item}]
    assert words in refused(client, "POST", "/api/v1/push", {"items": items})
    line = refused(client, "POST", "/api/v1/transaction", {"operations": [{"type": "push", "items": items}]})
    assert words.partition(" (")[0] in line
    assert client.show(queue).status == 404, "nothing of it was stored"


@pytest.mark.parametrize("change, words", [
    ({"status": "done"}, "status must be completed, failed, retry or dlq"), ({"status": "Completed"}, "status must"), ({"status": 5}, "status must"), ({"status": ["completed"]}, "status must"),
    ({"leaseID": UUID}, "leaseId is one"), ({"consumergroup": "g"}, "consumerGroup is one"), ({"statsu": "failed", "color": "blue"}, "status is one"), ({"delayms": 7}, "delayMs is one")])
def test_of_an_acknowledgment(client: Client, queue: str, change: dict[str, Any], words: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    item = ack_of(message) | change
    assert words in refused(client, "POST", "/api/v1/ack", item)
    assert words in refused(client, "POST", "/api/v1/ack/batch", {"acknowledgments": [item]})
    assert words in refused(client, "POST", "/api/v1/transaction", {"operations": [{"type": "ack", **item}]})
    assert client.ack(message)["success"] is True, "the refused ones have done nothing"


def test_as_queen_mq_has_it(start_daemon) -> None:
    with start_daemon(QUEEND_STRICT="false").client() as client:
        client.push_items([{"queue": "loose", "Partition": "p"}, {"queue": "loose", "payload": 1, "transactionID": 5}])
        (message,) = client.pop("loose", batch="abc", wait="yes", btach=7, autoAck="True")
        assert message["data"] is None and message["partition"] == "Default"
        assert client.ack(message, leaseID="x")["success"] is True
