"""Waiting for something that can be observed, never for time to pass."""
from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

Seen = TypeVar("Seen")


def until(look: Callable[[], Seen], what: str, seconds: float = 60.0) -> Seen:
    """Looks again and again until something true is seen, and returns it. Fails after `seconds`, naming `what`."""
    deadline = time.monotonic() + seconds
    while True:
        if seen := look():
            return seen
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.005)


@contextmanager
def alone() -> Iterator[None]:
    """For what is made once in the checkout and used by all processes of a test run: one of them is in here at a time."""
    folder = os.open(Path(__file__).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
