"""Acknowledgments: what is understood, what is refused, and the answers."""
import json
import re
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_ack, probe_ack_reply, probe_push, ProbeRefused

SEVEN = "0192f0c0-1111-7aaa-8bbb-000000000001"
PART = "5f0c2c8e-7a52-4f0e-9f51-3f8f7e0f3a01"
ONE = {"transactionId": "t", "partitionId": PART}


def single(**fields):
    return probe_ack(json.dumps(ONE | fields).encode(), True)


def batch(*items, **fields):
    return probe_ack(json.dumps({"acknowledgments": list(items)} | fields).encode())


def refused(body, single=False, **options):
    with pytest.raises(ProbeRefused) as caught:
        probe_ack(body if isinstance(body, bytes) else json.dumps(body).encode(), single, **options)
    assert caught.value.status == 400
    return caught.value.text


def test_one():
    group, (item,) = single(status="failed", consumerGroup="workers", leaseId=SEVEN.upper(), error="boom")
    assert group == "workers"
    assert item == {"txid_json": b'"t"', "id": item["id"], "status": 1, "partition": uuid.UUID(PART).bytes,
                    "number": 0, "error": "boom",
                    "lease": uuid.UUID(SEVEN).bytes, "lease_bad": False, "group": "workers"}


@pytest.mark.parametrize("nothing", [None, "", 5])
def test_defaults(nothing):
    absent = single()
    assert absent[0] == "__QUEUE_MODE__" and absent[1][0]["status"] == 0 and absent[1][0]["lease"] is None
    assert single(consumerGroup=nothing, error="" if nothing == 5 else nothing) == absent
    if nothing != 5:
        assert single(leaseId=nothing) == absent
    if nothing != "":
        assert single(status=nothing) == absent


@pytest.mark.parametrize("error", [{"code": 7, "why": ["ü", None]}, [], {}, 0, -1.5, True])
def test_an_error_that_is_no_text_is_kept_as_json(error):
    _, (item,) = single(status="failed", error=error)
    assert item["error"] == json.dumps(error)


@pytest.mark.parametrize("text", [SEVEN, SEVEN.upper(), "ord-1", "", "ü" * 255, "a\"\n", "x" * 256])
def test_ids_are_those_of_the_push(text):
    if len(text) > 255:
        assert (refused(ONE | {"transactionId": text}, True)
                == "transactionId must be valid text of at most 255 characters (item 0, field transactionId)")
        return
    _, (item,) = single(transactionId=text)
    if text:
        pushed, = probe_push(json.dumps({"items": [{"queue": "q", "transactionId": text}]}).encode())
        assert item["id"] == pushed["id"]
    assert json.loads(item["txid_json"]) == text


@pytest.mark.parametrize("word, status", [("completed", 0), ("success", 0), ("failed", 1), ("dlq", 2), ("retry", 3),
                                          ("banana", 255), ("", 255), ("Completed", 255)])
def test_status_words(word, status):
    assert single(status=word)[1][0]["status"] == status


@pytest.mark.parametrize("lease", ["zzz", SEVEN[:-1], SEVEN + " ", 5, {}, True])
def test_a_lease_that_is_none_is_a_bad_one_and_never_no_lease(lease):
    item, = single(leaseId=lease)[1]
    assert item["lease_bad"] and item["lease"] is None


@pytest.mark.parametrize("error, text",
                         [("a\0b\0", "a b "), ("\ud800", "\ufffd"), ("Zoë\n\"", "Zoë\n\""), ("", None), (None, None)])
def test_no_error_text_makes_an_acknowledgment_fail(error, text):
    assert single(error=error)[1][0]["error"] == text


@given(st.integers(0, 35),
       st.sampled_from("0123456789abcdefABCDEFgG-/:@`zé\0 ") | st.characters(exclude_categories=["Cs"]))
def test_a_partition_is_a_uuid_character_by_character(at, character):
    text = PART[:at] + character + PART[at + 1:]
    if re.fullmatch("-".join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12)), text):
        assert single(partitionId=text)[1][0]["partition"] == uuid.UUID(text).bytes
    else:
        assert refused(ONE | {"partitionId": text}, True) == "partitionId must be a UUID (item 0, field partitionId)"


