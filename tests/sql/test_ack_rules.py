"""Retry, dead letters, leases and the cursor: one decision per call, nothing skipped, never back."""
from __future__ import annotations

import uuid

import psycopg
import pytest
from sql.calls import transaction
from sql.records import batch, id7, id_text, new_lease

COMPLETED, FAILED, DLQ, RETRY, UPTO = 0, 1, 2, 3, 4


@pytest.fixture
def popped(db, partitions, group):
    """A partition with ten records in rows of 4, 3 and 3, all under one lease: (partition, group, lease, ids)."""
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(10)]
    for first, end in ((0, 4), (4, 7), (7, 10)):
        db.push(batch(part, ids[first:end], metas={0: (None, None, f"t{first}")}))
    lease = new_lease()
    assert len(db.messages(db.pop([part], readers, lease=lease))) == 10
    return part, readers, lease, ids


def again(db, part, readers, lease=None, **options):
    rows = db.pop([part], readers, lease=lease or new_lease(), **options)
    return [offset for offset, _ in db.messages(rows)], max((r.attempt for r in rows), default=0)


def dead(db, part):
    return [tuple(r) for r in db.rows("SELECT record_offset, error, retry_count FROM queend.dead_letters"
                                      " WHERE partition_id = %s ORDER BY id", part)]


def test_failed_go_back_together_until_the_limit_then_all_die(db, popped):
    part, readers, lease, ids = popped
    for attempt in range(1, 4):
        row = db.ack(part, readers, lease, ids, bytes([FAILED] * 10), retry_limit=3)
        assert (row.codes, row.released, row.committed) == (b"\5" * 10, True, -1)
        lease = new_lease()
        assert again(db, part, readers, lease) == (list(range(10)), attempt + 1)
    row = db.ack(part, readers, lease, ids, bytes([FAILED] * 10), retry_limit=3, errors={2: "boom"})
    assert (row.codes, row.released, row.committed) == (b"\3" * 10, True, 9)
    assert dead(db, part) == [(i, "boom" if i == 2 else "Retries exhausted", 3) for i in range(10)]
    assert db.value("SELECT retries FROM queend.cursors WHERE partition_id = %s", part) == 0


def beyond(db, part):
    return db.value("SELECT beyond::text FROM queend.cursors WHERE partition_id = %s", part)


def test_nothing_passes_a_failed_record(db, popped):
    part, readers, lease, ids = popped
    row = db.ack(part, readers, lease, ids[:5], bytes([COMPLETED, COMPLETED, FAILED, COMPLETED, DLQ]))
    assert (row.codes, row.released, row.committed) == (b"\1\1\5\5\5", True, 1)
    assert dead(db, part) == [] and beyond(db, part) is None
    assert again(db, part, readers) == (list(range(2, 10)), 2)


def test_what_another_call_has_completed_behind_a_failed_record_stays_done(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[3], ids[4]], bytes([COMPLETED, DLQ]))
    row = db.ack(part, readers, lease, ids[:4], bytes([COMPLETED, COMPLETED, FAILED, FAILED]))
    assert (row.codes, row.released, row.committed) == (b"\1\1\5\x40", True, 1)
    assert [offset for offset, *_ in dead(db, part)] == [4] and beyond(db, part) == "{[3,5)}"
    lease = new_lease()
    assert again(db, part, readers, lease) == ([2], 2)      # it ends before what is done
    assert db.ack(part, readers, lease, ids[2:3]).committed == 4 and beyond(db, part) is None
    assert again(db, part, readers) == (list(range(5, 10)), 1)


