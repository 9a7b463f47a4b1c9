"""What the routes of the control plane ask the database."""
from __future__ import annotations

from typing import Any

from fastapi import Request
from psycopg.rows import namedtuple_row

QUEUE_MODE = "__QUEUE_MODE__"      # the group of consumers that name none


async def seed_of(request: Request) -> bytes:
    """What ids of queues and partitions are spelled with. Pages spell them here: the database would take longer for it than for all else they show."""
    return await request.app.state.control.reader.seed()


async def rows(request: Request, query: str, *values: Any, prepare: bool | None = None) -> list[Any]:
    """All rows of a statement, as named tuples, on a connection of the pool, in a transaction of its own. prepare: False where the plan
    is to be made for these values, as for a range of time."""
    async with request.app.state.control.pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        return await (await cursor.execute(query, values, prepare=prepare)).fetchall()
