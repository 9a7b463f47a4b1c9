"""Names that are another one but for a slip: one letter too many, too few, another one, or two that changed places."""
from __future__ import annotations

from collections.abc import Iterable

SHORTEST = 5      # of shorter names too many are near


def near(name: str, other: str) -> bool:
    """Is it one slip away from the other? Not if they are equal."""
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
    """One of the names that this one was perhaps meant to be."""
    return next((other for other in names if len(other) >= SHORTEST and near(name, other)), None)
