"""The failover buffer's bytes: records come back as they went in, whatever happens to the file around them."""
import random
import uuid

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import probe_crc32c, probe_spool_read, probe_spool_record

NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).map(str.encode)
MORE = st.one_of(st.just(b""), st.binary(min_size=1, max_size=40))
RECORD = st.tuples(NAME, NAME, st.binary(max_size=300), st.uuids().map(lambda one: one.bytes),
                   st.one_of(st.none(), NAME.filter(bool)),
                   st.one_of(st.none(), st.binary(min_size=16, max_size=16)), MORE, MORE, MORE, MORE,
                   st.integers(0, 2**62))


def written(record):
    return probe_spool_record(*record)


def found(record):
    """What a reader says of it."""
    queue, part, payload, id, text, trace, sub, due, seal, headers, at = record
    return (queue, part, id, text, trace, sub, payload, at, due, seal, headers)


def test_the_checksum_is_crc_32c():
    assert probe_crc32c(b"123456789") == (0xE3069283, 0xE3069283)
    assert probe_crc32c(b"6789", probe_crc32c(b"12345")[0]) == (0xE3069283, 0xE3069283)
    for n in range(70):
        wide, plain = probe_crc32c(random.Random(n).randbytes(n))
        assert wide == plain


@settings(max_examples=150)
@given(st.lists(RECORD, max_size=8), st.integers(1, 500))
def test_records_come_back(records, window):
    assert probe_spool_read(b"".join(map(written, records)), window) == [found(record) for record in records]


def some(n, seed=1):
    dice = random.Random(seed)
    return [(b"q%d" % (i % 3), b"p", dice.randbytes(dice.randrange(1, 120)), uuid.UUID(int=dice.getrandbits(128)).bytes,
             b"text" if i % 2 else None, None, b"", b"", b"", b"", i) for i in range(n)]


@pytest.mark.parametrize("window", [1, 64, 1 << 20])
def test_a_torn_end_loses_nothing_before_it(window):
    records = some(5)
    data = b"".join(map(written, records))
    last = len(data) - len(written(records[-1]))
    for cut in range(last + 1, len(data)):
        seen = probe_spool_read(data[:cut], window)
        assert seen[:4] == [found(record) for record in records[:4]]
        assert b"".join(seen[4:]) == data[last:cut]


@pytest.mark.parametrize("window", [1, 64, 1 << 20])
def test_a_changed_bit_costs_its_record_and_no_other(window):
    records = some(6)
    pieces = list(map(written, records))
    data = b"".join(pieces)
    dice = random.Random(7)
    for _ in range(400):
        bit = dice.randrange(8 * len(data))
        hurt = bytearray(data)
        hurt[bit // 8] ^= 1 << bit % 8
        which, end = 0, len(pieces[0])
        while end <= bit // 8:
            which += 1
            end += len(pieces[which])
        seen = probe_spool_read(bytes(hurt), window)
        assert [one for one in seen
                if isinstance(one, tuple)] == [found(one) for i, one in enumerate(records) if i != which]
        assert b"".join(one for one in seen if isinstance(one, bytes)) == bytes(hurt[end - len(pieces[which]):end])


@settings(max_examples=150)
@given(st.binary(max_size=200), st.integers(1, 64))
def test_noise_between_records_is_told_apart(noise, window):
    before, after = some(2)
    seen = probe_spool_read(written(before) + noise + written(after), window)
    assert seen[0] == found(before) and seen[-1] == found(after)
    assert b"".join(seen[1:-1]) == noise


def test_what_a_later_version_wrote_is_not_guessed_at():
    record = bytearray(written(some(1)[0]))
    record[12] = 2
    record[8:12] = probe_crc32c(bytes(record[12:]), probe_crc32c(bytes(record[4:8]))[0])[0].to_bytes(4, "little")
    assert probe_spool_read(bytes(record), 1 << 20) == [bytes(record)]
