"""Rows whose bodies are compressed: what PostgreSQL cannot unpack it passes on, and nothing that reads bodies
breaks."""
import json
import uuid

import pytest

from queend._core import record_read, record_row

from sql.records import batch, framed, id4, id7, inner, packed, varint
from support.frames import frames


def store(db, part, ids, body):
    row, = db.push(batch(part, ids)._replace(body=body))
    assert row.status == 0
    return row.base


def test_bodies_that_sql_cannot_open(db, partitions):
    part, = partitions(1)
    payloads, ids = [b'{"n":1}', b"2"], [id7(), id7()]
    for body in packed(inner(payloads)), framed(frames(payloads, ["a", "b"], ids)):
        assert db.rows("SELECT * FROM queend.body_open(%s, 2)", body) == [(None, None)]
        ids = [id7(), id7()]
        base = store(db, part, ids, body)
        assert [(r.record_offset, r.payload) for r in db.rows("SELECT * FROM queend.records(%s, %s, 2)", part,
                                                              base)] == [(base, None), (base + 1, None)]
    assert db.rows("SELECT * FROM queend.body_open(%s, 2)",
                   b"\x10" + varint(7) + varint(1) + b'{"n":1}2') == [([7, 1], [3, 10])]


def test_dead_letters_of_compressed_rows(db, partitions, group):
    """Two rows, one compressed: the dead letters of it share one copy of its body, from which each is unpacked."""
    part, = partitions(1)
    who = group(part)
    ids = [id7() for _ in range(5)]
    store(db, part, ids[:3], framed(frames([b'{"n":0}', b'{"n":1}', b'{"n":2}'], ["a", "b", "c"], ids[:3])))
    plain = batch(part, ids[3:], [b'{"n":3}', b'{"n":4}'])
    db.push(plain)
    db.rows("SELECT queend.dead_letter(%s, %s, %s::bigint[], %s::text[], 3)", part, who, [1, 2, 4], ["x", "y", "z"])
    db.rows("SELECT queend.dead_letter(%s, %s, %s::bigint[], %s::text[], 3)", part, who, [1, 3], ["again", "w"])
    dead = db.rows("SELECT d.record_offset, d.payload, d.error, b.base, b.n, b.body FROM queend.dead_letters d LEFT"
                   " JOIN queend.dead_bodies b"
                   " ON b.partition_id = d.partition_id AND d.payload IS NULL AND d.record_offset >= b.base"
                   " AND d.record_offset < b.base + b.n"
                   " WHERE d.partition_id = %s ORDER BY d.id", part)
    assert [(d.record_offset, d.error) for d in dead] == [(1, "x"), (2, "y"), (4, "z"), (1, "again"), (3, "w")]
    for one in dead:
        payload = one.payload if one.payload is not None else record_read(one.body, one.n,
                                                                          one.record_offset - one.base)[0]
        assert json.loads(payload) == {"n": one.record_offset}
    assert db.value("SELECT count(*) FROM queend.dead_bodies WHERE partition_id = %s", part) == 1
    assert record_read(dead[0].body, 3, 1)[1] == "b"


def packed_batch(part: int, ids: list[bytes], **options):
    one = batch(part, ids, **options)
    return one._replace(body=framed(frames([b"%d" % n for n in range(len(ids))], [""] * len(ids), ids)))


def total(db, part) -> tuple[int, int]:
    return db.value("SELECT queend.head(%s)",
                    part), db.value("SELECT count(*) FROM queend.late_ids WHERE partition_id = %s", part)


@pytest.mark.parametrize("make", [id7, id4])
def test_a_compressed_row_with_a_duplicate_is_refused_with_its_whole_partition(db, partitions, make):
    """Nothing of that partition is stored and nothing stays behind; the others are; plain it goes."""
    part, other = partitions(2)
    old, new, more = ([make() for _ in range(3)] for _ in range(3))
    assert [r.status for r in db.push(packed_batch(part, old))] == [0]
    before = total(db, part)
    mixed = [new[0], old[1], new[2]]
    everything = mixed + more
    rows = db.push(packed_batch(part, mixed, of=everything), batch(part, more, skip=3, of=everything),
                   packed_batch(other, new))
    assert [r.status for r in rows] == [3, 3, 0]
    assert total(db, part) == before
    rows = db.push(batch(part, mixed, of=everything), batch(part, more, skip=3, of=everything))
    assert [r.status for r in rows] == [1, 1] and rows[0].dup_offset == [-1, 1, -1]
    assert total(db, part)[0] == 8 and total(db, other)[0] == 3
    assert bytes(db.value("SELECT string_agg(ids, '' ORDER BY base) FROM queend.log WHERE partition_id = %s",
                          part)) == b"".join(old + [new[0], new[2]] + more)


@pytest.mark.parametrize("make", [id7, id4])
def test_a_compressed_row_that_is_out_of_order_but_new_is_stored_as_it_is(db, partitions, make):
    part, = partitions(1)
    first, second = [make() for _ in range(3)], [make() for _ in range(3)]
    db.push(packed_batch(part, second))
    row, = db.push(packed_batch(part, first))
    assert row.status == (1 if make is id7 else 0) and row.base == 3
    assert not any(found >= 0 for found in row.dup_offset or [])
    assert db.value("SELECT get_byte(body, 0) FROM queend.log WHERE partition_id = %s AND base = 3", part) == 18


def test_all_extras(db):
    """As the daemon writes them; a flag of a later version is passed over."""
    due = 1_700_000_000_000_001
    _, meta = record_row([(b"1", (b"t" * 16, b"me", "ü".encode(), due.to_bytes(8, "big"), b"k1", b'{"a":1}')),
                          (b"2", (None,) * 6), (b"3", (None, None, b"last", None, None, None))])
    later = b"\x10\x00" + bytes([2 | 64 | 128]) + b"\x02me" + b"\x03xyz" + b"\x00" + b"\x02\x04\x04last"
    read = [tuple(db.rows("SELECT * FROM queend.record_meta(%s, %s)", meta, i)[0]) for i in range(3)]
    assert read == [(uuid.UUID(bytes=b"t" * 16), "me", "ü", due, "k1", '{"a":1}'), (None,) * 6,
                    (None, None, "last", None, None, None)]
    assert [tuple(db.rows("SELECT producer_sub, transaction_id FROM queend.record_meta(%s, %s)", later, i)[0])
            for i in range(3)] == [("me", None), (None, None), (None, "last")]
