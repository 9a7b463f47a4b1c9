"""Numbers with a noun, as people read them."""
from __future__ import annotations

from collections.abc import Callable


def many(number: int, word: str, write: Callable[[int], str] = str) -> str:
    """Returns `1 message`, `2 messages`. write: formats the number."""
    return f"{write(number)} {word}{'' if number == 1 else 's'}"
