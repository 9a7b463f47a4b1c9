"""When a queue becomes a statement: every branch of the policy, and its promises for any input."""
from hypothesis import given, strategies as st

from queend._core import PolicyProbe


def test_nothing_waits_when_nothing_is_in_flight():
    policy = PolicyProbe(preferred=50, hold_us=5000)
    assert policy.take(1, age_us=0, in_flight=0) == 1
    assert policy.take(0, age_us=10**9, in_flight=0) == 0


def test_company_is_awaited_behind_a_statement_in_flight():
    policy = PolicyProbe(preferred=50, hold_us=5000)
    assert policy.take(49, age_us=4999, in_flight=1) == 0
    assert policy.take(49, age_us=5000, in_flight=1) == 49
    assert policy.take(50, age_us=0, in_flight=1) == 50


def test_a_patient_policy_holds_even_alone():
    policy = PolicyProbe(preferred=2, hold_us=5000, patient=True)
    assert policy.take(1, age_us=4999, in_flight=0) == 0
    assert policy.take(1, age_us=5000, in_flight=0) == 1
    assert policy.take(2, age_us=0, in_flight=0) == 2


def test_without_a_hold_only_the_landing_statement_releases():
    policy = PolicyProbe(preferred=50, hold_us=-1, patient=True)      # patience needs a hold
    assert policy.take(49, age_us=10**12, in_flight=1) == 0
    assert policy.take(49, age_us=0, in_flight=0) == 49
    assert policy.wait(49, age_us=0) == -1


def test_a_database_far_away_is_not_waited_for():
    policy = PolicyProbe(preferred=50, hold_us=-1)
    assert policy.take(3, age_us=10**6, in_flight=1, fastest_us=3999) == 0
    assert policy.take(3, age_us=2499, in_flight=1, fastest_us=10_000) == 0
    assert policy.wait(3, age_us=2499, fastest_us=10_000) == 1
    assert policy.take(3, age_us=2500, in_flight=1, fastest_us=10_000) == 3
    asked = PolicyProbe(preferred=50, hold_us=5000)                  # a hold that was asked for is kept
    assert asked.take(3, age_us=4999, in_flight=1, fastest_us=10_000) == 0


def test_no_statement_exceeds_its_bounds_but_the_first_job_always_fits():
    policy = PolicyProbe(max_jobs=3, max_items=100, max_bytes=1000)
    assert policy.take(10, in_flight=0) == 3
    assert policy.room(0, 0, 0, 10**6, 10**9)
    assert policy.room(1, 60, 500, 40, 500)
    assert not policy.room(1, 60, 500, 41, 1)
    assert not policy.room(1, 60, 500, 1, 501)
    assert not policy.room(3, 3, 3, 1, 1)


def test_settings_out_of_range_become_the_nearest_that_works():
    policy = PolicyProbe(preferred=0, max_jobs=-4, max_items=0, max_bytes=0, hold_us=0)
    assert policy.take(5, age_us=0, in_flight=9) == 1
    assert policy.room(0, 0, 0, 1, 1) and not policy.room(1, 1, 1, 0, 0)


@given(preferred=st.integers(-2, 60), max_jobs=st.integers(-2, 60), hold=st.integers(-1, 10_000), patient=st.booleans(),
       jobs=st.integers(0, 200), age=st.integers(0, 20_000), in_flight=st.integers(0, 20))
def test_what_is_held_is_released_after_the_wait_it_names(preferred, max_jobs, hold, patient, jobs, age, in_flight):
    policy = PolicyProbe(preferred=preferred, max_jobs=max_jobs, hold_us=hold, patient=patient)
    taken = policy.take(jobs, age, in_flight)
    assert 0 <= taken <= min(jobs, max(max_jobs, 1))
    if jobs and not taken:
        wait = policy.wait(jobs, age)
        if wait < 0:
            assert policy.take(jobs, age, 0) > 0       # then the landing statement releases it
        else:
            assert wait > 0
            assert policy.take(jobs, age + wait - 1, in_flight) == 0
            assert policy.take(jobs, age + wait, in_flight) > 0
    elif taken:
        assert policy.take(jobs, age + 1, in_flight) == taken      # waiting longer never turns a yes into a no
