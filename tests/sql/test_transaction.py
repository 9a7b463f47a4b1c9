"""Pushes and acks in one transaction: all of it or nothing of it."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import TRANSACTION, transaction
from sql.records import batch, id4, id7, new_lease, push_arrays

FAILED = 1


@pytest.fixture
def moved(db, partitions, group):
    source, target = partitions(2)
    readers = group(source)
    ids = [id7() for _ in range(4)]
    db.push(batch(source, ids))
    lease = new_lease()
    db.pop([source], readers, lease=lease)
    return source, target, readers, lease, ids


def state(db, *parts):
    return db.rows("SELECT partition_id, base, ids FROM queend.log WHERE partition_id = ANY(%s) ORDER BY 1, 2",
                   list(parts)) + db.rows(
        "SELECT * FROM queend.cursors WHERE partition_id = ANY(%s) ORDER BY partition_id", list(parts)) + db.rows(
        "SELECT * FROM queend.late_ids WHERE partition_id = ANY(%s)", list(parts)) + db.rows(
        "SELECT * FROM queend.dead_letters WHERE partition_id = ANY(%s)", list(parts))


def test_moves_records(db, moved):
    source, target, readers, lease, ids = moved
    new = [id7(), id4()]
    rows = transaction(db, [batch(target, new)], [(source, readers, lease, ids[:2], None)], [lease])
    assert (rows[0, 0].status, rows[0, 0].base) == (0, 0)
    assert (rows[1, 0].codes, rows[1, 0].committed, rows[1, 0].head, rows[1, 0].released) == (b"\1\1", 1, 4, False)
    rows = transaction(db, [batch(target, [id7()])], [(source, readers, None, ids[2:], bytes([0, FAILED]))],
                       errors=[(0, 1, "bad")])
    assert rows[0, 0].base == 2
    assert (rows[1, 0].codes, rows[1, 0].committed, rows[1, 0].released) == (b"\1\3", 3, True)
    assert db.rows("SELECT record_offset, error, retry_count FROM queend.dead_letters WHERE partition_id = %s",
                   source) == [(3, "bad", 0)]


def test_only_a_look_changes_nothing(db, moved):
    source, target, readers, lease, ids = moved
    before = state(db, source, target)
    arrays = push_arrays([batch(target, [id7()])])
    for one, refused in ((lease, False), (str(uuid.uuid4()), True)):
        rows = db.rows(TRANSACTION[:-1] + ", p_dry => true)", 0, [target & 63], *arrays, [source], [readers], [one],
                       [2], [b"".join(ids[:2])], [bytes(2)], [], [], [], [one], [], [])
        assert any(r.kind == 2 or r.kind == 1 and r.codes != b"\1\1" for r in rows) == refused
        assert state(db, source, target) == before


@pytest.mark.parametrize("case", ["duplicate", "late duplicate", "not found", "lease", "required", "stale"])
def test_a_refusal_changes_nothing(db, moved, case):
    source, target, readers, lease, ids = moved
    late = id4()
    db.push(batch(target, [late]))
    before = state(db, source, target)
    stranger = str(uuid.uuid4())
    good_push, good_ack = batch(target, [id7()]), (source, readers, lease, ids[:1], None)
    if case == "duplicate":
        rows = transaction(db, [good_push, batch(source, [id7(), ids[2]])], [good_ack])
        assert (rows[0, 0].status, rows[0, 1].status, rows[0, 1].dup_index, rows[1, 0].codes) == (0, 1, 1, b"\1")
    elif case == "late duplicate":
        rows = transaction(db, [batch(target, [id4(), id4(), late])], [good_ack])
        assert (rows[0, 0].status, rows[0, 0].dup_index) == (1, 2)
    elif case == "not found":
        rows = transaction(db, [good_push], [good_ack, (source, readers, None, [ids[1], id7()], None)])
        assert rows[1, 1].codes == b"\1\x08"
    elif case == "lease":
        assert transaction(db, [good_push], [(source, readers, stranger, ids[:2], None)])[1, 0].codes == b"\x10\x10"
    elif case == "required":
        rows = transaction(db, [good_push], [good_ack], [lease, stranger], [(source, readers)])
        assert [k for k in rows if k[0] == 2] == [(2, 1)]
    else:
        rows = transaction(db, [good_push], [good_ack], version=10**9)
        assert rows[0, -1].status == 9
    assert state(db, source, target) == before


def test_a_group_without_a_cursor_refuses_the_transaction(db, moved, group):
    source, target, _, _, ids = moved
    other = group(source)
    for named in (other, None):
        rows = transaction(db, [batch(target, [id7()])], [(source, named, None, [ids[1], id7()], None)])
        assert (rows[1, 0].codes, rows[0, 0].base) == (b"\x10\x08", -1)
    assert db.value("SELECT queend.head(%s)", target) == 0
    assert [o for o, _ in db.messages(db.pop([source], other, auto=True))] == [0, 1, 2, 3]


def test_ack_takes_what_it_names_or_all_before_it(db, moved):
    source, _, readers, lease, ids = moved
    rows = transaction(db, [], [(source, readers, lease, [ids[3], ids[1]], None)])
    assert (rows[1, 0].codes, rows[1, 0].released, rows[1, 0].committed) == (b"\1\1", False, -1)
    rows = transaction(db, [], [(source, readers, lease, [ids[0]], None)])
    assert (rows[1, 0].codes, rows[1, 0].released, rows[1, 0].committed) == (b"\1", False, 1)
    rows = transaction(db, [], [(source, readers, lease, [ids[3]], b"\4")])
    assert (rows[1, 0].codes, rows[1, 0].released, rows[1, 0].committed) == (b"\5", True, 3)


def test_required_lease_is_found_anywhere(db, moved):
    source, target, readers, lease, ids = moved
    assert (0, 0) in transaction(db, [batch(target, [id7()])], [], [lease])
    db.rows("UPDATE queend.cursors SET lease_until = queend.now_us() - 1 WHERE partition_id = %s", source)
    assert (2, 0) in transaction(db, [batch(target, [id7()])], [], [lease])
