"""Transactions: operations flattened, fences and riders, and the answers."""
import json
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_tx, probe_tx_reply, ProbeRefused

SEVEN = "0192f0c0-1111-7aaa-8bbb-000000000001"
PART = "5f0c2c8e-7a52-4f0e-9f51-3f8f7e0f3a01"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ACK = {"type": "ack", "transactionId": "t", "partitionId": PART}
PUSH = {"type": "push", "items": [{"queue": "a", "payload": 1, "transactionId": "x"}, {"queue": "b", "partition": "p"}]}


def tx(*operations, **fields):
    return probe_tx(json.dumps({"operations": list(operations)} | fields).encode())


def refused(*operations, **fields):
    with pytest.raises(ProbeRefused) as caught:
        tx(*operations, **fields)
    assert caught.value.status == 400
    return caught.value.text


def refused_body(body, **options):
    with pytest.raises(ProbeRefused) as caught:
        probe_tx(body, **options)
    assert caught.value.status == 400
    return caught.value.text


def test_the_array_of_the_operations_alone():
    named = {"type": "push", "items": [{"queue": "q", "transactionId": "x"}]}
    ops, required = probe_tx(json.dumps([ACK, named]).encode())
    assert [kind for kind, _ in ops] == ["ack", "push"] and required == []
    assert ops[0] == tx(ACK, named)[0][0] and ops[1][1]["txid"] == "x"
    assert [kind for kind, _ in probe_tx(b" " + json.dumps([ACK, PUSH]).encode())[0]] == ["ack", "push", "push"]


def test_operations_are_flattened_in_order():
    ops, required = tx(ACK | {"leaseId": SEVEN, "consumerGroup": "g"}, PUSH, {"type": "push", "items": []},
                       ACK | {"status": "dlq", "error": "e"}, requiredLeases=[SEVEN, PART])
    assert [kind for kind, _ in ops] == ["ack", "push", "push", "ack"]
    first, a, b, last = [op for _, op in ops]
    assert first["group"] == "g" and first["lease"] == uuid.UUID(SEVEN).bytes and first["status"] == 0
    assert (a["queue"], a["partition"], a["payload"], a["txid"]) == ("a", "Default", b"1", "x")
    assert (b["queue"], b["partition"], b["payload"], b["kind"]) == ("b", "p", b"{}", 0)
    assert last["group"] == "__QUEUE_MODE__" and (last["status"], last["error"]) == (2, "e")
    assert required == [uuid.UUID(SEVEN).bytes, uuid.UUID(PART).bytes]


@pytest.mark.parametrize("given_payload, payload", [({}, b"{}"), ({"payload": None}, b"null"), ({"data": [1]}, b"[1]"),
                                                    ({"payload": 2, "data": 1}, b"2")])
def test_the_flat_form(given_payload, payload):
    (kind, item), = tx({"type": "push", "queue": "q", "partition": None, "traceId": None,
                        "transactionId": None} | given_payload)[0]
    assert kind == "push" and item["payload"] == payload and item["partition"] == "Default"


def test_data_is_no_payload_in_a_list():
    (_, item), = tx({"type": "push", "items": [{"queue": "q", "data": 5}]})[0]
    assert item["payload"] == b"{}"


def test_an_empty_push_is_an_operation_of_none():
    assert tx({"type": "push", "items": []}) == ([], [])


def test_a_type_may_be_written_anywhere():
    assert tx({"transactionId": "t", "partitionId": "7", "type": "ack"})[0][0][1]["number"] == 7


@pytest.mark.parametrize("kind, spelled", [({"type": "frobnicate"}, b'"frobnicate"'), ({}, b"null"), (
    {"type": None}, b"null"), ({"type": 5}, b"5"), ({"type": "Push"}, b'"Push"')])
def test_unknown_types_are_judged_in_order(kind, spelled):
    assert tx(ACK, kind)[0][1] == ("unknown", spelled)


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_riders_with_nothing_in_them(value):
    if value == "":
        assert refused(ACK, kv=value) == "kv is not supported in a transaction"
    else:
        assert tx(ACK, kv=value, timers=value, positions=value) == tx(ACK)


