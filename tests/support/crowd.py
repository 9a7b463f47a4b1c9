"""Many clients at once: threads whose failures reach the test."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from .wait import PATIENCE


class Crowd:
    """`with Crowd() as crowd: crowd.go(work)…` waits for all at the end and raises the first failure."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def go(self, work: Callable[..., object], *arguments: object) -> None:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:  # noqa: BLE001 - raised again in join
                self.failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def all(self, work: Callable[..., object], arguments: Iterable[object]) -> None:
        for one in arguments:
            self.go(work, one)

    def join(self, seconds: float = 2 * PATIENCE) -> None:
        for thread in self.threads:
            thread.join(seconds)
        if self.failures:
            raise self.failures[0]
        assert not any(thread.is_alive() for thread in self.threads), f"not done after {seconds} s"

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if kind is None:
            self.join()
