"""Records with a delivery moment: what stands behind one waits, and nothing goes early, whoever looks and however."""
from __future__ import annotations

import random
import threading
import uuid

import pytest
from sql.records import HOUR, id7, id_text, push_arrays, timed
from support.wait import PATIENCE, until

@pytest.fixture
def put(db):
    """put(part, moments…): stores records as push_due does; their ids."""
    def store(part, *moments, ids=None, session=None):
        ids = ids or [id7() for _ in moments]
        rows = (session or db).rows("SELECT * FROM queend.push_due(0, %s::int[], %s::int[], %s::int[], %s::int[],"
                                    " %s::smallint[], %s::uuid[], %s::uuid[], %s::bytea[],"
                                    " %s::bytea[], %s::bytea[])", [part & 63],
                                    *push_arrays([timed(part, ids, moments)]))
        assert [row.status for row in rows] in ([0], [1])
        return ids
    return store


@pytest.fixture
def now(db):
    return lambda: db.value("SELECT queend.now_us()")


def runs(db, part):
    return [tuple(row) for row in db.rows("SELECT first_offset, last_offset, due FROM queend.schedule"
                                          " WHERE partition_id = %s ORDER BY 1", part)]


def offsets(db, rows):
    return [offset for offset, _ in db.messages(rows)]


def test_runs_of_one_moment(db, partitions, put):
    part, = partitions()
    put(part, None, 5, 5, None, 5, 7, 7, 5)
    put(part, 5)
    assert runs(db, part) == [(1, 2, 5), (4, 4, 5), (5, 6, 7), (7, 7, 5), (8, 8, 5)]
    assert db.value("SELECT scheduled FROM queend.catalog")


def test_duplicates_leave_the_moments_of_the_others_in_their_places(db, partitions, put):
    part, = partitions()
    old = put(part, None, None)
    fresh = [id_text(f"x{n}{part}") for n in range(3)]
    put(part, 11, 12, 13, 14, 14, ids=[old[0], fresh[0], old[1], fresh[1], fresh[2]])
    assert runs(db, part) == [(2, 2, 12), (3, 4, 14)]


def test_a_delivery_ends_before_the_first_that_is_not_due(db, partitions, group, put, now):
    part, = partitions()
    readers, later = group(part), now() + HOUR
    put(part, None, 1, None, later, None, 1)
    assert offsets(db, db.pop([part], readers, budget=2, auto=True)) == [0, 1]
    assert offsets(db, db.pop([part], readers, auto=True)) == [2]
    row, = db.pop([part], readers, auto=True)
    assert (row.status, row.until, row.head) == (3, later, 6)
    db.rows("UPDATE queend.schedule SET due = 1 WHERE partition_id = %s", part)
    assert offsets(db, db.pop([part], readers)) == [3, 4, 5]


def test_others_fill_what_a_held_partition_cannot_give(db, partitions, group, put, now):
    held, half, free = partitions(3)
    readers = group(held)
    put(held, now() + HOUR)
    put(half, None, now() + HOUR)
    put(free, None, None)
    rows = db.pop([held, half, free], readers, budget=3, auto=True)
    assert [(row.ord, row.status, row.take) for row in sorted(rows)] == [(0, 3, 0), (1, 1, 1), (2, 1, 2)]


def test_a_lease_of_what_was_due_comes_again_as_it_was(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)
    ids = put(part, 1, None, now() + HOUR)
    for _ in range(3):
        lease = str(uuid.uuid4())
        assert offsets(db, db.pop([part], readers, lease=lease)) == [0, 1]
        assert db.ack(part, readers, lease, ids[:2], b"\3\3").released
    lease = str(uuid.uuid4())
    db.pop([part], readers, lease=lease)
    row = db.ack(part, readers, lease, ids[:2])
    assert (row.released, row.committed, row.head) == (True, 1, 3)
    assert db.pop([part], readers)[0].status == 3