@pytest.mark.parametrize("rider", ["kv", "timers", "positions"])
@pytest.mark.parametrize("value", [[{"op": "check"}], {"a": 1}, True, 5, "x"])
def test_a_rider_is_never_dropped(rider, value):
    if rider in ("kv", "timers") and isinstance(value, list):
        assert refused(ACK, **{rider: value}).endswith("(operation 0)"), "read, and invalid"
        return
    assert refused(ACK, **{rider: value}) == f"{rider} is not supported in a transaction"
    body = b'{"%s":%s,"operations":[]}' % (rider.replace(rider[0], f"\\u{ord(rider[0]):04x}", 1).encode(),
                                           json.dumps(value).encode())
    assert refused_body(body) == f"{rider} is not supported in a transaction"


def test_leases_of_messages_that_had_none():
    assert tx(ACK, requiredLeases=["", None])[1] == [] == tx(ACK, requiredLeases=None)[1]
    assert tx(ACK, requiredLeases=["nonsense"])[1] == [bytes(16)], "a lease nobody can hold"
    assert len(tx(ACK, requiredLeases=[SEVEN] * 100)[1]) == 100


@pytest.mark.parametrize("leases, text", [
    (SEVEN, "requiredLeases must be an array (field requiredLeases)"),
    ({}, "requiredLeases must be an array (field requiredLeases)"),
    ([SEVEN, 5], "A required lease must be a string (element 1, field requiredLeases)"),
    ([None, [SEVEN]], "A required lease must be a string (element 1, field requiredLeases)")])
def test_a_fence_is_never_dropped(leases, text):
    assert refused(ACK, requiredLeases=leases) == text


@pytest.mark.parametrize("body, text", [
    (b"", "Empty request body"), (b"{}", "operations array required"), (b"[]", "operations array cannot be empty"),
    (b" [5]", "Each operation must be an object (operation 0)"), (b'[{"type":"push","items":[{"queue":"q"}]}',
                                                                  "Invalid JSON: unexpected end at byte 40"),
    (b'{"operations":{}}', "operations array required"),
    (b'{"operations":[]}', "operations array cannot be empty"),
    (b'{"operations":[5]}', "Each operation must be an object (operation 0)"),
    (b'{"operations":[{"type":"push","items":[{"queue":"q"}]}],"operations":[]}', "operations is given twice"),
    (json.dumps({"operations": [ACK]}).encode()[:-1] + b',"requiredLeases":["x"],"requiredLeases":['
     + b",".join([b'"x"'] * 9000) + b"]}", "requiredLeases is given twice")])
def test_refused_bodies(body, text):
    assert refused_body(body) == text


@pytest.mark.parametrize("operation, text", [
    ({"type": "ack"}, "transactionId is required (operation 1, field transactionId)"),
    ({"type": "ack", "transactionId": "t"},
     "partitionId is required to ensure message uniqueness (operation 1, field partitionId)"),
    (ACK | {"partitionId": "x"}, "partitionId must be a UUID (operation 1, field partitionId)"),
    ({"type": "push"}, "Queue must be a string (operation 1, field queue)"),
    ({"type": "push", "items": {}}, "items must be an array (operation 1, field items)"),
    ({"type": "push", "items": [{}]}, "Queue must be a string (operation 1, field queue)"),
    ({"type": "push", "items": [5]}, "Each item must be an object (operation 1, field items)"),
    ({"type": "push", "items": [{"queue": "q", "partition": 5}]},
     "Partition must be a string (operation 1, field partition)"),
    ({"type": "push", "items": [{"queue": "q", "transactionId": 5}]},
     "TransactionId must be a string (operation 1, field transactionId)"),
    ({"type": "push", "items": [{"queue": "q", "traceId": "no"}]},
     "TraceId must be a UUID (operation 1, field traceId)"),
    ({"type": "push", "queue": "q", "traceparent": 7, "payload": "\\"},
     "traceparent must be a string (operation 1, field traceparent)"),
    ({"type": "push", "items": [{"queue": "q", "traceparent": TRACE, "tracestate": True, "payload": "\\"}]},
     "tracestate must be a string (operation 1, field tracestate)"),
    ({"type": "push", "items": [{"queue": ""}]},
     "Queue must be a non-empty text of at most 255 bytes (operation 1, field queue)")])
def test_a_bad_operation_is_named(operation, text):
    assert refused(ACK, operation) == text


def test_too_many():
    body = json.dumps({"operations": [ACK, PUSH]}).encode()
    assert len(probe_tx(body, max_items=3)[0]) == 3
    assert refused_body(body, max_items=2) == "The transaction has too many operations"
    body = json.dumps({"operations": [ACK], "requiredLeases": [SEVEN] * 3}).encode()
    assert refused_body(body, max_items=2) == "The transaction has too many required leases"


