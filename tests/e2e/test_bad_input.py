"""Input that is wrong: refused with a status and a text that names the place, before anything is stored."""
from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.http import Gone, Wire, request

POSTS = ["/api/v1/push", "/api/v1/ack", "/api/v1/ack/batch", "/api/v1/transaction", "/api/v1/configure"]
LEASE = "/api/v1/lease/00000000-0000-0000-0000-000000000000/extend"
ZERO = "00000000-0000-0000-0000-000000000000"

NOT_JSON = {
    "cut": b'{"items":', "two": b'{"items":[]}{}', "comma": b'{"items":[],}', "single quotes": b"{'items':[]}",
    "nan": b'{"items":[NaN]}',
    "plus": b'{"items":[+1]}', "leading zero": b'{"x":01}', "bare dot": b'{"items":[.5]}', "word": b"nope",
    "control": b'{"items":["a\nb"]}',
    "escape": b'{"items":["\\x"]}', "nul byte": b'{"items":[]}\x00', "byte order mark": b"\xef\xbb\xbf{}",
    "invalid utf-8": b'{"items":["\xff"]}',
    "overlong utf-8": b'{"items":["\xc0\xaf"]}', "surrogate in utf-8": b'{"items":["\xed\xa0\x80"]}',
    "too high utf-8": b'{"items":["\xf5\x80\x80\x80"]}',
    "half of a pair": b'{"items":["\\ud83d\\u12"]}', "comment": b"{} // x"}


@pytest.mark.parametrize("target", [*POSTS, LEASE])
@pytest.mark.parametrize("kind", NOT_JSON)
def test_what_is_not_json(client: Client, target: str, kind: str) -> None:
    answer = client.post(target, NOT_JSON[kind])
    assert answer.status == 400 and answer.json["error"].startswith("Invalid JSON"), answer.body
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("target", POSTS)
def test_an_empty_body(client: Client, target: str) -> None:
    for body in (b"", None, b" \r\n\t "):
        answer = client.post(target, body)
        assert (answer.status, answer.json["error"]) == (400, "Empty request body")


@pytest.mark.parametrize("body", [[], "x", None, 5, True])
@pytest.mark.parametrize("target, error", [
    ("/api/v1/push", "items array is required"), ("/api/v1/ack/batch", "acknowledgments array is required"),
    ("/api/v1/ack", "transactionId is required"), ("/api/v1/transaction", "operations array "),
    ("/api/v1/configure", "queue is required")])
def test_a_body_that_is_no_object_lacks_every_key(client: Client, target: str, error: str, body: object) -> None:
    answer = client.post(target, json.dumps(body).encode())
    assert answer.status == 400 and answer.json["error"].startswith(error)


def test_a_depth_bomb(client: Client, queue: str) -> None:
    for bomb in (b"[" * 100_000, b'{"items":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a":' * 50_000,
                 b'{"items":[{"queue":"' + queue.encode() + b'","payload":' + b"[" * 5000 + b"]" * 5000 + b"}]}"):
        answer = client.post("/api/v1/push", bomb)
        assert answer.status == 400 and answer.json["error"].startswith("Invalid JSON")
    assert client.show(queue).status == 404


@pytest.mark.parametrize("item, error", [
    (5, "Each item must be an object"), ({}, "Queue must be a string"), ({"queue": None}, "Queue must be a string"),
    ({"queue": 9}, "Queue must be a string"),
    ({"queue": ""}, "Queue"), ({"queue": "x" * 256}, "Queue"), ({"queue": "a\0b"}, "Queue"),
    ({"queue": "q", "partition": None}, "Partition must be a string"),
    ({"queue": "q", "partition": 3}, "Partition must be a string"),
    ({"queue": "q", "partition": "x" * 256}, "Partition"), ({"queue": "q", "partition": "a\0b"}, "Partition"),
    ({"queue": "q", "transactionId": None}, "TransactionId must be a string"),
    ({"queue": "q", "transactionId": 3}, "TransactionId must be a string"),
    ({"queue": "q", "transactionId": "x" * 256}, "TransactionId"),
    ({"queue": "q", "transactionId": "a\0b"}, "TransactionId"),
    ({"queue": "q", "traceId": None}, "TraceId must be a string"),
    ({"queue": "q", "traceId": 3}, "TraceId must be a string"),
    ({"queue": "q", "traceId": "not-a-uuid"}, "TraceId")],
                         ids=lambda value: str(value)[:40].encode("unicode_escape").decode())
