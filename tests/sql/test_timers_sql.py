"""Timers in SQL: schedule, replace, cancel, fire; two sessions at every pair of the order of locks."""
from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest
from sql.calls import Waiting
from sql.records import payloads
from support.crowd import Crowd
from support.seeds import seed_of_run

SCHEDULE, CANCEL = 0, 1
SCHEDULED, RESCHEDULED, CANCELLED, ABSENT, TOO_LATE, UNSEALED, FULL = range(7)
HOUR = 3_600_000_000
WRITE = ("SELECT * FROM queend.timers_write(%s::smallint[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],"
         " %s::text[], %s::bigint[], %s::text[])")


def op(kind: int, key: str, delay: int = HOUR, payload: str = "1", queue: str = "q", partition: str = "p",
       txn: str | None = None, seal: str | None = None, producer: str | None = None) -> tuple:
    return kind, queue, key, partition, txn or f"txn-{key}", payload, seal, delay, producer


def write(db, *ops: tuple) -> list:
    return sorted(db.rows(WRITE, *map(list, zip(*ops))))


def one(db, *args, **more):
    return write(db, op(*args, **more))[0]


def fire(db, limit: int = 1000):
    return db.rows("SELECT * FROM queend.timers_fire(%s)", limit)[0]


def due(db, *keys: str) -> None:
    """The timers with these keys are due, in this order."""
    for place, key in enumerate(keys):
        db.rows("UPDATE queend.timers SET due = queend.now_us() - 1000 + %s, next_at = queend.now_us() - 1000 + %s"
                " WHERE timer_key = %s", place, place, key)


def stored(db, queue: str = "q", partition: str = "p") -> list[str]:
    """The payloads of a partition, in their order."""
    return [text for row in db.rows(
        "SELECT l.n, l.body FROM queend.log l JOIN queend.partitions p ON p.id = l.partition_id JOIN queend.queues q"
        " ON q.id = p.queue_id WHERE q.name = %s AND p.name = %s ORDER BY l.base", queue, partition)
            for text in payloads(db, row)]


def left(db) -> list[str]:
    return [row.timer_key for row in db.rows("SELECT timer_key FROM queend.timers ORDER BY timer_key")]


@pytest.fixture(autouse=True)
def empty(db):
    db.rows("DELETE FROM queend.timers")
    db.rows("SELECT queend.queue_delete(name) FROM queend.queues")


def test_outcomes(db):
    first = one(db, SCHEDULE, "a")
    assert first.outcome == SCHEDULED and str(first.message_id)[14] == "4" and first.txn == "txn-a"
    assert first.due >= db.value("SELECT queend.now_us()") + HOUR - 60_000_000
    db.rows("UPDATE queend.timers SET attempts = 3, last_error = 'x', next_at = next_at + 5")
    again = one(db, SCHEDULE, "a", HOUR * 2, payload="2", producer="me")
    assert again.outcome == RESCHEDULED and again.message_id != first.message_id and again.due > first.due
    (row,) = db.rows("SELECT * FROM queend.timers")
    assert (row.attempts, row.last_error, row.payload, row.producer_sub) == (0, None, "2", "me")
    assert row.next_at == row.due == again.due and row.created_at < row.updated_at
    gone = one(db, CANCEL, "a")
    assert (gone.outcome, gone.message_id, gone.due, gone.txn) == (CANCELLED, again.message_id, again.due, "txn-a")
    assert one(db, CANCEL, "a").outcome == ABSENT and one(db, CANCEL, "a", queue="other").outcome == ABSENT
    both = write(db, op(SCHEDULE, "b"), op(CANCEL, "none"), op(SCHEDULE, "a"), op(SCHEDULE, "a", queue="other"))
    assert [row.outcome for row in both] == [SCHEDULED, ABSENT, SCHEDULED, SCHEDULED]
    assert [row.outcome for row in write(db, op(CANCEL, "b"), op(SCHEDULE, "a"))] == [CANCELLED, RESCHEDULED]


def test_due_timers_fire_in_their_order_and_others_stay(db):
    for n, key in enumerate("cab"):
        one(db, SCHEDULE, key, payload=str(n))
    one(db, SCHEDULE, "later", payload="9")
    assert fire(db).fired == 0 and stored(db) == []
    due(db, "b", "c", "a")
    row = fire(db)
    assert row.fired == 3 and row.late_us > 0 and row.next_at > row.now_us
    assert stored(db) == ["2", "0", "1"] and left(db) == ["later"]
    assert fire(db).fired == 0


