"""Waiting for something that can be observed, never for time to pass."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")
# How long a test waits for what is sure to come, on the slowest machine. Only a failure takes so long.
PATIENCE = 180.0


def until(look: Callable[[], Seen], what: str, seconds: float = PATIENCE) -> Seen:
    """Looks again and again until something true is seen, and returns it. Fails after `seconds`, naming `what`."""
    begin = time.monotonic()
    while True:
        if seen := look():
            return seen
        waited = time.monotonic() - begin
        assert waited < seconds, f"waited {seconds} s in vain: {what}"
        # A look may be a request, or a connection: the longer it takes anyway, the less they are hurried.
        time.sleep(min(0.05, 0.005 + waited / 50))