def test_a_bad_item_refuses_the_push_and_is_named(client: Client, queue: str, item: object, error: str) -> None:
    if isinstance(item, dict) and item.get("queue") == "q":
        item = {**item, "queue": queue}
    answer = client.post("/api/v1/push",
                         {"items": [{"queue": queue, "payload": 1}, {"queue": queue, "payload": 2}, item]})
    assert answer.status == 400 and answer.json["error"].startswith(error), answer.body
    assert "item 2" in answer.json["error"] and error.split()[0].lower() in answer.json["error"].lower()
    assert client.show(queue).status == 404 and client.pop(queue) == [], "nothing was stored"


def test_a_lone_surrogate_in_a_name(client: Client) -> None:
    for field in ("queue", "partition", "transactionId"):
        item = json.dumps({"queue": "q", field: "a\ud800b"}).encode()
        answer = client.post("/api/v1/push", b'{"items":[' + item + b"]}")
        assert answer.status == 400 and "item 0" in answer.json["error"], answer.body


def test_names_count_in_characters_the_store_can_hold(client: Client) -> None:
    assert client.post("/api/v1/push", {"items": [{"queue": "é" * 200, "payload": 1}]}).status in (201, 400)
    assert client.post("/api/v1/push", {"items": [{"queue": "é" * 256}]}).status == 400


def test_too_many_items(client: Client, queue: str) -> None:
    answer = client.post("/api/v1/push", {"items": [{"queue": queue, "payload": 1}] * 10_001})
    assert answer.status == 400 and "10000" in answer.json["error"].replace(" ", "").replace(",", "")
    assert client.show(queue).status == 404


@pytest.mark.parametrize("item, error", [
    ({"partitionId": ZERO}, "Each acknowledgment must have a valid transactionId string"),
    ({"transactionId": 5, "partitionId": ZERO}, "Each acknowledgment must have a valid transactionId"),
    ({"transactionId": "x"}, "Each acknowledgment must have a valid partitionId string to ensure message uniqueness"),
    ({"transactionId": "x", "partitionId": 3}, "Each acknowledgment must have a valid partitionId"),
    (5, "Each acknowledgment"), (None, "Each acknowledgment")], ids=str)