def test_those_of_one_moment_fire_in_the_order_of_the_call(db):
    write(db, *(op(SCHEDULE, key, 0, payload=str(n)) for n, key in enumerate("qwertzuiop")))
    assert fire(db).fired == 10
    assert stored(db) == [str(n) for n in range(10)]


def test_few_at_a_time(db):
    write(db, *(op(SCHEDULE, str(n), 0, payload=str(n)) for n in range(10)))
    assert [fire(db, 4).fired for _ in range(4)] == [4, 4, 2, 0]
    assert stored(db) == [str(n) for n in range(10)]


def test_a_message_that_is_there_is_not_stored_again(db):
    db.rows("SELECT * FROM queend.push_items('{q}', '{p}', '{same}', '{7}', '{NULL}', '{NULL}')")
    write(db, op(SCHEDULE, "a", 0, txn="same"), op(SCHEDULE, "b", 0, payload="8"))
    assert fire(db).fired == 2 and stored(db) == ["7", "8"] and left(db) == []


def test_the_producer_and_the_seal_are_stored_with_the_message(db):
    one(db, SCHEDULE, "a", 0, producer="someone", seal="k1", payload='"sealed"')
    fire(db)
    (row,) = db.rows("SELECT (queend.record_meta(l.meta, 0)).* FROM queend.log l JOIN queend.partitions p"
                     " ON p.id = l.partition_id")
    assert (row.producer_sub, row.seal, row.transaction_id) == ("someone", "k1", "txn-a")


def test_a_failing_one_delays_no_other(db):
    db.rows("SELECT * FROM queend.resolve('{sealed}', '{p}')")
    write(db, op(SCHEDULE, "bad", 0, queue="sealed"), op(SCHEDULE, "good", 0))
    db.rows("UPDATE queend.queues SET encryption_enabled = true WHERE name = 'sealed'")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        fire(db)
    assert left(db) == ["bad", "good"], "nothing of a failed call is done"
    row = db.rows("SELECT * FROM queend.timers_fire_one()")[0]
    assert row.fired == -2 and row.next_at <= row.now_us
    assert fire(db).fired == 1 and stored(db) == ["1"]
    (kept,) = db.rows("SELECT *, next_at - queend.now_us() AS wait FROM queend.timers")
    assert kept.attempts == 1 and "encrypted" in kept.last_error and kept.due < kept.next_at
    assert 0 < kept.wait <= 2_000_000
    for attempts, wait in ((1, 4), (5, 64), (30, 300)):
        db.rows("UPDATE queend.timers SET next_at = due, attempts = %s", attempts)
        db.rows("SELECT * FROM queend.timers_fire_one()")
        (kept,) = db.rows("SELECT *, next_at - queend.now_us() AS wait FROM queend.timers")
        assert kept.attempts == attempts + 1 and (wait - 1) * 10**6 < kept.wait <= wait * 10**6
    assert one(db, CANCEL, "bad", queue="sealed").outcome == CANCELLED, "it is cancelled while it waits"


def test_a_timer_of_a_queue_that_was_encrypted_later_is_sealed(db):
    one(db, SCHEDULE, "a", 0, queue="sealed")
    db.rows("SELECT * FROM queend.resolve('{sealed}', '{p}')")
    db.rows("UPDATE queend.queues SET encryption_enabled = true WHERE name = 'sealed'")
    (plain,) = db.rows("SELECT * FROM queend.timers_unsealed(10)")
    assert (plain.queue, plain.timer_key, plain.payload) == ("sealed", "a", "1")
    db.rows("SELECT queend.timer_sealed(%s, 'sealed', 'a', '\"envelope\"', 'k')", plain.number - 1)
    assert len(db.rows("SELECT * FROM queend.timers_unsealed(10)")) == 1, "another schedule"
    db.rows("SELECT queend.timer_sealed(%s, 'sealed', 'a', '\"envelope\"', 'k')", plain.number)
    assert db.rows("SELECT * FROM queend.timers_unsealed(10)") == []
    assert fire(db).fired == 1 and stored(db, "sealed") == ['"envelope"']


def test_a_plain_payload_is_not_kept_for_an_encrypted_queue(db):
    db.rows("SELECT * FROM queend.resolve('{sealed}', '{p}')")
    db.rows("UPDATE queend.queues SET encryption_enabled = true WHERE name = 'sealed'")
    rows = write(db, op(SCHEDULE, "a"), op(SCHEDULE, "b", queue="sealed"), op(CANCEL, "c", queue="sealed"),
                 op(SCHEDULE, "d", queue="sealed", seal="k"))
    assert [(row.ord, row.outcome) for row in rows] == [(1, UNSEALED)] and left(db) == [], "nothing was done"
    assert one(db, SCHEDULE, "b", queue="sealed", seal="k").outcome == SCHEDULED


