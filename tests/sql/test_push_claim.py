"""Deliveries made by the push itself: claimed exactly where a pop after the commit would have claimed."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import DONE, MINUTE, PUSH_CLAIM, Waiting
from sql.records import batch, id4, id7, push_arrays


def push(db, batches, *claims, version: int = 0) -> tuple[list, set]:
    """claims: (row, group, take, whole, lease, lease_us). Returns the rows of the batches, and (partition, group) of
    the claims made."""
    lanes = sorted({b.part & 63 for b in batches})
    rows = db.rows(PUSH_CLAIM, version, lanes, *push_arrays(list(batches)), *[list(column) for column in zip(*claims)])
    return [r for r in rows if r.status != 2], {(r.ord, r.base) for r in rows if r.status == 2}


@pytest.fixture
def ready(db, partitions, group):
    """(partition, group) whose first record is consumed."""
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    db.pop([part], readers, auto=True)
    return part, readers


def test_a_lease_as_a_pop_takes_it(db, ready):
    part, readers = ready
    lease = str(uuid.uuid4())
    ids = [id7() for _ in range(3)]
    stored, made = push(db, [batch(part, ids)], (1, readers, 2, False, lease, MINUTE))
    assert [(r.status, r.base) for r in stored] == [(0, 1)] and made == {(part, readers)}
    assert db.pop([part], readers)[0].status == 2
    assert set(db.ack(part, readers, lease, ids[:2]).codes) <= DONE
    rows = db.pop([part], readers)
    assert db.messages(rows) == [(3, ids[2])] and rows[0].attempt == 1


@pytest.mark.parametrize("take, rest", [(3, []), (2, [3])])
def test_acknowledged_at_once(db, ready, take, rest):
    part, readers = ready
    ids = [id7() for _ in range(3)]
    _, made = push(db, [batch(part, ids)], (1, readers, take, take == 3, str(uuid.uuid4()), 0))
    assert made == {(part, readers)}
    assert [offset for offset, _ in db.messages(db.pop([part], readers))] == rest


def test_several_rows_partitions_and_groups(db, partitions, group):
    a, b = partitions(2)
    one, two = group(a), group(a)
    first = [id7() for _ in range(4)]
    batches = [batch(a, first[:2], of=first), batch(a, first[2:], of=first, skip=2), batch(b, [id7()])]
    lease = str(uuid.uuid4())
    stored, made = push(db, batches, (1, one, 4, True, lease, MINUTE), (3, one, 1, True, lease, MINUTE),
                        (3, two, 1, True, str(uuid.uuid4()), 0))
    # cursors that did not exist, in new partitions
    assert len(stored) == 3 and made == {(a, one), (b, one), (b, two)}
    assert set(db.ack(a, one, lease, first).codes) <= DONE
    assert db.messages(db.pop([b], two)) == [] and len(db.messages(db.pop([a], two))) == 4


def refused(db, part, readers, ids=None):
    stored, made = push(db, [batch(part, ids or [id7()])], (1, readers, 1, True, str(uuid.uuid4()), MINUTE))
    assert stored[0].status == 0 and made == set()


def test_not_over_an_open_lease_or_what_it_left(db, ready):
    part, readers = ready
    db.push(batch(part, [id7()]))
    rows = db.pop([part], readers, lease_us=MINUTE)
    refused(db, part, readers)
    # it ran out: its batch comes first
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    refused(db, part, readers)
    assert [offset for offset, _ in db.messages(db.pop([part], readers))] == [1, 2, 3] and rows


def test_not_during_a_pause(db, ready):
    part, readers = ready
    db.rows("UPDATE queend.cursors SET retry_until = queend.now_us() + %s WHERE partition_id = %s", MINUTE, part)
    refused(db, part, readers)


def test_not_behind_the_head(db, ready):
    part, readers = ready
    db.push(batch(part, [id7()]))
    refused(db, part, readers)


def test_not_for_a_group_that_is_new_to_an_old_partition(db, ready, group):
    part, _ = ready
    refused(db, part, group(part))


@pytest.mark.parametrize("start, made", [(-MINUTE, True), (MINUTE, False)], ids=["past", "future"])
def test_a_new_cursor_keeps_to_the_start_of_its_group(db, partitions, group, start, made):
    part, = partitions()
    readers = group(part, None, "timestamp", db.value("SELECT queend.now_us()") + start)
    assert push(db, [batch(part, [id7()])],
                (1, readers, 1, True, str(uuid.uuid4()), MINUTE))[1] == ({(part, readers)} if made else set())


def test_not_for_a_group_that_is_gone(db, partitions):
    part, = partitions()
    refused(db, part, 2_000_000_000)
    assert db.rows("SELECT 1 FROM queend.cursors WHERE partition_id = %s", part) == []


def test_ids_that_are_not_proved_new_at_once_are_stored_without_claims(db, ready):
    part, readers = ready
    stored, made = push(db, [batch(part, [id4()])], (1, readers, 1, True, str(uuid.uuid4()), MINUTE))
    assert stored[0].status == 0 and made == set()


def test_a_cursor_that_is_locked_is_passed_over(db, session, ready):
    part, readers = ready
    other = session()
    other.rows("BEGIN")
    other.rows("SELECT FROM queend.cursors WHERE partition_id = %s FOR NO KEY UPDATE", part)
    refused(db, part, readers)
    other.rows("COMMIT")
    assert len(db.messages(db.pop([part], readers))) == 1


def test_a_pop_that_makes_the_cursor_at_the_same_moment_wins(db, session, partitions, group):
    """The pop has opened and leased nothing yet committed; the push waits for that row, then respects what it finds."""
    part, = partitions()
    readers = group(part)
    other = session()
    other.rows("BEGIN")
    other.rows("INSERT INTO queend.cursors (committed, partition_id, group_id, lease_until, lease_id)"
               " VALUES (-1, %s, %s, queend.now_us() + %s, %s)", part, readers, MINUTE, uuid.uuid4())
    waiting = Waiting(session(), db,
                      lambda: push(db, [batch(part, [id7()])], (1, readers, 1, True, str(uuid.uuid4()), MINUTE)))
    other.rows("COMMIT")
    stored, made = waiting.result()
    assert stored[0].status == 0 and made == set()


def test_a_stale_caller_claims_nothing(db, ready):
    part, readers = ready
    rows = db.rows(PUSH_CLAIM, 1 << 40, [part & 63], *push_arrays([batch(part, [id7()])]), [1], [readers], [1], [True],
                   [uuid.uuid4()], [MINUTE])
    assert [(r.ord, r.status) for r in rows] == [(-1, 9)]
