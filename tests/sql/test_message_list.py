"""Lists of messages: read from partitions or from windows of time they say the same, and a status leaves what has
it."""
from __future__ import annotations

import random

import pytest
from sql.records import batch, id7

HOUR_US, LOOK = 3_600_000_000, 100_000
LIST = """SELECT partition_id, record_offset, stored_at, status, queue_status
  FROM queend.message_list(%s, NULL, NULL, NULL, %s, %s, %s, %s, %s, %s)"""
STATUSES = ("pending", "processing", "completed", "dead_letter")


@pytest.fixture(scope="module")
def listed(conninfo):
    """Some partitions written over an hour, with a crowd of rows in one moment of it; consumed by the queue mode, by
    two groups, or by nobody."""
    from sql.records import Session
    db, dice = Session(conninfo), random.Random(5)
    parts = sorted(row.partition_id for row in db.rows("SELECT * FROM queend.resolve(%s, %s)", ["listed"] * 12,
                                                       [f"p{i}" for i in range(12)]))
    queue, now = db.rows("SELECT id, queend.now_us() FROM queend.queues WHERE name = 'listed'")[0]
    groups = [db.rows("SELECT * FROM queend.group_resolve(%s, %s, 'all', NULL)", queue, name)[0].group_id
              for name in ("__QUEUE_MODE__", "one", "two")]
    for part in parts:
        for _ in range(4):
            db.push(batch(part, [id7() for _ in range(dice.randint(1, 4))]))
    for part in parts[:3]:      # 1080 rows of one record, all within a moment
        db.rows("""INSERT INTO queend.log SELECT h.head + i, 0, %s, 1, '00000000-0000-0000-0000-000000000000', true,
                          uuid_send(gen_random_uuid()), '\\x10027b7d', ''
                     FROM (SELECT queend.head(%s) AS head) AS h, generate_series(0, 359) AS i""", part, part)
    db.rows("""UPDATE queend.log l
                  SET created_at = %s - 3500000000 + CASE WHEN o.ord <= 4 THEN o.ord * 500000000 + l.partition_id
                                                          ELSE 2500000000 + o.ord / 10 END
                 FROM (SELECT partition_id, base, row_number() OVER (PARTITION BY partition_id ORDER BY base) AS ord
                         FROM queend.log) AS o
                WHERE o.partition_id = l.partition_id AND o.base = l.base AND l.partition_id = ANY (%s)""", now, parts)
    for i, part in enumerate(parts):
        for group in ([], groups[:1], groups[1:], groups)[i % 4]:
            done = dice.randint(0, 7)
            db.rows("INSERT INTO queend.cursors (committed, lease_end, partition_id, group_id, lease_until)"
                    " VALUES (%s, %s, %s, %s, %s)",
                    done, done + 3, part, group, now + HOUR_US if group == groups[0] and i % 3 == 0 else 0)
        db.rows("INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id,"
                " transaction_id, payload, error, retry_count, created_at, failed_at)"
                " SELECT %s, l.partition_id, %s, o.at, '', '', '', '', 0, l.created_at, l.created_at"
                " FROM (SELECT %s::bigint AS at) AS o"
                " JOIN queend.log l ON l.partition_id = %s AND l.base <= o.at AND l.base + l.n > o.at", queue,
                groups[0], dice.randint(0, 3), part)
    yield db, now
    db.close()


def told(listed, queue, status, limit=10_000, offset=0, look=LOOK, since=HOUR_US):
    db, now = listed
    return [tuple(row) for row in db.rows(LIST, queue, status, now - since, now + HOUR_US, limit, offset, look)]


def test_both_ways_to_read_say_the_same(listed):
    everything = told(listed, "listed", None)
    assert len(everything) > 1080
    assert [one[2] for one in everything] == sorted((one[2] for one in everything), reverse=True)
    assert told(listed, None, None) == everything
    assert {one[3] for one in everything} == set(STATUSES)
    recent = [one for one in everything if one[2] >= listed[1] - 2_000_000_000]
    assert told(listed, None, None, since=2_000_000_000) == told(listed, "listed", None, since=2_000_000_000) == recent
    for queue in ("listed", None):
        assert told(listed, queue, "pending") == [one for one in everything if one[3] == "pending"]
        for status in STATUSES[1:]:
            assert told(listed, queue, status, 20, look=50_000) == [one for one in everything if one[3] == status][:20]
        assert told(listed, queue, "lost") == []


@pytest.mark.parametrize("holes", [False, True])
def test_pages_follow_each_other(listed, holes):
    db, now = listed
    if holes:
        db.rows("INSERT INTO queend.holes (partition_id, record_offset) SELECT l.partition_id, l.base FROM queend.log l"
                " WHERE l.base = 0")
        db.rows("UPDATE queend.catalog SET holes = true")
    everything = told(listed, "listed", None)
    for queue in ("listed", None):
        for offset in (0, 1, 777, 1075, len(everything) - 5, len(everything)):
            assert told(listed, queue, None, 20, offset) == everything[offset:offset + 20], (queue, offset)


def test_a_look_is_bounded(listed):
    """What a bounded look finds is true, if not all there is."""
    everything = told(listed, "listed", None)
    for queue in ("listed", None):
        found = told(listed, queue, "processing", 20, look=500)
        assert found == [one for one in everything if one[3] == "processing"][:len(found)]
