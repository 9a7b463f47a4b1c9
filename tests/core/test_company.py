"""Jobs whose clients were answered together wait for each other, for a moment, and only while that pays."""
from hypothesis import given, strategies as st

from queend._core import CompanyProbe


def test_nobody_waits_before_a_statement_or_for_few():
    company = CompanyProbe()
    assert company.wait(1, 0) == 0
    company.ended(2, 1, 0)
    assert company.wait(1, 0) == 0


def test_most_of_those_answered_are_awaited_and_no_longer():
    company = CompanyProbe()
    company.ended(8, 8, 5000)
    assert company.wait(8, 5000) == 1000
    assert company.wait(11, 5999) == 1
    assert company.wait(12, 5999) == 0
    assert company.wait(1, 5999) == 0           # until the next statement ends
    company.ended(16, 0, 7000)
    assert company.wait(1, 7400) == 600
    assert company.wait(1, 8000) == 0


def test_who_does_not_come_is_not_awaited_for_a_while():
    company = CompanyProbe()
    now, held = 0, []
    for statement in range(400):
        company.ended(8, 0, now)
        if company.wait(1, now):
            held.append(statement)
            assert company.wait(1, now + 1000) == 0
        now += 5000
    assert held == [0, 3, 8, 17, 34, 67, 132, 197, 262, 327, 392]
    while not company.wait(1, now):             # and awaited again once they come
        company.ended(8, 0, now)
    assert company.wait(6, now) == 0
    company.ended(8, 0, now)
    assert company.wait(1, now) == 1000


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 3000)), max_size=50))
def test_no_job_waits_longer_than_a_millisecond(steps):
    company, now = CompanyProbe(), 0
    for answered, gathered, later in steps:
        company.ended(answered, gathered, now)
        assert 0 <= company.wait(gathered + 1, now) <= 1000
        assert company.wait(gathered + 1, now + 1000) == 0
        now += later
