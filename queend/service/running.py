"""The life of a service: one task, from `open` to `close`."""
from __future__ import annotations

import asyncio


class Running:
    """Base of services; what they do is `_run`, which is cancelled in the end."""

    _task: asyncio.Task | None = None
    _other: asyncio.Event | None = None      # settings have changed

    async def _run(self) -> None:
        raise NotImplementedError

    def changed(self) -> None:
        """Settings have changed: whoever rests looks at them."""
        if self._other is not None:
            self._other.set()

    async def _rest(self, seconds: float) -> bool:
        """Sleeps so long; True: not to the end, settings have changed."""
        assert self._other is not None
        try:
            await asyncio.wait_for(self._other.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        self._other.clear()
        return True

    def open(self) -> None:
        self._other = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=type(self).__name__.lower())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
