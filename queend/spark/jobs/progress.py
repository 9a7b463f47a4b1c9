"""Output of a running job: a line per batch, and every second the number of finished tasks."""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]
EVERY = 1.0


def aloud(text: str) -> None:
    """Prints a line on standard error; a closed one is ignored."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass


class Progress:
    """The progress of one job."""

    def __init__(self, spark: SparkSession, name: str, say: Say | None = None):
        self.spark, self.name, self._say = spark, name, say or aloud
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 3)

    def say(self, text: str) -> None:
        self._say(f"{self.name}: {text}")

    def batch(self, text: str, rows: int, seconds: float) -> None:
        self.say(f"{text}: {rows:,} rows in {seconds:.1f} s, {rows / max(seconds, 1e-6):,.0f} a second")

    @contextmanager
    def tasks(self, what: str) -> Iterator[None]:
        """Prints a line a second with progress while Spark works."""
        over = threading.Event()

        def watch() -> None:
            tracker, last = self.spark.sparkContext.statusTracker(), ""
            while not over.wait(EVERY):
                try:
                    stages = [one for one in map(tracker.getStageInfo, tracker.getActiveStageIds()) if one]
                except Exception:  # noqa: BLE001 - Spark is ending: the job says why
                    return
                line = ", ".join(f"stage {one.stageId}: {one.numCompletedTasks} of {one.numTasks} tasks"
                                 for one in sorted(stages, key=lambda one: one.stageId))
                if line and line != last:
                    self.say(f"{what}: {line}")
                    last = line

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(5)
