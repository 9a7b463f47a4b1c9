"""The doctor's findings as metrics."""
from __future__ import annotations

import asyncio
import time
from typing import Any

from ... import log
from ..routes.doctor import CHECKS, LEVELS, examined
from .families import Families

EVERY_S = 60.0      # between two rounds
LONG_S = 300.0      # a round that takes longer counts as failed until it ends


class Rounds:
    """Runs rounds of all checks: one at a time, at most one a minute, and only while scrapes come. A scrape shows the
    last round and starts the next one without waiting for it. After a round that failed there are no findings to
    show."""

    def __init__(self, control: Any):
        self.control = control
        self.findings: list[dict[str, str]] = []
        self.seconds = self.ended = 0.0
        self.failed = False
        self._began = -EVERY_S
        self._task: asyncio.Task | None = None

    def tell(self, families: Families) -> None:
        now = time.monotonic()
        if now - self._began >= EVERY_S and (self._task is None or self._task.done()):
            self._began = now
            self._task = asyncio.create_task(self._round(), name="doctor")
        failed = self.failed or self._task is not None and not self._task.done() and now - self._began >= LONG_S
        if self.ended or failed:
            families.gauge("queend_doctor_round_failed", "1 if the doctor's last round failed and has no findings.",
                           failed)
        if not self.ended:
            return
        for check in () if failed else CHECKS:
            for level in LEVELS[1:]:
                families.add("queend_doctor_finding", "Findings of queend doctor, by check and level.",
                             {"check": check, "level": level},
                             sum((one["check"], one["level"]) == (check, level) for one in self.findings))
        families.gauge("queend_doctor_round_seconds", "Duration of the doctor's last round.", round(self.seconds, 6))
        families.gauge("queend_doctor_round_timestamp_seconds", "Unix time at which the doctor's last round ended.",
                       self.ended)

    async def _round(self) -> None:
        try:
            self.findings = await examined(self.control)
        except Exception as error:
            self.failed = True
            log.line("error", "doctor_failed", repr(error))
            return
        self.failed = False
        self.seconds, self.ended = time.monotonic() - self._began, time.time()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
