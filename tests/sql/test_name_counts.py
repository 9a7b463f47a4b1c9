"""How many queues, partitions and groups there are is kept, exactly, and nobody waits for anybody who counts."""
from __future__ import annotations

import pytest
from sql.calls import Waiting
from sql.records import Session

COUNTED = ("SELECT queue_id, kind, sum(n)::int AS n FROM queend.name_counts GROUP BY 1, 2"
           " HAVING sum(n) <> 0 ORDER BY 1, 2")
THERE = """SELECT 0 AS queue_id, 'queue' AS kind, count(*)::int AS n FROM queend.queues HAVING count(*) > 0
           UNION ALL SELECT queue_id, 'partition', count(*)::int FROM queend.partitions GROUP BY 1
           UNION ALL SELECT queue_id, 'group', count(*)::int FROM queend.consumer_groups GROUP BY 1 ORDER BY 1, 2"""
MAKE = "SELECT ord, refused FROM queend.resolve_within(%s, %s, %s, %s) ORDER BY ord"


def exact(db: Session) -> bool:
    counted, there = ([tuple(row) for row in db.rows(query)] for query in (COUNTED, THERE))
    assert counted == there
    return True


def test_what_is_made_and_removed_is_counted(db: Session, partitions, group) -> None:
    part, *others = partitions(5)
    group(part, "g")
    group(part, "h")
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    name = db.value("SELECT name FROM queend.queues WHERE id = %s", queue)
    assert exact(db)
    assert db.value("SELECT queend.names_total(%s, 'partition')", queue) == 5
    assert db.value("SELECT queend.names_total(%s, 'group')", queue) == 2
    db.rows("SELECT queend.configure('counted.new', NULL, NULL, '{}')")
    db.rows("SELECT queend.configure('counted.new', NULL, NULL, '{}')")
    db.rows("SELECT * FROM queend.group_delete('g', %s, true)", name)
    db.rows("UPDATE queend.partitions SET created_at = now() - interval '1 day' WHERE id = %s", others[0])
    assert db.value("SELECT removed FROM queend.partitions_clean(%s, 1, queend.now_us())", others[0] - 1) == 1
    assert exact(db) and db.value("SELECT queend.names_total(%s, 'partition')", queue) == 4
    db.rows("DELETE FROM queend.partitions WHERE id = %s", others[1])      # by hand
    assert exact(db)
    db.rows("SELECT queend.queue_delete(%s)", name)
    assert exact(db) and db.rows("SELECT 1 FROM queend.name_counts WHERE queue_id = %s", queue) == []


def test_what_is_rolled_back_was_never_counted(db: Session) -> None:
    db.rows("BEGIN")
    db.rows("SELECT * FROM queend.resolve(ARRAY['back'], ARRAY['p'])")
    db.rows("ROLLBACK")
    assert exact(db)


def test_those_that_stand_first_have_the_room(db: Session, partitions) -> None:
    have = db.value("SELECT queend.names_total(0, 'queue')")
    rows = db.rows(MAKE, ["z", "z", "y", "x", "z"], ["1", "2", "1", "1", "1"], have + 2, 1)
    assert [tuple(row) for row in rows] == [(0, None), (1, 2), (2, None), (3, 1), (4, None)]
    rows = db.rows(MAKE, ["x", "z", "y"], ["1", "1", "2"], have + 2, 1)
    assert [tuple(row) for row in rows] == [(0, 1), (1, None), (2, 2)]
    assert exact(db)


def test_nobody_waits_for_a_transaction_that_made_names(two) -> None:
    """Neither in the same queue nor for another one, as long as there is plenty of room."""
    a, b, watcher = two
    watcher.rows("SELECT * FROM queend.resolve(ARRAY['shared'], ARRAY['p'])")
    a.rows("SELECT * FROM queend.resolve_within(ARRAY['shared', 'mine'], ARRAY['a', 'a'], 1000000, 1000000)")
    b.rows("SET lock_timeout = '10s'")
    b.rows("SELECT * FROM queend.resolve_within(ARRAY['shared', 'yours'], ARRAY['b', 'b'], 1000000, 1000000)")
    queue = b.value("SELECT id FROM queend.queues WHERE name = 'shared'")
    b.rows("SELECT * FROM queend.group_within(%s, 'g', 'all', NULL, 1000000)", queue)
    a.rows("COMMIT")
    assert exact(watcher)
    watcher.rows("SELECT * FROM queend.resolve(ARRAY['shared'], ARRAY['c'])")
    assert exact(watcher) and watcher.value("SELECT count(*) FROM queend.name_counts WHERE queue_id = %s"
                                            " AND kind = 'partition'", queue) == 2


def test_near_a_bound_one_goes_after_the_other(two) -> None:
    a, b, watcher = two
    have = watcher.value("SELECT queend.names_total(0, 'queue')")
    assert a.rows(MAKE, ["last"], ["p"], have + 1, None) == [(0, None)]
    waiting = Waiting(watcher, b, lambda: b.rows(MAKE, ["one more"], ["p"], have + 1, None))
    a.rows("COMMIT")
    assert waiting.result() == [(0, 1)]
    assert exact(watcher)


def test_whoever_waits_for_the_last_place_has_it_when_the_other_gives_up(two) -> None:
    a, b, watcher = two
    have = watcher.value("SELECT queend.names_total(0, 'queue')")
    assert a.rows(MAKE, ["given up"], ["p"], have + 1, None) == [(0, None)]
    waiting = Waiting(watcher, b, lambda: b.rows(MAKE, ["taken"], ["p"], have + 1, None))
    a.rows("ROLLBACK")
    assert waiting.result() == [(0, None)]


def test_at_a_bound_that_was_passed_nobody_waits(two) -> None:
    """It was lowered, or the failover buffer was drained."""
    a, b, watcher = two
    b.rows("SET lock_timeout = '10s'")
    for one in (a, b):
        assert one.rows(MAKE, ["never"], ["p"], 1, None) == [(0, 1)]


@pytest.mark.parametrize("kind, call", [
    ("queues", "SELECT queend.configure('too many {}', NULL, NULL, NULL)"),
    ("queues", "SELECT * FROM queend.resolve(ARRAY['too many {}'], ARRAY['p'])"),
    ("partitions", "SELECT * FROM queend.resolve(ARRAY['few'], ARRAY['q'])"),
    ("groups",
     "SELECT * FROM queend.group_resolve((SELECT id FROM queend.queues WHERE name = 'few'), 'h', 'all', NULL)")])
def test_a_session_with_a_bound_is_told(db: Session, kind: str, call: str) -> None:
    db.rows("SELECT * FROM queend.resolve(ARRAY['few'], ARRAY['p'])")
    db.rows("SELECT * FROM queend.group_resolve((SELECT id FROM queend.queues WHERE name = 'few'), 'g', 'all', NULL)")
    db.rows(f"SET queend.max_{kind} = 1")
    call = call.replace("{}", str(len(call)))      # another name in each
    with pytest.raises(Exception, match=f"as QUEEND_MAX_{kind.upper()} allows: 1") as error:
        db.rows(call)
    assert error.value.sqlstate == "QD409"
    db.rows(f"SET queend.max_{kind} = 0")
    db.rows(call)
