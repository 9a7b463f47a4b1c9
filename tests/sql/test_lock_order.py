"""Changes of queues and groups by hand, beside each other and beside acknowledgments: one order of locks, so that they
wait and never for each other in a circle. Each test takes by hand the lock that one of them takes first, and lets the
others come up to it."""
from __future__ import annotations

import json

import psycopg
import pytest
from sql.calls import Waiting
from sql.records import Session, batch, id7, new_lease


@pytest.fixture
def three(session) -> tuple[Session, Session, Session, Session]:
    """A session in a transaction, two others, and one that watches."""
    first, second, third, watcher = (session() for _ in range(4))
    first.rows("BEGIN")
    return first, second, third, watcher


def place(db: Session, part: int) -> tuple[int, str]:
    return db.rows("SELECT q.id, q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                   " WHERE p.id = %s", part)[0]


@pytest.mark.parametrize("call", ["SELECT * FROM queend.group_delete('g', NULL, true)",
                                  "SELECT * FROM queend.group_subscribe('g', 5)"])
def test_groups_and_the_deletion_of_a_queue(three, partitions, group, call):
    a, b, _, watcher = three
    part, = partitions()
    group(part, "g", "timestamp", 1)
    queue, name = place(watcher, part)
    a.rows("SELECT FROM queend.queues WHERE id = %s FOR UPDATE", queue)      # as queue_delete begins
    waiting = Waiting(watcher, b, lambda: b.rows(call))
    assert a.value("SELECT queend.queue_delete(%s)", name) is True
    a.rows("COMMIT")
    assert name not in [row[0] for row in waiting.result()]


def test_a_seek_a_deletion_and_a_cycle_of_a_stream(three, session, partitions, group):
    """The cycle holds its partition against deletion and waits for the cursor; the seek holds the cursor."""
    a, b, c, watcher = three
    part, = partitions()
    who = group(part, "g")
    queue, name = place(watcher, part)
    watcher.push(batch(part, [id7()]))
    watcher.pop([part], who)
    c.rows("BEGIN")
    c.rows("SELECT FROM queend.partitions WHERE id = %s FOR KEY SHARE", part)
    a.rows("SELECT FROM queend.queues WHERE id = %s FOR UPDATE", queue)
    seek = Waiting(watcher, b,
                   lambda: b.rows("SELECT * FROM queend.group_seek(%s, %s, NULL, 0, 100, NULL, 0)", queue, who))
    deletion = Waiting(watcher, a, lambda: a.value("SELECT queend.queue_delete(%s)", name))
    c.rows("SELECT queend.cursors_lock(%s, %s)", [part], [who])
    c.rows("COMMIT")
    assert deletion.result() is True
    a.rows("COMMIT")
    assert seek.result()[0].updated == 0


def test_idle_partitions_and_the_deletion_of_their_queue(three, partitions):
    a, b, _, watcher = three
    part, = partitions()
    queue, name = place(watcher, part)
    watcher.rows("UPDATE queend.partitions SET created_at = now() - interval '1 day' WHERE id = %s", part)
    a.rows("SELECT FROM queend.queues WHERE id = %s FOR UPDATE", queue)
    clean = "SELECT removed FROM queend.partitions_clean(%s, 1, queend.now_us())"
    assert b.value(clean, part - 1) == 0      # it is left to the next round: nobody waits
    assert a.value("SELECT queend.queue_delete(%s)", name) is True
    a.rows("ROLLBACK")
    assert b.value(clean, part - 1) == 1


def test_a_subscription_and_acknowledgments_over_two_queues(three, partitions, group):
    """The group's cursors lie in both queues, one between the others by number: whoever takes several takes them in
    that order."""
    a, b, _, watcher = three
    (one,), (two,) = partitions(), partitions()
    three_, = watcher.rows("SELECT partition_id FROM queend.resolve(%s, %s)", [place(watcher, one)[1]], ["later"])[0]
    parts = [one, two, three_]
    assert parts == sorted(parts)
    groups = [group(part, "g", "timestamp", 1) for part in parts]
    watcher.rows("SELECT queend.cursors_open(%s, %s, %s)", parts, groups, [True] * 3)
    a.rows("SELECT queend.cursors_lock(%s, %s)", [two], [groups[1]])      # as an acknowledgment that has come so far
    waiting = Waiting(watcher, b, lambda: b.rows("SELECT * FROM queend.group_subscribe('g', 5)"))
    a.rows("SELECT queend.cursors_lock(%s, %s)", [three_], [groups[2]])
    a.rows("COMMIT")
    assert {place(watcher, one)[1], place(watcher, two)[1]} <= {row[0] for row in waiting.result()}
    assert watcher.value("SELECT count(*) FROM queend.cursors WHERE partition_id = ANY (%s)", parts) == 0


def test_a_subscription_leaves_who_has_consumed_meanwhile(three, partitions, group):
    a, b, _, watcher = three
    part, = partitions()
    who = group(part, "g", "timestamp", 1)
    watcher.push(batch(part, [id7()]))
    lease = new_lease()
    (row,) = watcher.pop([part], who, lease=lease)
    watcher.rows("UPDATE queend.cursors SET lease_until = queend.now_us() + 300000000 WHERE partition_id = %s", part)
    a.ack(part, who, lease, [row.ids])
    waiting = Waiting(watcher, b, lambda: b.rows("SELECT * FROM queend.group_subscribe('g', 5)"))
    a.rows("COMMIT")
    waiting.result()
    assert watcher.rows("SELECT committed FROM queend.cursors WHERE partition_id = %s", part) == [(0,)]


def test_a_redrive_and_the_deletion_of_its_queue(three, partitions, group):
    """The locks of queend/control/routes/redrive.py in their order."""
    a, b, _, watcher = three
    part, = partitions()
    who = group(part, "g")
    queue, name = place(watcher, part)
    watcher.push(batch(part, [id7()]))
    watcher.rows("SELECT queend.dead_letter(%s, %s, ARRAY[0::bigint], ARRAY['x'], 1)", part, who)
    a.rows("SELECT FROM queend.queues WHERE id = %s FOR KEY SHARE", queue)
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queend.queue_delete(%s)", name))
    a.rows("SELECT FROM queend.dead_letters WHERE partition_id = %s FOR UPDATE", part)
    a.rows("SELECT FROM queend.partitions WHERE id = %s FOR KEY SHARE", part)
    a.rows("COMMIT")
    assert waiting.result() is True


def test_retention_and_records_for_one_group(two, partitions):
    """A redrive lengthens the run that retention is about to remove."""
    a, b, watcher = two
    part, = partitions()
    watcher.push(batch(part, [id7()]))
    watcher.push(batch(part, [id7()]))
    watcher.rows("SELECT queend.address_add(%s, 0, 0, 'g')", part)
    a.rows("SELECT FROM queend.floors WHERE partition_id = %s FOR UPDATE", part)      # as retention begins
    waiting = Waiting(watcher, b, lambda: b.rows("SELECT queend.address_add(%s, 1, 1, 'g')", part))
    queue, _ = place(watcher, part)
    assert a.rows("SELECT * FROM queend.retain(%s, 0, 1, 100, -queend.now_us(), 0, 0)", queue)[0].records == 2
    a.rows("COMMIT")
    waiting.result()


def test_a_seek_and_leases_of_what_is_gone(two, partitions, group):
    """Both change a queue's groups by hand: they begin with its row."""
    a, b, watcher = two
    part, = partitions()
    who = group(part, "g")
    queue, _ = place(watcher, part)
    watcher.push(batch(part, [id7()]))
    watcher.pop([part], who)
    watcher.rows("SELECT * FROM queend.retain(%s, 0, 1, 100, -queend.now_us(), 0, 0)", queue)
    a.rows("SELECT FROM queend.queues WHERE id = %s FOR NO KEY UPDATE", queue)      # as a seek begins
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queend.leases_moot(%s)", [part]))
    a.rows("SELECT * FROM queend.group_seek(%s, %s, NULL, 0, 100, NULL, 0)", queue, who)
    a.rows("COMMIT")
    assert waiting.result() == 0      # the seek has ended it


def test_a_pop_in_sql_does_not_wait_for_a_cursor_that_is_being_made(two, partitions, group):
    """It may hold the cursor of another partition that the other one wants next."""
    a, b, watcher = two
    part, = partitions()
    who = group(part, "g")
    _, name = place(watcher, part)
    watcher.push(batch(part, [id7()]))
    call = "SELECT queen.pop_unified_batch_v4(%s::jsonb)->0->'result'->>'reason'"
    wanted = json.dumps([{"queue_name": name, "partition_name": "p0", "consumer_group": "g"}])
    a.rows("SELECT queend.cursors_open(%s, %s, %s)", [part], [who], [True])
    b.rows("SET statement_timeout = '20s'")
    assert b.value(call, wanted) == "leased"
    a.rows("COMMIT")
    assert b.value(call, wanted) is None


DEAD = "SELECT count(*) FROM queend.dead_letters WHERE partition_id = %s"
FAILED = bytes([2])


def test_a_deletion_of_a_partition_takes_the_dead_letter_that_is_being_made(three, partitions, group):
    a, b, _, watcher = three
    part, = partitions()
    who, lease, one = group(part, "g"), new_lease(), id7()
    queue, name = place(watcher, part)
    partition = watcher.value("SELECT name FROM queend.partitions WHERE id = %s", part)
    watcher.push(batch(part, [one]))
    watcher.pop([part], who, lease=lease)
    a.ack(part, who, lease, [one], status=FAILED)
    deletion = Waiting(watcher, b, lambda: b.value("SELECT queend.partition_delete(%s, %s)", name, partition))
    assert a.value(DEAD, part) == 1
    a.rows("COMMIT")
    assert deletion.result() is True
    assert watcher.value(DEAD, part) == 0


def test_no_dead_letter_is_made_in_a_partition_that_is_being_deleted(three, partitions, group):
    a, b, _, watcher = three
    part, = partitions()
    who, lease, one = group(part, "g"), new_lease(), id7()
    queue, name = place(watcher, part)
    watcher.push(batch(part, [one]))
    watcher.pop([part], who, lease=lease)
    assert a.value("SELECT queend.partition_delete(%s, (SELECT name FROM queend.partitions WHERE id = %s))", name, part)
    acknowledgment = Waiting(watcher, b, lambda: b.ack(part, who, lease, [one], status=FAILED))
    a.rows("COMMIT")
    acknowledgment.result()
    assert watcher.value(DEAD, part) == 0


@pytest.mark.parametrize("deletion", ["SELECT queend.dead_delete(%s)", "SELECT queend.partition_delete(%s, %s)"])
def test_two_deletions_of_the_same_dead_letters_in_another_order(three, partitions, group, deletion):
    a, b, _, watcher = three
    part, = partitions()
    who, lease, ids = group(part, "g"), new_lease(), [id7() for _ in range(3)]
    queue, name = place(watcher, part)
    watcher.push(batch(part, ids))
    watcher.pop([part], who, lease=lease)
    watcher.ack(part, who, lease, ids, status=FAILED * 3)
    dead = [row.id for row in watcher.rows("SELECT id FROM queend.dead_letters WHERE partition_id = %s ORDER BY 1",
                                           part)]
    partition = watcher.value("SELECT name FROM queend.partitions WHERE id = %s", part)
    assert a.value("SELECT queend.dead_delete(%s)", dead[2:]) == 1
    other = Waiting(watcher, b, lambda: b.value(deletion, *((dead,) if "dead_" in deletion else (name, partition))))
    assert a.value("SELECT queend.dead_delete(%s)", dead[:1]) == 1
    a.rows("COMMIT")
    assert other.result() == 1
    assert watcher.value(DEAD, part) == 0


def test_a_dead_letter_keeps_the_name_of_a_group_that_is_deleted_meanwhile(two, partitions, group):
    """A redrive would deliver a dead letter without a name to all groups."""
    a, b, watcher = two
    part, = partitions()
    who, other, lease, one = group(part, "g"), group(part, "other"), new_lease(), id7()
    queue, name = place(watcher, part)
    watcher.push(batch(part, [one]))
    watcher.pop([part], other, auto=True)
    watcher.pop([part], who, lease=lease)
    a.ack(part, who, lease, [one], status=FAILED)
    assert [row.queue for row in b.rows("SELECT * FROM queend.group_delete('g', %s, true)", name)] == [name]
    a.rows("COMMIT")
    assert watcher.value("SELECT group_name FROM queend.dead_letters WHERE partition_id = %s", part) == "g"
    assert watcher.value("SELECT redriven FROM queend.dead_redrive(%s, NULL, NULL, NULL, NULL, NULL, 10)", queue) == 1
    assert watcher.messages(watcher.pop([part], other, auto=True)) == []


def test_no_dead_letter_is_made_for_a_group_that_was_deleted(two, partitions, group):
    """The acknowledgment had looked for the group before the deletion: it tries again."""
    _, b, watcher = two
    part, = partitions()
    who, lease, one = group(part, "g"), new_lease(), id7()
    watcher.push(batch(part, [one]))
    watcher.pop([part], who, lease=lease)
    b.rows("SELECT * FROM queend.group_delete('g', %s, true)", place(watcher, part)[1])
    with pytest.raises(psycopg.errors.SerializationFailure):
        watcher.ack(part, who, lease, [one], status=FAILED)
    assert watcher.value(DEAD, part) == 0