def test_too_many(db):
    most = db.value("SELECT pg_get_functiondef('queend.timers_most'::regproc)")
    one(db, SCHEDULE, "a")
    db.rows("ANALYZE queend.timers")
    db.rows("CREATE OR REPLACE FUNCTION queend.timers_most() RETURNS bigint LANGUAGE sql IMMUTABLE"
            " AS 'SELECT 1::bigint'")
    try:
        assert [row.outcome for row in write(db, op(SCHEDULE, "b"), op(CANCEL, "a"))] == [FULL] and left(db) == ["a"]
        assert one(db, CANCEL, "a").outcome == CANCELLED, "a cancellation is never refused"
    finally:
        db.rows(most)
        db.rows("ANALYZE queend.timers")


def test_pages(db):
    write(db, *(op(SCHEDULE, key) for key in ("a", "b:1", "b:2", "b%", "c")), op(SCHEDULE, "b:3", queue="other"))

    def page(after: str = "", prefix: str = "", limit: int = 10, key: str | None = None) -> list[str]:
        return [row.timer_key for row in db.rows("SELECT * FROM queend.timers_list('q', %s, %s, %s, %s)", key, after,
                                                 prefix, limit)]
    assert page() == ["a", "b%", "b:1", "b:2", "c"] and page("b%", limit=2) == ["b:1", "b:2"]
    assert page(prefix="b:") == ["b:1", "b:2"] and page("b:1", "b:") == ["b:2"] and page("c") == []
    assert page(key="b:2", after="c") == ["b:2"] and page(key="none") == []
    assert db.value("SELECT queend.timers_count('q', 'b', 10)") == 3
    assert db.value("SELECT queend.timers_count('q', '', 2)") == 2


def test_the_timers_of_a_deleted_queue_go_with_it(db):
    one(db, SCHEDULE, "a", 0)
    fire(db)
    write(db, op(SCHEDULE, "b", 0), op(SCHEDULE, "c", 0, queue="other"))
    assert db.value("SELECT queend.queue_delete('q')") is True
    assert left(db) == ["c"]


# ---- two sessions ----------------------------------------------------------------------------------------------------

def test_a_schedule_waits_for_another_of_the_same_timer(two):
    first, second, watcher = two
    one(first, SCHEDULE, "a")
    waiting = Waiting(watcher, second, lambda: one(second, SCHEDULE, "a", payload="2"))
    assert one(watcher, SCHEDULE, "other").outcome == SCHEDULED, "other timers do not wait"
    first.rows("COMMIT")
    assert waiting.result().outcome == RESCHEDULED


def test_a_cancellation_while_it_fires_comes_too_late(two):
    first, second, _ = two
    one(second, SCHEDULE, "a", 0)
    assert fire(first).fired == 1
    assert one(second, CANCEL, "a").outcome == TOO_LATE
    first.rows("COMMIT")
    assert one(second, CANCEL, "a").outcome == ABSENT and stored(second) == ["1"]


def test_a_schedule_while_it_fires_is_a_new_one(two):
    first, second, watcher = two
    one(second, SCHEDULE, "a", 0)
    assert fire(first).fired == 1
    waiting = Waiting(watcher, second, lambda: one(second, SCHEDULE, "a", payload="2"))
    first.rows("COMMIT")
    assert waiting.result().outcome == SCHEDULED and stored(watcher) == ["1"] and left(watcher) == ["a"]


def test_a_schedule_while_the_firing_fails_replaces_it(two):
    first, second, watcher = two
    watcher.rows("SELECT * FROM queend.resolve('{q}', '{p}')")
    one(watcher, SCHEDULE, "a", 0)
    watcher.rows("UPDATE queend.queues SET encryption_enabled = true WHERE name = 'q'")
    assert first.rows("SELECT * FROM queend.timers_fire_one()")[0].fired == -2
    assert one(second, CANCEL, "a").outcome == TOO_LATE
    waiting = Waiting(watcher, second, lambda: one(second, SCHEDULE, "a", payload='"x"', seal="k"))
    first.rows("COMMIT")
    assert waiting.result().outcome == RESCHEDULED
    assert watcher.value("SELECT attempts FROM queend.timers") == 0


def test_one_session_fires_at_a_time(two):
    first, second, _ = two
    write(second, *(op(SCHEDULE, str(n), 0, payload=str(n)) for n in range(5)))
    assert fire(first).fired == 5
    assert fire(second).fired == -1 and second.rows("SELECT * FROM queend.timers_fire_one()")[0].fired == -1
    first.rows("ROLLBACK")
    assert fire(second).fired == 5 and stored(second) == [str(n) for n in range(5)]


