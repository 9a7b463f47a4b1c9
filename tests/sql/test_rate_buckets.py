"""Rates over all partitions: buckets in the database, against a bucket that a test can count in its head."""
from __future__ import annotations

import random
from fractions import Fraction

import pytest

HOUR = 3_600_000_000


@pytest.fixture
def queue(db, partitions):
    part, = partitions()
    return db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)


def bound(db, queue: int, **options: int) -> None:
    db.rows("UPDATE queend.queues SET " + ", ".join(f"{name} = {value}" for name, value in options.items())
            + " WHERE id = %s", queue)


def take(db, queue: int, group: int, want: int, back: int = 0):
    (row,) = db.rows("SELECT * FROM queend.rates_take(ARRAY[%s], ARRAY[%s], ARRAY[%s], ARRAY[%s])",
                     queue, group, want, back)
    return row


def pass_time(db, queue: int, us: int) -> None:
    db.rows("UPDATE queend.rates SET ready = ready - %s WHERE queue_id = %s", us, queue)


@pytest.mark.parametrize("seed", range(4))
def test_a_history_against_a_bucket(db, queue, seed):
    """Tokens taken and given back by chance: no more than the bucket has, and no fewer."""
    dice = random.Random(seed)
    burst, limit = dice.choice([1, 3, 10, 50]), dice.choice([1, 7, 60])
    bound(db, queue, group_rate_limit=limit, group_rate_burst=burst, rate_period=3600)
    step = Fraction(HOUR, limit)
    tokens, held, taken, passed = Fraction(burst), 0, 0, 0
    for _ in range(120):
        want, back = dice.randint(0, 12), dice.choice([0, 0, held // 2, min(held, 1)])
        held -= back
        tokens = min(Fraction(burst), tokens + back)
        got = take(db, queue, 5, want, back)
        expected = min(want, int(tokens))
        assert got.granted in (expected, expected + (tokens % 1 > Fraction(99, 100))), "time passes in a test, too"
        assert got.granted == want or got.next_at > 0
        tokens, held, taken = tokens - got.granted, held + got.granted, taken + got.granted - back
        assert taken <= burst + passed / step + 1
        held -= dice.randint(0, held)
        us = dice.choice([0, 0, 1, 2, 5]) * int(step) // 2
        pass_time(db, queue, us)
        tokens, passed = min(Fraction(burst), tokens + us / step), passed + us
    assert taken > burst


def test_a_slice_is_a_tenth_of_a_second(db, queue):
    bound(db, queue, group_rate_limit=1000, group_rate_burst=500)
    assert take(db, queue, 5, 1).granted == 100
    assert take(db, queue, 5, 300).granted == 300
    assert 100 <= take(db, queue, 5, 300).granted < 300
    bound(db, queue, group_rate_limit=1000, group_rate_burst=1, rate_period=3600)
    assert take(db, queue, 6, 50).granted == 1


def test_who_meets_a_bucket_that_is_held_keeps_what_he_gave_back(db, session, queue):
    bound(db, queue, group_rate_limit=3, rate_period=3600)
    assert take(db, queue, 5, 2).granted == 2
    db.rows("BEGIN")
    db.rows("SELECT ready FROM queend.rates WHERE queue_id = %s FOR UPDATE", queue)
    row = take(session(), queue, 5, 1, back=2)
    assert row.granted == 2 and row.next_at > 0
    db.rows("COMMIT")
    assert take(db, queue, 5, 9, back=1).granted == 2


def test_no_rate_bounds_nothing(db, queue):
    assert take(db, queue, 5, 70).granted == 70
    assert take(db, 2_000_000_000, 5, 7).granted == 7


def test_another_rate_counts_at_once(db, queue):
    bound(db, queue, group_rate_limit=1, rate_period=31_622_400)
    assert [take(db, queue, 5, 1).granted for _ in range(2)] == [1, 0]
    bound(db, queue, group_rate_limit=1_000_000, rate_period=1)
    take(db, queue, 5, 1)
    assert take(db, queue, 5, 10).granted >= 10


def test_a_burst_of_a_million_at_one_a_year(db, queue):
    """Numbers beyond 64 bits."""
    bound(db, queue, group_rate_limit=1, group_rate_burst=1_000_000, rate_period=31_622_400, rate_limit=1,
          rate_burst=1_000_000)
    assert take(db, queue, 5, 1000).granted == 1000
    assert db.value("SELECT queend.rate_burst(1, 1000000, 31622400) * queend.rate_us(1, 31622400) > 0")


def test_they_go_with_their_queue_and_group(db):
    db.value("SELECT queend.configure('gone', NULL, NULL, '{\"groupRateLimit\": 2, \"queueRateLimit\": 3}')")
    queue = db.value("SELECT id FROM queend.queues WHERE name = 'gone'")
    group = db.value("SELECT group_id FROM queend.group_resolve(%s, 'g', 'all', NULL)", queue)
    take(db, queue, group, 1)
    take(db, queue, 0, 1)
    left = "SELECT array_agg(group_id) FROM queend.rates WHERE queue_id = %s"
    assert sorted(db.value(left, queue)) == sorted([0, group])
    db.rows("SELECT * FROM queend.group_delete('g', 'gone', true)")
    assert db.value(left, queue) == [0]
    db.value("SELECT queend.queue_delete('gone')")
    assert db.value(left, queue) is None
