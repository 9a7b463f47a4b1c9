"""Declared options of ephemeral queues: rows of queend.ephemeral, which every daemon reads once a minute and applies to
its own queues. Their messages are in the memory of the core only."""
from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from ..postgres import session
from .running import Running

EVERY_S = 60.0
AGAIN_S = 1.0      # while the database is away
# Defaults, by the names of the wire. The core has the same (ephemeral/stripe).
DEFAULTS: dict[str, Any] = {"maxBytes": 16 << 20, "maxLength": 10_000, "policy": "reject", "ttlSeconds": 0,
                            "leaseSeconds": 30, "retryLimit": 5, "windowBuffer": {"ms": 0, "count": 0}}
READ = "SELECT queue, options FROM queend.ephemeral ORDER BY queue"
SET = """INSERT INTO queend.ephemeral AS e (queue, options, declared_at)
         VALUES (%(queue)s, jsonb_strip_nulls(%(options)s), queend.now_us())
         ON CONFLICT (queue) DO UPDATE SET options = jsonb_strip_nulls(e.options || %(options)s),
                                           declared_at = EXCLUDED.declared_at
         RETURNING options"""
FORGET = "DELETE FROM queend.ephemeral WHERE queue = %s RETURNING queue"


def full(options: dict[str, Any]) -> dict[str, Any]:
    """Returns all options in force, in the order of the wire."""
    given = {name: value for name, value in options.items() if value is not None}
    return {**DEFAULTS, **given, "windowBuffer": {**DEFAULTS["windowBuffer"], **given.get("windowBuffer", {})}}


def flat(options: dict[str, Any]) -> tuple[Any, ...]:
    """Returns options as the core takes them."""
    every = full(options)
    return (*(every[name] for name in ("maxBytes", "maxLength", "ttlSeconds", "leaseSeconds", "retryLimit")),
            every["windowBuffer"]["ms"], every["windowBuffer"]["count"], every["policy"] == "dropOldest")


class Declarations(Running):
    """The background service. Requires `open` and `close` on the same running loop."""

    def __init__(self, core: Any, pool: AsyncConnectionPool):
        self.core, self.pool = core, pool
        self._changes = 0      # made here: a read that began before is out of date
        self.known: set[str] = set()

    async def declare(self, queue: str, options: dict[str, Any]) -> dict[str, Any] | None:
        """Stores options, merges them with those that are stored, and applies them. Returns all options in force; None
        if this daemon has no room for the queue: nothing is stored then."""
        async with self.pool.connection() as connection, connection.transaction() as changed:
            ((merged,),) = await session.rows(connection, SET, queue=queue, options=Jsonb(options))
            if not self.core.ephemeral_configure(queue.encode(), flat(merged)):
                raise psycopg.Rollback(changed)
            self._changes += 1
            self.known.add(queue)
            return full(merged)
        return None

    async def forget(self, queue: str) -> bool:
        """Deletes the options of a queue. Returns whether it had been declared."""
        async with self.pool.connection() as connection:
            gone = await session.rows(connection, FORGET, queue)
        self._changes += 1
        self.known.discard(queue)
        return bool(gone)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                self._done("ephemeral_unread")
                pause = EVERY_S
            except psycopg.Error as error:
                self._failed("ephemeral_unread", error)
                pause = AGAIN_S
            await self._rest(pause)

    async def _look(self) -> None:
        before = self._changes
        async with self.pool.connection() as connection:
            rows = dict(await session.rows(connection, READ))
        if before != self._changes:
            return
        for queue, options in rows.items():
            self.core.ephemeral_configure(queue.encode(), flat(options))
        for queue in self.known - rows.keys():
            self.core.ephemeral_configure(queue.encode(), None)
        self.known = set(rows)
