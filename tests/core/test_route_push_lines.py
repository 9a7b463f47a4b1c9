"""Pushes as NDJSON: what is understood, what is refused with which line, and the two forms of the answer."""
import json
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import ProbeRefused, probe_push, probe_push_reply, probe_push_runs

NDJSON = b"application/x-ndjson"
ID = "0192f0c0-1111-7aaa-8bbb-000000000001"


def lines(body: bytes, query: bytes = b"", **options):
    return probe_push(body, kind=NDJSON, query=query, **options)


def refused(body: bytes, query: bytes = b"", **options) -> str:
    with pytest.raises(ProbeRefused) as caught:
        lines(body, query, **options)
    assert caught.value.status == 400
    return caught.value.text


def brief(items):
    return [(item["queue"], item["partition"], item["txid"], item["payload"]) for item in items]


def test_a_line_is_an_item_as_in_the_json_push():
    item = b'{"queue":"q","partition":"p","transactionId":"t","traceId":"%s","payload": {"n" : 1} }' % ID.encode()
    assert lines(item) == probe_push(b'{"items":[' + item + b"]}")


@pytest.mark.parametrize("kind", [NDJSON, b"Application/X-NDJSON", b"application/x-ndjson; charset=utf-8",
                                  b"application/x-ndjson ;x=y"])
def test_the_type_in_any_spelling(kind):
    assert len(probe_push(b'{"queue":"q"}\n{"queue":"r"}', kind=kind)) == 2


@pytest.mark.parametrize("kind", [b"application/x-ndjsonx", b"application/json", b"text/plain", None])
def test_every_other_type_is_json(kind):
    with pytest.raises(ProbeRefused, match="items array is required|Invalid JSON"):
        probe_push(b'{"queue":"q"}\n{"queue":"r"}', kind=kind)


def test_the_query_names_what_an_item_does_not():
    body = (b'{"payload":1}\n{"queue":"own","payload":2}\n{"partition":"mine","payload":3}\n'
            b'{"queue":"own","partition":"mine","payload":4}\n')
    assert brief(lines(body, b"queue=caf%C3%A9&partition=p+1")) == [
        ("café", "p 1", None, b"1"), ("own", "p 1", None, b"2"), ("café", "mine", None, b"3"),
        ("own", "mine", None, b"4")]
    assert lines(b'{"payload":1}', b"queue=q")[0]["partition"] == "Default"
    assert refused(b'{"queue":"own"}\n{"payload":1}') == "Queue must be a string (line 2, field queue)"


def test_a_line_is_a_payload():
    items = lines(b'{"a": 1} \n[2]\n"x"\n null', b"payload=line&queue=q&partition=p")
    assert brief(items) == [("q", "p", None, payload) for payload in (b'{"a": 1}', b"[2]", b'"x"', b"null")]
    ids = [item["id"] for item in items]
    assert ids == sorted(ids) and len(set(ids)) == 4
    assert all(uuid.UUID(bytes=item["id"]).version == 7 and item["kind"] == 0
               and not item["keep_text"] for item in items)
    assert [json.loads(item["txid_json"]) for item in items] == [str(uuid.UUID(bytes=one)) for one in ids]
    assert lines(b"1", b"payload=line&queue=q")[0]["partition"] == "Default"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \t\r\n", b"\n\n", b"\r\n \r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("first", [b"", b"\n", b" \r\n\n"])
def test_ends_of_lines_and_blank_ones(end, last, first):
    body = first + end.join(b'{"queue":"q","payload":%d}' % n for n in range(5)) + (end if last else b"")
    assert [item["payload"] for item in lines(body)] == [b"%d" % n for n in range(5)]
    assert [item["payload"] for item in lines(first + end.join([b"1", b'"2"', b"[3]"]) + (end if last else b""),
                                              b"payload=line&queue=q")] == [b"1", b'"2"', b"[3]"]


