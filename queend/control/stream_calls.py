"""What the streams of one daemon share: connections, turns, the names they write to; and the statement of a cycle."""
from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from psycopg_pool import AsyncConnectionPool

from .. import log, session
from .._core import read_partition_id, verdict
from ..config import Settings
from ..connect import HOT_PLANS, bounds, with_options
from .answer import FULL, Refusal, full
from .cycle import Cycle, Item, Rows
from .sealing import sealed

NAMES_MOST = 100_000
TRIES = 10          # where the names change meanwhile
UNCLEAR_TRIES = 3   # of a statement, as in core/pg/verdict.pyx
PAUSE_S = 0.02      # between two of them
VERSION = "SELECT c.version, c.seed FROM queend.catalog c"
MAKE = "SELECT queend.queues_make(%s, %s, %s)"
# a queue that it makes is not seen by the join, and not encrypted
RESOLVE = """SELECT r.partition_id, COALESCE(q.encryption_enabled, false) FROM queend.resolve(%s, %s) AS r LEFT JOIN queend.queues q ON q.id = r.queue_id
              ORDER BY r.ord"""
CYCLE = """SELECT * FROM queend.stream_cycle(%s, %s, %s, %b::text[], %b::text[], %b::double precision[], %b::text[],
    %s::int[], %s::int[], %s::int[], %s::int[], %s::smallint[], %s::uuid[], %s::uuid[], %b::bytea[], %b::bytea[], %b::bytea[],
    %s, %b, %s, %s, %s, %s, %s)"""
BUSY = Refusal(503, "Others are changing these queues; try again", "busy", {"retry-after": "1"})
LOST = "The database did not answer; whether the cycle took effect is not known"


@dataclass
class Done:
    """What came of a cycle. error: why nothing was done; pushed: the answer's push_results."""

    queue: str | None = None
    error: str | None = None
    released: bool | None = None
    pushed: list[dict[str, Any]] = field(default_factory=list)


def _stored(item: Item) -> Item:
    payload, key = sealed(item.queue, item.payload)
    return replace(item, payload=payload, seal=key)


async def _alive(connection: psycopg.AsyncConnection) -> bool:
    """Before anything is asked that could be done twice: is the server still there? A connection that is not goes out of the pool."""
    try:
        await AsyncConnectionPool.check_connection(connection)
    except psycopg.OperationalError:
        return False
    return True


