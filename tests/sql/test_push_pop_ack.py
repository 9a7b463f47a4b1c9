"""Push, pop and ack by themselves: what comes back is what went in, in order, once."""
from __future__ import annotations

import uuid

from sql.records import batch, id4, id7, id_text, payloads


def test_records_come_back_in_order_with_gapless_offsets(db, partitions, group):
    first, second = partitions(2)
    readers = group(first)
    ids = [id7() for _ in range(7)]
    rows = db.push(batch(first, ids[:3]), batch(second, ids[3:5]))
    assert [(r.ord, r.status, r.base, r.dup_offset) for r in rows] == [(0, 0, 0, None), (1, 0, 0, None)]
    assert db.push(batch(first, ids[5:]))[0].base == 3
    got = db.pop([first, second], readers)
    assert [r.ord for r in got] == [0, 0, 1]
    assert db.messages(got) == [(0, ids[0]), (1, ids[1]), (2, ids[2]), (3, ids[5]), (4, ids[6]),
                                (0, ids[3]), (1, ids[4])]
    assert [(r.base, r.n, r.first, r.take, r.attempt, r.head)
            for r in got] == [(0, 3, 0, 3, 1, 5), (3, 2, 3, 2, 1, 5), (0, 2, 0, 2, 1, 2)]
    assert got[0].created_at <= got[1].created_at
    assert payloads(db, got[0])[1] == '{"id":"%s"}' % ids[1].hex()


def test_rows_of_one_partition_follow_each_other(db, partitions):
    part, = partitions()
    ids = [id7() for _ in range(5)]
    for again in range(2):
        rows = db.push(batch(part, ids[:2], of=ids), batch(part, ids[2:], skip=2, of=ids))
        assert [(r.status, r.base) for r in rows] == ([(0, 0), (0, 2)] if again == 0 else [(1, -1), (1, -1)])
    assert [list(r.dup_offset) for r in rows] == [[0, 1], [2, 3, 4]]


def test_duplicates_answer_the_first_and_the_rest_is_stored(db, partitions, group):
    part, = partitions()
    old = [id7(), id4(), id_text("order-1")]
    stored = [db.push(batch(part, [i], metas={0: (None, "sub", "x")}))[0] for i in old]
    assert [r.status for r in stored] == [0, 0, 0]
    new = [id7(), id4(), id7()]
    mixed = [new[0], old[2], new[1], old[0], new[2], old[1]]
    trace = uuid.uuid4().bytes
    row = db.push(batch(part, mixed, [b"%d" % i for i in range(6)],
                        {1: (trace, None, "order-1"), 2: (trace, "me", None), 4: (None, None, "t")}))[0]
    assert (row.status, row.base, list(row.dup_offset)) == (1, 3, [-1, 2, -1, 0, -1, 1])
    assert list(row.dup_at) == [0, stored[2].created_at, 0, stored[0].created_at, 0, stored[1].created_at]
    got = db.pop([part], group(part))
    assert [i for _, i in db.messages(got)] == old + new
    last = got[-1]
    assert payloads(db, last) == ["0", "2", "4"]
    assert [tuple(db.rows("SELECT trace_id, producer_sub, transaction_id FROM queend.record_meta(%s, %s)", last.meta,
                          i)[0]) for i in range(3)] == [
        (None, None, None), (uuid.UUID(bytes=trace), "me", None), (None, None, "t")]


def test_a_stale_caller_changes_nothing(db, partitions, group):
    part, = partitions()
    readers = group(part)
    version = db.value("SELECT version FROM queend.catalog")
    assert db.push(batch(part, [id7()]), version=version)[0].status == 0
    row, = db.push(batch(part, [id7()]), version=version + 1)
    assert (row.ord, row.status, row.base) == (-1, 9, version)
    row, = db.pop([part], readers, version=version + 1)
    assert (row.ord, row.status, row.base) == (-1, 9, version)
    assert db.value("SELECT queend.head(%s)", part) == 1


def test_budget_partitions_and_what_was_not_needed(db, partitions, group):
    parts = partitions(4)
    readers = group(parts[0])
    for part in parts[:3]:
        db.push(batch(part, [id7() for _ in range(4)]))
    got = db.pop(parts, readers, budget=6)
    assert [(r.ord, r.status, r.take) for r in got if r.status == 1] == [(0, 1, 4), (1, 1, 2)]
    assert {r.ord: r.status for r in got if r.status != 1} == {2: 4, 3: 0}
    assert db.rows("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", parts[2]) == [(0,)]
    got = db.pop(parts, readers, partitions=1, fresh=False)
    assert {r.ord: r.status for r in got} == {0: 2, 1: 2, 2: 1, 3: 0}
    assert got[1].until > 0


def test_auto_acknowledged_records_are_gone(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(10)]
    db.push(batch(part, ids))
    seen = []
    while got := db.messages(db.pop([part], readers, budget=3, auto=True)):
        seen += got
    assert seen == list(enumerate(ids))


def test_whole_part_and_repeated_acks(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(6)]
    for i in range(0, 6, 2):
        db.push(batch(part, ids[i:i + 2]))
    lease = str(uuid.uuid4())
    db.pop([part], readers, budget=5, lease=lease)
    row = db.ack(part, readers, lease, ids[:3])
    assert (row.ord, row.status, row.codes, row.released, row.committed, row.head) == (0, 0, b"\1\1\1", False, 2, 6)
    assert db.ack(part, readers, lease, ids[:3]).codes == b"!!!", "done, and nothing to do"
    row = db.ack(part, readers, lease, [ids[3], id7(), ids[4]])
    assert (row.codes, row.released, row.committed) == (b"\1\x08\5", True, 4)
    assert db.ack(part, readers, lease, [ids[3], id7()]).codes == b"\x10\x08"
    got = db.pop([part], readers)
    assert (db.messages(got), got[0].attempt) == ([(5, ids[5])], 1)


def test_acks_of_a_group_nobody_knows(db, partitions, group):
    part, = partitions()
    known = id7()
    db.push(batch(part, [known]))
    assert (db.ack(part, None, None, [known, id7()]).status,
            db.ack(part, None, None, [known, id7()]).codes) == (2, b"\x10\x08")
    row = db.ack(part, group(part), str(uuid.uuid4()), [known])
    assert (row.status, row.codes) == (2, b"\x10")