@pytest.mark.parametrize("body", [b"\n", b" \r\n\r\n", b"\n\n\n"])
def test_only_blank_lines_are_no_items(body):
    assert lines(body) == []


@pytest.mark.parametrize("body, query, text", [
    (b"", b"", "Empty request body"),
    (b'{"queue":"q"}\n\n5', b"", "Each item must be an object (line 3)"),
    (b'{"queue":"q"}\n{"queue":"q"', b"", "Invalid JSON: unexpected end at byte 12 (line 2)"),
    (b'{"queue":"q"} {"queue":"q"}', b"", "Invalid JSON: unexpected byte after the value at byte 14 (line 1)"),
    (b'{"queue":\n"q"}', b"", "Invalid JSON: unexpected end at byte 9 (line 1)"),
    (b'{"queue":"q"}\r{"queue":"q"}', b"", "Invalid JSON: unexpected byte after the value at byte 14 (line 1)"),
    (b'\xef\xbb\xbf{"queue":"q"}', b"", "Invalid JSON: unexpected byte at byte 0 (line 1)"),
    (b'{"queue":"q"}\n\x00', b"", "Invalid JSON: unexpected byte at byte 0 (line 2)"),
    (b'{"queue":""}', b"queue=q", "Queue must be a non-empty text of at most 255 bytes (line 1, field queue)"),
    (b'{"queue":null}', b"queue=q", "Queue must be a string (line 1, field queue)"),
    (b'{"queue":"q","partition":5}', b"partition=p", "Partition must be a string (line 1, field partition)"),
    (b'{"queue":"q"}\n{"queue":"q","transactionId":5}', b"",
     "TransactionId must be a string (line 2, field transactionId)"),
    (b'{"queue":"q"}\n{"queue":"q","traceId":"no"}', b"", "TraceId must be a UUID (line 2, field traceId)"),
    (b"1\n01", b"payload=line&queue=q", "Invalid JSON: unexpected byte after the value at byte 1 (line 2)"),
    (b'1\n"\xff"', b"payload=line&queue=q", "Invalid JSON: invalid UTF-8 at byte 1 (line 2)"),
    (b"1\n[" + b"[" * 600, b"payload=line&queue=q", "Invalid JSON: nested too deep at byte 512 (line 2)"),
    (b"1", b"payload=line", "payload=line needs a queue in the query"),
    (b"1", b"payload=lines", "payload must be item or line, and is for application/x-ndjson"),
    (b"1", b"format=csv", "format must be array or counts"),
    (b"1", b"queue=", "Queue must be a non-empty text of at most 255 bytes (query, field queue)"),
    (b"1", b"queue=" + b"x" * 256, "Queue must be a non-empty text of at most 255 bytes (query, field queue)"),
    (b"1", b"queue=%ff", "Queue must be a non-empty text of at most 255 bytes (query, field queue)"),
    (b"1", b"queue=a%00", "Queue must be a non-empty text of at most 255 bytes (query, field queue)"),
    (b"1", b"queue=q&partition=" + b"x" * 256,
     "Partition must be valid text of at most 255 bytes (query, field partition)"),
])
def test_refusals_name_the_line(body, query, text):
    assert refused(body, query) == text


def test_the_number_of_items_is_bounded():
    assert len(lines(b"1\n\n2\n\n3", b"payload=line&queue=q", max_items=3)) == 3
    assert refused(b"1\n\n2\n\n3\n4", b"payload=line&queue=q", max_items=3) == "The body has more than 3 items (line 6)"


