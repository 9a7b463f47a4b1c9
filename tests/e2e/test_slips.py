"""A slip is told: a value that is none, and a name that was meant to be another."""
from __future__ import annotations

from typing import Any

import pytest
from support.client import Client, ack_of, data
from support.wait import until

UUID = "01990000-0000-7000-8000-000000000001"


def refused(client: Client, method: str, target: str, body: Any = None) -> str:
    answer = client.request(method, target, body)
    assert answer.status == 400, (target, body, answer)
    return answer.json["error"]


@pytest.mark.parametrize("query, words", [
    ("batch=abc", "batch must be a whole number from 1"), ("batch=0", "batch must"), ("batch=-5", "batch must"),
    ("batch=10abc", "batch must"), ("batch=1.5", "batch must"),
    ("batch=99999999999", "batch must"), ("partitions=x", "partitions must"), ("timeout=soon", "timeout must"),
    ("timeout=-1", "timeout must"),
    ("wait=yes", "wait must be true or false"), ("wait=True", "wait must"), ("autoAck=TRUE", "autoAck must"),
    ("btach=5", "btach is no parameter; batch is one"), ("Batch=5", "Batch is no parameter; batch is one"),
    ("batchh=5", "batch is one"), ("atch=5", "batch is one"),
    ("group=g", "group is no parameter; consumerGroup is one"), ("consumer_group=g", "consumerGroup is one"),
    ("leaseTime=9", "leaseSeconds is one"), ("lease-seconds=9", "leaseSeconds is one"), ("limit=5", "batch is one"),
    ("consumergroup=g", "consumerGroup is one"), ("autoack=true", "autoAck is one"), ("waiT=true", "wait is one"),
    ("partitions=1001", "partitions must be a whole number from 1 to 1000"), ("partitions=0", "partitions must"),
    ("batch=10001", "batch must be a whole number from 1 to 10000"),
    ("timeout=115001", "timeout must be a whole number from 0 to 115000"),
    ("subscriptionMode=NEW&consumerGroup=g", "subscriptionMode must be all, new or new-only"),
    ("subscriptionMode=from_begining&consumerGroup=g", "subscriptionMode must"),
    ("subscriptionFrom=yesterday&consumerGroup=g", "subscriptionFrom must be now or a time"),
    ("subscriptionMode=%ff&consumerGroup=g", "subscriptionMode must"),
    ("frames=yes", "frames must be true or false"), ("autopilot=on", "autopilot must be"), ("batch=1%00", "batch must"),
    ("wait=true%00", "wait must"),
    ("batch=5&subscriptionMod=new", "subscriptionMode is one"), ("b%ff=1&timeuot=1", "timeout is one")])
def test_of_a_pop(client: Client, queue: str, query: str, words: str) -> None:
    client.push("slips", 1)
    for path in ("/api/v1/pop/queue/slips", "/api/v1/pop/queue/slips/partition/Default", "/api/v1/pop"):
        assert words in refused(client, "GET", f"{path}?{'namespace=n&' if path.endswith('pop') else ''}{query}")


def test_a_partition_in_the_query_of_a_pop_that_has_its_queue_elsewhere(client: Client, queue: str) -> None:
    for path in (f"queue/{queue}", f"queue/{queue}/partition/p"):
        assert "partitions is one" in refused(client, "GET", f"/api/v1/pop/{path}?partition=a")
    assert "queue is required with partition" in refused(client, "GET", "/api/v1/pop?namespace=n&partition=a")


def test_what_is_none_of_these_is_passed_over(client: Client) -> None:
    client.push("fine", 1, 2)
    assert data(client.pop("fine", batch="", timeout="", wait="", autoAck="1", color="blue", min="3")) == [1]
    assert data(client.pop("fine", batch=10_000, timeout=115_000, wait="0", subscriptionMode="",
                           subscriptionFrom="")) == [2]
    client.push_items([{"queue": "fine", "payload": None, "color": None, "ttl": None, "producerSub": "x"}])