@pytest.mark.parametrize("kind", [SCHEDULE, CANCEL])
def test_a_timer_that_is_changed_is_left_for_the_next_call(two, kind):
    first, second, _ = two
    write(second, op(SCHEDULE, "a", 0), op(SCHEDULE, "b", 0, payload="2"))
    one(first, kind, "a")
    row = fire(second)
    assert row.fired == 1 and stored(second) == ["2"] and left(second) == ["a"] and row.next_at <= row.now_us
    first.rows("COMMIT")
    assert fire(second).fired == 0 and left(second) == ([] if kind == CANCEL else ["a"])


def test_firing_waits_for_lanes_before_it_holds_timers(two):
    """A transaction with the lane may still write the timer: it waits for no one that waits for it."""
    first, second, watcher = two
    (place,) = watcher.rows("SELECT * FROM queend.resolve('{q}', '{p}')")
    one(watcher, SCHEDULE, "a", 0)
    first.rows("SELECT pg_advisory_xact_lock(1903519076, %s)", place.partition_id & 63)
    waiting = Waiting(watcher, second, lambda: fire(second))
    assert one(first, CANCEL, "a").outcome == CANCELLED
    first.rows("COMMIT")
    assert waiting.result().fired == 0 and stored(watcher) == []


def test_timers_come_after_keys(two):
    """A transaction that holds a key waits for a timer; the one that holds the timer wants no key."""
    first, second, watcher = two
    one(first, SCHEDULE, "a")
    second.rows("BEGIN")
    second.rows("SELECT queend.kv_lock('{n}', '{k}', '{1}')")
    waiting = Waiting(watcher, second, lambda: one(second, CANCEL, "a"))
    first.rows("COMMIT")
    assert waiting.result().outcome == CANCELLED
    second.rows("COMMIT")


def test_the_deletion_of_a_queue_waits_for_no_timer(two):
    first, second, _ = two
    one(second, SCHEDULE, "a", 0)
    fire(second)
    write(second, op(SCHEDULE, "b"), op(SCHEDULE, "c"))
    one(first, SCHEDULE, "b", payload="new")
    assert second.value("SELECT queend.queue_delete('q')") is True
    first.rows("COMMIT")
    assert left(second) == ["b"], "it counts as scheduled after the deletion"


# ---- many sessions ---------------------------------------------------------------------------------------------------

def test_crossing_statements_do_not_deadlock(session):
    """Eight sessions write the same timers in random orders, some behind lanes and keys; two fire meanwhile. What was
    scheduled and not cancelled fires once."""
    dice_of = random.Random(seed_of_run())
    counts: dict[int, list[int]] = {number: [0, 0] for number in range(8)}
    over: list[bool] = []
    session_of = [session() for _ in range(10)]
    session_of[0].rows("SELECT * FROM queend.resolve('{q}', '{p}')")
    seeds = [dice_of.random() for _ in range(8)]

    def work(number: int) -> None:
        mine, dice = session_of[number], random.Random(seeds[number])
        for turn in range(40):
            ops = [op(dice.choice((SCHEDULE, SCHEDULE, CANCEL)), key, dice.choice((0, 0, HOUR)),
                      txn=f"{number}/{turn}/{key}", payload=f'"{number}/{turn}/{key}"')
                   for key in dice.sample("abcdef", 4)]
            bundled = dice.random() < 0.3
            if bundled:
                mine.rows("BEGIN")
                mine.rows("SELECT pg_advisory_xact_lock(1903519076, lane) FROM unnest(%s::int[]) AS lane", [1, 2])
                mine.rows("SELECT queend.kv_lock('{n,n}', '{k,l}', '{1,1}')")
            for row in write(mine, *ops):
                counts[number][0] += row.outcome == SCHEDULED
                counts[number][1] += row.outcome == CANCELLED
            if bundled:
                mine.rows("COMMIT")

    def firing(number: int) -> None:
        while not over:
            fire(session_of[number], 3)

    with Crowd() as others:
        others.all(firing, (8, 9))
        try:
            with Crowd() as crowd:
                crowd.all(work, range(8))
        finally:
            over.append(True)
    while fire(session_of[0]).fired:
        pass
    begun, cancelled = (sum(count[place] for count in counts.values()) for place in (0, 1))
    messages: list[Any] = stored(session_of[0])
    assert len(messages) == len(set(messages)) == begun - cancelled - len(left(session_of[0]))
