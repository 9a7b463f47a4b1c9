"""Two sessions at every hot function, stepped by locks: a step is over when pg_stat_activity shows the other one
waiting."""
from __future__ import annotations

import pytest
from sql.calls import Waiting, transaction
from sql.records import ACK, batch, id4, id7, new_lease


def test_interleaved_commits_skip_nothing(two, partitions, group):
    """A begins first, B wants to commit first; a consumer that pops whatever is there must get both, in offset
    order."""
    a, b, reader = two
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(2)]
    assert a.push(batch(part, [ids[0]]))[0].base == 0
    waiting = Waiting(reader, b, lambda: b.push(batch(part, [ids[1]])))
    # nothing is visible, nothing is passed
    assert [r.status for r in reader.pop([part], readers, auto=True)] == [0]
    a.rows("COMMIT")
    assert waiting.result()[0].base == 1
    assert reader.messages(reader.pop([part], readers, auto=True)) == list(enumerate(ids))
    rows = reader.rows("SELECT created_at FROM queend.log WHERE partition_id = %s ORDER BY base", part)
    assert rows[0].created_at <= rows[1].created_at


def test_a_rolled_back_push_leaves_no_gap(two, partitions):
    a, b, watcher = two
    part, = partitions()
    i = id7()
    a.push(batch(part, [i]))
    waiting = Waiting(watcher, b, lambda: b.push(batch(part, [i])))
    a.rows("ROLLBACK")
    row, = waiting.result()
    assert (row.base, row.dup_offset) in ((0, None), (0, [-1]))


@pytest.mark.parametrize("make", [id7, id4])
def test_the_same_id_at_the_same_time_is_stored_once(two, partitions, make):
    a, b, watcher = two
    part, = partitions()
    i = make()
    a.push(batch(part, [i]))
    waiting = Waiting(watcher, b, lambda: b.push(batch(part, [i, make()])))
    a.rows("COMMIT")
    row, = waiting.result()
    assert (row.status, row.base, list(row.dup_offset)) == (1, 1, [0, -1])


def test_pushes_of_other_lanes_do_not_wait(two, partitions):
    a, b, _ = two
    parts = partitions(2)
    a.push(batch(parts[0], [id7()]))
    assert b.push(batch(parts[1], [id7()]))[0].base == 0
    a.rows("COMMIT")


def test_crossed_pushes_do_not_deadlock(two, partitions):
    a, b, watcher = two
    parts = partitions(2)
    a.push(batch(parts[0], [id7()]))
    waiting = Waiting(watcher, b, lambda: b.push(batch(parts[1], [id7()]), batch(parts[0], [id7()])))
    a.rows("COMMIT")
    assert [r.base for r in waiting.result()] in ([0, 1], [1, 0])


def test_one_of_two_pops_gets_the_partition(two, partitions, group):
    a, b, _ = two
    part, spare = partitions(2)
    readers = group(part)
    for p in (part, spare):
        b.push(batch(p, [id7()]))
    b.pop([part], readers, budget=1, auto=True, delay_us=10**12)      # makes the cursors
    b.pop([spare], readers, budget=1, auto=True, delay_us=10**12)
    assert [r.status for r in a.pop([part], readers)] == [1]
    assert {r.ord: (r.status, r.until) for r in b.pop([part, spare], readers)} == {0: (2, 0), 1: (1, 0)}
    a.rows("COMMIT")
    row, = b.pop([part], readers)
    assert row.status == 2 and row.until > 0


def test_two_first_pops_of_a_group(two, partitions, group):
    """Both must make the cursor; the second waits for the row, then finds the lease."""
    a, b, watcher = two
    part, = partitions()
    readers = group(part)
    b.push(batch(part, [id7()]))
    assert [r.status for r in a.pop([part], readers)] == [1]
    waiting = Waiting(watcher, b, lambda: b.pop([part], readers))
    a.rows("COMMIT")
    assert [r.status for r in waiting.result()] == [2]


def test_pop_and_the_ack_before_it(two, partitions, group):
    """A pop beside an uncommitted ack takes nothing; after it, what follows the new cursor."""
    a, b, _ = two
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(3)]
    b.push(batch(part, ids))
    lease = new_lease()
    b.pop([part], readers, budget=2, lease=lease)
    assert a.ack(part, readers, lease, ids[:2]).released
    assert [r.status for r in b.pop([part], readers)] == [2]
    a.rows("COMMIT")
    assert b.messages(b.pop([part], readers)) == [(2, ids[2])]


