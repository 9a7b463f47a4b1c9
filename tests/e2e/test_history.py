"""Random histories through HTTP against the model of support/history.py. One seed per run; it is printed when a check
fails."""
from __future__ import annotations

import random
import time

from support.client import Client
from support.daemon import Daemon
from support.history import History
from support.seeds import seed_of_run

SECONDS = 12


def test_any_history_is_that_of_a_queue(client: Client, queue: str) -> None:
    play([client], queue, SECONDS)


def test_any_history_over_two_daemons(start_daemon, client: Client, daemon: Daemon, queue: str) -> None:
    """Two daemons on one database know nothing of each other but what stands in it."""
    second = start_daemon(daemon.conninfo)
    with second.client() as other:
        play([client, other], queue, SECONDS / 2)


def play(clients: list[Client], queue: str, seconds: float) -> None:
    seed = seed_of_run()
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    total = 0
    for round_ in range(1000):
        if time.monotonic() > end:
            break
        history = History(clients, f"{queue}-{round_}", chance)
        for _ in range(300):
            history.step()
        history.drain()
        total += 1
        assert {"push", "pop", "ack", "transaction"} <= set(history.done)
    assert total > 0
