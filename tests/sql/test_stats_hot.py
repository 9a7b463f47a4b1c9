"""Kept figures of a partition change without a new entry in an index, and the end of its lease has it visited."""
from __future__ import annotations

from sql.records import batch, id7

PARTITIONS = 20
COUNTED = ("SELECT pg_stat_get_xact_tuples_updated(c.oid) AS updated, pg_stat_get_xact_tuples_hot_updated(c.oid) AS hot"
           " FROM pg_class c WHERE c.oid = 'queend.stat_partitions'::regclass")


def visit(db, parts: list[int]) -> tuple[int, int]:
    """Visits the partitions in a transaction; returns how many rows it updated, and how many of these were HOT."""
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    db.rows("BEGIN")
    (before,) = db.rows(COUNTED)      # of earlier transactions whose counts the session has not reported yet
    db.rows("SELECT queend.stats_visit(%s::int[], %s::int[])", [queue] * len(parts), parts)
    (after,) = db.rows(COUNTED)
    db.rows("COMMIT")
    return after.updated - before.updated, after.hot - before.hot


def test_claims_and_acknowledgments_update_in_place(db, partitions, group):
    parts = partitions(PARTITIONS)
    readers = group(parts[0])
    for _ in range(2):
        for part in parts:
            db.push(batch(part, [id7(), id7()]))
        visit(db, parts)
        db.pop(parts, readers, budget=2 * PARTITIONS)
        assert visit(db, parts) == (PARTITIONS, PARTITIONS)
        db.rows("UPDATE queend.cursors SET committed = lease_end, lease_until = 0")
        assert visit(db, parts) == (PARTITIONS, PARTITIONS)


def test_a_lease_is_visited_at_its_end(db, partitions, group):
    """Also when it was extended meanwhile, and once."""
    (part,) = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    db.pop([part], readers)
    until = db.value("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part)
    for _ in range(2):
        visit(db, [part])
        assert db.rows("SELECT due FROM queend.stat_marks WHERE partition_id = %s", part) == [(until,)]
    changed = "SELECT %s = ANY (c.parts) FROM queend.stats_changed(1000, true, false) AS c"
    db.rows("UPDATE queend.cursors SET consumed_at = 0 WHERE partition_id = %s", part)
    db.rows("INSERT INTO queend.stats (since, looked_at, full_at) VALUES (queend.now_us() + 60000000, 0, 0)"
            " ON CONFLICT DO NOTHING")
    assert not db.value(changed, part)
    db.rows("UPDATE queend.stat_marks SET due = 1 WHERE partition_id = %s", part)
    assert db.value(changed, part)
