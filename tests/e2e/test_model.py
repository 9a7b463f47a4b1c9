"""Histories that are made to fail: hypothesis chooses the moves, and makes a history that fails as short as it can.

The model is that of support/history.py. The seed of a run is printed when it fails; SEED=… repeats it.
"""
from __future__ import annotations

import random

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from support.client import Client
from support.history import MOVES, History
from support.seeds import seed_of_run

STEPS = 100          # of a history
HISTORIES = 110      # more than 10 000 moves in all


def test_no_history_is_unlike_the_model(client: Client, queue: str) -> None:
    made = {"histories": 0, "moves": 0}

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            made["histories"] += 1
            self.history = History([client], f"{queue}-{made['histories']}", random.Random())

        @rule(name=st.sampled_from([name for name, weight in MOVES.items() for _ in range(weight)]),
              chance=st.integers(0, 2**31))
        def move(self, name: str, chance: int) -> None:
            made["moves"] += 1
            self.history.chance.seed(chance)
            self.history.move(name)

        def teardown(self) -> None:
            self.history.chance.seed(0)
            self.history.drain()

    number = seed_of_run()
    run_state_machine_as_test(seed(number)(Machine), settings=settings(
        max_examples=HISTORIES, stateful_step_count=STEPS, database=None,
        suppress_health_check=[*HealthCheck], phases=[Phase.generate, Phase.shrink], print_blob=True))
    assert made["moves"] >= 10_000, made
