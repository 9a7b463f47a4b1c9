"""Pushes: what is understood, what is refused and in which words, and the answers."""
import hashlib
import json
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_push, probe_push_reply, ProbeRefused

SEVEN = "0192f0c0-1111-7aaa-8bbb-000000000001"
FOUR = "5f0c2c8e-7a52-4f0e-9f51-3f8f7e0f3a01"


def push(*items):
    return probe_push(json.dumps({"items": list(items)}).encode())


def refused(body, **options):
    with pytest.raises(ProbeRefused) as caught:
        probe_push(body if isinstance(body, bytes) else json.dumps(body).encode(), **options)
    assert caught.value.status == 400
    return caught.value.text


def test_an_item_with_everything():
    body = (b' {"x":[1,{}],"items":[ {"queue":"orders","partition":"cust-7","payload": {"n" :'
            b' 1} ,"transactionId":"ord-1",'
            b'"traceId":"0192F0C0-0000-7000-8000-0000000000AA","namespace":5}]} ')
    digest = bytearray(hashlib.sha256(b"ord-1").digest()[:16])
    digest[6] = digest[6] & 15 | 128
    digest[8] = digest[8] & 63 | 128
    assert probe_push(body) == [{
        "queue": "orders", "partition": "cust-7", "txid": "ord-1", "txid_json": b'"ord-1"',
        "queue_json": b'"orders"', "payload": b'{"n" : 1}', "id": bytes(digest), "kind": 2, "keep_text": True,
        "trace": uuid.UUID("0192f0c0-0000-7000-8000-0000000000aa").bytes}]


def test_defaults():
    a, b = push({"queue": "q"}, {"queue": "q", "transactionId": "", "traceId": ""})
    for item in a, b:
        made = uuid.UUID(json.loads(item["txid_json"]))
        assert made.version == 7 and made.bytes == item["id"] and item["txid_json"].decode() == f'"{made}"'
        assert item["txid"] is None
        assert (item["partition"], item["payload"], item["trace"], item["kind"],
                item["keep_text"]) == ("Default", b"null", None, 0, False)
    assert a["id"] < b["id"]


@pytest.mark.parametrize("txid, kind", [
    (SEVEN, 1), (FOUR, 2), (SEVEN.replace("-8bbb-", "-0bbb-"), 1), ("00000000-0000-0000-0000-000000000000", 2)])
def test_canonical_uuids_are_their_own_ids(txid, kind):
    item, = push({"queue": "q", "transactionId": txid})
    assert (item["id"], item["kind"], item["keep_text"]) == (bytes.fromhex(txid.replace("-", "")), kind, False)


@pytest.mark.parametrize("txid", [SEVEN.upper(), SEVEN.replace("-", ""), "{" + SEVEN + "}", SEVEN + " ", "x"])
def test_every_other_text_is_hashed_and_kept(txid):
    item, = push({"queue": "q", "transactionId": txid})
    assert item["kind"] == 2 and item["keep_text"] and item["txid"] == txid
    assert item["id"][6] >> 4 == 8 and item["id"][8] >> 6 == 2


def test_an_escaped_uuid_is_the_uuid():
    body = b'{"items":[{"queue":"q","transactionId":"\\u0030%s"}]}' % SEVEN[1:].encode()
    item, = probe_push(body)
    assert item["id"] == uuid.UUID(SEVEN).bytes and not item["keep_text"]
    assert item["txid_json"] == b'"\\u0030' + SEVEN[1:].encode() + b'"'


@pytest.mark.parametrize("payload", [
    b'"text"', b"42.5", b"null", b"true", b"[1, 2]", b'{"a":1,"a":2}',
    b"123456789012345678901234567890.5e-7", b'"\\u0000"', b'"\\ud800"', '"ü \U0001f600"'.encode(), b"{ }", b'"\\/"'])
def test_payloads_stay_as_written(payload):
    item, = probe_push(b'{"items":[{"queue":"q","payload": %b }]}' % payload)
    assert item["payload"] == payload


