"""Words of texts for people: a number with its noun, a size in bytes, a consumer group."""
from __future__ import annotations

from collections.abc import Callable

QUEUE_MODE = "__QUEUE_MODE__"      # the group of consumers without a group, as programs name it


def many(number: int, word: str, write: Callable[[int], str] = str) -> str:
    """Returns `1 message`, `2 messages`. write: formats the number."""
    return f"{write(number)} {word}{'' if number == 1 else 's'}"


def size(count: float) -> str:
    """Formats a number of bytes: `12 B`, `1.5 KiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def group_name(name: str | None) -> str:
    """Returns the name of a consumer group as people read it."""
    return "(without a group)" if name == QUEUE_MODE else name or ""


def group_phrase(name: str) -> str:
    """Returns `the group billing` or `consumers without a group`."""
    return "consumers without a group" if name == QUEUE_MODE else f"the group {name}"
