"""A push that names the head of a partition is not looked up: it is right, or nothing of the call is stored."""
from __future__ import annotations

import random
from dataclasses import dataclass

import psycopg
import pytest
from sql.calls import Waiting
from sql.records import PUSH, Batch, Session, as_uuid, batch, id4, id7, new_lease, push_arrays
from sql.retained import head, live, retain
from support.seeds import seed_of_run

SECOND = 1_000_000
NAMED = -1
TAKEN, ANOTHER = "23505", "QD409"      # a row begins there; everything else


@dataclass
class End:
    """What a daemon knows of a partition: where its log ends, since when, and `high` of its newest row."""

    head: int
    at: int
    high: bytes


def end_of(db: Session, part: int) -> End:
    row, = db.rows("SELECT base + n AS head, created_at, high FROM queend.log WHERE partition_id = %s"
                   " ORDER BY base DESC LIMIT 1", part)
    return End(row.head, row.created_at, row.high.bytes)


def above(one: Batch, end: End) -> Batch:
    """As a daemon sends it: `hi` is not below what it knows."""
    return one._replace(hi=as_uuid(max(end.high, one.hi.bytes if one.hi else b"")))


def push(db: Session, *rows: tuple[Batch, int | None, End | None]) -> list:
    """Each with its hint, and with the end it names."""
    batches = [above(one, end) if end else one for one, _, end in rows]
    return sorted(db.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}, %s::bigint[],"
                          " p_known => %s::bigint[], p_known_at => %s::bigint[])",
                          sorted({one.part & 63 for one in batches}), *push_arrays(batches),
                          [hint for _, hint, _ in rows], [end and end.head for *_, end in rows],
                          [end and end.at for *_, end in rows]))


def named(db: Session, part: int, end: End, *ids: bytes) -> list:
    return push(db, (batch(part, list(ids) or [id7()]), NAMED, end))


def refusal(db: Session, part: int, end: End, *ids: bytes) -> str | None:
    with pytest.raises(psycopg.Error) as caught:
        named(db, part, end, *ids)
    return caught.value.sqlstate


@pytest.fixture
def part(db: Session, partitions) -> int:
    """Three rows of two records."""
    part, = partitions()
    for _ in range(3):
        db.push(batch(part, [id7(), id7()]))
    return part


def test_a_row_begins_at_the_head_that_is_named(db, part):
    end = end_of(db, part)
    old = id7(end.at - 10 * SECOND)
    row, = push(db, (batch(part, [old], kind=0), NAMED, end))
    after = end_of(db, part)
    assert (row.ord, row.status, row.created_at) == (-2, 0, after.at)
    assert (after.head, after.high) == (7, end.high), "`high` never falls"
    named(db, part, after, id7(), id7())
    assert live(db, part)[-1] == (7, 2)


def test_rows_of_one_partition_follow_each_other(db, part):
    ids, end = [id7() for _ in range(5)], end_of(db, part)
    push(db, (batch(part, ids[:2], of=ids), NAMED, end), (batch(part, ids[2:], skip=2, of=ids), NAMED, end))
    assert live(db, part)[-2:] == [(6, 2), (8, 3)]


def test_ids_without_an_order_that_the_caller_remembers(db, partitions):
    part, = partitions()
    one = id4()
    push(db, (batch(part, [one]), 0, End(-2, 0, bytes(16))))
    end = end_of(db, part)
    named(db, part, end, id4())
    assert live(db, part) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("back", [2, 4, 6], ids=["one row", "two rows", "all"])
def test_a_head_that_is_too_low(db, part, back):
    end = End(head(db, part) - back, 1, bytes(16))
    before = live(db, part)
    assert refusal(db, part, end) == TAKEN and live(db, part) == before


@pytest.mark.parametrize("left", [0, 1], ids=["all removed", "the newest left"])
def test_retention_took_the_row_that_began_at_the_head(db, part, left):
    """Another has written behind what is known, and that is gone already: the primary key refuses nothing."""
    end = end_of(db, part)
    for _ in range(2):
        db.push(batch(part, [id7()]))
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = %s", part, end.head + 1)
    retain(db, part, expired=cut + (0 if left else 1))
    assert len(live(db, part)) == left
    assert refusal(db, part, end) == ANOTHER and head(db, part) == end.head + 2


def test_retention_took_what_is_known_and_no_more(db, part):
    end = end_of(db, part)
    retain(db, part, expired=end.at + 1)
    assert live(db, part) == [] and named(db, part, end)[0].status == 0
    assert live(db, part) == [(end.head, 1)]


@pytest.mark.parametrize("commits", [True, False])
def test_while_retention_takes_that_row(two, partitions, commits):
    """The insert waits for it: whatever comes of it, the offset is not given again."""
    retention, pusher, watcher = two
    part, = partitions()
    watcher.push(batch(part, [id7()]))
    end = end_of(watcher, part)
    watcher.push(batch(part, [id7()]))
    retain(retention, part, expired=end_of(watcher, part).at + 1)
    waiting = Waiting(watcher, pusher, lambda: refusal(pusher, part, end))
    retention.rows("COMMIT" if commits else "ROLLBACK")
    assert waiting.result() == (ANOTHER if commits else TAKEN)
    assert head(watcher, part) == 2


@pytest.mark.parametrize("commits", [True, False])
def test_while_another_writes_there(two, partitions, commits):
    other, pusher, watcher = two
    part, = partitions()
    watcher.push(batch(part, [id7()]))
    end = end_of(watcher, part)
    named(other, part, end)
    waiting = Waiting(watcher, pusher,
                      lambda: refusal(pusher, part, end) if commits else named(pusher, part, end)[0].status)
    other.rows("COMMIT" if commits else "ROLLBACK")
    assert waiting.result() == (TAKEN if commits else 0) and live(watcher, part) == [(0, 1), (1, 1)]