def test_a_bad_acknowledgment_refuses_the_batch(client: Client, queue: str, item: object, error: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    good = {"transactionId": message["transactionId"], "partitionId": message["partitionId"]}
    answer = client.post("/api/v1/ack/batch", {"acknowledgments": [good, item]})
    assert answer.status == 400 and answer.json["error"].startswith(error) and "item 1" in answer.json["error"]
    assert client.ack(message)["leaseReleased"] is True, "the good one was not applied"


def test_a_partition_id_that_is_no_uuid(client: Client) -> None:
    single = client.post("/api/v1/ack", {"transactionId": "x", "partitionId": "abc"})
    batch = client.post("/api/v1/ack/batch", {
        "acknowledgments": [{"transactionId": "x", "partitionId": ZERO}, {"transactionId": "x", "partitionId": "abc"}]})
    for answer in (single, batch):
        assert answer.status == 400 and "partitionId" in answer.json["error"]
    assert "item 1" in batch.json["error"]


@pytest.mark.parametrize("body, error", [
    ({"operations": 5}, "operations array required"), ({"operations": []}, "operations array cannot be empty"),
    ({"operations": [5]}, ""),
    ({"operations": [{"type": "push", "items": [5]}]}, ""), ({"operations": [{"type": "push", "items": 5}]}, ""),
    ({"operations": [{"type": "push", "items": [{"payload": 1}]}]}, ""),
    ({"operations": [{"type": "push", "items": [{"queue": 5}]}]}, ""),
    ({"operations": [{"type": "ack"}]}, ""),
    ({"operations": [{"type": "ack", "transactionId": "x", "partitionId": "abc"}]}, "")], ids=str)
def test_a_bad_transaction(client: Client, queue: str, body: dict, error: str) -> None:
    if body["operations"] and body["operations"] != 5:
        body = {"operations": [{"type": "push", "items": [{"queue": queue, "payload": 1}]}, *body["operations"]]}
    answer = client.post("/api/v1/transaction", body)
    assert (answer.status == 400 and answer.json["error"].startswith(error)
            and len(answer.json["error"]) > 10), answer.body
    assert client.show(queue).status == 404


@pytest.mark.parametrize("options, field", [
    ({"leaseTime": "abc"}, "leaseTime"), ({"leaseTime": -5}, "leaseTime"), ({"leaseTime": 1.5}, "leaseTime"),
    ({"leaseTime": 10**30}, "leaseTime"),
    ({"leaseTime": []}, "leaseTime"), ({"retentionEnabled": "maybe"}, "retentionEnabled"),
    ({"windowBuffer": -1}, "windowBuffer")], ids=str)
def test_a_bad_option(client: Client, queue: str, options: dict, field: str) -> None:
    answer = client.post("/api/v1/configure", {"queue": queue, "options": options})
    assert answer.status == 400 and field in answer.json["error"]
    assert client.show(queue).status == 404


# -- paths and queries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("segment", ["%", "%2", "%zz", "a%00b", "%ff", "%c0%af", "%ed%a0%80"])
def test_a_path_that_cannot_be_decoded(client: Client, segment: str) -> None:
    for target in (f"/api/v1/pop/queue/{segment}", f"/api/v1/pop/queue/q/partition/{segment}",
                   f"/api/v1/resources/queues/{segment}"):
        answer = client.get(target)
        assert answer.status == 400 and answer.json["error"], target


def test_a_name_in_a_path_that_no_queue_can_have(client: Client) -> None:
    assert client.get("/api/v1/pop/queue/" + "x" * 256).status in (200, 204, 400)
    assert client.get("/api/v1/pop/queue/").status in (400, 404)


@pytest.mark.parametrize("method, target", [
    ("GET", "/nope"), ("GET", "/api/v1/nope"), ("POST", "/api/v1/nope"), ("GET", "/api/v1/push"),
    ("PUT", "/api/v1/push"), ("DELETE", "/api/v1/push"),
    ("POST", "/api/v1/pop/queue/q"), ("PATCH", "/api/v1/ack"), ("GET", "/api/v1/lease/x/extend"), ("POST", "/health"),
    ("GET", "/api/v1/push/"), ("GET", "/api/v1/pop/queue/q/partition"), ("GET", "/api/v1/pop/queue/a/b/c")])
def test_an_unknown_route(client: Client, method: str, target: str) -> None:
    answer = client.request(method, target, b"{}" if method != "GET" else None)
    assert answer.status == 404 and answer.json["error"] and answer.json["code"] == "no_such_route"


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(start_daemon) -> Daemon:
    """A daemon that takes bodies up to 10 000 bytes."""
    return start_daemon(QUEEND_MAX_BODY_BYTES=10_000)


def test_a_body_at_the_limit_and_one_beyond(small: Daemon) -> None:
    with small.client() as client:
        frame = b'{"items":[{"queue":"limit","payload":"%s"}]}'
        fits = frame % (b"x" * (10_000 - len(frame) + 2))
        assert len(fits) == 10_000 and client.post("/api/v1/push", fits).status == 201
        answer = client.post("/api/v1/push", fits + b" ")
        assert answer.status == 413 and answer.json["error"]
        client.close()
        assert len(client.pop("limit", batch=5)) == 1


@pytest.mark.parametrize("framing", ["length", "chunked", "expect"])
def test_an_oversize_body_is_refused_before_it_is_sent(small: Daemon, framing: str) -> None:
    head = {"length": {"Content-Length": "1000000000"}, "chunked": {"Transfer-Encoding": "chunked"},
            "expect": {"Content-Length": "1000000000", "Expect": "100-continue"}}[framing]
    with Wire(small.address) as wire:
        wire.send(request("POST", "/api/v1/push", headers=head))
        if framing == "chunked":
            wire.send(b"2711\r\n" + b"x" * 10_001)
        answer = wire.receive()
        assert answer.status == 413 and answer.headers["connection"] == "close"
        try:
            assert wire.ended()
        except Gone:
            pass


def test_chunked_and_split_bodies_arrive_whole(client: Client, daemon: Daemon, queue: str) -> None:
    body = json.dumps({"items": [{"queue": queue, "payload": "chunk" * 50}]}).encode()
    with Wire(daemon.address) as wire:
        wire.send(request("POST", "/api/v1/push", headers={"Transfer-Encoding": "chunked"}))
        for part in (body[:1], body[1:40], body[40:]):
            wire.send(b"%x;ext=1\r\n%s\r\n" % (len(part), part))
        wire.send(b"0\r\nTrailer: x\r\n\r\n")
        assert wire.receive().status == 201
        for byte in request("GET", f"/api/v1/pop/queue/{quote(queue, safe='')}"):
            wire.send(bytes([byte]))
        assert data(wire.receive().json["messages"]) == ["chunk" * 50]


def test_errors_do_not_end_the_connection(client: Client, queue: str) -> None:
    client.send("POST", "/api/v1/push", b"{")
    client.send("GET", "/nope")
    client.send("POST", "/api/v1/push", json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode())
    assert [client.receive().status for _ in range(3)] == [400, 404, 201]


def test_a_nul_deep_inside_of_what_is_passed_on(client: Client, queue: str) -> None:
    for backoff in ({"type": "exponential", "initial": 10, "\0": 1},
                    {"type": "exponential", "initial": 10, "more": [{"x": "\0"}]}):
        answer = client.post("/api/v1/configure", {"queue": queue, "options": {"retryBackoff": backoff}})
        assert (answer.status, answer.json["code"]) == (400, "invalid_text")


@pytest.mark.parametrize("field", ["queue", "namespace", "task"])
def test_a_name_is_bounded_in_bytes_where_it_is_configured(client: Client, queue: str, field: str) -> None:
    """Every other route counts bytes: a queue of more could be made and not be used."""
    fits, more = "é" * 127, "é" * 128
    assert client.post("/api/v1/configure", {"queue": queue, field: fits}).status == 200
    answer = client.post("/api/v1/configure", {"queue": queue, field: more})
    assert answer.status == 400 and f"{field} must have at most 255 bytes" in answer.json["error"]


def test_a_group_is_bounded_in_bytes_where_a_message_is_buried(client: Client, queue: str) -> None:
    (stored,) = client.push(queue, 1)
    where = f"/api/v1/messages/{stored['partition_id']}/{stored['transaction_id']}/dlq"
    answer = client.post(where, {"consumerGroup": "é" * 128})
    assert answer.status == 400 and "consumerGroup must have at most 255 bytes" in answer.json["error"]
    assert client.post(where, {"consumerGroup": "é" * 127}).status == 404
    assert client.pop(queue, consumerGroup="é" * 127)
    assert client.post(where, {"consumerGroup": "é" * 127}).json["moved"] is True
