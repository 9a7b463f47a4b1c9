"""Binary transactions: the 2.x client's bodies, byte for byte; what is refused; the answers."""
import json
import random
import struct
import uuid

import pytest
from sql.records import id7, id_text
from support.frames import form_b, frames, group_a, group_b, transaction

from queend._core import ProbeRefused, probe_tx, probe_tx_reply, probe_zip

GUARDED = bytes.fromhex("""
51 54 42 31 00 ce 00 00 00 7b 22 6f 70 65 72 61 74 69 6f 6e 73 22 3a 5b 7b 22 74 79 70 65 22 3a
22 61 63 6b 22 2c 22 74 72 61 6e 73 61 63 74 69 6f 6e 49 64 22 3a 22 61 31 22 2c 22 70 61 72 74
69 74 69 6f 6e 49 64 22 3a 22 37 22 2c 22 73 74 61 74 75 73 22 3a 22 63 6f 6d 70 6c 65 74 65 64
22 2c 22 6c 65 61 73 65 49 64 22 3a 22 4c 22 7d 5d 2c 22 72 65 71 75 69 72 65 64 4c 65 61 73 65
73 22 3a 5b 22 4c 22 5d 2c 22 6b 76 22 3a 5b 7b 22 6f 70 22 3a 22 63 68 65 63 6b 22 2c 22 6e 73
22 3a 22 71 75 65 65 6e 2d 6c 6f 63 6b 73 22 2c 22 6b 65 79 22 3a 22 6b 22 2c 22 65 78 70 65 63
74 22 3a 35 2c 22 72 65 71 75 69 72 65 64 22 3a 74 72 75 65 7d 5d 7d 01 00 00 00 01 00 71 01 00
70 01 00 00 00 29 00 00 00 28 b5 2f fd 20 20 01 01 00 1c 00 00 00 00 01 9b 7c a9 8f 2e 70 a1 a2
a3 a4 a5 a6 a7 a8 a9 02 00 74 31 7b 22 6e 22 3a 31 7d""")
COUNTS = bytes.fromhex("""
51 54 42 31 02 00 00 00 00 01 00 00 00 01 00 71 01 00 70 01 00 00 00 22 00 00 00 28 b5 2f fd 20
19 c9 00 00 15 00 00 00 00 01 9b 7c a9 8f 2e 70 a1 a2 a3 a4 a5 a6 a7 a8 a9 01 00 74 31""")
RIDER = b',"kv":[{"op":"check","ns":"queen-locks","key":"k","expect":5,"required":true}]'


def without_rider(body):
    assert RIDER in body
    body = body.replace(RIDER, b"")
    return body[:5] + struct.pack("<I", 206 - len(RIDER)) + body[9:]


def group(values, texts=None):
    return group_b(len(values), probe_zip(frames([json.dumps(v).encode() for v in values], texts or [""] * len(values),
                                                 [id7() for _ in values])))


def refused(body):
    with pytest.raises(ProbeRefused) as caught:
        probe_tx(body)
    assert caught.value.status == 400
    return caught.value.text


def test_a_rider_is_read_as_in_json():
    assert len(probe_tx(GUARDED)[0]) == 2, "its operations, besides the one on a key"
    assert refused(GUARDED.replace(b'"check"', b'"chock"')).startswith("op must be ")


def test_as_the_client_sends_it():
    (ack_kind, ack), (push_kind, push) = probe_tx(without_rider(GUARDED))[0]
    assert (ack_kind, ack["txid_json"], ack["number"], ack["lease_bad"]) == ("ack", b'"a1"', 7, True)
    assert (push_kind, push["queue"], push["partition"], push["txid"], push["id"],
            push["payload"]) == ("push", "q", "p", "t1", id_text("t1"), b'{"n":1}')


def test_counts_without_a_head():
    (kind, push), = probe_tx(COUNTS)[0]
    assert (kind, push["txid"], push["payload"]) == ("push", "t", b"1")
    answer = json.loads(probe_tx_reply(COUNTS))
    assert {key: value for key, value in answer.items()
            if key != "transactionId"} == {"success": True, "results": [], "pushed": 1, "duplicate": 0, "acked": 0}


def test_large_groups_are_items_and_their_order_is_kept():
    head = json.dumps({"operations": [{"type": "ack", "transactionId": "a", "partitionId": "7"}],
                       "requiredLeases": [str(uuid.uuid4())]}).encode()
    body = transaction(head, group(list(range(30))), group(list(range(30, 32)), ["x", "y"]))
    ops, required = probe_tx(body)
    assert [kind for kind, _ in ops] == ["ack"] + ["push"] * 32 and len(required) == 1
    assert [int(op["payload"]) for _, op in ops[1:]] == list(range(32))
    answer = json.loads(probe_tx_reply(body))
    assert [r["index"] for r in answer["results"]] == list(range(33))
    assert [r["transactionId"] for r in answer["results"][-2:]] == ["x", "y"]
    assert answer["results"][-1]["queueName"] == "q"
    assert json.loads(probe_tx_reply(transaction(head, group([1]), flags=2)))["acked"] == 1
    failed = json.loads(probe_tx_reply(transaction(head, group([1]), flags=2), "duplicate", 1))
    assert failed["success"] is False and failed["failedIndex"] == 1 and failed["reason"] == "duplicate"


@pytest.mark.parametrize("body, text", [
    (b"QTB1", "cut off"), (b"QTB1\0\0\0\0", "cut off"), (b"QTB1\0\xff\xff\xff\xff", "cut off"),
    (b"QTB1\x01" + bytes(8), "flags"), (b"QTB1\x08" + bytes(8), "flags"),
    (b"QTB1\0" + bytes(8), "cannot be empty"), (transaction(b'{"operations":[]}'), "cannot be empty"),
    (transaction(b"[]", group([1])), "operations array required"),
    (transaction(b"{", group([1])), "Invalid JSON"),
    (transaction(b'{"timers":[1]}', group([1])), "Each operation must be an object"),
    (transaction(b"", group([1])) + b"x", "after the last group"), (transaction(b"", group([1]))[:-1], "cut off"),
    (transaction(b"", group_a([b"1"])), ""), (form_b(group([1])), "QTB1"),
    (transaction(b'{"operations":[{"type":"ack"}]}', group([1])), "transactionId is required"),
])
def test_what_is_refused(body, text):
    assert text in refused(body)


@pytest.mark.parametrize("body", [without_rider(GUARDED), COUNTS])
def test_every_cut_is_refused_and_every_changed_byte_is_refused_or_read(body):
    rng = random.Random(9)
    for at in range(len(body)):
        refused(body[:at])
        for value in rng.sample(range(256), 40):
            try:
                ops, _ = probe_tx(body[:at] + bytes([value]) + body[at + 1:])
            except ProbeRefused as refusal:
                assert refusal.status in (400, 413) and refusal.text
                continue
            assert ops
            for kind, op in ops:
                assert kind != "push" or json.loads(op["payload"]) is not None
