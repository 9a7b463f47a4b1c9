"""State shared by the streams of one daemon in the control plane: connections, and the order of calls. Cycles belong to
the core."""
from __future__ import annotations

from typing import Any

from ..postgres.conninfo import HOT_PLANS, with_options
from ..settings.model import Settings
from .database import fetched
from .fair_semaphore import FairSemaphore
from .pulse import Pool, Pulse


class Streams:
    """Calls of streams. Requires `open` and `close` on the same running loop. Connections are opened at the first
    stream."""

    def __init__(self, settings: Settings, conninfo: str, pulse: Pulse):
        turns = {job: getattr(settings, f"queen_streams_{job}_max_concurrent") * settings.num_workers
                 for job in ("register", "state_get")}
        self.registering, self.reading = (FairSemaphore(one, max(1, one - 1)) for one in turns.values())
        self.pool = Pool(
            pulse, with_options(conninfo, HOT_PLANS), min_size=0,
            max_size=max(2, min(sum(turns.values()), settings.db_pool_size // 10)), open=False,
            timeout=settings.queend_patience_ms / 1000, kwargs={"prepare_threshold": 1}, reconnect_timeout=0,
            name="queend-streams")

    async def open(self) -> None:
        await self.pool.open()

    async def close(self) -> None:
        await self.pool.close()

    async def all(self, query: str, *values: Any) -> list[Any]:
        return await fetched(self.pool, query, values)