def test_neighbours_share_partitions_and_leases_only_when_they_are_the_same():
    leases = [None, SEVEN, SEVEN, "bad", SEVEN, PART, PART, None, PART]
    parts = [PART, PART, "7", "7", SEVEN, SEVEN, PART, "8", "7"]
    _, items = batch(*({"transactionId": "t", "partitionId": p, "leaseId": lease} for p, lease in zip(parts, leases)))
    assert [i["number"] or str(uuid.UUID(bytes=i["partition"]))
            for i in items] == [int(p) if len(p) == 1 else p for p in parts]
    assert [("bad" if i["lease_bad"] else i["lease"] and str(uuid.UUID(bytes=i["lease"]))) for i in items] == leases


def test_partitions_have_two_spellings():
    item, = single(partitionId="123456789012345678")[1]
    assert item["number"] == 123456789012345678 and item["partition"] == bytes(16)
    assert single(partitionId=PART.upper())[1][0]["partition"] == uuid.UUID(PART).bytes


def test_a_batch_has_one_group():
    group, items = batch(ONE | {"consumerGroup": "x", "error": None, "leaseId": None, "status": None},
                         ONE | {"transactionId": "u", "status": "retry"}, consumerGroup="g")
    assert group == "g" and [i["status"] for i in items] == [0, 3]
    assert batch()[1] == []
    assert batch(ONE, consumerGroup=None)[0] == batch(ONE, consumerGroup="")[0] == "__QUEUE_MODE__"


def test_the_group_may_come_last():
    assert probe_ack(b'{"acknowledgments":[{"partitionId":"1","transactionId":"t"}],"consumerGroup":"g"}')[0] == "g"


def test_thousands_keep_their_order():
    _, items = batch(*({"transactionId": str(i), "partitionId": PART} for i in range(5000)))
    assert [json.loads(i["txid_json"]) for i in items] == [str(i) for i in range(5000)]


@pytest.mark.parametrize("body, text", [
    ({}, "transactionId is required"), ([], "transactionId is required"),
    ({"partitionId": PART}, "transactionId is required"),
    (ONE | {"transactionId": 5}, "transactionId is required"),
    (ONE | {"transactionId": None}, "transactionId is required"),
    ({"transactionId": "t"}, "partitionId is required to ensure message uniqueness"),
    (ONE | {"partitionId": 5}, "partitionId is required to ensure message uniqueness"),
    (ONE | {"partitionId": "abc"}, "partitionId must be a UUID (item 0, field partitionId)"),
    (ONE | {"partitionId": ""}, "partitionId must be a UUID (item 0, field partitionId)"),
    (ONE | {"transactionId": "\ud800"},
     "transactionId must be valid text of at most 255 characters (item 0, field transactionId)"),
    (ONE | {"consumerGroup": "g" * 256},
     "consumerGroup must be valid text of at most 255 bytes (item 0, field consumerGroup)"),
    (b"", "Empty request body")])
def test_refused_single(body, text):
    assert refused(body, True) == text


@pytest.mark.parametrize("body, text", [
    ({}, "acknowledgments array is required"), ([], "acknowledgments array is required"),
    ({"acknowledgments": {}}, "acknowledgments array is required"),
    ({"acknowledgments": [ONE, 5]},
     "Each acknowledgment must have a valid transactionId string (item 1, field transactionId)"),
    ({"acknowledgments": [ONE, ONE | {"transactionId": ""}]},
     "Each acknowledgment must have a valid transactionId string (item 1, field transactionId)"),
    ({"acknowledgments": [{"transactionId": "t"}]}, "Each acknowledgment must have a valid partitionId string to ensure"
                                                    " message uniqueness (item 0, field partitionId)"),
    ({"acknowledgments": [ONE | {"partitionId": "notuuid"}]}, "partitionId must be a UUID (item 0, field partitionId)"),
    ({"acknowledgments": [], "consumerGroup": "\0"}, "consumerGroup must be valid text of at most 255 bytes"),
    (b"", "Empty request body")])
def test_refused_batch(body, text):
    assert refused(body) == text


@pytest.mark.parametrize("body", [b"{", b'{"acknowledgments":[{]}', b'{"acknowledgments":[]}}',
                                  b'{"transactionId":"t","partitionId":"1",}'])
