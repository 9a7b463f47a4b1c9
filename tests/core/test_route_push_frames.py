"""Binary pushes: the 2.x client's bodies, byte for byte; every cut and every changed byte; what may not be unpacked."""
import json
import os
import random
import struct
import uuid

import pytest
from sql.records import id4, id7, id_text
from support.frames import form_a, form_b, frames, group_a, group_b, text16

from queend._core import ProbeRefused, probe_push, probe_push_reply, probe_push_runs, probe_zip

KIND = b"application/x-queen-push"
FORM_A = bytes.fromhex("""
51 50 42 31 04 01 00 00 00 01 00 71 01 00 70 02 00 00 00 02 00 74 31 07 00 00 00 7b 22 6e 22 3a
31 7d 00 00 07 00 00 00 7b 22 6e 22 3a 32 7d""")
FORM_A_ZSTD = bytes.fromhex("""
51 50 42 31 07 1d 00 00 00 28 b5 2f fd 20 1d e9 00 00 01 00 00 00 01 00 71 01 00 70 01 00 00 00
02 00 74 31 07 00 00 00 7b 22 6e 22 3a 31 7d""")
FORM_B = bytes.fromhex("""
51 50 42 31 08 01 00 00 00 01 00 71 01 00 70 02 00 00 00 6b 00 00 00 28 b5 2f fd 20 62 11 03 00
1c 00 00 00 00 01 9b 7c a9 8f 2e 70 a1 a2 a3 a4 a5 a6 a7 a8 a9 02 00 74 31 7b 22 6e 22 3a 31 7d
3e 00 00 00 00 01 9b 7c a9 8f 2e 7a ab ac ad ae af b0 b1 b2 b3 24 00 30 31 39 62 37 63 61 39 2d
38 66 32 65 2d 37 61 61 62 2d 61 63 61 64 2d 61 65 61 66 62 30 62 31 62 32 62 33 7b 22 6e 22 3a
32 7d""")


def push(body, **options):
    return probe_push(body, kind=KIND, **options)


def refused(body, status=400, **options):
    with pytest.raises(ProbeRefused) as caught:
        push(body, **options)
    assert caught.value.status == status, caught.value
    return caught.value.text


def test_form_a_as_the_client_sends_it():
    for items in push(FORM_A), probe_push(FORM_A), probe_push(FORM_A, kind=b"application/json"):
        assert [(i["queue"], i["partition"], i["payload"])
                for i in items] == [("q", "p", b'{"n":1}'), ("q", "p", b'{"n":2}')]
        assert (items[0]["txid"], items[0]["id"], items[0]["kind"],
                items[0]["keep_text"]) == ("t1", id_text("t1"), 2, True)
        assert (items[1]["txid"], items[1]["kind"], items[1]["keep_text"]) == (None, 0, False)
        assert uuid.UUID(bytes=items[1]["id"]).version == 7


def test_form_a_compressed_with_counts():
    item, = push(FORM_A_ZSTD)
    assert (item["queue"], item["txid"], item["payload"]) == ("q", "t1", b'{"n":1}')
    assert json.loads(probe_push_reply(FORM_A_ZSTD, [(0, id7(), b"x" * 36)])) == {
        "count": 1, "queued": 1, "duplicate": 0, "error": 0}


def test_form_b_as_the_client_sends_it():
    first, second = push(FORM_B)
    assert (first["txid"], first["id"], first["kind"], first["keep_text"],
            first["payload"]) == ("t1", id_text("t1"), 2, True, b'{"n":1}')
    text = "019b7ca9-8f2e-7aab-acad-aeafb0b1b2b3"
    assert (second["id"], second["kind"], second["keep_text"],
            second["txid_json"]) == (uuid.UUID(text).bytes, 1, False, b'"%s"' % text.encode())
    assert second["payload"] == b'{"n":2}' and probe_push_runs(FORM_B) == [(1, None), (1, None)]


def test_nothing_to_push():
    for body in form_a(), form_b(), form_a(group_a([], [])), form_b(group_b(0, probe_zip(b""))):
        assert push(body) == []


