"""Rows whose bodies are compressed: what PostgreSQL cannot unpack it passes on, and nothing that reads bodies breaks."""
import json

from queend._core import record_read

from sql.records import batch, frames, framed, id7, inner, packed, varint


def store(db, part, ids, body):
    row, = db.push(batch(part, ids)._replace(body=body))
    assert row.status == 0
    return row.base


def test_bodies_that_sql_cannot_open(db, partitions):
    part, = partitions(1)
    payloads, ids = [b'{"n":1}', b"2"], [id7(), id7()]
    for body in packed(inner(payloads)), framed(frames(payloads, ["a", "b"], ids)):
        assert db.value("SELECT queend.record_payload(%s, 0)", body) is None
        assert db.rows("SELECT * FROM queend.body_open(%s, 2)", body) == [(None, None)]
        ids = [id7(), id7()]
        base = store(db, part, ids, body)
        assert [(r.record_offset, r.payload) for r in db.rows("SELECT * FROM queend.pop_sm_fetch(%s, %s, 2)", part, base)] == [(base, None), (base + 1, None)]
    assert db.value("SELECT queend.record_payload(%s, 1)", b"\x10" + varint(7) + varint(1) + b'{"n":1}2') == "2"


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
    dead = db.rows("SELECT d.record_offset, d.payload, d.error, b.base, b.n, b.body FROM queend.dead_letters d LEFT JOIN queend.dead_bodies b"
                   " ON b.partition_id = d.partition_id AND d.payload IS NULL AND d.record_offset >= b.base AND d.record_offset < b.base + b.n"
                   " WHERE d.partition_id = %s ORDER BY d.id", part)
    assert [(d.record_offset, d.error) for d in dead] == [(1, "x"), (2, "y"), (4, "z"), (1, "again"), (3, "w")]
    for one in dead:
        payload = one.payload if one.payload is not None else record_read(one.body, one.n, one.record_offset - one.base)[0]
        assert json.loads(payload) == {"n": one.record_offset}
    assert db.value("SELECT count(*) FROM queend.dead_bodies WHERE partition_id = %s", part) == 1
    assert record_read(dead[0].body, 3, 1)[1] == "b"