def test_answers():
    body = b'{"queue":"\\u0071","transactionId":"\\u0061"}\n{"payload":1}\n{"payload":2}\n{"payload":3}'
    stored, part = uuid.UUID(ID).bytes, b"5f0c2c8e-7a52-4f0e-9f51-3f8f7e0f3a01"
    results = [(0, stored, part), (0, stored, part), (1, stored, part), (2, stored, part)]
    answer = probe_push_reply(body, results, NDJSON, b'queue=a"b')
    assert answer.startswith(b'[{"index":0,"transaction_id":"\\u0061",') and b'"queueName":"\\u0071"' in answer
    one, two, three, four = json.loads(answer)
    assert two == {"index": 1, "transaction_id": two["transaction_id"], "status": "queued", "message_id": ID,
                   "partition_id": part.decode(), "trace_id": None, "queueName": 'a"b'}
    assert uuid.UUID(two["transaction_id"]).version == 7
    assert (one["status"], three["status"], four["status"]) == ("queued", "duplicate", "failed")
    counts = b'{"count":4,"queued":2,"duplicate":1,"error":1}'
    assert probe_push_reply(body, results, NDJSON, b"format=counts&queue=q") == counts
    assert probe_push_reply(b'{"items":[' + b",".join([b'{"queue":"q"}'] * 4) + b"]}", results, None,
                            b"format=counts") == counts
    assert probe_push_reply(b"\n", [], NDJSON) == b"[]"
    assert probe_push_reply(b"\n", [], NDJSON, b"format=counts") == b'{"count":0,"queued":0,"duplicate":0,"error":0}'


documents = st.lists(st.one_of(
    st.fixed_dictionaries({}, optional={"queue": st.text("aü\"\\", min_size=1, max_size=4),
                                        "partition": st.text(max_size=3).filter(lambda s: "\0" not in s),
                                        "transactionId": st.text("x1", max_size=3), "payload": st.recursive(
                                            st.none() | st.integers() | st.text(max_size=3), st.lists, max_leaves=3)}),
    st.none()), max_size=8)


@settings(max_examples=200)
@given(documents, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_any_lines_against_the_json_push(items, ascii_only, end):
    text = end.join("" if item is None else json.dumps(item, ensure_ascii=ascii_only)
                    for item in items).encode("utf-8", "surrogatepass")
    whole = [{"queue": "q", "partition": "p", **item} for item in items if item is not None]
    if not text:
        return
    try:
        expected = brief(probe_push(json.dumps({"items": whole}).encode()))
    except ProbeRefused:
        refused(text, b"queue=q&partition=p")
    else:
        if ascii_only:
            assert [one[:3] for one in brief(lines(text, b"queue=q&partition=p"))] == [one[:3] for one in expected]
        assert [json.loads(one["payload"]) for one in lines(text, b"queue=q&partition=p")] == [
            json.loads(one[3]) for one in expected]


@settings(max_examples=200)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
       st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_lines_are_read_right_or_refused(numbers, edits):
    body = bytearray(b"\n".join(b'{"queue":"q","payload":[%d]}' % n for n in numbers))
    for at, byte in edits:
        body[at % len(body)] = byte
    try:
        items = lines(bytes(body))
    except ProbeRefused as refusal:
        assert refusal.status == 400 and "(line " in refusal.text
        return
    assert len(items) == len([line for line in bytes(body).split(b"\n") if line.strip(b" \t\r")])


@pytest.mark.parametrize("size, count", [(10, 2500), (3000, 100), (70_000, 5), (1, 15), (1, 16), (1000, 1000)])
def test_payloads_become_rows_of_the_log(size, count):
    body = b"\n".join(b'"%s"' % (b"%d" % n).zfill(size) for n in range(count))
    runs = probe_push_runs(body, kind=NDJSON, query=b"queue=q&payload=line")
    assert sum(n for n, _ in runs) == count
    assert all(n <= 1000 and n * size <= 65536 for n, codec in runs if codec is not None)
    assert (len(runs) == count) == (count < 16 or size > 65536 // 16)
    items = lines(body, b"queue=q&payload=line")
    assert [int(json.loads(item["payload"])[-6:]) for item in items] == list(range(count))
    ids = [item["id"] for item in items]
    assert ids == sorted(ids) and len(set(ids)) == count
