"""Durations as people write and read them: `500ms`, `30s`, `5m`, `1h30m`, `7d`."""
from __future__ import annotations

import math
import re

UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}      # in ms, longest first
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])", re.ASCII)
WHOLE = re.compile(rf"(?:{PART.pattern})+", re.ASCII)
PLAIN = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
FORM = "a number with a unit, like 500ms, 30s, 5m, 1h30m or 7d"


def milliseconds(text: str) -> float | None:
    """Parses a duration; a number without a unit counts seconds. Returns None for any other text."""
    word = text.strip()
    if WHOLE.fullmatch(word):
        return sum(float(number) * UNITS[unit] for number, unit in PART.findall(word))
    value = float(word) * 1000 if PLAIN.fullmatch(word) else math.inf
    return value if math.isfinite(value) else None


def exact(seconds: float) -> str:
    """Formats a duration to the millisecond: `1h1s`, `1s500ms`, `0s`."""
    return "".join(_parts(round(seconds * 1000))) or "0s"


def span(seconds: float | None) -> str:
    """Formats a duration in whole seconds, by its two largest units that are not 0: `2m30s`, `1h`, `0s`.
    None, if nothing was measured, is an empty text."""
    return "" if seconds is None else "".join(_parts(int(seconds) * 1000)[:2]) or "0s"


def _parts(rest: int) -> list[str]:
    parts = []
    for unit, length in UNITS.items():
        if rest >= length:
            parts.append(f"{rest // length}{unit}")
            rest %= length
    return parts