def test_without_ids_all_are_made_here():
    items = push(form_a(group_a([b"1", b"2"]), flags=0))
    assert [i["kind"] for i in items] == [0, 0] and items[0]["id"] < items[1]["id"]


@pytest.mark.parametrize("make", [id7, id4])
def test_what_becomes_a_run(make):
    """Groups of 16 and more with ids that are UUIDs: plain ones cut as rows are, framed ones as they came."""
    ids = [make() for _ in range(1500)]
    texts = [str(uuid.UUID(bytes=i)) for i in ids]
    payloads = [b'{"n":%d}' % n for n in range(1500)]
    body = form_a(group_a(payloads[:15], texts[:15]), group_a(payloads[15:], texts[15:]))
    assert probe_push_runs(body) == [(1, None)] * 15 + [(1000, 0x10), (485, 0x10)]
    assert [(i["payload"], i["id"]) for i in push(body)] == list(zip(payloads, ids))
    body = form_b(*(group_b(b - a, probe_zip(frames(payloads[a:b], texts[a:b], ids[a:b])))
                    for a, b in ((0, 15), (15, 31), (31, 1031), (1031, 1500))))
    assert probe_push_runs(body) == [(1, None)] * 15 + [(16, 0x12), (1000, 0x12), (469, 0x12)]
    assert [(i["payload"], i["id"], json.loads(i["txid_json"])) for i in push(body)] == list(zip(payloads, ids, texts))


def test_what_does_not_become_a_run():
    ids = [id7() for _ in range(40)]
    texts = [str(uuid.UUID(bytes=i)) for i in ids]
    payloads = [b'"%d"' % n for n in range(40)]
    single = [(1, None)] * 40
    for spoiled in "a text", texts[5], "", "\u00fc":
        other = texts[:20] + [spoiled] + texts[21:]
        body = form_a(group_a(payloads, other))
        assert probe_push_runs(body) == single
        assert [json.loads(i["txid_json"]) for i in push(body)][:20] == other[:20]
    # a frame may carry texts, but no id twice
    for spoiled, whole in (("a text", True), (texts[5], False)):
        other = texts[:20] + [spoiled] + texts[21:]
        body = form_b(group_b(40, probe_zip(frames(payloads, other, ids))))
        assert probe_push_runs(body) == ([(40, 0x12)] if whole else single)
        assert [json.loads(i["txid_json"]) for i in push(body)] == other
    # too many, too large, or unpacking to far more than what is stored
    many = [id7() for _ in range(1001)]
    assert len(probe_push_runs(form_b(group_b(1001, probe_zip(frames([b"1"] * 1001, [""] * 1001, many)))))) == 1001
    large = [json.dumps(os.urandom(2000).hex()).encode() for _ in range(40)]
    assert probe_push_runs(form_b(group_b(40, probe_zip(frames(large, texts, ids))))) == single
    assert probe_push_runs(form_b(group_b(40, probe_zip(frames([b" " * 2000 + b"1"] * 40, texts, ids))))) == single
    # 16 KB each: four to a row are no run
    assert probe_push_runs(form_a(group_a([b'"%s"' % (b"x" * 16000)] * 40, texts))) == single
    assert probe_push_runs(form_a(group_a([b'"%s"' % (b"x" * 2000)] * 40, texts))) == [(32, 0x10)] + [(1, None)] * 8


def test_an_empty_id_in_a_frame_is_the_message_id():
    ids = [id7() for _ in range(20)]
    for n in 3, 20:
        items = push(form_b(group_b(n, probe_zip(frames([b"1"] * n, [""] * n, ids[:n])))))
        assert [i["id"] for i in items] == ids[:n]
        assert [json.loads(i["txid_json"]) for i in items] == [str(uuid.UUID(bytes=i)) for i in ids[:n]]