# ---- answers ---------------------------------------------------------------------------------------------------------

def answer(*operations, fault=None, at=-1):
    found = json.loads(probe_tx_reply(json.dumps({"operations": list(operations)}).encode(), fault, at, PART.encode()))
    assert uuid.UUID(found.pop("transactionId")).version == 7
    return found


def test_done():
    zero = str(uuid.UUID(int=0))
    assert answer(ACK, {"type": "push", "items": [{"queue": "ü\"", "transactionId": "x"}]},
                  ACK | {"status": "failed"}) == {"success": True, "results": [
        {"index": 0, "type": "ack", "success": True, "transactionId": "t", "error": None, "dlq": False},
        {"index": 1, "type": "push", "success": True, "transactionId": "x", "messageId": zero, "partitionId": PART,
         "queueName": "ü\""},
        {"index": 2, "type": "ack", "success": True, "transactionId": "t", "error": None, "dlq": True}]}
    assert answer({"type": "push", "items": []}) == {"success": True, "results": []}


@pytest.mark.parametrize("fault, error, reason", [("not_found", "Message not found", "rejected_ack"), (
    "lease", "Invalid or expired lease: the consumer group holds none on this message", "rejected_ack"), (
    "late", "Message already committed", "rejected_ack"), ("status", "Unknown error", "bad_request")])
def test_a_refused_ack(fault, error, reason):
    assert answer(PUSH, ACK, fault=fault, at=2) == {"success": False, "reason": reason, "failedIndex": 2,
                                                    "error": f"ACK operation failed: {error}", "results": [
        {"index": 2, "type": "ack", "success": False, "transactionId": "t", "error": error, "dlq": False}]}


@pytest.mark.parametrize("kind, word", [({"type": "x\"y"}, 'x"y'), ({}, None), ({"type": 5}, 5)])
def test_an_unknown_type(kind, word):
    text = f"Unknown operation type: {'null' if not isinstance(word, str) else word}"
    assert answer(ACK, kind, fault="type", at=1) == {"success": False, "reason": "bad_request", "failedIndex": 1,
                                                     "error": text, "results": [
        {"index": 1, "type": word, "success": False, "error": text}]}


def test_a_duplicate():
    found = answer(ACK, PUSH, fault="duplicate", at=1)
    assert found.pop("error").startswith("duplicate key")
    assert found == {"success": False, "reason": "duplicate", "failedIndex": 1, "results": []}
    found = answer(ACK, PUSH, fault="of_deleted", at=1)
    assert found.pop("error").startswith("duplicate key")
    assert found == {"success": False, "reason": "duplicate_of_deleted", "failedIndex": 1, "results": []}


def test_a_lost_lease():
    assert answer(ACK, at=-2) == {"success": False, "reason": "rejected_ack",
                                  "error": "Invalid or expired lease", "results": []}


anything = st.recursive(st.none() | st.booleans() | st.integers()
                        | st.sampled_from(["", "q", PART, SEVEN, "ack", "push"]),
                        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                            st.sampled_from(["queue", "type", "transactionId", "x"]), inner, max_size=3), max_leaves=5)
operation = st.just(ACK) | st.just(PUSH) | st.fixed_dictionaries(
    {"type": st.sampled_from(["ack", "push", "other"])}, optional={
    k: anything for k in ("transactionId", "partitionId", "queue", "items", "payload", "status",
                          "partition", "leaseId", "traceId", "traceparent", "tracestate", "deliverAt", "delayMs")})


@settings(max_examples=300)
@given(st.lists(operation, min_size=1, max_size=4), st.none() | st.tuples(st.integers(0, 300), st.integers(0, 255)))
def test_random_transactions_are_understood_or_refused(operations, damage):
    body = bytearray(json.dumps({"operations": operations}).encode())
    if damage:
        body[damage[0] % len(body)] = damage[1]
    body = bytes(body)
    try:
        ops, _ = probe_tx(body)
    except ProbeRefused as refusal:
        assert refusal.status == 400 and refusal.text
        return
    count = 0
    for given_op in json.loads(body)["operations"]:
        count += len(given_op["items"]) if given_op.get("type") == "push" and "items" in given_op else 1
    assert len(ops) == count
    json.loads(probe_tx_reply(body, None, -1, PART.encode()))
