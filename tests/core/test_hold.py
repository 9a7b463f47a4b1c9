"""When waiting jobs become a statement: every branch of the rules, and their promises for any input."""
from hypothesis import given, strategies as st

from queend._core import HoldProbe, hold_crowds, hold_spares


def test_nothing_waits_when_nothing_is_in_flight():
    assert HoldProbe(preferred=50, wait_us=5000).wait(1, age_us=0, in_flight=0) == 0


def test_others_are_awaited_behind_a_statement_in_flight():
    hold = HoldProbe(preferred=50, wait_us=5000)
    assert hold.wait(49, age_us=4999, in_flight=1) == 1
    assert hold.wait(49, age_us=5000, in_flight=1) == 0
    assert hold.wait(50, age_us=0, in_flight=1) == 0


def test_who_asked_for_a_hold_waits_even_alone():
    hold = HoldProbe(preferred=2, wait_us=5000, patient=True)
    assert hold.wait(1, age_us=4000, in_flight=0) == 1000
    assert hold.wait(1, age_us=5000, in_flight=0) == 0
    assert hold.wait(2, age_us=0, in_flight=0) == 0


def test_without_a_hold_only_the_landing_statement_releases():
    hold = HoldProbe(preferred=50, wait_us=-1, patient=True)         # patience needs a hold
    assert hold.wait(49, age_us=10**12, in_flight=1) == -1
    assert hold.wait(49, age_us=0, in_flight=0) == 0


def test_a_database_far_away_is_not_waited_for():
    hold = HoldProbe(preferred=50, wait_us=-1)
    assert hold.wait(3, age_us=10**6, in_flight=1, fastest_us=3999) == -1
    assert hold.wait(3, age_us=2499, in_flight=1, fastest_us=10_000) == 1
    assert hold.wait(3, age_us=2500, in_flight=1, fastest_us=10_000) == 0
    asked = HoldProbe(preferred=50, wait_us=5000)                    # a hold that was asked for is kept
    assert asked.wait(3, age_us=4999, in_flight=1, fastest_us=10_000) == 1


def test_settings_out_of_range_become_the_nearest_that_works():
    assert HoldProbe(preferred=0, max_jobs=-4, wait_us=0).wait(5, age_us=0, in_flight=9) == 0


def test_what_nobody_needs_leaves_seldom_or_in_company():
    assert [hold_spares(1, 10_000, now) for now in (10_000, 13_999, 14_000, 20_000)] == [4000, 1, 0, 0]
    assert hold_spares(7, 10_000, 10_000) == 4000 and hold_spares(8, 10_000, 10_000) == 0


def test_many_are_at_work_where_many_push_to_one_group():
    """Neither many producers of other queues nor one who pushes to many partitions make it a crowd."""
    assert [hold_crowds(*push) for push in ((8, 8), (64, 1), (7, 64), (64, 7))] == [True, False, False, False]


@given(preferred=st.integers(-2, 60), wait=st.integers(-1, 10_000), patient=st.booleans(), jobs=st.integers(1, 200),
       age=st.integers(0, 20_000), in_flight=st.integers(0, 20))
def test_what_is_held_is_released_after_the_wait_it_names(preferred, wait, patient, jobs, age, in_flight):
    hold = HoldProbe(preferred=preferred, wait_us=wait, patient=patient)
    left = hold.wait(jobs, age, in_flight)
    if left < 0:
        assert hold.wait(jobs, age, 0) == 0            # then the landing statement releases it
    elif left:
        assert hold.wait(jobs, age + left - 1, in_flight) == 1
        assert hold.wait(jobs, age + left, in_flight) == 0
    else:
        assert hold.wait(jobs, age + 1, in_flight) == 0       # waiting longer never turns a yes into a no


def test_nobody_waits_before_a_statement_or_for_few():
    hold = HoldProbe()
    assert hold.returning(1, 0) == 0
    hold.answered(2, 1, 0)
    assert hold.returning(1, 0) == 0


def test_most_of_those_answered_are_awaited_and_no_longer():
    hold = HoldProbe()
    hold.answered(8, 8, 5000)
    assert hold.returning(8, 5000) == 1000
    assert hold.returning(11, 5999) == 1
    assert hold.returning(12, 5999) == 0
    assert hold.returning(1, 5999) == 0         # until the next statement ends
    hold.answered(16, 0, 7000)
    assert hold.returning(1, 7400) == 600
    assert hold.returning(1, 8000) == 0


def test_pushes_wait_for_a_part_of_a_slow_commit_only():
    hold = HoldProbe(rule="push")
    hold.answered(8, 8, 5000, took_us=999)
    assert hold.returning(1, 5000) == 0
    hold.answered(8, 8, 5000, took_us=2000)
    assert hold.returning(13, 5000) == 500
    assert hold.returning(14, 5000) == 0
    hold.answered(8, 8, 5000, took_us=10**6)
    assert hold.returning(1, 5000) == 1500
    assert hold.returning(7, 6500) == 0         # half of those awaited came: that was worth it
    hold.answered(8, 8, 7000, took_us=2000)
    assert hold.returning(6, 7500) == 0
    hold.answered(8, 8, 8000, took_us=2000)
    assert hold.returning(1, 8000) == 0         # fewer than half did: nobody waits for a while


def test_who_does_not_come_is_not_awaited_for_a_while():
    hold = HoldProbe()
    now, held = 0, []
    for statement in range(400):
        hold.answered(8, 0, now)
        if hold.returning(1, now):
            held.append(statement)
            assert hold.returning(1, now + 1000) == 0
        now += 5000
    assert held == [0, 3, 8, 17, 34, 67, 132, 197, 262, 327, 392]
    while not hold.returning(1, now):           # and awaited again once they come
        hold.answered(8, 0, now)
    assert hold.returning(6, now) == 0
    hold.answered(8, 0, now)
    assert hold.returning(1, now) == 1000


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 3000), st.integers(0, 10**6)),
                max_size=50),
       st.sampled_from([("turn", 1000), ("push", 1500)]))
def test_no_job_waits_longer_than_its_rule_says(steps, rule):
    hold, now = HoldProbe(rule=rule[0]), 0
    for answered, gathered, later, took in steps:
        hold.answered(answered, gathered, now, took)
        assert 0 <= hold.returning(gathered + 1, now) <= rule[1]
        assert hold.returning(gathered + 1, now + rule[1]) == 0
        now += later
