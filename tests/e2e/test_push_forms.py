"""Pushes in other forms than JSON: what is stored and answered is the same."""
from __future__ import annotations

import json

import pyarrow as pa
import pytest
from support.client import Client, data
from support.http import Answer

NDJSON = {"Content-Type": "application/x-ndjson"}


def lines(client: Client, query: str, *body: bytes) -> Answer:
    return client.request("POST", f"/api/v1/push?{query}", b"\n".join(body), NDJSON)


def test_lines_that_are_items(client: Client, queue: str) -> None:
    answer = lines(client, f"queue={queue}&partition=a", b'{"payload":{"n":1},"transactionId":"t"}', b"",
                   b'{"payload":2,"partition":"b"}', b'{"payload":3,"transactionId":"t"}\r')
    assert answer.status == 201
    assert [(one["index"], one["status"], one["queueName"]) for one in answer.json] == [
        (0, "queued", queue), (1, "queued", queue), (2, "duplicate", queue)]
    assert answer.json[2]["message_id"] == answer.json[0]["message_id"]
    (first,), (second,) = client.pop(queue, "a", batch=9), client.pop(queue, "b", batch=9)
    assert (first["data"], first["transactionId"], first["id"]) == ({"n": 1}, "t", answer.json[0]["message_id"])
    assert (second["data"], second["transactionId"]) == (2, answer.json[1]["transaction_id"])


def test_lines_that_are_payloads(client: Client, queue: str) -> None:
    payloads = [json.dumps({"n": n, "text": "é" * (n % 40)}, ensure_ascii=bool(n % 2)).encode() for n in range(2500)]
    answer = lines(client, f"queue={queue}&payload=line&format=counts", *payloads)
    assert (answer.status, answer.json) == (201, {"count": 2500, "queued": 2500, "duplicate": 0, "error": 0})
    assert data(client.pop(queue, batch=5000)) == [json.loads(one) for one in payloads]


def test_a_bad_line_stores_nothing(client: Client, queue: str) -> None:
    answer = lines(client, f"queue={queue}", b'{"payload":1}', b'{"payload":1,}')
    assert (answer.status, answer.json) == (400, {"error": "Invalid JSON: expected a key at byte 13 (line 2)"})
    assert lines(client, f"queue={queue}", b'{"payload":2}').status == 201
    assert data(client.pop(queue, batch=9)) == [2]


@pytest.mark.parametrize("body", [b"\n", b" \r\n\n"], ids=["one", "two"])
def test_no_lines_at_all(client: Client, queue: str, body: bytes) -> None:
    assert lines(client, f"queue={queue}", body).json == []
    assert lines(client, f"queue={queue}&format=counts",
                 body).json == {"count": 0, "queued": 0, "duplicate": 0, "error": 0}


def test_numbers_for_json(client: Client, queue: str) -> None:
    items = {"items": [{"queue": queue, "payload": 1, "transactionId": "t"}] * 2}
    answer = client.post("/api/v1/push?format=counts", items)
    assert (answer.status, answer.json) == (201, {"count": 2, "queued": 1, "duplicate": 1, "error": 0})
    assert client.post("/api/v1/push?format=xml", items).status == 400


def arrow(client: Client, query: str, *batches: pa.RecordBatch) -> Answer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write(batch)
    return client.request("POST", f"/api/v1/push?{query}", sink.getvalue().to_pybytes(),
                          {"Content-Type": "application/vnd.apache.arrow.stream"})


def test_rows_of_arrow_batches(client: Client, queue: str) -> None:
    batches = [
        pa.record_batch({"queue": pa.array([queue] * 3).dictionary_encode(), "partition": pa.array(["a", None, "a"]),
                         "transactionId": pa.array([f"t{k}", None, "same"]),
                         "payload": pa.array([f'{{"k": {k}}}', "2", None])}) for k in range(2)]
    answer = arrow(client, "", *batches)
    assert answer.status == 201
    assert [(one["index"], one["status"], one["queueName"]) for one in answer.json] == [
        (n, "duplicate" if n == 5 else "queued", queue) for n in range(6)]
    assert [one["transaction_id"] for one in answer.json][::3] == ["t0", "t1"]
    popped = client.pop(queue, "a", batch=9)
    assert [(one["data"], one["transactionId"])
            for one in popped] == [({"k": 0}, "t0"), (None, "same"), ({"k": 1}, "t1")]
    assert [one["id"] for one in popped] == [answer.json[n]["message_id"] for n in (0, 2, 3)]
    assert data(client.pop(queue, "Default", batch=9)) == [2, 2]
    assert arrow(client, "format=counts", *batches).json == {"count": 6, "queued": 2, "duplicate": 4, "error": 0}


def test_many_rows_of_many_partitions(client: Client, queue: str) -> None:
    rows = [(f"p{n % 17}", n) for n in range(5000)]
    batch = pa.record_batch({"partition": pa.array([part for part, _ in rows]),
                             "payload": pa.array([str(n) for _, n in rows], pa.large_utf8())})
    assert arrow(client, f"queue={queue}&format=counts",
                 batch).json == {"count": 5000, "queued": 5000, "duplicate": 0, "error": 0}
    for part in range(17):
        assert data(client.pop(queue, f"p{part}", batch=1000)) == list(range(part, 5000, 17))


def test_a_bad_row_stores_nothing(client: Client, queue: str) -> None:
    answer = arrow(client, f"queue={queue}", pa.record_batch({"payload": pa.array(["1", "{"])}))
    assert (answer.status,
            answer.json) == (400, {"error": "Invalid JSON: unexpected end at byte 1 (row 1, field payload)"})
    assert client.pop(queue) == []


@pytest.mark.parametrize("form", ["json", "lines"])
def test_items_that_are_joined_are_told_apart(client: Client, queue: str, form: str) -> None:
    """Many items of one partition become one row; some that are stored already, and one from another partition between
    them, change nothing for the others."""
    def push(numbers: range) -> list[dict]:
        items = [{"queue": queue, "partition": "p", "transactionId": f"0192f0c0-{n:04x}-7aaa-8bbb-000000000001",
                  "payload": {"n": n, "text": "x" * 20}} for n in numbers]
        items[140]["partition"] = "other"
        if form == "json":
            return client.request("POST", "/api/v1/push", json.dumps({"items": items}).encode(),
                                  {"Content-Type": "application/json"}).json
        return lines(client, "", *(json.dumps(item).encode() for item in items)).json

    first, second = push(range(300)), push(range(290, 600))
    assert [one["index"] for one in first + second] == [*range(300), *range(310)]
    assert {one["status"] for one in first} == {"queued"}
    assert [one["status"] for one in second] == ["duplicate"] * 10 + ["queued"] * 300
    assert [one["message_id"] for one in second[:10]] == [one["message_id"] for one in first[290:]]
    assert second[11]["transaction_id"] == "0192f0c0-012d-7aaa-8bbb-000000000001"
    got = client.pop(queue, "p", batch=1000)
    assert [message["data"]["n"] for message in got] == [n for n in range(600) if n not in (140, 430)]
    stored = {one["transaction_id"]: one["message_id"] for one in first + second}
    assert all(stored[message["transactionId"]] == message["id"] for message in got)
    assert [message["data"]["n"] for message in client.pop(queue, "other", batch=9)] == [140, 430]