def test_names_are_decoded_and_echoed_as_written():
    item, = probe_push(b'{"items":[{"queue":"g \\u00fc?\\n","partition":"p/1 %"}]}')
    assert (item["queue"], item["queue_json"], item["partition"]) == ("g ü?\n", b'"g \\u00fc?\\n"', "p/1 %")


def test_keys_may_be_written_with_escapes_and_the_last_one_counts():
    item, = probe_push(b'{"it\\u0065ms":[{"\\u0071ueue":"a","queue":"b","payload":1,"payload":2,'
                       b'"transactionId":5,"transactionId":"t"}]}')
    assert (item["queue"], item["payload"], item["txid"]) == ("b", b"2", "t")


def test_nothing_to_push():
    assert probe_push(b'{"items":[]}') == [] and probe_push_reply(b'{"items":[]}', []) == b"[]"


@pytest.mark.parametrize("body", [{}, [], "x", None, 5, {"items": None}, {"items": {}}, {"Items": []}])
def test_items_are_required(body):
    assert refused(body) == "items array is required"


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_an_empty_body(body):
    assert refused(body) == "Empty request body"


@pytest.mark.parametrize("body", [
    b"{", b'{"items":[}', b'{"items":[{"queue":"q"}]', b'{"items":[{"queue":"q"}]}x',
    b'{"items":[{"queue":"q",}]}', b"\xff",
    b'{"items":[{"queue":"\xff"}]}', b'{"items":[{"queue":"q","payload":01}]}',
    b'{"items":[{"queue":"q"}],"x":nul}', b"[",
    b'{"items":[{"queue":"q","payload":' + b"[" * 600 + b"]" * 600 + b"}]}"])
def test_malformed_json(body):
    assert refused(body).startswith("Invalid JSON: ")


@pytest.mark.parametrize("item, text", [
    (5, "Each item must be an object (item 1)"),
    ({}, "Queue must be a string (item 1, field queue)"),
    ({"queue": None}, "Queue must be a string (item 1, field queue)"),
    ({"queue": 5, "partition": 5}, "Partition must be a string (item 1, field partition)"),
    ({"queue": "q", "partition": None}, "Partition must be a string (item 1, field partition)"),
    ({"queue": "q", "transactionId": None}, "TransactionId must be a string (item 1, field transactionId)"),
    ({"queue": "q", "traceId": []}, "TraceId must be a string (item 1, field traceId)"),
    ({"queue": "q", "traceId": "nope"}, "TraceId must be a UUID (item 1, field traceId)"),
    ({"queue": ""}, "Queue must be a non-empty text of at most 255 bytes (item 1, field queue)"),
    ({"queue": "ü" * 128}, "Queue must be a non-empty text of at most 255 bytes (item 1, field queue)"),
    ({"queue": "a\0"}, "Queue must be a non-empty text of at most 255 bytes (item 1, field queue)"),
    ({"queue": "\ud800"}, "Queue must be a non-empty text of at most 255 bytes (item 1, field queue)"),
    ({"queue": "q", "partition": "\0"}, "Partition must be valid text of at most 255 bytes (item 1, field partition)"),
    ({"queue": "q", "transactionId": "a\0"},
     "TransactionId must be valid text of at most 255 characters (item 1, field transactionId)"),
    ({"queue": "q", "transactionId": "ü" * 256},
     "TransactionId must be valid text of at most 255 characters (item 1, field transactionId)"),
])
def test_a_bad_item_is_named(item, text):
    assert refused({"items": [{"queue": "q"}, item, {"queue": "q"}]}) == text


def test_limits_are_inclusive():
    item, = push({"queue": "ü" * 127 + "q", "partition": "", "transactionId": "ü" * 255})
    assert len(item["queue"].encode()) == 255 and item["partition"] == "" and len(item["txid"]) == 255
    body = {"items": [{"queue": "q"}] * 3}
    assert len(probe_push(json.dumps(body).encode(), max_items=3)) == 3
    assert refused(body, max_items=2) == "items has more than 2 elements"


def test_thousands_of_items_keep_their_order():
    items = push(*({"queue": f"q{i}", "payload": i, "transactionId": str(i)} for i in range(9999)))
    assert [(int(i["payload"]), i["txid"], i["queue"]) for i in items] == [(i, str(i), f"q{i}") for i in range(9999)]


