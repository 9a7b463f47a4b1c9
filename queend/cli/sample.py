"""A random sample of the values of a long run, of a fixed size."""
from __future__ import annotations

import random


class Sample:
    """Keeps a sample in which each value has the same chance to be. most: its size."""

    def __init__(self, room: int):
        self.room, self.seen, self.most = room, 0, 0.0
        self.kept: list[float] = []

    def add(self, value: float) -> None:
        self.seen += 1
        self.most = max(self.most, value)
        if len(self.kept) < self.room:
            self.kept.append(value)
        elif (place := random.randrange(self.seen)) < self.room:
            self.kept[place] = value