def test_an_acknowledgment_completes_what_it_names(db, popped):
    part, readers, lease, ids = popped
    row = db.ack(part, readers, lease, [ids[7], ids[3], ids[4]])
    assert (row.codes, row.released, row.committed) == (b"\1\1\1", False, -1) and beyond(db, part) == "{[3,5),[7,8)}"
    row = db.ack(part, readers, lease, [ids[3], ids[7]], bytes([COMPLETED, FAILED]))
    assert (row.codes, row.released) == (b"\x21\x40", False), "done is done"
    assert db.ack(part, readers, lease, ids[:2]).committed == 1
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    lease = new_lease()
    assert again(db, part, readers, lease) == ([2], 2)
    row = db.ack(part, readers, lease, ids[2:3])
    assert (row.codes, row.released, row.committed) == (b"\5", True, 4) and beyond(db, part) == "{[7,8)}"
    lease = new_lease()
    assert again(db, part, readers, lease) == ([5, 6], 1)
    # the window is whole: its rest is looked for with the next delivery
    assert db.ack(part, readers, lease, ids[5:7]).committed == 7
    assert again(db, part, readers) == ([8, 9], 1) and beyond(db, part) is None


def test_the_last_of_a_window_that_was_missing_completes_it(db, popped):
    part, readers, lease, ids = popped
    for i in (9, 5, 6, 0, 2, 1, 8, 7, 4):
        row = db.ack(part, readers, lease, [ids[i]])
        assert (row.codes, row.released) == (b"\1", False)
    row = db.ack(part, readers, lease, [ids[3]])
    assert (row.codes, row.released, row.committed) == (b"\5", True, 9) and beyond(db, part) is None


def test_cumulative_takes_what_stands_before_it(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[5]])
    row = db.ack(part, readers, lease, [ids[3]], bytes([UPTO]))
    assert (row.codes, row.committed) == (b"\1", 3) and beyond(db, part) == "{[5,6)}"
    row = db.ack(part, readers, lease, [ids[5]], bytes([UPTO]))      # done before, those before it were not
    assert (row.codes, row.committed) == (b"\1", 5) and beyond(db, part) is None
    row = db.ack(part, readers, lease, [ids[6], ids[7], ids[8]], bytes([UPTO, RETRY, UPTO]))
    assert (row.codes, row.released,
            row.committed) == (b"\1\5\5", True, 6) and beyond(db, part) is None, "nothing passes what goes back"


def test_a_seek_clears_what_was_done_beyond(db, popped):
    part, readers, lease, ids = popped
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    db.ack(part, readers, lease, ids[4:6])
    db.rows("SELECT * FROM queend.group_seek(%s, %s, %s, 0, 1, NULL, 3)", queue, readers, part)
    assert beyond(db, part) is None and again(db, part, readers)[0] == list(range(3, 10))


def test_what_fell_to_retention_is_no_gap(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[5]])
    db.rows("INSERT INTO queend.floors (partition_id, floor) VALUES (%s, 4)", part)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 4", part)
    row = db.ack(part, readers, lease, [ids[4]])
    assert (row.codes, row.released, row.committed) == (b"\1", False, 5)
    db.ack(part, readers, lease, [ids[8]])
    db.rows("UPDATE queend.floors SET floor = 8 WHERE partition_id = %s", part)
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 7", part)
    assert again(db, part, readers) == ([9], 2) and beyond(db, part) is None


def test_deleted_records_are_no_gap(db, popped):
    part, readers, lease, ids = popped
    db.rows("SELECT queend.hole_make(%s, 1)", part)
    row = db.ack(part, readers, lease, [ids[0], *ids[2:]])
    assert (row.codes, row.released, row.committed) == (b"\1" * 8 + b"\5", True, 9)


def test_acknowledged_at_once_it_passes_over_what_is_done(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[4], ids[9]])
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    for expected in ([0, 1, 2, 3], [5, 6, 7, 8], []):
        assert [offset for offset, _ in db.messages(db.pop([part], readers, auto=True))] == expected
    assert db.rows("SELECT committed, beyond FROM queend.cursors WHERE partition_id = %s", part) == [(9, None)]


def test_claims_given_back_leave_what_is_done(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[2], ids[4]])
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    db.pop([part], readers, auto=True)
    assert db.rows("SELECT * FROM queend.take_back(%s, %s, %s, %s)", [part], [readers], [0], [2]) == [(0, True)]
    for expected in ([0, 1], [3], list(range(5, 10))):
        assert [offset for offset, _ in db.messages(db.pop([part], readers, auto=True))] == expected


