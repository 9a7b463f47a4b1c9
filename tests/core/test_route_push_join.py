"""Items that came one by one and follow each other in one partition go through the engine as runs; nobody can tell from
the answer."""
import json
import uuid

import pytest

from queend._core import probe_push, probe_push_reply, probe_push_runs

PLAIN = 0x10
LEAST = 128
NDJSON = b"application/x-ndjson"


def ident(n: int, version: int = 7) -> str:
    return f"0192f0c0-{n:04x}-{version}aaa-8bbb-000000000001"


def items(n: int, **more) -> list[dict]:
    return [{"queue": "q", "partition": "p", "transactionId": ident(k), "payload": {"n": k}} | more for k in range(n)]


def body(rows: list[dict]) -> bytes:
    return json.dumps({"items": rows}).encode()


def forms(rows: list[dict], **options):
    """How they go through the engine: the same in both forms."""
    one = probe_push_runs(body(rows), **options)
    assert probe_push_runs("\n".join(map(json.dumps, rows)).encode(), kind=NDJSON, **options) == one
    return one


@pytest.mark.parametrize("n", [1, LEAST - 1, LEAST, 1000])
def test_from_so_many_on(n: int) -> None:
    assert forms(items(n)) == ([(n, PLAIN)] if n >= LEAST else [(1, None)] * n)


@pytest.mark.parametrize("version", [4, 7])
def test_what_a_run_holds(version: int) -> None:
    rows = items(200)
    for k, row in enumerate(rows):
        row["transactionId"] = ident(k * 7919 % 1000, version)
    assert forms(rows) == [(200, PLAIN)]
    got = probe_push(body(rows))
    assert [item["id"] for item in got] == [uuid.UUID(row["transactionId"]).bytes for row in rows]
    assert {item["kind"] for item in got} == {1 if version == 7 else 2}
    assert [json.loads(item["payload"]) for item in got] == [row["payload"] for row in rows]
    assert {(item["queue"], item["partition"], item["queue_json"], item["trace"], item["keep_text"])
            for item in got} == {("q", "p", b'"q"', None, False)}
    assert [json.loads(item["txid_json"]) for item in got] == [row["transactionId"] for row in rows]


def test_ids_made_here_rise() -> None:
    rows = [{"queue": "q", "payload": k} for k in range(300)]
    assert forms(rows) == [(300, PLAIN)]
    got = probe_push(body(rows))
    assert {item["kind"] for item in got} == {0} and {item["partition"] for item in got} == {"Default"}
    assert [item["id"] for item in got] == sorted({item["id"] for item in got})


@pytest.mark.parametrize("odd", [
    {"partition": "other"}, {"queue": "other"}, {"transactionId": "text"}, {"transactionId": ""},
    {"transactionId": ident(150).upper()}, {"traceId": ident(1)}], ids=str)
def test_what_ends_a_run(odd: dict) -> None:
    """What stands before and behind keeps its order and is joined by itself."""
    rows = items(400)
    rows[150] |= odd
    assert forms(rows) == [(150, PLAIN), (1, None), (249, PLAIN)]
    assert [json.loads(item["payload"])["n"] for item in probe_push(body(rows))] == list(range(400))
    rows = items(250)
    rows[LEAST - 1] |= odd
    assert forms(rows) == [(1, None)] * 250


def test_an_id_that_comes_twice_leaves_them_items() -> None:
    rows = items(200)
    rows[199]["transactionId"] = rows[3]["transactionId"]
    assert forms(rows) == [(1, None)] * 200


def test_rows_of_the_log_are_not_larger_than_others() -> None:
    assert forms(items(2300)) == [(1000, PLAIN), (1000, PLAIN), (300, PLAIN)]
    assert forms(items(300, payload="x" * 400)) == [(163, PLAIN), *[(137, PLAIN)]]
    assert forms(items(3, payload="x" * 70_000)) == [(1, None)] * 3
    assert forms(items(130, payload="x" * 70_000)) == [(1, None)] * 130


@pytest.mark.parametrize("status", [0, 2])
def test_the_answer_is_that_of_items(status: int) -> None:
    part = uuid.uuid4()
    rows = items(140, queue='q"\\')
    got = json.loads(probe_push_reply(body(rows), [(status, bytes(16), str(part).encode())]))
    assert [(each["index"], each["transaction_id"], each["queueName"])
            for each in got] == [(k, ident(k), 'q"\\') for k in range(140)]
    if status:
        assert {each["status"] for each in got} == {"failed"} and "message_id" not in got[0]
    else:
        assert {(each["status"], each["partition_id"], each["trace_id"])
                for each in got} == {("queued", str(part), None)}
        assert [each["message_id"] for each in got] == sorted({each["message_id"] for each in got})
    assert json.loads(probe_push_reply(body(rows), [(status, bytes(16), str(part).encode())],
                                       query=b"format=counts")) == {
        "count": 140, "queued": 0 if status else 140, "duplicate": 0, "error": 140 if status else 0}