def test_what_order_does_not_prove_is_refused(db, part):
    end, now = end_of(db, part), db.value("SELECT queend.now_us()")
    assert refusal(db, part, End(end.head, now + SECOND, end.high)) == ANOTHER      # the clock was set back
    for moment in (now - 100 * SECOND, now + 100 * SECOND):
        assert refusal(db, part, end, id7(moment)) == ANOTHER
    assert head(db, part) == end.head


def test_one_refusal_undoes_the_call(db, partitions):
    one, two = partitions(2)
    for part in (one, two):
        db.push(batch(part, [id7()]))
    right, wrong = end_of(db, one), end_of(db, two)
    db.push(batch(two, [id7()]))
    with pytest.raises(psycopg.errors.UniqueViolation):
        push(db, (batch(one, [id7()]), NAMED, right), (batch(two, [id7()]), NAMED, wrong))
    assert [head(db, part) for part in (one, two)] == [1, 2]


def test_waiters_are_served_as_ever(db, partitions, group):
    """Claims in the same call stand where the rows are stored."""
    parts = partitions(2)
    readers = group(parts[0])
    for part in parts:
        db.push(batch(part, [id7()]))
        db.pop([part], readers, auto=True)
    ends = [end_of(db, part) for part in parts]
    batches = [above(batch(part, [id7(), id7()]), end) for part, end in zip(parts, ends)]
    rows = db.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}, %s::bigint[], ARRAY[2], ARRAY[%s], ARRAY[1],"
                   " ARRAY[false], ARRAY[%s]::uuid[], ARRAY[60000000]::bigint[], %s::bigint[], %s::bigint[])",
                   sorted({part & 63 for part in parts}), *push_arrays(batches), [NAMED] * 2, readers, new_lease(),
                   [end.head for end in ends], [end.at for end in ends])
    assert [(row.ord, row.status) for row in rows] == [(-2, 0), (parts[1], 2)]
    assert db.rows("SELECT partition_id, committed, lease_end FROM queend.cursors WHERE group_id = %s"
                   " AND lease_until > 0", readers) == [(parts[1], 0, 1)]


@pytest.mark.parametrize("hint", [-2, -4, -6], ids=["nothing known", "an older row", "the newest row"])
def test_whoever_asks_is_told_high(db, part, hint):
    newest = id7()
    row, = push(db, (batch(part, [newest]), hint, None))
    assert (row.status, row.base, row.seen) == (0, 6, newest)
    late = id7(end_of(db, part).at - 10 * SECOND)
    row, = push(db, (batch(part, [late], kind=0), hint, None))
    assert (row.base, row.seen) == (7, newest)
    assert [row.seen for row in push(db, (batch(part, [id7()]), 0, None))] == [None]


def test_only_those_who_ask_are_told(db, partitions):
    parts = partitions(3)
    ids = [id7() for _ in parts]
    rows = push(db, *((batch(part, [one]), hint, None) for part, one, hint in zip(parts, ids, (0, -2, -2))))
    assert [row.seen for row in rows] == [None, ids[1], ids[2]]


@pytest.mark.parametrize("one", [id7(1), id4()], ids=["of long ago", "of another version"])
def test_nobody_is_told_of_a_row_that_order_does_not_prove(db, partitions, one):
    part, = partitions()
    assert [row.seen for row in push(db, (batch(part, [one]), -2, None))] != [one]
    (odd, high), = db.rows("SELECT odd, high FROM queend.log WHERE partition_id = %s", part)
    row, = push(db, (batch(part, [id7()], kind=0), -2, None))
    assert row.base == 1 and (row.seen is None) == odd


def test_any_history_is_without_gaps_and_twins(session, partitions):
    """Two who remember what they wrote and name it, right or wrong, beside one who looks, and a retention."""
    seed = seed_of_run()
    chance = random.Random(seed)
    daemons = [(session(), {}) for _ in range(2)]
    plain = session()
    parts = partitions(6)
    heads = dict.fromkeys(parts, 0)
    done = {"named": 0, TAKEN: 0, ANOTHER: 0}
    for _ in range(600):
        move = chance.random()
        part = chance.choice(parts)
        if move < 0.2:
            rows = live(plain, part)
            if rows:
                at = plain.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = %s", part,
                                 chance.choice(rows[-2:])[0])
                retain(plain, part, expired=at + 1, parts=1)
            continue
        if move < 0.3:
            (row,) = plain.push(batch(part, [id7()]))
            assert (row.status, row.base) == (0, heads[part])
            heads[part] += 1
            continue
        db, known = chance.choice(daemons)
        some = sorted(chance.sample(parts, chance.randrange(1, 5)))
        ids = {p: [id7() for _ in range(chance.randrange(1, 4))] for p in some}
        names = all(p in known for p in some)
        try:
            rows = push(db, *((batch(p, ids[p]), NAMED, known[p]) if names else (batch(p, ids[p]), -2, None)
                              for p in some))
        except psycopg.Error as error:
            done[error.sqlstate] += 1
            for p in some:
                known.pop(p, None)
            continue
        assert names or [(row.status, row.base) for row in rows] == [(0, heads[p]) for p in some]
        done["named"] += names
        for p in some:
            heads[p] += len(ids[p])
            known[p] = End(heads[p], rows[0].created_at, max(ids[p]))
    for part in parts:
        rows = live(plain, part)
        assert head(plain, part) == heads[part]
        assert all(base + n == after for (base, n), (after, _) in zip(rows, rows[1:]))
    assert all(done.values()), done