def test_no_more_gaps_than_are_remembered(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(3)]
    db.push(batch(part, ids))
    db.pop([part], readers)
    db.rows("UPDATE queend.cursors SET beyond = (SELECT range_agg(int8range(2 * i, 2 * i + 1))"
            " FROM generate_series(500, 10499) AS i) WHERE partition_id = %s", part)
    assert db.ack(part, readers, None, [ids[1]]).codes == b"\x80"
    assert db.ack(part, readers, None, [ids[0]]).codes == b"\1", "which makes none"
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        transaction(db, acks=[(part, readers, None, [ids[2]], None)])


def test_figures_know_what_is_done_beyond_a_gap(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[3], ids[8]])
    row, = db.rows("SELECT * FROM queend.cursor_figures(%s, NULL)", [part])
    assert (row.next, row.head, row.beyond, row.leased) == (0, 10, 2, 8)
    row, = db.rows("SELECT * FROM queend.partition_figures(%s)", [part])
    assert (row.pending, row.processing, row.completed, row.consumed) == (0, 8, 2, 2)
    row, = db.rows("SELECT * FROM queend.group_positions(%s, 10)", [readers])
    assert (row.next, row.head, row.beyond) == (0, 10, 2) and row.consumed_at > 0
    assert [db.rows("SELECT consumed FROM queend.message_groups(%s, %s)", part, at)
            for at in (2, 3, 4)] == [[(False,)], [(True,)], [(False,)]]
    assert db.rows("SELECT pending_estimate FROM queen.partition_consumers"
                   " WHERE partition_id = queend.partition_uuid(%s)", part) == [(8,)]
    lists = {status: sorted(row.record_offset for row in db.rows(
        "SELECT * FROM queend.message_list((SELECT q.name FROM queend.queues q JOIN queend.partitions p"
        " ON p.queue_id = q.id WHERE p.id = %s), NULL, NULL, NULL, %s, 0, 4000000000000000, 100, 0, 1000)",
        part, status)) for status in ("completed", "processing")}
    assert lists == {"completed": [3, 8], "processing": [0, 1, 2, 4, 5, 6, 7, 9]}


def test_dead_letter_below_a_failed_one_is_passed(db, popped):
    part, readers, lease, ids = popped
    row = db.ack(part, readers, lease, [ids[5], ids[1], ids[0]], bytes([FAILED, DLQ, COMPLETED]), errors={1: "no use"})
    assert (row.codes, row.committed) == (b"\5\3\1", 1)
    assert dead(db, part) == [(1, "no use", 0)]
    assert again(db, part, readers)[0] == list(range(2, 10))


def test_retry_is_not_counted(db, popped):
    part, readers, lease, ids = popped
    row = db.ack(part, readers, lease, [ids[0], ids[1]], bytes([COMPLETED, RETRY]), retry_limit=0)
    assert (row.codes, row.released, row.committed, row.retry_until) == (b"\1\5", True, 0, 0)
    assert db.value("SELECT retries FROM queend.cursors WHERE partition_id = %s", part) == 0
    assert again(db, part, readers) == (list(range(1, 10)), 2)


def test_limit_zero_kills_at_once_and_a_dead_letter_resets_the_count(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[0]], bytes([FAILED]), retry_limit=1)
    lease = new_lease()
    again(db, part, readers, lease)
    row = db.ack(part, readers, lease, [ids[0]], bytes([FAILED]), retry_limit=1)
    assert (row.codes, row.released, row.committed) == (b"\3", False, 0)
    row = db.ack(part, readers, lease, [ids[1]], bytes([FAILED]), retry_limit=1)
    assert (row.codes, row.released) == (b"\5", True)
    assert dead(db, part) == [(0, "Retries exhausted", 1)]


