"""Reads of the log that wait: one address leaves room for the others."""
from __future__ import annotations

import asyncio

from psycopg_pool import AsyncConnectionPool
from support.postgres import Postgres

from queend.control.fair_semaphore import SHARE, Share
from queend.control.long_reads import PARTITIONS_MOST, READS_MOST, Heads, Holds

ONE, OTHER = ("127.0.0.1", True), ("127.0.0.2", True)


def heads(number: int) -> Heads:
    return {("q", str(partition)): 0 for partition in range(number)}


def waiting(conninfo: str, asked: list[tuple[Share, int]]) -> list[bool]:
    """Begins these reads, each for a number of partitions. Returns which of them wait."""
    async def run() -> list[bool]:
        async with AsyncConnectionPool(conninfo, min_size=1, max_size=1, open=False,
                                       kwargs={"autocommit": True}) as pool:
            holds, tasks = Holds(pool), []

            async def read(share: Share, number: int) -> bool:
                SHARE.set(share)
                reading = asyncio.create_task(holds.wait(heads(number), asyncio.get_running_loop().time() + 100))
                await asyncio.sleep(0)
                waits = not reading.done()
                await reading
                return waits

            for share, number in asked:
                tasks.append(asyncio.create_task(read(share, number)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)      # all have begun
            holds.release()
            return await asyncio.gather(*tasks)

    return asyncio.run(run())


def test_partitions(postgres: Postgres) -> None:
    quarter = PARTITIONS_MOST // 4
    assert waiting(postgres.database(), [(ONE, quarter)] * 4 + [(OTHER, 1), (OTHER, quarter)]) == [
        True, True, True, False, True, False]


def test_reads(postgres: Postgres) -> None:
    most = READS_MOST * 3 // 4
    assert waiting(postgres.database(), [(ONE, 1)] * (most + 1) + [(OTHER, 1)]) == [True] * most + [False, True]
