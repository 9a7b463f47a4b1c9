"""Limits of concurrency, driven by a clock the tests own: a small model of a database stands behind the last ones."""
import random

import pytest
from hypothesis import given, settings, strategies as st

from queend._core import LimitProbe

SECOND = 1_000_000


def round_of(limit, now, took, ok=True):
    """Takes every permit and completes each after `took`, a time or a function of their number; returns how many there
    were."""
    n = 0
    while limit.take():
        n += 1
    for _ in range(n):
        limit.done(now, took(n) if callable(took) else took, ok)
    return n


def one_at_a_time(n):
    """A database that does one thing after the other."""
    return 1000 * n


def test_static_is_a_number_that_never_moves():
    limit = LimitProbe("static", max_concurrent=3)
    for now in range(0, 100 * SECOND, SECOND):
        assert round_of(limit, now, now % 7 * 1000, ok=now % 2 == 0) == 3
    assert limit.in_flight == 0


@pytest.mark.parametrize("configured", [0, -5])
def test_a_limit_of_nothing_becomes_one(configured):
    assert LimitProbe("static", max_concurrent=configured).limit == 1
    assert LimitProbe("vegas", max_concurrent=configured, min_limit=configured, max_limit=configured).limit == 1


def test_a_permit_given_back_is_free_again_and_never_twice():
    limit = LimitProbe("static", max_concurrent=1)
    assert limit.take() and not limit.take()
    limit.give()
    limit.give()
    assert limit.take() and not limit.take()


def test_the_start_is_quick_four_then_doubling_within_rounds():
    limit = LimitProbe("vegas", max_concurrent=32)
    sizes = [round_of(limit, now, 2000) for now in range(0, 40_000, 10_000)]
    assert sizes == [4, 8, 16, 32]


def test_the_start_ends_when_calls_make_each_other_slow():
    limit = LimitProbe("vegas", max_concurrent=32, window_samples=1)
    assert round_of(limit, 0, one_at_a_time) == 4 and limit.limit == 8      # nothing to compare with yet
    round_of(limit, 10_000, one_at_a_time)
    assert limit.probing                                                    # calls go alone before a queue is believed
    assert [round_of(limit, now, one_at_a_time) for now in range(20_000, 120_000, 10_000)] == [1] * 10
    assert not limit.probing
    before = limit.limit
    round_of(limit, 200_000, one_at_a_time)
    assert not limit.starting and limit.limit == before - 1
    # from now on once per interval only
    assert round_of(limit, 210_000, one_at_a_time) == before - 1 == limit.limit
    round_of(limit, 2 * SECOND, one_at_a_time)
    assert limit.limit == before - 2


def test_a_start_goes_on_where_others_make_the_machine_slow():
    limit = LimitProbe("vegas", max_concurrent=32, window_samples=1)
    round_of(limit, 0, 2000)
    now, probed = 0, False
    while limit.limit < 32:
        now += 10_000
        round_of(limit, now, 20_000)                                        # ten times slower, alone as well
        probed = probed or limit.probing
        assert now < SECOND and limit.starting
    assert probed