def test_answers_of_runs():
    ids, texts = [id7() for _ in range(16)], [f"text {n}" for n in range(16)]
    framed = form_b(group_b(16, probe_zip(frames([b"1"] * 16, texts, ids)), queue='a"b'))
    part = b"9c000000-0000-8000-8000-000000000000"
    answer = json.loads(probe_push_reply(framed, [(0, bytes(16), part)]))
    assert answer == [{"index": n, "transaction_id": texts[n], "status": "queued",
                       "message_id": str(uuid.UUID(bytes=ids[n])),
                       "partition_id": part.decode(), "trace_id": None, "queueName": 'a"b'} for n in range(16)]
    failed = json.loads(probe_push_reply(framed, [(2, bytes(16), part)]))
    assert [(one["index"], one["transaction_id"], one["status"], one["queueName"])
            for one in failed] == [(n, texts[n], "failed", 'a"b') for n in range(16)]
    plain = form_a(group_a([b"0"], ["first"]), group_a([b"1"] * 16, [str(uuid.UUID(bytes=i)) for i in ids]))
    answer = json.loads(probe_push_reply(plain, [(0, id7(), part), (0, bytes(16), part)]))
    assert [one["index"] for one in answer] == list(range(17))
    assert [one["transaction_id"] for one in answer[1:]] == [str(uuid.UUID(bytes=i)) for i in ids]
    assert [int(one["message_id"].replace("-", ""), 16) & (1 << 62) - 1
            for one in answer[1:]] == [(7 + n) << 32 | 3 for n in range(16)]
    counts = form_a(group_a([b"0"], ["first"]), group_a([b"1"] * 16, [str(uuid.UUID(bytes=i)) for i in ids]), flags=6)
    assert json.loads(probe_push_reply(counts, [(1, id7(), part), (0, bytes(16), part)])) == {
        "count": 17, "queued": 16, "duplicate": 1, "error": 0}


Z = probe_zip(frames([b"1"], ["t"], [id7()]))


@pytest.mark.parametrize("body, text", [
    (b"", "QPB1"), (b"QPB", "QPB1"), (b"QTB1" + FORM_B[4:], "QPB1"), (b'{"items":[]}', "QPB1"), (b"QPB1", "cut off"),
    (form_a(flags=32), "flags"), (form_a(flags=24), "flags"), (form_a(flags=9), "flags"),
    (form_a(flags=12), "flags"), (form_a(flags=255), "flags"),
    (form_a(group_a([b"1"], ["t"])) + b"x", "after the last group"), (form_a()[:-1], "cut off"),
    (form_a(group_a([b"1"], ["t"], queue="")), "Queue must be"),
    (form_a(group_a([b"1"], ["t"], queue="ü" * 128)), "Queue must be"),
    (form_a(group_a([b"1"], ["t"], queue=b"\xff")), "Queue must be"),
    (form_a(group_a([b"1"], ["t"], queue="a\0")), "Queue must be"),
    (form_a(group_a([b"1"], ["t"], partition="ü" * 128)), "Partition must be"),
    (form_a(group_a([b"1"], ["t"], partition=b"\xc3")), "Partition must be"),
    (form_a(group_a([b"1"], ["ü" * 256])), "TransactionId must be"),
    (form_a(group_a([b"1"], [b"\xff"])), "TransactionId must be"),
    (form_a(group_a([b"1"], ["a\0"])), "TransactionId must be"), (form_a(group_a([b""], ["t"])), "Invalid JSON"),
    (form_a(group_a([b"1 2"], ["t"])), "Invalid JSON"), (form_a(group_a([b"{"], ["t"])), "Invalid JSON"),
    (form_a(group_a([b'"\xff"'], ["t"])), "Invalid JSON"),
    (form_a(group_a([b"1", b"nul"], ["t", "u"])), "group 0, message 1"),
    (form_a(group_a([b"1"] * 20 + [b"x"])[:-1] + b"x", flags=0), "message 20"),
    (form_b(group_b(1, Z + b"x")), "exactly one"), (form_b(group_b(1, Z + Z)), "exactly one"),
    (form_b(group_b(1, Z[:-1])), "exactly one"),
    (form_b(group_b(1, b"")), "exactly one"), (form_b(group_b(2, Z)), "fewer messages"),
    (form_b(group_b(0, Z)), "after the last message"),
    (form_b(group_b(1, probe_zip(frames([b"1"], ["t"], [id7()]) + b"x"))), "after the last message"),
    (form_b(group_b(1, probe_zip(b"\x16" + frames([b"1"], ["t"], [id7()])[1:]))), "no message frame"),
    (form_b(group_b(1, probe_zip(frames([b"1"], ["ü" * 256], [id7()])))), "TransactionId must be"),
    (form_b(group_b(1, probe_zip(frames([b""], ["t"], [id7()])))), "Invalid JSON"),
    (form_b(group_b(1, Z, queue="")), "Queue must be"),
    (b"QPB1\x01" + struct.pack("<I", 5) + probe_zip(b"\0\0\0\0"), "another size"), (b"QPB1\x01\x04\0\0", "cut off"),
    (b"QPB1\x01" + struct.pack("<I", 4) + b"\0\0\0\0", "exactly one"),
])
def test_what_is_refused(body, text):
    assert text in refused(body)