def message_uuid(created_at: int, partition: int, offset: int) -> str:
    """The id of a message on the wire; as queend.message_id."""
    return str(uuid.UUID(int=created_at // 1000 << 80 | (0x7000 | offset >> 30 & 0xFFF) << 64 | 1 << 63 | (offset & 0x3FFFFFFF) << 32 | partition))


class Streams:
    """`open` and `close` on the same running loop. Connections are opened when a stream comes."""

    def __init__(self, settings: Settings, core: Any, conninfo: str):
        turns = {job: getattr(settings, f"queen_streams_{job}_max_concurrent") * settings.num_workers
                 for job in ("register", "cycle", "state_get")}
        self.registering, self.cycling, self.reading = (asyncio.Semaphore(one) for one in turns.values())
        self.pool = AsyncConnectionPool(with_options(conninfo, HOT_PLANS, bounds(settings)), min_size=0,
                                        max_size=max(2, min(sum(turns.values()), settings.db_pool_size // 10)),
                                        open=False, connection_class=session.AsyncConnection,
                                        timeout=settings.queend_patience_ms / 1000,
                                        kwargs={"autocommit": True, "prepare_threshold": 1},
                                        reconnect_timeout=0, name="queend-streams")
        self.core = core
        self.patience_s = settings.queend_patience_ms / 1000
        self.version, self.seed = 0, b""
        # (queue, partition) → number, is the queue encrypted; as of `version`
        self.names: dict[tuple[str, str], tuple[int, bool]] = {}

    async def open(self) -> None:
        await self.pool.open()

    async def close(self) -> None:
        await self.pool.close()

    async def all(self, query: str, *values: Any) -> list[Any]:
        async with self.pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
            return await (await cursor.execute(query, values)).fetchall()

    async def one(self, query: str, *values: Any) -> Any:
        return (await self.all(query, *values))[0]

    async def cycle(self, query: uuid.UUID, partition: int, asked: Cycle, subject: str | None) -> Done:
        """Does a cycle, or tells in `error` why nothing was done. Refuses with 503 where that cannot be known."""
        asked_at = time.monotonic()
        errors = stale = 0
        while stale < TRIES:
            try:
                async with self.pool.connection() as connection:
                    if not await _alive(connection):
                        stale += 1
                        continue
                    version, parts = await self._numbers(connection, asked.items)
                    rows = Rows([_stored(item) if encrypted else item for item,
                                 (_, encrypted) in zip(asked.items, parts, strict=True)],
                                [number for number, _ in parts], subject)
                    ack = asked.ack
                    values = (version, query, partition, list(asked.sets), [value for value, _ in asked.sets.values()],
                              [end for _, end in asked.sets.values()],
                              list(asked.unsets), *rows.arguments(), asked.group, ack and ack.record, ack and ack.lease,
                              ack.count if ack else 0,
                              ack.dead if ack else False, ack and ack.error, asked.release)
                    async with connection.cursor(row_factory=namedtuple_row) as cursor:
                        row = await (await cursor.execute(CYCLE, values)).fetchone()
            except psycopg.Error as error:
                if error.sqlstate == FULL:
                    raise full(error) from None
                meaning = verdict(error.sqlstate)
                errors += 1
                hopeful = meaning in ("again", "away") or meaning in ("unfit", "unclear") and errors < UNCLEAR_TRIES
                if error.sqlstate is not None and hopeful and time.monotonic() - asked_at < self.patience_s:
                    await asyncio.sleep(PAUSE_S)
                    continue
                if meaning == "data":
                    log.line("error", "cycle_refused", str(error).strip())
                    return Done(error=error.diag.message_primary or "Database error")
                log.line("warn" if meaning == "away" else "error", "cycle_lost", str(error).strip())
                # the server said why, and rolled it back
                known = error.sqlstate is not None and not error.sqlstate.startswith("08")
                raise Refusal(503, error.diag.message_primary if known else LOST, "database_unavailable",
                              {"retry-after": "1"}) from None
            if row.stale is not None:
                self.names = {}
                stale += 1
                continue
            if row.error is not None:
                return Done(row.queue, row.error)
            self._tell(partition, asked, rows, row)
            return Done(row.queue, None, row.released, self._pushed(asked.items, rows, row))
        raise BUSY

    async def _numbers(self, connection: psycopg.AsyncConnection, items: list[Item]) -> tuple[int,
        list[tuple[int, bool]]]:
        """The catalogue's version and, as of it, the partition of each item and whether its queue is encrypted. What is missing is made, and stays whatever comes of the cycle."""
        wanted = list(dict.fromkeys((item.queue, item.partition) for item in items))
        if all(name in self.names for name in wanted):
            return self.version, [self.names[item.queue, item.partition] for item in items]
        version, self.seed = await (await connection.execute(VERSION)).fetchone()
        spaces = {item.queue: (item.namespace, item.task) for item in reversed(items) if item.namespace or item.task}
        if spaces:
            await connection.execute(MAKE, (list(spaces), *map(list, zip(*spaces.values(), strict=True))))
        found = await (await connection.execute(RESOLVE, tuple(map(list, zip(*wanted, strict=True))))).fetchall()
        if len(found) != len(wanted):
            raise BUSY
        known = dict(zip(wanted, found, strict=True))
        if version > self.version or len(self.names) > NAMES_MOST:
            self.names = {}
            self.version = version
        if version == self.version:
            self.names |= known
        return version, [known[item.queue, item.partition] for item in items]

    def _tell(self, partition: int, asked: Cycle, rows: Rows, row: Any) -> None:
        """The engine of this process hears of it: parked pops wake, the lease is free. Others see it within a second."""
        heads: dict[int, int] = {}
        for part, items, base in zip(rows.parts, rows.rows, row.base or (), strict=True):
            if base >= 0:
                heads[part] = max(heads.get(part, 0), base + len(items))
        acked = None if asked.ack is None else (partition, row.group_id, row.committed, row.head, row.released)
        if not self.core.told(list(heads.items()), acked):
            for queue in {item.queue for item in asked.items}:
                self.core.notify(queue)

    def _pushed(self, items: list[Item], rows: Rows, row: Any) -> list[dict[str, Any]]:
        offsets: list[list[tuple[int, int, bool]]] = []
        for number, (stored, base, at) in enumerate(zip(rows.rows, row.base or (), row.created_at or (), strict=True)):
            old, old_at = (row.dups or {}).get(str(number), ((), ()))
            here, following = [], base
            for place in range(len(stored)):
                if old and old[place] >= 0:
                    here.append((old[place], old_at[place], True))
                else:
                    here.append((following, at, False))
                    following += 1
            offsets.append(here)
        result = []
        for number, (item, (of, place)) in enumerate(zip(items, rows.places, strict=True)):
            offset, at, duplicate = offsets[of][place]
            part = rows.parts[of]
            result.append({"index": number, "transaction_id": item.transaction_id,
                           "status": "duplicate" if duplicate or number in rows.repeats else "queued",
                           "message_id": message_uuid(at, part, offset),
                           "partition_id": read_partition_id(self.seed, part),
                           "trace_id": item.trace and str(item.trace), "queueName": item.queue})
        return result
