"""Documents that somebody has damaged."""
from __future__ import annotations

import random
from collections.abc import Sequence


def damage(data: bytearray, chance: random.Random, pieces: Sequence[bytes], most: int) -> None:
    """In up to so many places a piece is put in or over what stands there, or some bytes are taken out."""
    for _ in range(chance.randint(1, most)):
        at = chance.randint(0, len(data))
        how = chance.randint(0, 2)
        if how == 0:
            data[at:at] = chance.choice(pieces)
        elif how == 1:
            del data[at:at + chance.randint(1, 3)]
        else:
            data[at:at + 1] = chance.choice(pieces)
