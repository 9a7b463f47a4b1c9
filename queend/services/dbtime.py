"""The time of the database, as this process knows it. Moments in tables are compared with it, because the machine's own
clock may be wrong, and may jump."""
from __future__ import annotations

import time
from typing import Any

from ..postgres import session


def mono_us() -> int:
    """Returns the monotonic clock in µs."""
    return time.monotonic_ns() // 1000


class DbTime:
    """Tells the time of the database. Until `hear` succeeds once, this is the machine's."""

    def __init__(self) -> None:
        self.known = False
        self._ahead = int(time.time() * 1e6) - mono_us()      # of the monotonic clock

    def now_us(self) -> int:
        return mono_us() + self._ahead

    async def hear(self, connection: Any) -> int:
        """Asks the database. Returns by how many µs its time is ahead of what was told before."""
        asked = mono_us()
        ((now,),) = await session.rows(connection, "SELECT queend.now_us()")
        before, self._ahead = self._ahead, now - (asked + mono_us()) // 2
        self.known = True
        return self._ahead - before
