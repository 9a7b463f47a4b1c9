"""The life of a service: one task, from `open` to `close`."""
from __future__ import annotations

import asyncio


class Running:
    """Base of services; what they do is `_run`, which is cancelled in the end."""

    _task: asyncio.Task | None = None
    _woken: asyncio.Event | None = None

    async def _run(self) -> None:
        raise NotImplementedError

    def wake(self) -> None:
        """There is something to look at, such as settings that have changed. From the loop it runs on."""
        if self._woken is not None:
            self._woken.set()

    async def _rest(self, seconds: float) -> bool:
        """Sleeps so long; True: not to the end, it was woken."""
        assert self._woken is not None
        try:
            await asyncio.wait_for(self._woken.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    def open(self) -> None:
        self._woken = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=type(self).__name__.lower())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