@pytest.mark.parametrize("auto", [False, True], ids=["lease", "auto"])
def test_a_pop_under_way_does_not_undo_a_seek(two, partitions, group, auto):
    """The pop has read the cursor, and locks it after a seek back was committed."""
    first, popper, watcher = two
    part, = partitions()
    readers = group(part)
    for _ in range(10):
        watcher.push(batch(part, [id7()]))
    assert [row.first for row in watcher.pop([part], readers, budget=5, auto=True)] == [0, 1, 2, 3, 4]
    first.rows("LOCK TABLE queend.schedule")      # where a pop looks behind the cursor
    waiting = Waiting(watcher, popper, lambda: popper.pop([part], readers, budget=2, auto=auto, fresh=False))
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    assert watcher.rows("SELECT updated FROM queend.group_seek(%s, %s, %s, 0, 1, 0, NULL)", queue,
                        readers, part) == [(1,)]
    first.rows("COMMIT")
    assert [(row.status, row.first, row.take) for row in waiting.result()] == [(1, 0, 1), (1, 1, 1)]
    assert watcher.value("SELECT committed FROM queend.cursors WHERE partition_id = %s AND group_id = %s", part,
                         readers) == (1 if auto else -1)


def test_two_acks_of_one_lease_release_it_once(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(3)]
    b.push(batch(part, ids))
    lease = new_lease()
    b.pop([part], readers, lease=lease)
    assert a.ack(part, readers, lease, ids).codes == b"\1\1\5"
    waiting = Waiting(watcher, b, lambda: b.ack(part, readers, lease, ids))
    a.rows("COMMIT")
    assert waiting.result().codes == b"\x10" * 3


def test_ack_behind_an_ack_goes_on_from_its_cursor(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(4)]
    b.push(batch(part, ids))
    lease = new_lease()
    b.pop([part], readers, lease=lease)
    assert a.ack(part, readers, lease, ids[:2]).committed == 1
    waiting = Waiting(watcher, b, lambda: b.ack(part, readers, lease, ids[2:]))
    a.rows("COMMIT")
    row = waiting.result()
    assert (row.codes, row.committed, row.released) == (b"\1\5", 3, True)


def test_crossed_acks_do_not_deadlock(two, partitions, group):
    a, b, watcher = two
    parts = sorted(partitions(2))
    readers = group(parts[0])
    ids = {p: id7() for p in parts}
    for p in parts:
        b.push(batch(p, [ids[p]]))
    lease = new_lease()
    b.pop(parts, readers, lease=lease)
    a.ack(parts[0], readers, lease, [ids[parts[0]]])
    order = parts[::-1]
    waiting = Waiting(watcher, b, lambda: b.rows(ACK, 0, order, [readers] * 2, [lease] * 2, [1, 1],
                                                 [ids[p] for p in order], [bytes(1)] * 2, [3] * 2, [0] * 2, [], [], []))
    a.rows("COMMIT")
    assert {r.ord: r.codes for r in waiting.result()} == {0: b"\5", 1: b"\x10"}


def test_an_ack_locks_in_order_whatever_it_does(two, partitions, group):
    """One window is completed, the quick way; of the other, whose cursor comes first, a record fails. While the call
    waits for the first cursor it must not hold the second."""
    a, b, watcher = two
    parts = sorted(partitions(2))
    readers = group(parts[0])
    ids = {p: id7() for p in parts}
    for p in parts:
        b.push(batch(p, [ids[p]]))
    lease = new_lease()
    b.pop(parts, readers, lease=lease)
    a.rows("SELECT 1 FROM queend.cursors WHERE partition_id = %s FOR UPDATE", parts[0])
    waiting = Waiting(watcher, b,
                      lambda: b.rows(ACK, 0, parts, [readers] * 2, [lease] * 2, [1, 1], [ids[p] for p in parts],
                                     [bytes([1]), bytes([0])], [3] * 2, [0] * 2, [], [], []))
    assert watcher.rows("SELECT 1 FROM queend.cursors WHERE partition_id = %s FOR UPDATE NOWAIT", parts[1])
    a.rows("COMMIT")
    assert {r.ord: r.codes for r in waiting.result()} == {0: b"\5", 1: b"\5"}


