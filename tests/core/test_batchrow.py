"""Rows of the log, read: plain, compressed, and as a client framed them; and damaged in every way."""
import random
import struct
import uuid

import pytest

from queend._core import probe_batchrow, probe_zip, record_read, record_row

from sql.records import framed, id7, id_text, inner, meta, packed, varint
from support.frames import frames

PAYLOADS = [b'{"n":1}', b"null", b'"' + b"x" * 300 + b'"', b"[]"]
IDS = [id7() for _ in PAYLOADS]
TEXTS = ["t1", str(uuid.UUID(bytes=IDS[1])), "", "ü" * 40]


INNER = inner(PAYLOADS)
FRAMES = frames(PAYLOADS, TEXTS, IDS)


def plain(data):
    return b"\x10" + data


def read(body, n=len(PAYLOADS), ids=b"".join(IDS), extras=b"", seek=0):
    return probe_batchrow(ids, body, extras, n, seek)


@pytest.mark.parametrize("seek", range(5))
@pytest.mark.parametrize("encode", [plain, packed])
def test_payloads_and_extras(encode, seek):
    extras = meta({1: (b"\xaa" * 16, None, "text"), 3: (None, "me", None)})
    expected = [(i, p, None, None, None, None) for i, p in zip(IDS, PAYLOADS)]
    expected[1] = (IDS[1], PAYLOADS[1], b"\xaa" * 16, None, "text", None)
    expected[3] = (IDS[3], PAYLOADS[3], None, "me", None, None)
    assert read(encode(INNER), extras=extras, seek=seek) == expected[seek:]


def test_all_extras_and_those_not_known():
    """What a later version adds is passed over; a value that is cut off is not."""
    due = (1_700_000_000_000_000).to_bytes(8, "big")
    given = [(b"t" * 16, b"me", "ü".encode(), due, b"k1", b"{}"), (None,) * 6, (None, None, None, due, None, None),
             (None, None, None, None, None, b'{"a":1}')]
    body, extras = record_row(list(zip(PAYLOADS, given)))
    assert body == plain(INNER)
    more = []
    assert [r[2:5] for r in probe_batchrow(b"".join(IDS), body, extras, 4, more=more)] == [
        (b"t" * 16, "me", "ü"), (None,) * 3, (None,) * 3, (None,) * 3]
    assert more == [(due, b"k1", b"{}"), (b"",) * 3, (due, b"", b""), (b"", b"", b'{"a":1}')]
    later = b"\x10\x00" + bytes([2 | 64 | 128]) + b"\x02me" + b"\x03xyz" + b"\x00" + b"\x03\x04\x01a"
    assert [r[3:5] for r in read(plain(INNER), extras=later)] == [("me", None), (None, None), (None, None), (None, "a")]
    for cut in range(4, 39):       # within the first record's
        with pytest.raises(ValueError):
            read(body, extras=extras[:cut])


@pytest.mark.parametrize("seek", range(5))
def test_frames_of_a_client(seek):
    records = [id_text(t) for t in TEXTS]
    expected = [(r, p, None, None, t or None, m) for r, p, t, m in zip(records, PAYLOADS, TEXTS, IDS)]
    assert read(framed(FRAMES), ids=b"".join(records), seek=seek) == expected[seek:]


def test_a_large_row():
    payloads = [b'{"n":%d}' % n for n in range(1000)]
    ids = b"".join(id7() for _ in payloads)
    for body in plain(inner(payloads)), packed(inner(payloads)), packed(inner(payloads), 19):
        assert [r[1] for r in read(body, 1000, ids)] == payloads


@pytest.mark.parametrize("body", [
    b"", b"\x00", b"\x13" + INNER, b"\x20" + INNER, b"\x11", b"\x12", b"\x11\x05", b"\x12" + INNER,
    plain(INNER + b"x"), plain(INNER[:-1]), packed(INNER + b"x"), packed(INNER[:-1]), packed(FRAMES), framed(INNER),
    b"\x11" + varint(len(INNER) + 1) + probe_zip(INNER),
    b"\x11\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" + probe_zip(INNER),
    packed(INNER) + b"x", framed(FRAMES) + b"x", framed(FRAMES) + probe_zip(b""),
    b"\x12" + probe_zip(b"") + probe_zip(FRAMES),
    framed(FRAMES + b"x"), framed(FRAMES[:-1]), framed(FRAMES[1:]), framed(frames(PAYLOADS[1:], TEXTS[1:], IDS[1:])),
    framed(FRAMES.replace(b"\0\0\0\0", b"\0\0\0\1", 1)),                             # a frame with flags
    b"\x12\x50\x2a\x4d\x18\x04\0\0\0abcd",                                            # a skippable frame
    # says it is larger than the bound
    b"\x12" + b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", (64 << 20) + 1) + b"\x01\0\0",
])
def test_what_is_no_row(body):
    with pytest.raises(ValueError):
        read(body)


def test_a_frame_must_tell_its_size():
    known = probe_zip(b"a" * 100)
    assert known[4] == 0x20 and known[5] == 100                # single segment, size in one byte
    streamed = known[:4] + b"\x00\x58" + known[6:]              # a window instead of a size
    with pytest.raises(ValueError):
        read(b"\x12" + streamed, 1, IDS[0])


@pytest.mark.parametrize("body", [packed(INNER), framed(FRAMES)])
def test_every_cut_and_every_changed_byte_is_refused_or_read_as_it_says(body):
    """Nothing is read outside of the row (the sanitizers watch) and the number of records is always right."""
    rng = random.Random(5)
    for at in range(len(body)):
        with pytest.raises(ValueError):
            read(body[:at])
        for value in rng.sample(range(256), 8):
            changed = body[:at] + bytes([value]) + body[at + 1:]
            try:
                assert len(read(changed)) == len(PAYLOADS)
            except (ValueError, UnicodeDecodeError):
                pass


def test_one_record_for_the_control_plane():
    for body in plain(INNER), packed(INNER):
        assert [record_read(body, 4, i) for i in range(4)] == [(p, None, None) for p in PAYLOADS]
    assert [record_read(framed(FRAMES), 4, i)
            for i in range(4)] == [(p, t or None, m) for p, t, m in zip(PAYLOADS, TEXTS, IDS)]
    for body, n, i in [(b"", 1, 0), (b"\x10", 0, 0), (plain(INNER), 4, 4), (plain(INNER), 4, -1), (plain(INNER), 3, 0),
                       (plain(INNER), 1001, 0)]:
        with pytest.raises(ValueError):
            record_read(body, n, i)
