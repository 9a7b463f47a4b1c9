"""Random histories through HTTP against the model of support/history.py, over two daemons. One seed per run; it is
printed when a check fails. Histories of one daemon are in test_model.py."""
from __future__ import annotations

import random
import time

from support.client import Client
from support.history import History
from support.seeds import seed_of_run

SECONDS = 6


def test_any_history_over_two_daemons(client: Client, other: Client, queue: str) -> None:
    """Two daemons on one database know nothing of each other but what stands in it."""
    chance = random.Random(seed_of_run())
    end = time.monotonic() + SECONDS
    total = 0
    while total == 0 or time.monotonic() < end:
        history = History([client, other], f"{queue}-{total}", chance)
        for _ in range(300):
            history.step()
        history.drain()
        total += 1
        assert {"push", "pop", "ack", "transaction"} <= set(history.done)
