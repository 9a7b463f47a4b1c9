"""Moments: µs since 1970 in the program, ISO 8601 in answers."""
from __future__ import annotations

import datetime
import time

from ..._core import read_moment_text

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def now_us() -> int:
    return int(time.time() * 1e6)


def ts3(moment: datetime.datetime | int | None) -> str | None:
    """Formats UTC with milliseconds, as 2026-01-02T03:04:05.678Z; an int is microseconds since the Unix epoch."""
    if moment is None:
        return None
    if isinstance(moment, int):
        return read_moment_text(moment, 3)
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ts0(us: int) -> str:
    """Formats UTC in whole seconds, as 2026-01-02T03:04:00Z."""
    return (EPOCH + datetime.timedelta(microseconds=us)).isoformat(timespec="seconds").replace("+00:00", "Z")


def ts6(us: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=us)).isoformat(timespec="microseconds")


def age_s(us: int | None, now: int) -> int:
    """Returns the whole seconds from a moment until now, both in µs by the database's clock; 0 for none, or a later
    moment."""
    return 0 if us is None else max(0, (now - us) // 1_000_000)
