"""Reads rows of the log by offset, and makes the answer of them."""
from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from psycopg_pool import AsyncConnectionPool

from .._core import read_answer
from ..postgres import session
from .database import fetched
from .fair_semaphore import FairSemaphore
from .long_reads import Heads

AT_ONCE = 4                    # reads whose rows are in memory at a time, one less of an address; the others wait
OWN_THREAD_FROM = 128 << 10    # bytes of rows from which on the answer is made in a thread
ERRORS = {0: None, 1: "UNKNOWN_TOPIC_OR_PARTITION", 2: "OFFSET_OUT_OF_RANGE"}
READ_ROWS = "SELECT * FROM queend.read_rows(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s)"
NUMBERS = """SELECT p.id FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS u (queue, partition, ord)
     LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
     LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x
                         WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true ORDER BY u.ord"""
SEED = "SELECT seed FROM queend.catalog"


@dataclass
class Wanted:
    """An entry of a fetch."""

    queue: str
    partition: str
    offset: int
    end: int
    most: int
    number: int = 0      # only the partition of this number; 0: any partition of the name


@dataclass
class Found:
    """The result of a read: the answer's bytes, and what decides whether to wait for more."""

    answer: bytes
    records: int
    size: int                  # bytes of payload
    behind: bool               # there is more than was returned
    unreadable: bool
    failed: bool               # an entry has an error
    heads: Heads


class Reader:
    """State shared by the reads of one daemon."""

    def __init__(self, pool: AsyncConnectionPool):
        self.pool = pool
        self.turns = FairSemaphore(AT_ONCE, AT_ONCE - 1)
        self._seed: bytes | None = None

    async def seed(self) -> bytes:
        """Returns the seed for the spelling of partition ids, which never changes in a database."""
        if self._seed is None:
            async with self.pool.connection() as connection:
                ((self._seed,),) = await session.rows(connection, SEED)
        return self._seed

    async def rows(self, query: str, values: tuple) -> list[Any]:
        return await fetched(self.pool, query, values)

    async def read(self, form: str, wanted: list[Wanted], most: int, columns: tuple[str, ...] | None = None) -> Found:
        async with self.turns:
            async with self.pool.connection() as connection, connection.cursor(binary=True) as cursor:
                values = ([w.queue for w in wanted], [w.partition for w in wanted], [w.offset for w in wanted],
                          [w.most for w in wanted], most)
                await cursor.execute(READ_ROWS, values, binary=True)
                result: Any = cursor.pgresult
            numbers: list[int] = []
            # After the rows: a number is reused only after all others, so its holder now held it when the rows
            # were read.
            if columns and "id" in columns or any(w.number for w in wanted):
                names = [w.queue for w in wanted], [w.partition for w in wanted]
                numbers = [row.id or 0 for row in await self.rows(NUMBERS, names)]
            # The columns stay as PostgreSQL sent them: an object per thousand rows, none per record.
            entries: list[tuple] = []
            size, failed, heads = 0, False, {}
            for row in range(result.ntuples):
                ord_, status, head, floor, *parts = (result.get_value(row, column) for column in range(10))
                at = int.from_bytes(ord_, "big")
                if at == len(entries):
                    one, status, head = wanted[at], int.from_bytes(status, "big"), int.from_bytes(head, "big")
                    gone = one.number and numbers[at] != one.number
                    if gone:
                        status = 1
                    error = ERRORS[status]
                    entries.append((one.queue.encode(), one.partition.encode(), error and error.encode(),
                                    -1 if status == 1 else head,
                                    int.from_bytes(floor, "big"), one.offset, one.most, []))
                    failed = failed or error is not None
                    heads[one.queue, one.partition] = head
                if parts[0] is not None and not gone:
                    entries[at][7].append(tuple(parts))
                    size += len(parts[4])
            del result, cursor
            arguments: Any = (form, entries, most, columns, [w.end for w in wanted],
                         numbers if columns and "id" in columns else None)
            made: Any = read_answer(*arguments) if size < OWN_THREAD_FROM else await asyncio.to_thread(read_answer,
                *arguments)
            found: list[Any] = [*made, failed, heads]
            return Found(*found)
