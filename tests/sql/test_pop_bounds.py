"""What bounds a pop: bytes, rows that are gone, windows that end inside a row; and how often a batch was delivered."""
from __future__ import annotations

import uuid

from sql.records import batch, id7, inner, packed

BIG = b'"' + b"x" * 3_000_000 + b'"'


def test_stops_after_eight_megabytes_but_never_before_the_first_row(db, partitions, group):
    first, second = partitions(2)
    readers = group(first)
    for part in (first, first, first, second):
        db.push(batch(part, [id7()], [BIG]))
    db.push(batch(second, [id7()], [b'"' + b"y" * 9_000_000 + b'"']))
    taken = []
    while claimed := [r for r in db.pop([first, second], readers, auto=True) if r.status == 1]:
        taken.append([(r.ord, r.first) for r in claimed])
    assert taken == [[(0, 0), (0, 1), (0, 2)], [(1, 0), (1, 1)]]


def test_compressed_rows_count_as_what_they_unpack_to(db, partitions, group):
    part, = partitions()
    readers = group(part)
    for _ in range(6):
        db.push(batch(part, [id7()])._replace(body=packed(inner([BIG]))))
    taken = []
    while claimed := [r.first for r in db.pop([part], readers, auto=True) if r.status == 1]:
        taken.append(claimed)
    assert taken == [[0, 1, 2], [3, 4, 5]]


def test_each_request_of_a_call_has_its_own_bytes(db, partitions, group):
    """What is cut off is not claimed: a partition in its middle, the next of the request as a whole."""
    parts = partitions(4)
    readers = group(parts[0])
    for part, rows in zip(parts, (4, 1, 2, 1)):
        for _ in range(rows):
            db.push(batch(part, [id7()], [BIG]))
    leases = [str(uuid.uuid4()) for _ in range(2)]

    def pop():
        return db.pop_many([(parts[:2], readers, 100, 2, False, leases[0], 60_000_000, 0, 0),
                            (parts[2:], readers, 100, 2, False, leases[1], 60_000_000, 0, 0)])

    assert [(r.ord, r.status, r.first) for r in sorted(pop(), key=lambda r: (r.ord, r.first))] == [
        (0, 1, 0), (0, 1, 1), (0, 1, 2), (1, 4, 0), (2, 1, 0), (2, 1, 1), (3, 1, 0)]
    assert db.rows("SELECT committed, lease_end, lease_until > 0 FROM queend.cursors WHERE partition_id = ANY(%s)"
                   " ORDER BY partition_id", parts) == [(-1, 2, True), (-1, -1, False), (-1, 1, True), (-1, 0, True)]
    db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", parts, [readers] * 4,
            [leases[0], leases[0], leases[1], leases[1]])
    assert [db.pop([part], readers, auto=True, budget=1)[0].first for part in parts[:2]] == [0, 0]
    assert [(r.ord, r.first) for r in pop() if r.status == 1 and r.ord < 2] == [(0, 1), (0, 2), (0, 3)]


def test_goes_on_behind_rows_that_are_gone(db, partitions, group):
    part, = partitions()
    readers, late = group(part), group(part)
    for _ in range(4):
        db.push(batch(part, [id7(), id7()]))
    lease = str(uuid.uuid4())
    db.pop([part], readers, budget=1, lease=lease)
    db.rows("INSERT INTO queend.floors VALUES (%s, 4)", part)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 4", part)
    db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [readers], [lease])
    for who in (readers, late):      # also where more is gone than was asked for
        assert [offset for offset, _ in db.messages(db.pop([part], who, budget=3, auto=True))] == [4, 5, 6]
        assert [offset for offset, _ in db.messages(db.pop([part], who, auto=True))] == [7]


def test_windows_that_end_inside_a_row(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(12)]
    db.push(batch(part, ids[:5]))
    db.push(batch(part, ids[5:]))
    seen = []
    for size in (3, 1, 4, 2, 2):
        lease = str(uuid.uuid4())
        got = db.messages(db.pop([part], readers, budget=size, lease=lease))
        assert len(got) == size
        row = db.ack(part, readers, lease, [i for _, i in got])
        assert row.released and row.committed == got[-1][0]
        seen += got
    assert seen == list(enumerate(ids))


def test_attempts_count_deliveries_of_the_same_batch(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(4)]
    db.push(batch(part, ids))

    def pop(budget=2, **options):
        lease = str(uuid.uuid4())
        rows = [r for r in db.pop([part], readers, budget=budget, lease=lease, **options) if r.status == 1]
        return rows[0].attempt, rows[0].first, lease
    assert pop(lease_us=-1)[:2] == (1, 0)                  # expires at once
    attempt, first, lease = pop()
    assert (attempt, first) == (2, 0)
    db.ack(part, readers, lease, ids[:1], bytes([1]))      # failed: goes back
    attempt, first, lease = pop()
    assert (attempt, first) == (3, 0)
    db.ack(part, readers, lease, ids[:1])                  # the first one is done, the second is still open
    db.rows("UPDATE queend.cursors SET lease_until = queend.now_us() - 1 WHERE partition_id = %s", part)
    attempt, first, lease = pop(budget=3)
    assert (attempt, first) == (4, 1)
    db.ack(part, readers, lease, ids[1:])
    assert db.pop([part], readers)[0].status == 0
    db.push(batch(part, [id7()]))
    assert pop()[:2] == (1, 4)


def test_a_group_without_a_cursor_gets_nothing_unless_it_says_so(db, partitions, group):
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    assert [r.status for r in db.pop([part], readers, fresh=False)] == [0]
    assert [r.status for r in db.pop([part], 10**9)] == [0]
    assert [r.status for r in db.pop([part], readers)] == [1]


def test_many_requests_share_one_call(db, partitions, group):
    parts = partitions(6)
    readers, others = group(parts[0]), group(parts[0])
    for part in parts:
        db.push(batch(part, [id7() for _ in range(3)]))
    leases = [str(uuid.uuid4()) for _ in range(3)]
    rows = db.pop_many([(parts[:2], readers, 4, 2, False, leases[0], 60_000_000, 0, 0),
                        (parts[2:4], readers, 10, 1, True, leases[1], 60_000_000, 0, 0),
                        (parts[:1] + parts[4:], others, 7, 3, False, leases[2], 60_000_000, 0, 0)])
    assert {r.ord: (r.status, r.take) for r in rows} == {0: (1, 3), 1: (1, 1), 2: (1, 3), 3: (4, 0), 4: (1, 3),
                                                         5: (1, 3), 6: (1, 1)}
    held = {(r.partition_id, r.group_id): str(r.lease_id) for r in db.rows(
        "SELECT * FROM queend.cursors WHERE lease_until > 0 AND partition_id = ANY(%s)", parts)}
    assert held == {(parts[0], readers): leases[0], (parts[1], readers): leases[0], (parts[0], others): leases[2],
                    (parts[4], others): leases[2], (parts[5], others): leases[2]}
