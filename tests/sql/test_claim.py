"""Claims for records that the caller has in memory: made where a pop would claim the same, refused wherever it would
not."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import DONE, MINUTE, Waiting, claim
from sql.records import batch, id7


@pytest.fixture
def ready(db, partitions, group):
    """(partition, group, ids of offsets 1 to 4 in two rows): the record before them is consumed."""
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    db.pop([part], readers, auto=True)
    ids = [id7() for _ in range(4)]
    db.push(batch(part, ids[:2]))
    db.push(batch(part, ids[2:]))
    return part, readers, ids


def test_a_lease_as_a_pop_takes_it(db, ready):
    part, readers, ids = ready
    lease = str(uuid.uuid4())
    assert claim(db, (part, readers, 1, 3, 1, lease, MINUTE)) == [(part, readers)]
    assert db.pop([part], readers)[0].status == 2 and claim(db, (part, readers, 1, 3, 1, lease, MINUTE)) == []
    assert set(db.ack(part, readers, lease, ids[:3]).codes) <= DONE
    assert claim(db, (part, readers, 4, 1, 3, lease, MINUTE)) == [(part, readers)]


@pytest.mark.parametrize("take, base", [(1, 1), (2, 3), (3, 3), (4, 5)])
def test_acknowledged_at_once(db, ready, take, base):
    part, readers, ids = ready
    assert claim(db, (part, readers, 1, take, base, str(uuid.uuid4()), 0)) == [(part, readers)]
    assert db.messages(db.pop([part], readers)) == list(enumerate(ids, 1))[take:]


def test_many_at_once_in_the_order_asked(db, partitions, group):
    parts = partitions(3)
    one, two = group(parts[0]), group(parts[0])
    db.push(*[batch(p, [id7()]) for p in parts])
    wanted = [(p, g) for p in reversed(parts) for g in (two, one)]
    assert claim(db, *[(p, g, 0, 1, 0, str(uuid.uuid4()), MINUTE) for p, g in wanted]) == wanted
    assert db.rows("SELECT DISTINCT committed, lease_end, attempt, retry_until, retries FROM queend.cursors"
                   " WHERE partition_id = ANY(%s)", parts) == [(-1, 0, 1, 0, 0)]


@pytest.mark.parametrize("first", [0, 1], ids=["a cursor is new", "none is"])
def test_those_made_among_those_refused_in_the_order_asked(db, partitions, group, first):
    parts = partitions(4)
    readers = group(parts[0])
    db.push(*[batch(p, [id7(), id7()]) for p in parts])
    assert len(claim(db, *[(p, readers, 0, 1, 1, str(uuid.uuid4()), 0) for p in parts[first == 0:]])) == 3 + first
    db.rows("UPDATE queend.cursors SET retry_until = queend.now_us() + %s WHERE partition_id = %s", MINUTE, parts[2])
    leases = {p: uuid.uuid4() for p in parts}
    asked = [(p, readers, first if p == parts[0] else 1, 1, 1, str(leases[p]), MINUTE) for p in reversed(parts)]
    assert claim(db, *asked) == [(p, readers) for p in (parts[3], parts[1], parts[0])]
    del leases[parts[2]]
    assert dict(db.rows("SELECT partition_id, lease_id FROM queend.cursors WHERE partition_id = ANY(%s)"
                        " AND lease_until > 0 AND lease_end = committed + 1", parts)) == leases


def refused(db, part, readers, first=1):
    before = db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part)
    assert claim(db, (part, readers, first, 1, first, str(uuid.uuid4()), MINUTE)) == []
    assert db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part) == before


@pytest.mark.parametrize("change", ["committed = 1, lease_end = 1", "committed = -1",
                                    "lease_until = queend.now_us() + 1000000", "lease_end = 2",
                                    "retry_until = queend.now_us() + 1000000"],
                         ids=["consumed elsewhere", "moved back", "leased", "a delivery is open", "in a pause"])
def test_not_where_the_cursor_is_otherwise(db, ready, change):
    part, readers, _ = ready
    db.rows(f"UPDATE queend.cursors SET {change} WHERE partition_id = %s", part)
    refused(db, part, readers)


def test_not_what_fell_to_retention(db, ready):
    part, readers, _ = ready
    db.rows("INSERT INTO queend.floors VALUES (%s, 3)", part)
    refused(db, part, readers)


def test_not_in_the_middle_for_a_new_cursor(db, ready, group):
    part, _, _ = ready
    other = group(part)
    refused(db, part, other)
    assert claim(db, (part, other, 0, 5, 0, str(uuid.uuid4()), MINUTE)) == [(part, other)]


@pytest.mark.parametrize("start, made", [(-MINUTE, True), (MINUTE, False)], ids=["before the record", "after it"])
def test_a_new_cursor_keeps_to_the_start_of_its_group(db, partitions, group, start, made):
    part, = partitions()
    readers = group(part, None, "timestamp", db.value("SELECT queend.now_us()") + start)
    db.push(batch(part, [id7()]))
    assert claim(db, (part, readers, 0, 1, 0, str(uuid.uuid4()), MINUTE)) == ([(part, readers)] if made else [])


def test_a_locked_cursor_is_passed_over(db, session, ready):
    part, readers, _ = ready
    other = session()
    other.rows("BEGIN")
    other.rows("SELECT FROM queend.cursors WHERE partition_id = %s FOR NO KEY UPDATE", part)
    refused(db, part, readers)
    other.rows("COMMIT")


@pytest.mark.parametrize("values", ["-1, -1, 0, queend.now_us() + 1000000", "0, 0, 1, 0", "-1, 0, 1, 0"],
                         ids=["leased", "consumed", "left open"])
def test_a_pop_that_makes_the_cursor_at_the_same_moment_wins(db, session, partitions, group, values):
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    other = session()
    other.rows("BEGIN")
    other.rows("INSERT INTO queend.cursors (committed, lease_end, attempt, lease_until, partition_id, group_id)"
               f" VALUES ({values}, %s, %s)", part, readers)
    waiting = Waiting(session(), db, lambda: claim(db, (part, readers, 0, 1, 0, str(uuid.uuid4()), MINUTE)))
    other.rows("COMMIT")
    assert waiting.result() == []


def test_a_stale_caller_claims_nothing(db, ready):
    part, readers, _ = ready
    assert claim(db, (part, readers, 1, 1, 1, str(uuid.uuid4()), MINUTE), version=1 << 40) == [(-1, 0)]
    assert db.value("SELECT committed FROM queend.cursors WHERE partition_id = %s", part) == 0