def test_a_dead_letter_is_a_full_copy(db, popped):
    part, readers, lease, ids = popped
    assert db.ack(part, readers, lease, [ids[4]], bytes([DLQ])).committed == -1
    row, = db.rows("SELECT * FROM queend.dead_letters WHERE partition_id = %s", part)
    assert (row.transaction_id, row.payload, row.record_offset) == ("t4", '{"id":"%s"}' % ids[4].hex(), 4)
    assert again(db, part, readers, lease_us=1)[0] == []     # still leased: the rest of the window is open
    assert not db.ack(part, readers, lease, ids[5:]).released and db.ack(part, readers, lease, ids[:4]).released


def test_retry_delay_holds_the_partition_back(db, popped):
    part, readers, lease, ids = popped
    row = db.ack(part, readers, lease, ids[:1], bytes([FAILED]), retry_delay_us=3_600_000_000)
    assert row.retry_until > 0
    row, = db.pop([part], readers)
    assert (row.status,
            row.until) == (3, db.value("SELECT retry_until FROM queend.cursors WHERE partition_id = %s", part))


def test_the_cursor_never_goes_back(db, popped):
    part, readers, lease, ids = popped
    assert db.ack(part, readers, lease, [ids[6]], bytes([UPTO])).committed == 6
    row = db.ack(part, readers, lease, [ids[2]], bytes([FAILED]))
    assert (row.codes, row.released, row.committed) == (b"\x40", False, 6), "too late to fail"
    row = db.ack(part, readers, None, [ids[3], ids[8]], bytes([COMPLETED, UPTO]))
    assert (row.codes, row.committed) == (b"\x21\1", 8), "nothing to do for the first"
    assert db.ack(part, readers, lease, [ids[9]]).codes == b"\5"


def test_only_the_live_lease_counts(db, popped):
    part, readers, lease, ids = popped
    assert db.ack(part, readers, str(uuid.uuid4()), ids).codes == b"\x10" * 10
    db.rows("UPDATE queend.cursors SET lease_until = queend.now_us() - 1 WHERE partition_id = %s", part)
    assert db.ack(part, readers, lease, ids).codes == b"\x10" * 10
    assert again(db, part, readers) == (list(range(10)), 2)
    assert db.ack(part, readers, lease, ids).codes == b"\x10" * 10


def test_beyond_the_window_and_without_a_lease(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(3)] + [id_text("late")]
    for i in ids:
        db.push(batch(part, [i]))
    lease = new_lease()
    db.pop([part], readers, budget=1, lease=lease)
    for named in (None, lease):
        for status in (COMPLETED, FAILED, DLQ, RETRY, UPTO):
            row = db.ack(part, readers, named, [ids[3]], bytes([status]))
            assert (row.codes, row.released, row.committed) == (b"\x10", False, -1), "not delivered yet"
    row = db.ack(part, readers, None, [ids[3], ids[0]])
    assert (row.codes, row.released, row.committed) == (b"\x10\5", True, 0)
    assert [db.ack(part, readers, None, [ids[0]], bytes([status])).codes
            for status in (COMPLETED, UPTO, FAILED)] == [b"\x21", b"\x21", b"\x40"], "done needs no lease"
    assert db.ack(part, readers, None, [ids[1]]).codes == b"\x10", "no lease"
    assert again(db, part, readers)[0] == [1, 2, 3] and dead(db, part) == []


def test_a_group_that_was_given_nothing_acknowledges_nothing(db, popped, group):
    part, readers, lease, ids = popped
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    other = group(part, "other")
    for named in (readers, other):
        for status in (COMPLETED, FAILED, DLQ, RETRY, UPTO):
            assert db.ack(part, named, None, [ids[2]], bytes([status])).codes == b"\x10"
            assert transaction(db, [batch(part, [id7()])],
                               acks=[(part, named, None, [ids[2]], bytes([status]))])[1, 0].codes == b"\x10"
    assert dead(db, part) == [] and queend_head(db, part) == 10
    assert again(db, part, readers)[0] == again(db, part, other)[0] == list(range(10))


def queend_head(db, part):
    return db.value("SELECT queend.head(%s)", part)


