"""The life of a service: one task, from `open` to `close`."""
from __future__ import annotations

import asyncio


class Running:
    """Base of services; what they do is `_run`, which is cancelled in the end."""

    _task: asyncio.Task | None = None

    async def _run(self) -> None:
        raise NotImplementedError

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name=type(self).__name__.lower())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
