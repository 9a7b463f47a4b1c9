"""Claims that were acknowledged at once and reached nobody are taken back, where nobody went on behind them."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import MINUTE, claim
from sql.records import batch, id7


def take_back(db, *spans) -> list[bool]:
    """spans: (part, group, first, stop)"""
    rows = db.rows("SELECT * FROM queend.take_back(%s::int[], %s::int[], %s::bigint[], %s::bigint[])",
                   *[list(column) for column in zip(*spans)])
    return [row.taken for row in sorted(rows)]


@pytest.fixture
def ready(db, partitions, group):
    """(partition, group, ids of offsets 0 to 3 in two rows)"""
    part, = partitions()
    ids = [id7() for _ in range(4)]
    db.push(batch(part, ids[:2]))
    db.push(batch(part, ids[2:]))
    return part, group(part), ids


def delivered(db, part, readers) -> list:
    return db.messages(db.pop([part], readers, auto=True))


@pytest.mark.parametrize("taken", [1, 2, 3, 4])
def test_what_a_pop_consumed_is_delivered_again(db, ready, taken):
    part, readers, ids = ready
    db.pop([part], readers, budget=taken, auto=True)
    assert take_back(db, (part, readers, 0, taken)) == [True]
    assert delivered(db, part, readers) == list(enumerate(ids))


def test_what_a_claim_consumed(db, ready):
    part, readers, ids = ready
    db.pop([part], readers, budget=1, auto=True)
    assert claim(db, (part, readers, 1, 2, 2, str(uuid.uuid4()), 0)) == [(part, readers)]
    assert take_back(db, (part, readers, 1, 3)) == [True]
    assert delivered(db, part, readers) == list(enumerate(ids))[1:]


def test_several_claims_of_a_cursor(db, ready):
    part, readers, ids = ready
    for _ in range(3):
        db.pop([part], readers, budget=1, auto=True)
    assert take_back(db, (part, readers, 0, 1), (part, readers, 1, 2), (part, readers, 2, 3)) == [True] * 3
    assert delivered(db, part, readers) == list(enumerate(ids))


@pytest.mark.parametrize("after", ["consumed", "leased", "moved back"])
def test_not_where_somebody_went_on(db, ready, after):
    part, readers, _ = ready
    db.pop([part], readers, budget=2, auto=True)
    if after == "moved back":
        db.rows("UPDATE queend.cursors SET committed = -1, lease_end = -1 WHERE partition_id = %s", part)
    else:
        db.pop([part], readers, budget=1, auto=after == "consumed", lease=str(uuid.uuid4()))
    before = db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part)
    assert take_back(db, (part, readers, 0, 2)) == [False]
    assert db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part) == before


def test_a_second_time_does_nothing(db, ready):
    part, readers, ids = ready
    db.pop([part], readers, auto=True)
    assert take_back(db, (part, readers, 0, 4)) == [True] and take_back(db, (part, readers, 0, 4)) == [False]
    assert claim(db, (part, readers, 0, 4, 0, str(uuid.uuid4()), MINUTE)) == [(part, readers)]


def test_other_daemons_hear_of_it(db, ready):
    part, readers, _ = ready
    db.pop([part], readers, auto=True)
    take_back(db, (part, readers, 0, 4), (part, readers, 0, 2))
    assert db.value("SELECT count(*) FROM queend.pauses WHERE partition_id = %s AND group_id = %s", part, readers) == 1