def test_it_does_not_grow_without_demand():
    limit = LimitProbe("vegas")
    for now in range(0, 100 * SECOND, SECOND // 2):
        assert limit.take()
        limit.done(now, 1000)
    assert limit.limit == 4


def test_it_shrinks_even_when_its_ceiling_lies_below_beta():
    limit = LimitProbe("vegas", max_concurrent=8, beta=12, window_samples=1)
    for now in range(0, 5 * SECOND, SECOND):
        round_of(limit, now, 1000)
    assert limit.limit == 8
    for now in range(5 * SECOND, 40 * SECOND, SECOND // 4):
        round_of(limit, now, one_at_a_time)
    assert limit.limit <= 4


def test_a_busy_machine_does_not_hold_it_down():
    """One call in four finds a processor at once; the mean is ten times the fastest, however few are in flight."""
    limit = LimitProbe("vegas", max_concurrent=8)
    chance = random.Random(5)
    for now in range(0, 60 * SECOND, SECOND // 20):
        round_of(limit, now, lambda n: 1000 if chance.random() < 0.25 else chance.uniform(10_000, 17_000))
        assert limit.limit >= 4
    assert limit.limit == 8


def test_what_a_call_takes_alone_is_asked_again():
    """The machine is busy for a while; then it is ours, and what is slow is our doing."""
    limit = LimitProbe("vegas", max_concurrent=8, window_samples=1)
    round_of(limit, 0, 1000)
    for now in range(SECOND, 20 * SECOND, SECOND // 4):
        round_of(limit, now, 20_000)
    assert limit.limit == 8
    for now in range(20 * SECOND, 80 * SECOND, SECOND // 4):
        round_of(limit, now, one_at_a_time)
    assert limit.limit <= 4


def test_a_probe_without_answers_ends_with_them_or_with_a_failure():
    limit = LimitProbe("vegas", max_concurrent=8, window_samples=1)
    round_of(limit, 1, 1000)
    assert limit.take() and limit.take()
    limit.done(2 * SECOND, 9000)
    assert limit.probing and not limit.take()             # a call of before it is still out
    limit.done(2 * SECOND, 9000)
    assert limit.take() and not limit.take()
    limit.done(3 * SECOND, 500_000)                        # longer than an interval: one has to do
    assert not limit.probing
    for now in range(40 * SECOND, 42 * SECOND, 10_000):
        if limit.probing:
            break
        round_of(limit, now, lambda n: 1000 if n == 1 else 900_000)
    assert limit.probing and limit.take()
    limit.done(43 * SECOND, 1000, False)
    assert not limit.probing


def test_the_fastest_call_is_forgotten_after_its_window():
    limit = LimitProbe("vegas", fastest_window_us=30 * SECOND)
    limit.done(0, 500)
    limit.done(3 * SECOND, 9000)
    assert limit.fastest(3 * SECOND) == 500
    assert limit.fastest(27 * SECOND) == 500
    assert limit.fastest(30 * SECOND) == 9000
    assert limit.fastest(62 * SECOND) == 0


def test_a_database_that_became_slower_for_good_is_the_new_normal():
    limit = LimitProbe("vegas", max_concurrent=16, window_samples=1)
    for now in range(0, 10 * SECOND, SECOND):
        round_of(limit, now, 1000)
    assert limit.limit == 16
    for now in range(10 * SECOND, 80 * SECOND, SECOND):
        round_of(limit, now, 10_000)
        assert limit.limit == 16


def test_calls_without_an_answer_halve_it_once_per_interval():
    limit = LimitProbe("vegas", max_concurrent=16)
    for now in range(10_000, 50_000, 10_000):
        round_of(limit, now, 1000)
    assert limit.limit == 16
    for _ in range(10):
        round_of(limit, SECOND, 30 * SECOND, ok=False)
    assert limit.limit == 8
    round_of(limit, 2 * SECOND, 30 * SECOND, ok=False)
    assert limit.limit == 4
    round_of(limit, 3 * SECOND + 1, 1000)
    assert limit.limit == 5               # and it recovers by one per interval


def test_settings_out_of_order_are_put_in_order():
    limit = LimitProbe("vegas", max_concurrent=10, min_limit=6, max_limit=2, alpha=0, beta=-1, window_samples=0,
                       fastest_window_us=0, interval_us=0)
    assert limit.limit == 6
    for now in range(0, 1000, 10):
        round_of(limit, now, 10)
    assert limit.limit == 6


def settle(servers, rounds=400):
    """A database that runs `servers` statements at once, each in 1 ms; the rest queue. Returns the limit it comes
    to."""
    limit = LimitProbe("vegas", max_concurrent=32, window_samples=10)
    now = 0
    for _ in range(rounds):
        n = 0
        while limit.take():
            n += 1
        took = [1000 * (i // servers + 1) for i in range(n)]
        now += max(took)
        for t in took:
            limit.done(now, t)
        now += SECOND // 2
    return limit.limit


def test_it_settles_near_what_the_database_can_do():
    found = [settle(servers) for servers in (2, 4, 8, 16)]
    assert found == sorted(found)
    for servers, limit in zip((2, 4, 8, 16), found):
        assert servers <= limit <= 4 * servers + 4


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(["take", "give", "ok", "lost"]), st.integers(0, 3_000_000),
                          st.integers(-1, 50_000_000)), max_size=200),
       st.integers(1, 8), st.integers(1, 40), st.integers(1, 40))
def test_whatever_happens_it_stays_within_its_bounds(steps, low, high, most):
    limit = LimitProbe("vegas", max_concurrent=most, min_limit=low, max_limit=high)
    ceiling = max(min(high, most), low)
    now = flight = 0
    for what, pause, took in steps:
        now += pause
        if what == "take":
            got = limit.take()
            assert got == (flight < (1 if limit.probing else limit.limit))
            flight += got
        else:
            flight = max(flight - 1, 0)
            if what == "give":
                limit.give()
            else:
                limit.done(now, took, what == "ok")
        assert limit.in_flight == flight
        assert low <= limit.limit <= ceiling
