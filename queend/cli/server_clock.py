"""The clock of the server, as its answers tell it: that of this machine may differ."""
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SAME = timedelta(seconds=2)      # the header Date has whole seconds, and an answer travels
_ahead = timedelta(0)


def heard(date: str | None) -> None:
    """Learns the server's time from the header Date of an answer that has just come."""
    global _ahead
    try:
        ahead = parsedate_to_datetime(date or "") - datetime.now(UTC)
    except (ValueError, TypeError):      # no date; one without a zone
        return
    _ahead = ahead if abs(ahead) > SAME else timedelta(0)


def now() -> datetime:
    """Returns the time of the server that answered last; before the first answer, that of this machine."""
    return datetime.now(UTC) + _ahead