def test_holes_before_a_held_record_do_not_let_it_through(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)
    ids = put(part, None, None, None, now() + HOUR, None)
    for one in ids[:3]:
        assert db.value("SELECT queend.message_delete(%s, %s)", part, one)
    assert [row.status for row in db.pop([part], readers, budget=1, auto=True)] == [
        4], "the cursor has passed the deleted ones: look again"
    assert [row.status for row in db.pop([part], readers, budget=1, auto=True)] == [3]
    assert db.value("SELECT queend.message_delete(%s, %s)", part,
                    ids[3]), "and when it is deleted itself, it holds nothing back"
    assert runs(db, part) == [] and offsets(db, db.pop([part], readers, auto=True)) == [4]


def test_deleting_in_the_middle_of_a_run(db, partitions, put, now):
    part, = partitions()
    later = now() + HOUR
    ids = put(part, *[later] * 5)
    db.value("SELECT queend.message_delete(%s, %s)", part, ids[2])
    assert runs(db, part) == [(0, 1, later), (3, 4, later)]
    db.value("SELECT queend.message_delete(%s, %s)", part, ids[0])
    assert runs(db, part) == [(1, 1, later), (3, 4, later)]
    assert db.rows("SELECT group_id FROM queend.waking(0, 0, %s, 10000) WHERE partition_id = %s AND at < %s", later,
                   part, later)[0].group_id == 0, "daemons are told"


def test_a_seek_into_the_middle_of_a_run_waits_too(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)
    put(part, None, *[now() + HOUR] * 3, None)
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    db.pop([part], readers, auto=True)
    for at, status in ((2, 3), (3, 3), (4, 1)):
        db.rows("SELECT * FROM queend.group_seek(%s, %s, %s, 0, 1, NULL, %s)", queue, readers, part, at)
        assert [row.status for row in db.pop([part], readers)] == [status]


def test_delayed_processing_and_window_buffer_hold_beside_it(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)
    put(part, 1, now() + HOUR)
    row, = db.pop([part], readers, delay_us=HOUR)
    assert row.status == 3 and row.until < now() + HOUR, "not ripe yet"
    row, = db.pop([part], readers, window_us=HOUR)
    assert row.status == 3
    db.rows("UPDATE queend.log SET created_at = created_at - 2 * %s WHERE partition_id = %s", HOUR, part)
    assert offsets(db, db.pop([part], readers, delay_us=HOUR, window_us=HOUR, auto=True)) == [0]
    assert [row.status for row in db.pop([part], readers, delay_us=HOUR, window_us=HOUR)] == [3]


