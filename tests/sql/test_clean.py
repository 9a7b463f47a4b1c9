"""Idle partitions: which go, which stay, and that no push is lost to it."""
from __future__ import annotations

import struct

from sql.calls import Waiting
from sql.records import Session, batch, id7

DAY = 86_400_000_000


def clean(db: Session, queue_of: int, before: int | None = None, page: int = 1000) -> list[int]:
    """Everything that was left alone until now is idle. The partitions of the queue that went."""
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", queue_of)
    was = {row.id for row in db.rows("SELECT id FROM queend.partitions WHERE queue_id = %s", queue)}
    after, at = 0, before or db.value("SELECT queend.now_us() + %s", DAY)
    while after is not None:
        ((_, after),) = db.rows("SELECT * FROM queend.partitions_clean(%s, %s, %s)", after, page, at)
    return sorted(was - {row.id for row in db.rows("SELECT id FROM queend.partitions WHERE queue_id = %s", queue)})


def emptied(db: Session, part: int) -> None:
    db.rows("SELECT * FROM queend.retain((SELECT queue_id FROM queend.partitions"
            " WHERE id = %s), %s, 1, 1000, %s, 0, 0)", part, part - 1, 2**60)


def test_only_what_nobody_would_miss_goes(db, partitions, group):
    full, dead, fresh, emptied_one, state, idle, default = partitions(7)
    for part in (full, emptied_one):
        db.push(batch(part, [id7()]))
    emptied(db, emptied_one)
    db.rows("INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id,"
            " transaction_id, payload, error, retry_count, created_at, failed_at)"
            " SELECT queue_id, id, 0, 0, '', '', '', '', 0, 0, 0 FROM queend.partitions WHERE id = %s RETURNING id",
            dead)
    db.rows("WITH q AS (INSERT INTO queend.stream_queries (name, source_queue, config_hash)"
            " VALUES ('clean', '', '') RETURNING id)"
            " INSERT INTO queend.stream_state (updated_at, query_id, partition_id, key, value)"
            " SELECT 0, q.id, %s, 'k', '1' FROM q RETURNING key", state)
    one = group(full)
    db.rows("INSERT INTO queend.cursors (committed, partition_id, group_id, consumed_at)"
            " VALUES (-1, %s, %s, %s), (-1, %s, %s, 5) RETURNING 1", fresh, one, 2**60, idle, one)
    db.rows("UPDATE queend.partitions SET name = 'Default' WHERE id = %s RETURNING id", default)
    version, queue = (db.value("SELECT version FROM queend.catalog"),
                      db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", full))
    assert clean(db, full, before=1) == []                       # all of them are younger
    assert clean(db, full, page=3) == sorted([emptied_one, idle])
    assert db.value("SELECT version FROM queend.catalog") > version
    cleaned, last = db.rows("SELECT cleaned, cleaned_last FROM queend.queues WHERE id = %s", queue)[0]
    assert cleaned == 2 and {n for n, in struct.iter_unpack(">i", last)} == {emptied_one, idle}
    assert [row.version for row in db.rows("SELECT * FROM queend.catalog_load()") if row.queue_id == queue
            and row.cleaned == 2]
    while db.rows("SELECT * FROM queend.sweep(1000)")[0].partitions:
        pass
    assert db.rows("SELECT 1 FROM queend.cursors WHERE partition_id = %s", idle) == []
    again = db.rows("SELECT * FROM queend.resolve(ARRAY(SELECT name FROM queend.queues WHERE id = %s), ARRAY['p5'])",
                    queue)[0].partition_id
    assert again > idle and db.push(batch(again, [id7()]))[0].base == 0


def test_a_partition_that_retention_emptied_lately_stays(db, partitions):
    """Readers by offset leave no trace in the cursors; a new partition would begin at offset 0 again."""
    part, = partitions()
    db.push(batch(part, [id7()]))
    db.rows("UPDATE queend.partitions SET created_at = now() - interval '40 days' WHERE id = %s", part)
    emptied(db, part)
    now = db.value("SELECT queend.now_us()")
    assert clean(db, part, before=now - 30 * DAY) == []
    assert clean(db, part, before=now + DAY) == [part]


def test_the_list_of_the_last_ones_is_bounded(db, partitions):
    parts = sorted(partitions(1200))
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    assert clean(db, parts[0], page=700) == parts
    ((cleaned, last),) = db.rows("SELECT cleaned, cleaned_last FROM queend.queues WHERE id = %s", queue)
    assert cleaned == 1200 and [n for n, in struct.iter_unpack(">i", last)] == parts[200:]


def test_a_push_under_way_keeps_its_partition(two, partitions):
    first, second, _ = two
    part, other = partitions(2)
    first.push(batch(part, [id7()]))                             # holds the lane, is not to be seen yet
    assert clean(second, other) == [other]
    first.connection.commit()
    assert clean(second, part) == []


def test_a_push_that_comes_after_is_refused_as_stale(two, partitions):
    first, second, watcher = two
    part, = partitions()
    version = second.value("SELECT version FROM queend.catalog")
    first.rows("SELECT * FROM queend.partitions_clean(%s, 1, queend.now_us() + %s)", part - 1, DAY)
    late = Waiting(watcher, second, lambda: second.push(batch(part, [id7()]), version=version))
    first.connection.commit()
    assert [(row.ord, row.status) for row in late.result()] == [(-1, 9)]
    assert watcher.rows("SELECT 1 FROM queend.log WHERE partition_id = %s", part) == []
