"""A lease of a worker: kept alive while messages that came with it are handled."""
from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from .aio import AsyncClient
from .errors import LeaseLost
from .message import Message

SHARE = 3       # a lease is extended after this part of its length
log = logging.getLogger("queend.worker")


class Lease:
    """Extends a lease from its delivery on, until it is closed or lost. lost: called once when it is lost. The end is
    reckoned from the moment at which the latest request was sent, so that it is never later than the server's."""

    def __init__(self, client: AsyncClient, message: Message, seconds: float, sent: float, lost: Callable[[], None]):
        self._client, self._message, self._seconds = client, message, seconds
        self._end = sent + seconds
        self._lost = lost
        self._keeper = asyncio.create_task(self._keep())

    @property
    def live(self) -> bool:
        """Whether the server still keeps the messages for this process, as far as this process can know."""
        return time.monotonic() < self._end

    async def pause(self, seconds: float) -> None:
        """Waits so long, at most until the lease ends as far as this process knows."""
        await asyncio.sleep(max(0.0, min(seconds, self._end - time.monotonic())))

    def close(self) -> None:
        """Ends the extensions."""
        self._keeper.cancel()

    async def _keep(self) -> None:
        pause = self._seconds / SHARE
        await asyncio.sleep(pause)
        while self.live:
            sent = time.monotonic()
            try:
                await asyncio.wait_for(self._client.extend(self._message, self._seconds), self._end - sent)
            except LeaseLost:
                break
            except Exception as error:      # tried again until it has ended, and then it counts as lost
                log.warning("queue %s: the lease cannot be extended: %s", self._message.queue,
                            str(error) or type(error).__name__)
                await asyncio.sleep(max(0.0, min(1.0, self._end - time.monotonic())))
                continue
            self._end = sent + self._seconds
            await asyncio.sleep(pause)
        self._end = min(self._end, time.monotonic())
        self._lost()