def test_a_partition_that_is_always_fed_is_delivered_after_five_windows(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)

    def waits() -> int:
        """How long the partition has to wait, in windows of an hour; 0: it was delivered."""
        row, *_ = db.pop([part], readers, window_us=HOUR)
        return 0 if row.status == 1 else round((row.until - now()) / HOUR)

    def an_hour_passes() -> None:
        db.rows("UPDATE queend.log SET created_at = created_at - %s WHERE partition_id = %s RETURNING base", HOUR, part)

    put(part, None)
    assert waits() == 1
    for _ in range(4):
        an_hour_passes()
        put(part, None)
        assert waits() == 1
    db.rows("UPDATE queend.log SET created_at = created_at - %s WHERE partition_id = %s AND base = 0 RETURNING base",
            HOUR // 2, part)
    row, = db.pop([part], readers, window_us=HOUR)
    assert row.until - now() < HOUR, "its oldest message counts from now on"
    an_hour_passes()
    put(part, None)
    assert offsets(db, db.pop([part], readers, window_us=HOUR, auto=True)) == list(range(6))
    put(part, None)
    assert waits() == 1, "what was delivered counts no longer"


def test_retention_counts_from_the_moment(db, partitions, put, now):
    part, = partitions()
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    put(part, None)
    put(part, now() - 10 * HOUR)
    put(part, None)
    put(part, now() - HOUR)
    put(part, None)
    db.rows("UPDATE queend.log SET created_at = created_at - 20 * %s WHERE partition_id = %s", HOUR, part)

    def left(older_than):
        db.rows("SELECT * FROM queend.retain(%s, 0, 10, 100, %s, 0, 0)", queue, older_than)
        return [row.base for row in db.rows("SELECT base FROM queend.log WHERE partition_id = %s ORDER BY 1", part)]

    assert left(now() - 15 * HOUR) == [1, 2, 3,
                                       4], "the first was never held back; what stands behind a held one counts with it"
    assert left(now() - 5 * HOUR) == [3, 4] and [run[0] for run in runs(db, part)] == [3]
    assert left(now()) == [] and runs(db, part) == []


def test_a_ttl_counts_from_the_moment(db, partitions, group, put, now):
    part, = partitions()
    readers = group(part)
    put(part, None, now() - HOUR, None)
    db.rows("UPDATE queend.log SET created_at = created_at - 20 * %s WHERE partition_id = %s", HOUR, part)

    def live(ttl):
        at = now() - ttl
        return db.value("SELECT queend.live_from(%s, 0, 0, %s)", part,
                        at), db.value("SELECT queend.live_from(%s, 0, 2, %s)", part, at)

    assert live(2 * HOUR) == (1, 2) and live(HOUR // 2) == (3, 3)
    assert readers


def test_a_transaction_pushes_with_moments(db, partitions, group, now):
    part, = partitions()
    readers, later = group(part), now() + HOUR
    rows = db.rows("SELECT * FROM queend.transaction_due(0, %s::int[], %s::int[], %s::int[], %s::int[], %s::smallint[],"
                   " %s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[],"
                   " %s::bytea[], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
                   [part & 63], *push_arrays([timed(part, [id7(), id7()], [None, later])]))
    assert [row.status for row in rows] == [0] and runs(db, part) == [(1, 1, later)]
    assert offsets(db, db.pop([part], readers)) == [0]


def test_the_steps_of_a_pop_look_at_it_too(db, partitions, group, put, now):
    part, = partitions()
    queue = db.value("SELECT q.name FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = %s",
                     part)
    put(part, now() + HOUR, None)
    assert db.rows("SELECT * FROM queen.pop_sm_resolve(%s, 'steps')", queue) == []
    assert db.rows("SELECT * FROM queend.pop_one(%s, %s, 10, %s, 60000000)", part, group(part),
                   str(uuid.uuid4())) == [(3, None, None)]


def test_a_deleted_queue_takes_its_schedule_along(db, partitions, put, now):
    part, = partitions()
    put(part, now() + HOUR)
    db.value("SELECT queend.queue_delete((SELECT q.name FROM queend.partitions p JOIN queend.queues q"
             " ON q.id = p.queue_id WHERE p.id = %s))", part)
    until(lambda: db.rows("SELECT * FROM queend.sweep(1000)")[0].partitions == 0, "everything is swept")
    assert runs(db, part) == []


def test_nothing_goes_early_while_many_push_and_pop(conninfo, session, partitions, group, put, now):
    """Sessions that push records with near moments and sessions that pop: every record once, in order, none before its
    moment."""
    part, = partitions()
    readers, total, dice = group(part), 300, random.Random(7)
    taken, failures = [], []

    def push(db):
        for _ in range(total // 30):
            near = db.value("SELECT queend.now_us()")
            put(part, *[near + dice.choice((0, 3000, 30000)) if dice.random() < 0.5 else None for _ in range(10)],
                session=db)

    def pop(db):
        while len(taken) < total and not failures:
            lease = str(uuid.uuid4())
            got = db.messages(db.pop([part], readers, budget=7, lease=lease))
            if got:        # its moment stands there until it is acknowledged
                moment = db.value("SELECT consumed_at FROM queend.cursors WHERE partition_id = %s AND lease_id = %s",
                                  part, lease)
                taken.extend((offset, moment) for offset, _ in got)
                assert db.ack(part, readers, lease, [one for _, one in got]).released

    def guarded(work, db):
        try:
            work(db)
        except Exception as error:      # noqa: BLE001 - told at the end
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work, session())) for work in (push, push, push, pop, pop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not failures and [offset for offset, _ in taken] == list(range(total))
    db = session()
    due = {}
    for first, last, moment in runs(db, part):
        due |= dict.fromkeys(range(first, last + 1), moment)
    assert len(due) > total // 4 and all(at >= due.get(offset, 0) for offset, at in taken)
