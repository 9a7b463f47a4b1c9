"""Headers of messages: every form in, every form out, and each way that a message takes."""
from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.buffers import away, buffered, drained, server  # noqa: F401 (fixture)
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.feed import Feed
from support.frames import KIND, form_a, read_pop, text16
from support.socket_feed import SocketFeed
from support.streams import Stream

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"
HEADERS = {"x-tenant": "7", "Über schrift": "zwölf \" \\ \n \u0001 \u2028", "empty": "", "origin": "shop"}
FETCH, ARROW, LINES = "/api/v1/fetch", "application/vnd.apache.arrow.stream", "application/x-ndjson"


def by_json(client: Client, queue: str, headers: dict) -> None:
    client.push_items([{"queue": queue, "payload": 1, "headers": headers}, {"queue": queue, "payload": 2}])


def by_lines(client: Client, queue: str, headers: dict) -> None:
    lines = [{"payload": 1, "headers": headers}, {"payload": 2, "headers": None}]
    answer = client.request("POST", f"/api/v1/push?queue={queue}", b"\n".join(
        json.dumps(one, ensure_ascii=False).encode() for one in lines), {"Content-Type": LINES})
    assert answer.status == 201, answer


def by_arrow(client: Client, queue: str, headers: dict) -> None:
    batch = pa.record_batch({"payload": pa.array(["1", "2"]),
                             "headers": pa.array([json.dumps(headers, indent=1), None])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    answer = client.request("POST", f"/api/v1/push?queue={queue}", sink.getvalue().to_pybytes(),
                            {"Content-Type": ARROW})
    assert answer.status == 201, answer


def by_frames(client: Client, queue: str, headers: dict) -> None:
    answer = client.request("POST", "/api/v1/push", form_a(framed(queue, headers, {}), flags=16), KIND)
    assert answer.status == 201, answer


def framed(queue: str, *headers: dict) -> bytes:
    return text16(queue) + text16("Default") + struct.pack("<I", len(headers)) + b"".join(
        text16(json.dumps(one) if one else "") + struct.pack("<I", 1) + b"%d" % place
        for place, one in enumerate(headers, 1))


def by_transaction(client: Client, queue: str, headers: dict) -> None:
    done = client.transaction({"type": "push", "queue": queue, "payload": 1, "headers": headers},
                              {"type": "push", "items": [{"queue": queue, "payload": 2}]})
    assert done["success"], done


def by_bundle(client: Client, queue: str, headers: dict) -> None:
    done = client.transaction({"type": "push", "items": [{"queue": queue, "payload": 1, "headers": headers},
                                                         {"queue": queue, "payload": 2}]})
    assert done["success"], done


def by_cycle(client: Client, queue: str, headers: dict) -> None:
    client.push(f"{queue}-source", 0)
    stream = Stream(client, queue, f"{queue}-source", queue)
    done = stream.cycle(stream.pop(), push=[{"queue": queue, "payload": 1, "headers": headers},
                                            {"queue": queue, "payload": 2}])
    assert done["success"], done


def by_events(client: Client, queue: str, headers: dict) -> None:
    events = [{"specversion": "1.0", "source": "x", "type": "t", "id": str(number), "data": number, **(
        {"queendheaders": json.dumps(headers)} if number == 1 else {})} for number in (1, 2)]
    answer = client.request("POST", f"/api/v1/events/{queue}", json.dumps(events).encode(),
                            {"Content-Type": "application/cloudevents-batch+json"})
    assert answer.status == 201, answer


IN = [by_json, by_lines, by_arrow, by_frames, by_transaction, by_bundle, by_cycle, by_events]


@pytest.mark.parametrize("push", IN, ids=lambda one: one.__name__[3:])
def test_every_form_in(client: Client, queue: str, push: Callable[[Client, str, dict], None]) -> None:
    push(client, queue, HEADERS)
    first, second = client.pop(queue, batch=9)
    assert (first["data"], first["headers"], list(first["headers"])) == (1, HEADERS, list(HEADERS))
    assert second["data"] == 2 and "headers" not in second and "traceparent" not in first


@pytest.mark.parametrize("push", IN, ids=lambda one: one.__name__[3:])
def test_the_trace_among_the_headers_is_that_of_the_message(client: Client, queue: str,
                                                            push: Callable[[Client, str, dict], None]) -> None:
    push(client, queue, {"a": "b", "traceparent": TRACE, "tracestate": "vendor=1"})
    first, second = client.pop(queue, batch=9)
    assert (first["traceparent"], first["tracestate"], first["headers"]) == (TRACE, "vendor=1", {"a": "b"})
    assert "traceparent" not in second


def test_every_form_out(daemon: Daemon, client: Client, queue: str) -> None:
    by_json(client, queue, HEADERS)
    client.push(queue, 3, headers={"traceparent": TRACE})
    (framed_,) = [read_pop(client.pop_answer(queue, batch=9, frames=True, consumerGroup="f",
                                             subscriptionMode="all").body)]
    (place,) = framed_["headers"]
    assert (place["offset"], place["headers"]) == (0, HEADERS) and data(framed_["messages"]) == [1, 2, 3]
    assert place["partitionId"] == framed_["messages"][0]["partitionId"]
    events = client.get(pop_target(queue, batch=9, format="cloudevents", consumerGroup="e",
                                   subscriptionMode="all")).json
    assert [json.loads(one.get("queendheaders", "null")) for one in events] == [HEADERS, None, None]
    assert events[2]["traceparent"] == TRACE
    entries = {"entries": [{"queue": queue, "partition": "Default", "offset": 0}]}
    records = client.post(FETCH, entries).json["entries"][0]["records"]
    assert [one.get("headers") for one in records] == [HEADERS, None, None] and "traceparent" not in records[2]
    lines = client.request("POST", FETCH, entries, {"Accept": LINES}).body.splitlines()
    assert len(lines) == 4 and json.loads(lines[0])["headers"] == HEADERS and "headers" not in json.loads(lines[1])
    rows = pa.ipc.open_stream(io.BytesIO(client.request("POST", FETCH, {**entries, "columns": ["headers"]},
                                                        {"Accept": ARROW}).body)).read_all().to_pylist()
    assert [json.loads(one["headers"] or "{}") for one in rows] == [{"headers": HEADERS}, {}, {"traceparent": TRACE}]
    with Feed(daemon.address, queue, consumerGroup="sse", subscriptionMode="all") as feed:
        assert [one.get("headers") for one in feed.messages(3)] == [HEADERS, None, None]
    with SocketFeed(daemon.address, queue, consumerGroup="ws", subscriptionMode="all") as feed:
        assert [one.get("headers") for one in feed.messages(3)] == [HEADERS, None, None]
    first, second, third = client.pop(queue, batch=9)
    assert (first["headers"], third["traceparent"]) == (HEADERS, TRACE) and "headers" not in third
    listed = client.get(f"/api/v1/messages?queue={queue}").json["messages"]
    assert [one.get("headers") for one in listed] == [None, None, HEADERS]
    for one, headers in zip((first, second), (HEADERS, None)):
        shown = client.get(f"/api/v1/messages/{one['partitionId']}/{one['transactionId']}").json
        assert shown.get("headers") == headers


def test_a_search_finds_headers(client: Client, queue: str) -> None:
    client.push(queue, "nothing here", headers={"x-customer": "4711"})
    client.push(queue, {"n": 4711}, headers={"a": "b"})
    client.push(queue, "neither")
    for text, found in (("4711", ["b", "4711"]), ('"x-customer":"4711"', ["4711"]), ("x-customer", ["4711"])):
        answer = client.get(f"/api/v1/messages/search?queue={queue}&text={text.replace(chr(34), '%22')}").json
        assert [list(one["headers"].values())[0] for one in answer["messages"]] == found
    assert "4711" in answer["messages"][0]["excerpt"]


def test_dead_letters_and_their_return(client: Client, queue: str) -> None:
    client.push(queue, 1, headers=HEADERS, traceparent=TRACE)
    client.configure(queue, retryLimit=1)
    for attempt in (1, 2):
        (message,) = client.pop(queue)
        assert (message["headers"], message["deliveryAttempt"]) == (HEADERS, attempt)
        client.ack(message, "failed")
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert dead["headers"] == HEADERS and "originQueue" not in dead
    assert client.post("/api/v1/dlq/redrive", {"queue": queue}).json["redriven"] == 1
    (again,) = client.pop(queue)
    assert (again["headers"], again["traceparent"], again["originQueue"]) == (HEADERS, TRACE, queue)
    client.ack(again, "dlq")
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert (dead["headers"], dead["originQueue"]) == (HEADERS, queue)


def test_names_like_those_of_an_origin_are_only_headers(client: Client, queue: str) -> None:
    headers = {"originTransactionId": "t", "originQueue": "q", "cloudEvent": "{}", "headers": "{"}
    client.push(queue, 1, headers=headers)
    (message,) = client.pop(queue)
    assert message["headers"] == headers and "originQueue" not in message and "cloudEvent" not in message
    client.ack(message, "dlq")
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert dead["headers"] == headers and "originQueue" not in dead
    assert client.post("/api/v1/dlq/redrive", {"queue": queue}).json["redriven"] == 1
    (again,) = client.pop(queue)
    assert (again["headers"], again["originTransactionId"]) == (headers, message["transactionId"])


def test_with_a_delay_and_the_trace_of_the_request(client: Client, queue: str) -> None:
    items = [{"queue": queue, "payload": 1, "headers": {"a": "1"}}, {"queue": queue, "payload": 2},
             {"queue": queue, "payload": 3, "headers": {"a": "3"}, "traceparent": OTHER},
             {"queue": queue, "payload": 4, "headers": {"a": "4"}, "deliverAt": "2000-01-01T00:00:00Z"},
             {"queue": queue, "payload": 5, "headers": {"a": "5"}, "delayMs": 1}]
    answer = client.request("POST", "/api/v1/push", {"items": items}, {"traceparent": TRACE, "tracestate": "v=1"})
    assert answer.status == 201
    got: list[dict] = []
    while len(got) < 5:
        got += client.pop(queue, batch=9, wait=True, timeout=5000, autoAck=True)
    assert [(one["traceparent"], one.get("headers", {}).get("a")) for one in got] == [
        (TRACE, "1"), (TRACE, None), (OTHER, "3"), (TRACE, "4"), (TRACE, "5")]
    assert "deliverAt" in got[4]


def test_many_large_headers(client: Client, queue: str) -> None:
    """Rows and answers are bounded by what they hold, headers included."""
    headers = {"h": "x" * 16_000}
    for _ in range(4):
        client.push_items([{"queue": queue, "payload": n, "headers": headers} for n in range(200)])
    got: list[dict] = []
    while some := client.pop(queue, batch=1000, autoAck=True):
        assert len(some) < 800, "more than 8 MB at once"
        got += some
    assert data(got) == [*range(200)] * 4 and all(one["headers"] == headers for one in got)


BAD: list[tuple[Any, str]] = [
    ([], "headers must be an object of strings"), ("x", "headers must be an object of strings"),
    (5, "headers must be an object"), ({"a": 1}, "header a must be a string"), ({"a": None}, "header a must be a"),
    ({"a": {"b": "c"}}, "header a must be a string"), ({"": "x"}, "must have 1 to 256 bytes"),
    ({"x" * 257: "x"}, "must have 1 to 256 bytes"), ({f"n{n}": "" for n in range(65)}, "at most 64 names"),
    ({"a": "x" * 16_384}, "at most 16384 bytes"), ({"a": "x\0"}, "header a must be text without U+0000"),
    ({"a\0": "x"}, "the name of a header must be text"), ({"traceparent": "x"}, "traceparent must be one of W3C"),
    ({"traceparent": OTHER}, "traceparent and the one in headers differ")]


@pytest.mark.parametrize("headers, words", BAD)
def test_what_is_refused(client: Client, queue: str, headers: Any, words: str) -> None:
    more = {"traceparent": TRACE} if isinstance(headers, dict) and "differ" in words else {}
    items = [{"queue": queue, "payload": 1}, {"queue": queue, "payload": 2, "headers": headers, **more}]
    answer = client.post("/api/v1/push", {"items": items})
    assert answer.status == 400 and words in answer.json["error"] and "(item 1" in answer.json["error"], answer
    answer = client.post("/api/v1/transaction", {"operations": [{"type": "push", "items": items}]})
    assert answer.status == 400 and words in answer.json["error"], answer
    assert client.show(queue).status == 404, "nothing was stored"


def test_a_name_that_is_given_twice(client: Client, queue: str) -> None:
    body = b'{"items":[{"queue":"%s","payload":1,"headers":{"a":"1","\\u0061":"2"}}]}' % queue.encode()
    answer = client.request("POST", "/api/v1/push", body)
    assert (answer.status, answer.json["error"]) == (400, "header a is given twice (item 0, field headers)")


def test_what_is_the_most(client: Client, queue: str) -> None:
    headers = {f"{n:0256}": "x" * (16_384 // 64 - 264 + 200) for n in range(30)}
    assert len(json.dumps(headers, separators=(",", ":"))) <= 16_384
    most = {f"n{n}": "" for n in range(64)}
    client.push(queue, 1, headers=headers)
    client.push(queue, 2, headers=most)
    client.push(queue, 3, headers={})
    first, second, third = client.pop(queue, batch=9)
    assert first["headers"] == headers and second["headers"] == most and "headers" not in third


@pytest.mark.parametrize("name, words", [
    ("colour", "colour is no key of an item: queue, partition, payload, transactionId, traceId, traceparent, "
     "tracestate, headers, deliverAt, delayMs"),
    ("ttl", "ttl is not supported in an item: it is an option of the queue"),
    ("priority", "priority is not supported"), ("namespace", "namespace is not supported"),
    ("data", "data is no key of an item"), ("header", "headers is one"), ("Headers", "headers is one")])
def test_an_unknown_member_is_refused(client: Client, queue: str, name: str, words: str) -> None:
    items = [{"queue": queue, "payload": 1}, {"queue": queue, "payload": 2, name: "x"}]
    answer = client.post("/api/v1/push", {"items": items})
    assert answer.status == 400 and words in answer.json["error"] and "(item 1" in answer.json["error"], answer
    answer = client.request("POST", "/api/v1/push", b"\n".join(json.dumps(one).encode() for one in items),
                            {"Content-Type": LINES})
    assert answer.status == 400 and words in answer.json["error"] and "(line 2" in answer.json["error"], answer
    for operations in ([{"type": "push", "items": items}], [{"type": "push", **items[1]}] if name != "data" else []):
        if operations:
            answer = client.post("/api/v1/transaction", {"operations": operations})
            assert answer.status == 400 and words in answer.json["error"], answer
    assert client.show(queue).status == 404, "nothing was stored"


def test_unless_the_daemon_is_as_queen_mq(start_daemon: Callable[..., Daemon], queue: str) -> None:
    with start_daemon(QUEEND_STRICT="false").client() as client:
        client.push_items([{"queue": queue, "payload": 1, "colour": "x", "ttl": 5, "headers": {"a": "b"}}])
        (message,) = client.pop(queue)
        assert message["headers"] == {"a": "b"}, "what is known acts all the same"
        assert client.post("/api/v1/push", {"items": [{"queue": queue, "headers": {"a": 1}}]}).status == 400


def test_what_published_clients_and_their_tests_send(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": "Default", "payload": {"a": 1}, "transactionId": "t1",
                        "traceId": "0190a2b4-1111-7000-8000-000000000001", "producerSub": "attacker"}])
    (message,) = client.pop(queue)
    assert message["producerSub"] is None


def test_the_failover_buffer_keeps_them(server, postgres, queue: str) -> None:  # noqa: F811
    daemon = server()
    with daemon.client() as client:
        client.push(queue, 0)
        with postgres.away():
            away(client, queue)
            (item,) = client.push(queue, 1, headers=HEADERS, traceparent=TRACE)
            assert item["status"] == "buffered"
            client.push(queue, 2)
            assert buffered(client)["pending"] >= 2
        drained(client)
        got = client.pop(queue, batch=9)
        got = [one for one in got if one["data"] in (1, 2)]
        assert [(one["data"], one.get("headers"), one.get("traceparent")) for one in got] == [
            (1, HEADERS, TRACE), (2, None, None)]


def test_an_encrypted_queue_keeps_them_readable(start_daemon: Callable[..., Daemon], queue: str) -> None:
    with start_daemon(QUEEND_ENCRYPTION_KEYS="a:" + "ab" * 32).client() as client:
        client.configure(queue, encryptionEnabled=True)
        client.push(queue, {"secret": 1}, headers=HEADERS)
        (message,) = client.pop(queue)
        assert (message["data"], message["headers"]) == ({"secret": 1}, HEADERS)
        found = client.get(f"/api/v1/messages/search?queue={queue}&text=x-tenant").json["messages"]
        assert [one["headers"] for one in found] == [HEADERS]