def test_limits_are_inclusive():
    item, = push(form_a(group_a([b"1"], ["ü" * 255], queue="ü" * 127 + "q", partition="")))
    assert len(item["queue"].encode()) == 255 and item["partition"] == "" and len(item["txid"]) == 255
    body = form_a(group_a([b"1"] * 2), group_a([b"1"]), flags=0)
    assert len(push(body, max_items=3)) == 3
    assert refused(body, max_items=2) == "The push has more than 2 messages"
    assert "more than" in refused(form_a(text16("q") + text16("p") + b"\xff\xff\xff\xff", flags=0))


def test_bombs():
    """What a request unpacks to is bounded as a whole, before it is unpacked; and a size that is not told is none."""
    blank = frames([b" " * (30 << 20) + b"1"], ["t"], [id7()])
    bomb = probe_zip(blank)
    assert len(bomb) < 10000 and len(push(form_b(group_b(1, bomb), group_b(1, bomb)))) == 2
    assert "unpacks to more than" in refused(form_b(*[group_b(1, bomb)] * 3), status=413)
    large = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", (64 << 20) + 1) + b"\x01\0\0"
    assert "unpacks to more than" in refused(form_b(group_b(1, large)), status=413)
    assert "unpacks to more than" in refused(b"QPB1\x01" + struct.pack("<I", (64 << 20) + 1) + large, status=413)
    untold = Z[:4] + b"\x00\x58" + Z[6:]
    assert "exactly one" in refused(form_b(group_b(1, untold)))


IDS = [id7() for _ in range(20)]
RUN_B = form_b(group_b(20, probe_zip(frames([b'{"n":1}'] * 20, ["t%d" % n for n in range(20)], IDS))))
RUN_A = form_a(group_a([b'{"n":1}'] * 16, [str(uuid.UUID(bytes=i)) for i in IDS[:16]]))


@pytest.mark.parametrize("body", [FORM_A, FORM_A_ZSTD, FORM_B, RUN_A, RUN_B])
def test_every_cut_is_refused(body):
    for at in range(len(body)):
        refused(body[:at])


@pytest.mark.parametrize("body", [FORM_A, FORM_A_ZSTD, FORM_B, RUN_A, RUN_B])
def test_every_changed_byte_is_refused_or_read_consistently(body):
    """Whatever is accepted has valid names, ids and payloads, and is answered item by item."""
    count = len(push(body))
    rng = random.Random(7)
    for at in range(len(body)):
        for value in range(256) if len(body) < 200 else rng.sample(range(256), 12):
            changed = body[:at] + bytes([value]) + body[at + 1:]
            try:
                items = push(changed)
            except ProbeRefused as refusal:
                assert refusal.status in (400, 413) and refusal.text
                continue
            assert len(items) in (count, 0) or at < 40
            for item in items:
                json.loads(item["payload"])
                assert item["queue"] and len(json.loads(item["txid_json"])) <= 255