def test_a_transaction_takes_what_is_done(db, popped):
    part, readers, lease, ids = popped
    db.ack(part, readers, lease, [ids[0], ids[2]])
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s", part)
    for one, status, code in ((0, COMPLETED, 1), (0, UPTO, 1), (2, COMPLETED, 1), (2, UPTO, 16), (0, DLQ, 64),
                              (2, FAILED, 64), (1, COMPLETED, 16)):
        told = transaction(db, acks=[(part, readers, None, [ids[one]], bytes([status]))])
        assert told[1, 0].codes == bytes([code]), (one, status)
    assert transaction(db, acks=[(part, readers, lease, [ids[0]], None)])[1, 0].codes == b"\x10"
    assert dead(db, part) == [] and again(db, part, readers)[0] == [1]


def test_many_elements_in_one_call(db, partitions, group):
    parts = partitions(3)
    readers = group(parts[0])
    ids = {p: [id7() for _ in range(3)] for p in parts}
    db.push(*[batch(p, ids[p]) for p in parts])
    lease = new_lease()
    db.pop(parts, readers, lease=lease)
    from sql.records import ACK
    order = [parts[2], parts[0], parts[1], parts[0]]
    rows = {r.ord: r
            for r in db.rows(ACK, 0, order, [readers] * 4, [lease, lease, str(uuid.uuid4()), None], [3, 2, 3, 1],
                             [b"".join(ids[order[0]]), b"".join(ids[order[1]][:2]),
                              b"".join(ids[order[2]]), ids[order[3]][2]],
                             [bytes(3), bytes(2), bytes(3), bytes([FAILED])], [3] * 4, [0] * 4, [3], [0], ["late"])}
    assert [rows[i].codes for i in range(4)] == [b"\1\1\5", b"\1\1", b"\x10" * 3, b"\5"]
    assert [rows[i].committed for i in range(4)] == [2, 1, -1, 1]


def test_lease_expiry_and_release(db, popped):
    part, readers, lease, ids = popped
    assert db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [readers],
                   [str(uuid.uuid4())]) == [(0, False)]
    assert db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [readers], [lease]) == [(0, True)]
    assert again(db, part, readers) == (list(range(10)), 1)


def test_renew(db, popped):
    part, readers, lease, _ = popped
    unknown = str(uuid.uuid4())
    was = db.value("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part)
    call = "SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])"
    for hints in (([], [], []), ([1], [part], [readers]), ([1], [part], [readers + 1])):
        rows = sorted(db.rows(call, [lease, unknown], [600, 600], *hints))
        assert [(r.ord, r.status, r.renewed) for r in rows] == [(0, 0, 1), (1, 1, 0)]
        assert rows[0].expires_at > was
    longest = rows[0].expires_at
    assert db.rows(call, [lease], [1], [], [], [])[0].expires_at == longest
    db.rows("UPDATE queend.cursors SET lease_until = queend.now_us() - 1 WHERE partition_id = %s", part)
    assert db.rows(call, [lease], [600], [], [], [])[0][1:] == (2, 0, 0)


def test_a_thousand_dead_letters_of_one_call(db, partitions, group):
    part, = partitions()
    readers = group(part)
    ids = [id_text(f"dead-{i}") for i in range(1000)]
    db.push(batch(part, ids, [b"%d" % i for i in range(1000)], {i: (None, None, f"dead-{i}") for i in range(1000)}))
    lease = new_lease()
    db.pop([part], readers, budget=1000, lease=lease)
    row = db.ack(part, readers, lease, ids[::-1], bytes([DLQ] * 1000), errors={5: "five"})
    assert (row.codes, row.released, row.committed) == (b"\3" * 1000, True, 999)
    rows = db.rows("SELECT * FROM queend.dead_letters WHERE partition_id = %s ORDER BY id", part)
    assert [(r.record_offset, r.transaction_id, r.payload)
            for r in rows] == [(i, f"dead-{i}", str(i)) for i in range(1000)]
    assert [r.record_offset for r in rows if r.error != "Retries exhausted"] == [994] and rows[994].error == "five"