def test_renewal_and_ack(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    readers = group(part)
    i = id7()
    b.push(batch(part, [i]))
    lease = new_lease()
    b.pop([part], readers, lease=lease)
    a.ack(part, readers, lease, [i])
    waiting = Waiting(watcher, b,
                      lambda: b.rows("SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])",
                                     [lease], [600], [1], [part], [readers]))
    a.rows("COMMIT")
    assert [(r.status, r.renewed) for r in waiting.result()] == [(1, 0)]
    assert watcher.rows("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part) == [(0,)]


def test_release_and_ack(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    readers = group(part)
    i = id7()
    b.push(batch(part, [i]))
    lease = new_lease()
    b.pop([part], readers, lease=lease)
    a.ack(part, readers, lease, [i])
    waiting = Waiting(watcher, b,
                      lambda: b.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [readers], [lease]))
    a.rows("COMMIT")
    assert waiting.result() == [(0, False)]


def test_transactions_that_move_the_same_record(two, partitions, group):
    """The second one waits for the first and is refused as a whole."""
    a, b, watcher = two
    source, target, other = partitions(3)
    readers = group(source)
    i = id7()
    b.push(batch(source, [i]))
    lease = new_lease()
    b.pop([source], readers, lease=lease)
    assert transaction(a, [batch(target, [id7()])], [(source, readers, lease, [i], None)])[1, 0].codes == b"\5"
    waiting = Waiting(watcher, b,
                      lambda: transaction(b, [batch(other, [id7()])], [(source, readers, lease, [i], None)], [lease]))
    a.rows("COMMIT")
    refused = waiting.result()
    assert refused[1, 0].codes == b"\x10" and (2, 0) in refused
    assert watcher.rows("SELECT 1 FROM queend.log WHERE partition_id = %s", other) == []


def test_transaction_sees_the_push_it_waited_for(two, partitions):
    a, b, watcher = two
    part, other = partitions(2)
    i = id7()
    a.push(batch(part, [i]))
    waiting = Waiting(watcher, b, lambda: transaction(b, [batch(part, [i]), batch(other, [id7()])]))
    a.rows("COMMIT")
    rows = waiting.result()
    assert (rows[0, 0].status, rows[0, 0].dup_index) == (1, 0)
    assert watcher.rows("SELECT 1 FROM queend.log WHERE partition_id = %s", other) == []


def test_resolve_of_one_name_by_two(two):
    a, b, watcher = two
    mine = a.rows("SELECT * FROM queend.resolve(%s, %s)", ["race-a", "race-b"], ["p", "p"])
    waiting = Waiting(watcher, b,
                      lambda: b.rows("SELECT * FROM queend.resolve(%s, %s)", ["race-b", "race-a"], ["p", "p"]))
    a.rows("COMMIT")
    assert {(r.queue_id, r.partition_id) for r in waiting.result()} == {(r.queue_id, r.partition_id) for r in mine}


def test_push_to_a_queue_that_is_being_deleted(two, partitions):
    """The push waits for its lane behind another one; the queue goes meanwhile: the caller is told that its names are
    stale."""
    a, b, watcher = two
    part, = partitions()
    version = watcher.value("SELECT version FROM queend.catalog")
    a.push(batch(part, [id7()]))
    waiting = Waiting(watcher, b, lambda: b.push(batch(part, [id7()]), version=version))
    queue = watcher.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                          " WHERE p.id = %s", part)
    assert watcher.value("SELECT queend.queue_delete(%s)", queue)
    assert watcher.rows("SELECT * FROM queend.sweep(100)") == [(0, 1)]        # the lane is busy: not yet
    a.rows("COMMIT")
    assert waiting.result()[0].status == 9
    assert watcher.rows("SELECT * FROM queend.sweep(100)") == [(1, 0)]
    assert watcher.rows("SELECT 1 FROM queend.log WHERE partition_id = %s", part) == []


def test_group_of_one_name_by_two(two, partitions):
    a, b, watcher = two
    part, = partitions()
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    call = "SELECT * FROM queend.group_resolve(%s, 'one', %s, NULL)"
    mine, = a.rows(call, queue, "new")
    waiting = Waiting(watcher, b, lambda: b.rows(call, queue, "all"))
    a.rows("COMMIT")
    assert waiting.result() == [(mine.group_id, mine.start_at, False, False)] and mine.fresh
