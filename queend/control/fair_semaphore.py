"""A semaphore that is shared fairly between client addresses.

A plain semaphore serves in order of arrival: an address that asks 64 times is served 64 times before the next one.
"""
from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextvars import ContextVar

Share = tuple[str, bool]
DAEMON: Share = ("", True)      # work of the daemon, which no client asked for
# Whose request the running task serves: the client's address, and whether the request may need the database
# (bridge.share_of).
SHARE: ContextVar[Share] = ContextVar("share", default=DAEMON)


class FairSemaphore:
    """Held by `size` tasks at a time, by at most `each` of one share. Shares that wait take turns; the tasks of a share
    are served in order. Work of the daemon takes its turn as the others do, but may hold all of the semaphore."""

    def __init__(self, size: int, each: int):
        self.size, self.each = size, each
        self._held: Counter[Share] = Counter()
        self._waiting: dict[Share, deque[asyncio.Future]] = {}      # in the order of their turns

    def waiting(self, share: Share | None = None) -> int:
        """Returns how many tasks wait, all or those of a share."""
        return sum(map(len, self._waiting.values())) if share is None else len(self._waiting.get(share, ()))

    async def acquire(self, timeout_s: float | None = None) -> Share:
        """Returns the share of the running task, for `release`. Raises TimeoutError after `timeout_s` seconds."""
        share = SHARE.get()
        if self._has_room(share):      # others wait only while there is none, or for the bound of their share
            self._held[share] += 1
            return share
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(share, deque()).append(turn)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():      # its turn came in the same moment
                self.release(share)
            elif turn in self._waiting.get(share, ()):
                self._waiting[share].remove(turn)
                if not self._waiting[share]:
                    del self._waiting[share]
            raise
        return share

    def release(self, share: Share) -> None:
        self._held[share] -= 1
        if not self._held[share]:
            del self._held[share]
        while following := next(filter(self._has_room, self._waiting), None):
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns      # behind the others
            if not turn.done():
                self._held[following] += 1
                turn.set_result(None)

    def _has_room(self, share: Share) -> bool:
        return self._held.total() < self.size and (share == DAEMON or self._held[share] < self.each)

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *what: object) -> None:
        self.release(SHARE.get())