def test_answers():
    body = json.dumps({"items": [{"queue": "orders", "transactionId": "a\"b"},
                                 {"queue": "orders", "transactionId": "d"},
                                 {"queue": "orders", "transactionId": "f"},
                                 {"queue": "ü", "traceId": SEVEN, "transactionId": "t"}]}).encode()
    stored = uuid.UUID(SEVEN).bytes
    answer = json.loads(probe_push_reply(body, [(0, stored, FOUR.encode()), (1, stored, FOUR.encode()),
                                                (2, stored, FOUR.encode()), (0, stored, FOUR.encode())]))
    assert answer == [
        {"index": 0, "transaction_id": 'a"b', "status": "queued", "message_id": SEVEN, "partition_id": FOUR,
         "trace_id": None, "queueName": "orders"},
        {"index": 1, "transaction_id": "d", "status": "duplicate", "message_id": SEVEN, "queueName": "orders"},
        {"index": 2, "transaction_id": "f", "status": "failed", "error": answer[2]["error"], "queueName": "orders"},
        {"index": 3, "transaction_id": "t", "status": "queued", "message_id": SEVEN, "partition_id": FOUR,
         "trace_id": SEVEN, "queueName": "ü"}]
    assert answer[2]["error"]


# ---- against a model -------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]),
                max_size=12) | st.sampled_from(["", SEVEN, FOUR, SEVEN.upper(), "x" * 256, "a\0b"])
anything = (
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
                 lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=6))
an_item = st.fixed_dictionaries({}, optional={"queue": texts | anything, "partition": texts | anything,
                                              "transactionId": texts | anything,
                                              "traceId": st.sampled_from([SEVEN, ""]) | anything,
                                              "payload": anything, "more": anything})
good_item = st.fixed_dictionaries({"queue": texts},
                                  optional={"partition": texts, "transactionId": texts, "payload": anything})
documents = st.fixed_dictionaries(
    {}, optional={"items": st.lists(good_item | an_item, max_size=4) | anything, "else": anything})


def model(doc):
    """The items as (queue, partition, transactionId or None, trace, payload), or None when the push is refused."""
    if not isinstance(doc.get("items"), list):
        return None
    out = []
    for item in doc["items"]:
        if not isinstance(item, dict):
            return None
        queue, part, txid, trace = (item.get("queue"), item.get("partition", "Default"), item.get("transactionId", ""),
                                    item.get("traceId", ""))
        if not all(isinstance(text, str) and "\0" not in text for text in (queue, part, txid, trace)):
            return None
        if not queue or len(queue.encode()) > 255 or len(part.encode()) > 255 or len(txid) > 255:
            return None
        if trace:
            if len(trace) != 36:
                return None
            try:
                trace = uuid.UUID(trace).bytes
            except ValueError:
                return None
        out.append((queue, part, txid or None, trace or None, item.get("payload")))
    return out


@settings(max_examples=300)
@given(documents, st.booleans())
def test_random_pushes_agree_with_the_model(doc, ascii):
    body = json.dumps(doc, ensure_ascii=ascii).encode()
    expected = model(doc)
    if expected is None:
        refused(body)
        return
    found = probe_push(body)
    assert len(found) == len(expected)
    for item, (queue, part, txid, trace, payload) in zip(found, expected):
        assert (item["queue"], item["partition"], item["trace"]) == (queue, part, trace)
        assert txid is None or item["txid"] == txid
        assert json.loads(item["txid_json"]) == (item["txid"] or str(uuid.UUID(bytes=item["id"])))
        assert json.loads(item["queue_json"]) == queue
        assert json.loads(item["payload"]) == payload


@settings(max_examples=300)
@given(documents, st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
       st.integers(0, 400))
def test_damaged_pushes_are_read_right_or_refused(doc, edits, cut):
    body = bytearray(json.dumps(doc).encode())
    for at, byte in edits:
        body[at % len(body)] = byte
    body = bytes(body[:cut] if cut < 200 else body)
    try:
        items = probe_push(body)
    except ProbeRefused as refusal:
        assert refusal.status == 400 and refusal.text
        return
    assert len(items) == len(json.loads(body)["items"])