@pytest.mark.parametrize("item, words", [
    ({}, "payload is required (item 1, field payload)"),
    ({"payload": 1, "transactionID": "t"}, "transactionID is no key; transactionId is one (item 1)"),
    ({"payload": 1, "transactionid": 7}, "transactionId is one"),
    ({"payload": 1, "Partition": "p"}, "partition is one"), ({"payload": 1, "partitoin": "p"}, "partition is one"),
    ({"payload": 1, "delayMS": 5}, "delayMs is one"), ({"payload": 1, "deliverat": "x"}, "deliverAt is one"),
    ({"paylod": 1}, "payload is one"), ({"payload": 1, "delay": 60}, "delay is no key; delayMs is one (item 1)"),
    ({"payload": 1, "transaction_id": "t"}, "transactionId is one"),
    ({"payload": 1, "headers": {"x-tenant": 7}}, "header x-tenant must be a string (item 1, field headers)"),
    ({"payload": 1, "color": "blue"}, "color is no key of an item: queue, partition, payload, transactionId"),
    ({"ttl": 5, "payload": 1}, "it is an option of the queue"),
    ({"payload": 1, "priority": 0}, "priority is not")])
def test_of_a_push(client: Client, queue: str, item: dict[str, Any], words: str) -> None:
    items = [{"queue": queue, "payload": 1}, {"queue": queue, **item}]
    assert words in refused(client, "POST", "/api/v1/push", {"items": items})
    line = refused(client, "POST", "/api/v1/transaction", {"operations": [{"type": "push", "items": items}]})
    assert words.partition(" (")[0] in line
    assert client.show(queue).status == 404, "nothing of it was stored"


@pytest.mark.parametrize("change, words", [
    ({"status": "done"}, "status must be completed, failed, retry or dlq"), ({"status": "Completed"}, "status must"),
    ({"status": 5}, "status must"), ({"status": ["completed"]}, "status must"),
    ({"leaseID": UUID}, "leaseId is one"), ({"consumergroup": "g"}, "consumerGroup is one"),
    ({"statsu": "failed", "color": "blue"}, "status is one"), ({"delayms": 7}, "delayMs is one")])
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
        client.push_items([{"queue": "loose", "Partition": "p", "color": 1, "ttl": 5},
                           {"queue": "loose", "payload": 1, "transactionID": 5}])
        (message,) = client.pop("loose", batch="abc", wait="yes", btach=7, autoAck="True", timeout=900_000,
                                subscriptionMode="from_beginning", subscriptionFrom="garbage")
        assert message["data"] is None and message["partition"] == "Default"
        assert client.ack(message, leaseID="x")["success"] is True
        assert client.get("/api/v1/messages?limit=-1&qeue=x").status == 200
        assert client.post("/api/v1/configure", {"queue": "loose", "options": {"leasetime": 5}}).status == 200
        assert client.post("/api/v1/configure", {"queue": "loose", "leaseTime": 5}).status == 200
        strict = client.request("GET", "/api/v1/pop/queue/loose?color=blue", headers=PICKY)
        assert strict.status == 400, "who asks is told, whatever the daemon is set to"


LEASE = f"/api/v1/lease/{UUID}/extend"
CYCLE = {"query_id": UUID, "partition_id": UUID}


