"""Statements of the control plane's routes: each in a transaction of its own, rows as named tuples."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from fastapi import Request
from psycopg.rows import namedtuple_row

from .http.answer import Refusal


async def seed_of(request: Request) -> bytes:
    """Returns the seed for the spelling of queue and partition ids. Pages spell ids here: in the database that would
    take longer than all their other work."""
    return await request.app.state.control.reader.seed()


async def rows(request: Request, query: str, *values: Any, prepare: bool | None = None, **named: Any) -> list[Any]:
    """Returns all rows of a statement, as named tuples, in a transaction of its own. prepare=False plans for these
    values, as a range of time needs it."""
    return await fetched(request.app.state.control.pool, query, named or values, prepare)


async def fetched(pool: Any, query: str, values: Any, prepare: bool | None = None) -> list[Any]:
    """Returns all rows of a statement of a given pool, as `rows` does."""
    async with pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
        return await (await cursor.execute(query, values, prepare=prepare)).fetchall()


@contextmanager
def in_parts(done: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Wraps the work of a request in several transactions, one after the other. An error answer then says that part of
    the request was done, and has the members of `done`, called when the error is raised. An empty dict: nothing was
    done."""
    try:
        yield
    except (psycopg.Error, Refusal) as raised:
        error: Any = raised      # an error of psycopg gets the attribute here
        error.done = done()
        raise
