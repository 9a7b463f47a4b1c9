"""The life of a service: one task, from `open` to `close`."""
from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import log
from ..postgres.session import on_one_line, told

BROKEN = "service_broken"      # log event: an error that the service does not expect, a fault of queend
AGAIN_S = 5.0                  # then it begins again
SOUND_S = 60.0                 # once it runs for so long without such an error, the doctor forgets the last one


@dataclass(frozen=True)
class Failing:
    """Consecutive failed passes of a service. since: the first of them, seconds since the epoch."""

    since: float
    passes: int
    error: str
    logged: tuple[str, Mapping[str, Any]] = ("", {})      # detail and facts of the last line about it
    logged_at: float = 0.0                                # monotonic clock


class Running:
    """Base of services; their work is `_run`, which is cancelled in the end. If it ends by an error, it is logged and
    begins again."""

    failing: Mapping[str, Failing] = {}      # by the log event of the failure; read by the doctor
    _task: asyncio.Task | None = None
    _woken: asyncio.Event | None = None

    async def _run(self) -> None:
        raise NotImplementedError

    def wake(self) -> None:
        """Wakes the service for new work, such as changed settings. Requires its own loop."""
        if self._woken is not None:
            self._woken.set()

    async def _rest(self, seconds: float) -> bool:
        """Sleeps so long. Returns True if it was woken earlier."""
        assert self._woken is not None
        try:
            async with asyncio.timeout(max(0.0, seconds)):      # wait_for of Python 3.11 can lose a cancellation
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def _failed(self, event: str, error: Exception | str, **more: Any) -> None:
        """Logs a failed pass, and keeps it for the doctor until `_done`. The same failure of each second is logged once
        a minute, with the number of passes."""
        self._keep_failure(event, error)
        now, one, line = time.monotonic(), self.failing[event], (on_one_line(str(error)), more)
        if one.logged != line or now - one.logged_at >= log.REPEAT_S:
            passes = {"passes": one.passes} if one.passes > 1 else {}
            log.line("warn", event, line[0], **more, **passes)
            self.failing = {**self.failing, event: replace(one, logged=line, logged_at=now)}

    def _keep_failure(self, event: str, error: Exception | str) -> None:
        """Keeps a failed pass for the doctor until `_done`."""
        before = self.failing.get(event)
        before = before or Failing(time.time(), 0, "")
        self.failing = {**self.failing, event: replace(before, passes=before.passes + 1,
                                                       error=error if isinstance(error, str) else told(error))}

    def _done(self, event: str) -> None:
        """Records a pass that did not fail."""
        if event in self.failing:
            self.failing = {name: one for name, one in self.failing.items() if name != event}

    async def _live(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sound = loop.call_later(SOUND_S, self._done, BROKEN)
            try:
                await self._run()
                return
            except Exception as error:  # noqa: BLE001
                task = asyncio.current_task()
                if task is not None and task.cancelling():      # a library raised this in place of the cancellation
                    return
                place = traceback.extract_tb(error.__traceback__)[-1]
                self._failed(BROKEN, f"{type(error).__name__}: {error}", service=type(self).__name__.lower(),
                             line=f"{Path(place.filename).name}:{place.lineno}")
            finally:
                sound.cancel()
            await asyncio.sleep(AGAIN_S)

    def open(self) -> None:
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._live(), name=type(self).__name__.lower())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
