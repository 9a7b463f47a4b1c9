"""How routes of the control plane ask the database: a statement in a transaction of its own, rows as named tuples."""
from __future__ import annotations

from typing import Any

from fastapi import Request
from psycopg.rows import namedtuple_row

QUEUE_MODE = "__QUEUE_MODE__"      # the group of consumers that name none


async def seed_of(request: Request) -> bytes:
    """What ids of queues and partitions are spelled with. Pages spell them here: the database would take longer for
    it than for all else they show."""
    return await request.app.state.control.reader.seed()


async def rows(request: Request, query: str, *values: Any, prepare: bool | None = None, **named: Any) -> list[Any]:
    """All rows of a statement, as named tuples, in a transaction of its own. prepare=False has the plan made for these
    values, as a range of time needs it."""
    return await fetched(request.app.state.control.pool, query, named or values, prepare)


async def fetched(pool: Any, query: str, values: Any, prepare: bool | None = None) -> list[Any]:
    """The same of any pool."""
    async with pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        return await (await cursor.execute(query, values, prepare=prepare)).fetchall()