def test_malformed(body):
    assert refused(body).startswith("Invalid JSON: ") and refused(body, True).startswith("Invalid JSON: ")


def test_too_many():
    assert refused({"acknowledgments": [ONE] * 3}, max_items=2) == "acknowledgments has more than 2 elements"


# ---- answers ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("code, success, error, released, dlq", [
    (1, True, None, False, False), (5, True, None, True, False), (3, True, None, False, True),
    (7, True, None, True, True), (0, False, None, False, False),
    (8, False, "Message not found", False, False),
    (16, False, "Invalid or expired lease: the consumer group holds none on this message", False, False)])
def test_answers(code, success, error, released, dlq):
    body = json.dumps({"acknowledgments": [ONE | {"transactionId": 'a"b'}, ONE]}).encode()
    answer = json.loads(probe_ack_reply(body, False,
                                        [(code, b"or\"ders", "ü".encode()), (code, None, None)]))
    expected = {"index": 0, "transactionId": 'a"b', "success": success, "error": error, "queueName": 'or"ders',
                "partitionName": "ü", "leaseReleased": released, "dlq": dlq}
    assert answer == [expected, expected | {"index": 1, "transactionId": "t", "queueName": None, "partitionName": None}]


def test_a_single_answer_is_an_array_too():
    body = json.dumps(ONE | {"leaseId": SEVEN}).encode()
    assert json.loads(probe_ack_reply(body, True, [(16, b"q", b"p")])) == [
        {"index": 0, "transactionId": "t", "success": False, "error": "Invalid or expired lease", "queueName": "q",
         "partitionName": "p", "leaseReleased": False, "dlq": False}]


texts = st.text(st.characters(exclude_categories=["Cs"]),
                max_size=12) | st.sampled_from(["", SEVEN, PART, "x" * 256, "completed", "failed", "a\0b"])
anything = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
acks = (st.fixed_dictionaries({"transactionId": texts, "partitionId": st.just(PART)},
                              optional={k: anything for k in ("status", "leaseId", "error", "consumerGroup", "more")})
        | st.fixed_dictionaries(
    {}, optional={k: anything for k in ("transactionId", "partitionId", "status", "leaseId")}))


def model(doc):
    items = doc["acknowledgments"]
    group = doc.get("consumerGroup")
    if isinstance(group, str) and ("\0" in group or len(group.encode()) > 255):
        return None
    for item in items:
        txid, part, own = item.get("transactionId"), item.get("partitionId"), item.get("consumerGroup")
        if not isinstance(txid, str) or not txid or "\0" in txid or len(txid) > 255 or part not in (PART, SEVEN):
            return None
        if isinstance(own, str) and ("\0" in own or len(own.encode()) > 255):
            return None
    words = {"completed": 0, "failed": 1}
    return (group if isinstance(group, str) and group else "__QUEUE_MODE__",
            [(i["transactionId"], words.get(i["status"], 255) if isinstance(i.get("status"), str) else 0,
              "none" if i.get("leaseId") in (None, "") else "live" if i["leaseId"] in (SEVEN, PART) else "bad")
             for i in items])


@settings(max_examples=300)
@given(st.fixed_dictionaries({"acknowledgments": st.lists(acks, max_size=4)}, optional={"consumerGroup": anything}),
       st.booleans())
def test_random_batches_agree_with_the_model(doc, ascii):
    body = json.dumps(doc, ensure_ascii=ascii).encode()
    expected = model(doc)
    if expected is None:
        refused(body)
        return
    group, items = probe_ack(body)
    assert (group, [(json.loads(i["txid_json"]), i["status"], "bad" if i["lease_bad"] else "live" if i["lease"]
                     else "none") for i in items]) == expected


@given(st.binary(max_size=80), st.integers(0, 120), st.booleans())
def test_damaged_acknowledgments_are_refused(noise, cut, alone):
    whole = json.dumps({"acknowledgments": [ONE]} | ONE).encode()
    body = whole[:cut] + noise
    try:
        probe_ack(body, alone)
    except ProbeRefused as refusal:
        assert refusal.status == 400 and refusal.text
    else:
        json.loads(body)
