"""Misspelled names: one letter too many, too few or different, or two neighbours swapped."""
from __future__ import annotations

from collections.abc import Iterable

SHORTEST = 5      # too many names are near to shorter ones


def near(name: str, other: str) -> bool:
    """Returns whether a name is one typing error away from the other. False if they are equal."""
    if name == other or abs(len(name) - len(other)) > 1:
        return False
    if len(name) > len(other):
        name, other = other, name
    at = next((i for i, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), len(name))
    if len(name) < len(other):
        return name[at:] == other[at + 1:]
    return name[at + 1:] == other[at + 1:] or (
        name[at:at + 2] == other[at:at + 2][::-1] and name[at + 2:] == other[at + 2:])


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns one of the names that this one may be a misspelling of."""
    return next((other for other in names if len(other) >= SHORTEST and near(name, other)), None)
