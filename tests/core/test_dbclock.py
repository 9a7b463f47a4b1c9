"""The estimate of the database's clock: a lower bound that answers make better, and that follows a clock that goes
back."""
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queend._core import probe_dbclock

SECOND = 1_000_000
HOUR = 3600 * SECOND


def test_an_answer_bounds_it_from_below():
    assert probe_dbclock([(HOUR, 100, 300)], 300) == (HOUR, 0)
    assert probe_dbclock([(HOUR, 100, 300)], 1300) == (HOUR + 1000, 0)


def test_a_quick_answer_is_better_than_a_slow_one_and_a_slow_one_no_worse_than_before():
    quick = (HOUR + 150, 100, 200)  # read half way: 50 µs are lost
    slow = (HOUR + 5 * SECOND, 0, 10 * SECOND)
    assert probe_dbclock([slow, quick], 200) == (HOUR + 150, 0)
    assert probe_dbclock([quick, slow], 200) == (HOUR + 150, 0)


def test_a_clock_that_goes_forward_is_followed():
    assert probe_dbclock([(SECOND, 0, 10), (HOUR, 20, 30)], 30) == (HOUR, 0)


def test_a_clock_that_goes_back_is_followed_and_said():
    assert probe_dbclock([(2 * HOUR, 0, 10), (HOUR, 20, 30)], 40) == (HOUR + 10, 30)


def test_a_clock_that_runs_slowly_is_followed_too():
    assert probe_dbclock([(SECOND, 0, 10), (2 * SECOND - 100, SECOND, SECOND + 10)],
                         SECOND + 10) == (2 * SECOND - 100, 0)


@given(st.integers(-HOUR, HOUR),
       st.lists(st.tuples(st.integers(0, SECOND), st.integers(0, SECOND), st.integers(0, SECOND)), min_size=1))
def test_it_is_never_ahead_of_a_steady_clock(ahead: int, answers: list[tuple[int, int, int]]):
    now, heard = 0, []
    for pause, there, back in answers:
        sent = now + pause
        now = sent + there + back
        heard.append((sent + there + ahead, sent, now))
    shown, went_back = probe_dbclock(heard, now)
    assert shown <= now + ahead and went_back == 0
    assert shown >= now + ahead - max(0, min(back for _, _, back in answers))
