"""Rows for a search: by partitions and by windows of time they are the same, each once, in one order; and each call
looks at a bounded part."""
from __future__ import annotations

import random

import pytest
from sql.records import Session

CALL = "SELECT * FROM queend.message_search_rows(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
EVER, HOUR_US = 2**63 - 1, 3_600_000_000
PARTS, ROWS = 30, 400
MUCH = (10**9, 10**12, 10**9, 10**6)      # records, bytes, rows looked at, ms


@pytest.fixture(scope="module")
def db(conninfo):
    """A queue of 30 partitions (few), the same in one of 1200 (wide), in between rows of another. Many in one moment,
    most within seconds, some hours ago."""
    one, dice = Session(conninfo), random.Random(7)
    one.rows("SELECT count(*) FROM queend.resolve(%s, %s)", ["few"] * PARTS + ["wide"] * 1200 + ["other"] * 3,
             [f"p{i:04}" for i in range(PARTS)] + [f"p{i:04}" for i in range(1200)] + ["a", "b", "c"])
    now = one.value("SELECT queend.now_us()")
    for queue, parts in (("few", PARTS), ("wide", PARTS), ("other", 3)):
        dice.seed(7)
        ids = [row.id for row in one.rows("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id ="
                                          " p.queue_id WHERE q.name = %s ORDER BY p.name LIMIT %s", queue, parts)]
        for part in ids:
            at, base, made = now - 5 * HOUR_US, 0, []
            for i in range(ROWS):
                at += dice.choice([0, 0, 1, 1000, 500_000, 60_000_000])
                n = dice.randint(1, 5)
                made.append((base, at if i < ROWS - 10 else now - HOUR_US, n))      # ten of one moment end each
                base += n
            one.rows("INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)"
                     " SELECT u.base, u.at, %s, u.n, '00000000-0000-0000-0000-000000000000', true, '',"
                     " '\\x10'::bytea || decode(repeat('00', u.n), 'hex'), ''"
                     " FROM unnest(%s::bigint[], %s::bigint[], %s::int[]) AS u (base, at, n)", part,
                     *map(list, zip(*made)))
    yield one
    one.close()


def queue_id(db, name):
    return db.value("SELECT id FROM queend.queues WHERE name = %s", name)


def calls(db, queue, partition=None, since=0, until=EVER, bounds=MUCH):
    """(rows, end) of one call after the other."""
    place = (until, -1, 0)
    while True:
        *rows, end = db.rows(CALL, queue_id(db, queue), partition, since, *place, *bounds)
        assert end.n == 0 and all(row.n for row in rows)
        yield [(row.created_at, row.partition_id, row.base, row.n) for row in rows], end
        if end.created_at is None:
            return
        place = (end.created_at, end.partition_id, end.base)


def everything(db, queue, partition=None, since=0, until=EVER):
    return [tuple(row) for row in db.rows(
        "SELECT l.created_at, l.partition_id, l.base, l.n FROM queend.log l JOIN queend.partitions p"
        " ON p.id = l.partition_id JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s"
        " AND l.created_at BETWEEN %s AND %s AND (%s::text IS NULL OR p.name = %s)"
        " ORDER BY l.created_at DESC, l.partition_id, l.base DESC", queue, since, until, partition, partition)]


@pytest.mark.parametrize("queue", ["few", "wide"])
@pytest.mark.parametrize("bounds", [MUCH, (1, 1, 1, 10**6), (1000, 10**12, 10**9, 10**6), (10**9, 3000, 10**9, 10**6),
                                    (10**9, 10**12, 3000, 10**6), (10**9, 10**12, 10**9, 0)],
                         ids=["at once", "least", "records", "bytes", "look", "no time"])
def test_every_row_comes_once_and_the_newest_first(db, queue, bounds):
    # a call for each row, of the newest
    since = everything(db, queue)[320][0] if bounds[3] == 0 or bounds[0] == 1 else 0
    made = list(calls(db, queue, since=since, bounds=bounds))
    assert [row for rows, _ in made for row in rows] == everything(db, queue, since=since)
    assert (len(made) == 1) == (bounds == MUCH)


@pytest.mark.parametrize("queue", ["few", "wide"])
def test_of_a_partition_and_between_moments(db, queue):
    whole = everything(db, queue)
    since, until = whole[len(whole) * 3 // 4][0], whole[len(whole) // 2][0]
    for place in ({"since": since, "until": until}, {"partition": "p0003"}, {"partition": "p0003", "since": since},
                  {"until": until}, {"until": 1}, {"partition": "none"}):
        for bounds in (MUCH, (3000, 10**12, 10**9, 10**6)):
            assert [row for rows, _ in calls(db, queue, bounds=bounds, **place) for row in rows] == everything(
                db, queue, **place), place
    assert list(calls(db, "few", partition="none")) == [([], (-1, 0, 0, None, b"", b"", b""))]


def test_a_call_looks_at_a_bounded_part(db):
    for queue in ("few", "wide"):
        for rows, _ in calls(db, queue, bounds=(1000, 10**12, 10**9, 10**6)):
            assert sum(row[3] for row in rows[:-1]) < 1000      # the row that fills it is the last one
    assert all(len(rows) < 10_000 for rows, _ in calls(db, "wide", bounds=(10**9, 10**12, 1000, 10**6)))


def test_what_is_deleted_meanwhile_ends_nothing(db):
    """Retention and the deletion of the queue between two calls: the search goes on with what is left."""
    steps = calls(db, "other", bounds=(60, 10**12, 10**9, 10**6))
    first, _ = next(steps)
    db.rows("DELETE FROM queend.log l USING queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
            " WHERE p.id = l.partition_id AND q.name = 'other' AND l.base < 300")
    rest = [row for rows, _ in steps for row in rows]
    assert rest and len(set(first + rest)) == len(first + rest)
    assert set(first + rest) >= set(everything(db, "other"))