@pytest.mark.parametrize("method, target, body, words", [
    ("POST", "/api/v1/push", {"items": [], "itmes": []}, "itmes is no key; items is one"),
    ("POST", "/api/v1/push?fromat=counts", {"items": []}, "fromat is no parameter; format is one"),
    ("POST", "/api/v1/transaction", {"operations": [{"type": "push", "items": [{"queue": "q", "payload": 1}]}],
                                     "requiredLease": [UUID]}, "requiredLeases is one"),
    ("POST", "/api/v1/ack/batch", {"acknowledgments": [], "consumergroup": "g"}, "consumerGroup is one"),
    ("POST", LEASE, {"second": 5}, "second is no key; seconds is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "options": {"leasetime": 5}}, "leasetime is no key; leaseTime is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "optoins": {}}, "options is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "encryption": "off"},
     "encryption is no key; options.encryption is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "leaseTime": 5}, "options.leaseTime is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "leasetime": 5, "options": {}}, "options.leaseTime is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "namespaec": "n"}, "namespace is one"),
    ("POST", "/api/v1/configure", {"queue": "q", "options": {"retentionSecond": 5}}, "retentionSeconds is one"),
    ("DELETE", "/api/v1/dlq?queue=q&consumergroup=g", None, "consumergroup is no parameter; consumerGroup is one"),
    ("DELETE", "/api/v1/queues/q/clear?partitoin=p", None, "partition is one"),
    ("GET", "/api/v1/messages?limit=abc", None, "limit must be a whole number from 0 to 10000"),
    ("GET", "/api/v1/messages?limit=10001", None, "limit must"),
    ("GET", "/api/v1/dlq?ofset=5", None, "offset is one"),
    ("GET", "/api/v1/dlq?queue=q&group=g", None, "group is no parameter; consumerGroup is one"),
    ("GET", "/api/v1/dlq?consumer_group=g", None, "consumerGroup is one"),
    ("GET", "/api/v1/consumer-groups/lagging?minLagSeconds=soon", None, "minLagSeconds must"),
    ("DELETE", "/api/v1/consumer-groups/g?deleteMetadata=no", None, "deleteMetadata must be true or false"),
    ("DELETE", "/api/v1/consumer-groups/g?deletemetadata=false", None, "deleteMetadata is one"),
    ("POST", "/api/v1/dlq/redrive", {"queue": "q", "consumergroup": "g"}, "consumerGroup is one"),
    ("POST", "/api/v1/consumer-groups/g/queues/q/seek", {"toend": True}, "toEnd is one"),
    ("POST", "/api/v1/fetch", {"entries": [{"queue": "q", "partiton": "p", "offset": 0}]}, "partition is one"),
    ("POST", "/api/v1/traces", {"transactionID": "t"}, "transactionId is one"),
    ("POST", "/streams/v1/cycle", {**CYCLE, "push_item": []}, "push_items is one"),
    ("POST", "/streams/v1/cycle", {**CYCLE, "ack": {"transactionId": "t", "leaseID": UUID}}, "leaseId is one"),
    ("POST", "/streams/v1/cycle", {**CYCLE, "push_items": [{"queue": "s", "paylod": 1}]}, "payload is one"),
    ("POST", "/streams/v1/cycle", {**CYCLE, "state_ops": [{"type": "delete", "key": "k", "valeu": 1}]}, "value is one"),
    ("POST", "/streams/v1/queries", {"name": "n", "source_queue": "q", "config_hash": "h", "sink_queu": "s"},
     "sink_queue is one"),
    ("POST", "/streams/v1/state/get", {**CYCLE, "key_prefx": "k"}, "key_prefix is one")])
def test_of_every_other_route(client: Client, method: str, target: str, body: Any, words: str) -> None:
    assert words in refused(client, method, target, body)


def test_of_an_event(client: Client, queue: str) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    answer = client.request("POST", f"/api/v1/events/{queue}", {**event, "partitonkey": "p"},
                            {"Content-Type": "application/cloudevents+json"})
    assert answer.status == 400 and "partitionkey is one" in answer.json["error"]
    binary = {f"ce-{name}": value for name, value in event.items()}
    answer = client.request("POST", f"/api/v1/events/{queue}", b"", {**binary, "ce-subjct": "s"})
    assert answer.status == 400 and "subject is one" in answer.json["error"]
    assert client.request("POST", f"/api/v1/events/{queue}", b"", {**binary, "ce-tenant": "s"}).status == 201


PICKY = {"Prefer": "respond-async, handling=strict"}


@pytest.mark.parametrize("method, target, body, name", [
    ("GET", "/api/v1/pop/queue/picky?color=blue", None, "color"),
    ("POST", "/api/v1/push", {"items": [{"queue": "picky", "payload": 1, "color": None}]}, "color"),
    ("POST", "/api/v1/push", {"items": [], "color": 1}, "color"),
    ("POST", "/api/v1/push?color=1", {"items": []}, "color"), ("POST", "/api/v1/ack?x=1", {}, "x"),
    ("POST", "/api/v1/ack", {"transactionId": "t", "partitionId": UUID, "color": 1}, "color"),
    ("POST", "/api/v1/ack/batch", {"acknowledgments": [{"transactionId": "t", "partitionId": UUID, "color": 1}]},
     "color"),
    ("POST", "/api/v1/transaction", {"operations": [], "color": 1}, "color"), ("POST", LEASE, {"color": 1}, "color"),
    ("POST", "/api/v1/configure", {"queue": "picky", "options": {"color": 1}}, "color"),
    ("GET", "/api/v1/resources/queues?color=1", None, "color"),
    ("POST", "/streams/v1/cycle", {**CYCLE, "color": 1}, "color"),
    ("POST", "/api/v1/events/picky?delayMs=5", {}, "delayMs")])
