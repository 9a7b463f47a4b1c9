"""A job that is killed at random moments and run again, and its daemon too."""
from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.daemon import Daemon
from support.log import heads
from support.wait import until

from jobs import Job

KILLS = int(os.environ.get("SPARK_KILLS", 2))
SEED = os.environ.get("FAULT_SEED", "jobs")
KINDS = ("spark", "daemon")
SLOW = "waiting for the Python worker to connect back"


class Victim:
    """A job that stores records in `target`, the daemon that it needs, and the kills. words: the command, without
    --url. total: the number of records in the target at the end."""

    def __init__(self, start_daemon: Callable[..., Daemon], daemon: Daemon, folder: Path, target: str, total: int,
                 *words: str):
        self.start_daemon, self.daemon, self.folder = start_daemon, daemon, folder
        self.target, self.total, self.words, self.runs = target, total, words, 0
        print(f"FAULT_SEED={SEED} SPARK_KILLS={KILLS}")

    def done(self) -> int:
        """The number of records that are stored."""
        with self.daemon.client() as client:
            return sum(heads(client, self.target).values())

    def run(self, *more: str) -> Job:
        self.runs += 1
        return Job(self.folder / f"run-{self.runs}", *self.words, *more, "--url", self.daemon.url)

    def _again(self, job: Job) -> Job:
        """Starts a job again that Spark gave up by itself: on a busy machine its workers start too slowly."""
        assert job.ended() == 1 and SLOW in job.err.read_text(), job.err.read_text()
        return self.run()

    def finished(self, *more: str) -> dict[str, Any]:
        """What the last run says."""
        job = self.run(*more)
        try:
            while job.ended(900) and SLOW in job.err.read_text():
                job = self.run(*more)
            return job.done()
        finally:
            job.kill()

    def killed(self) -> None:
        """Kills all processes of Spark, or the daemon, KILLS times each in turn: whenever a random number of records
        more is stored. After a kill of Spark the job is started again. A job outlives its daemon."""
        dice, step = random.Random(f"{SEED} {self.words[0]}"), self.total // (2 * KILLS + 1)
        job = self.run()
        try:
            for kind in KINDS * KILLS:
                goal = self.done() + dice.randrange(1, step)
                while self.done() < goal:
                    job = self._again(job) if job.over() else job
                    until(lambda: job.over() or self.done() >= goal, f"{goal} records", 600)  # noqa: B023
                assert not job.over(), f"before the {kind} was killed:\n{job.err.read_text()}"
                print(f"{kind} killed at {self.done()} of {self.total} records")
                if kind == "daemon":
                    self.daemon.kill()
                    self.daemon = self.start_daemon(self.daemon.conninfo, PORT=self.daemon.port)
                else:
                    job.kill()
                    assert not job.out.read_text()
                    job = self.run()
        finally:
            job.kill()
