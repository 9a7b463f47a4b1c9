"""The time by the clock that wrote the times of answers, the database's: that of this machine may differ."""
from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SAME = timedelta(seconds=2)      # the header Date has whole seconds, and an answer travels
_ahead = timedelta(0)
_asked = False
_ask: Callable[[], datetime | None] | None = None


def heard(date: str | None, ask: Callable[[], datetime | None]) -> None:
    """Compares the header Date of an answer that has just come with this machine's clock. If they differ, one is
    wrong: `now` then calls `ask` once, which returns the time of the database if the server tells it."""
    global _ahead, _asked, _ask
    try:
        ahead = parsedate_to_datetime(date or "") - datetime.now(UTC)
    except (ValueError, TypeError):      # no date; one without a zone
        return
    if abs(ahead) <= SAME:
        _ahead, _asked, _ask = timedelta(0), False, None
    elif not _asked:
        _ahead, _ask = ahead, ask


def now() -> datetime:
    """Returns the time of the server that answered last; before the first answer, that of this machine."""
    global _ahead, _asked, _ask
    if _ask is not None:
        ask, _ask, _asked = _ask, None, True
        if told := ask():
            _ahead = told - datetime.now(UTC)
    return datetime.now(UTC) + _ahead