def test_who_asks_is_told_of_every_other_name(client: Client, method: str, target: str, body: Any, name: str) -> None:
    for prefer in ("handling=strict", 'handling="strict"', "Handling=Strict;x=1, wait=10"):
        answer = client.request(method, target, body, {"Prefer": prefer})
        assert (answer.status == 400 and f"{name} is no " in answer.json["error"]
                and "; " not in answer.json["error"]), (prefer, answer)
    for prefer in ("handling=lenient", "xhandling=strict", "handling=strictly"):
        assert "is no " not in client.request(method, target, body, {"Prefer": prefer}).body.decode(), prefer


def test_an_empty_answer_says_what_there_is(client: Client, queue: str) -> None:
    def reasons(target: str) -> set[str]:
        return {client.get(f"{target}?{query}").json["reason"]
                for query in ("batch=1", "wait=false", "wait=true&timeout=1", "wait=true&timeout=0", "autoAck=true")}

    path = f"/api/v1/pop/queue/{queue}"
    assert reasons(path) == reasons(f"{path}/partition/p") == {"queue_not_found"}
    client.configure(queue, leaseTime=60)
    # it looks for unknown names five times a second
    until(lambda: reasons(path) == {"empty"}, "the daemon knows the queue")
    assert reasons(f"{path}/partition/p") == {"partition_not_found"}
    client.push(queue, 1, partition="p")
    assert data(client.pop(queue)) == [1]
    assert reasons(path) == reasons(f"{path}/partition/p") == {"leased"}


@pytest.mark.parametrize("method, target, status, allow", [
    ("GET", "/api/v1/push", 404, "OPTIONS, POST"), ("PUT", "/api/v1/push", 404, "OPTIONS, POST"),
    ("POST", "/health", 404, "GET, HEAD, OPTIONS"), ("POST", "/api/v1/pop/queue/q", 404, "GET, OPTIONS"),
    ("DELETE", "/api/v1/messages", 404, "GET, HEAD, OPTIONS"),
    ("PUT", "/api/v1/resources/queues/q", 404, "DELETE, GET, HEAD, OPTIONS"),
    ("GET", "/api/v1/events/q", 405, "OPTIONS, POST"), ("GET", "/api/v1/fetch", 405, "OPTIONS, POST"),
    ("POST", "/api/v1/stream/q", 405, "GET, OPTIONS"), ("POST", "/api/v1/pop", 405, "GET, OPTIONS"),
    ("POST", "/livez", 405, "GET, HEAD, OPTIONS"), ("POST", "/openapi.json", 405, "GET, HEAD, OPTIONS"),
    ("GET", "/api/v1/queues/q/clear", 405, "DELETE, OPTIONS"), ("GET", "/api/v1/dlq/redrive", 405, "OPTIONS, POST"),
    ("GET", "/api/v1/nowhere", 404, None), ("POST", "/", 404, None)])
def test_a_wrong_method_is_told_the_right_one(client: Client, method: str, target: str, status: int,
                                              allow: str | None) -> None:
    answer = client.request(method, target, None if method == "GET" else b"{}")
    assert (answer.status, answer.headers.get("allow")) == (status, allow)
    assert (
        allow is None
        or "this path supports"
           f" {' and '.join(one for one in allow.split(', ') if one not in ('HEAD', 'OPTIONS'))}"
        in answer.json["error"])


def test_deleting_what_is_not_there_says_so(client: Client, queue: str) -> None:
    def deleted(target: str, status: int = 200) -> dict[str, Any]:
        answer = client.request("DELETE", target)
        assert answer.status == status, answer
        return answer.json

    assert deleted(f"/api/v1/resources/queues/{queue}")["existed"] is False
    assert deleted(f"/api/v1/consumer-groups/{queue}")["existed"] is False
    assert deleted(f"/api/v1/consumer-groups/g/queues/{queue}")["existed"] is False
    assert deleted(f"/api/v1/dlq?queue={queue}", 404)["code"] == "queue_not_found"
    assert deleted(f"/api/v1/queues/{queue}/clear", 404)["code"] == "queue_not_found"
    assert deleted(f"/api/v1/messages/{UUID}/nothing")["success"] is False
    client.push(queue, 1)
    client.pop(queue, consumerGroup="g")
    assert deleted(f"/api/v1/consumer-groups/g/queues/{queue}")["existed"] is True
    assert deleted(f"/api/v1/dlq?queue={queue}")["deleted"] == 0
    assert deleted(f"/api/v1/resources/queues/{queue}")["existed"] is True
