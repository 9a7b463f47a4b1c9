"""The seed of a test that throws dice.

A run of all tests throws the same dice each time: what passed in one clone passes in the next, and a failure has to do
with what was changed. `make test-seeds` is where new histories are looked for: it runs these tests with SEED=random.
"""
from __future__ import annotations

import os
import random

ASKED = os.environ.get("SEED", "1")
DRAWN = ASKED == "random"


def seed_of_run() -> int:
    """SEED of the environment, which is 1 where nothing is said; SEED=random draws one. It is printed."""
    number = random.SystemRandom().randrange(1 << 32) if DRAWN else int(ASKED)
    print(f"SEED={number}")
    return number
