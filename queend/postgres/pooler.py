"""Detects a pooler between the daemon and PostgreSQL, and whether it keeps sessions whole.

Settings, prepared statements and advisory locks of the daemon belong to sessions. PgBouncer with `pool_mode = session`
keeps one server connection for each of ours, as long as it lasts. In its other modes every transaction gets any
connection: plans would be made without our settings, and two daemons could both remove old messages.
"""
from __future__ import annotations

import psycopg

from . import session

PID = "SELECT pg_backend_pid()"
REFUSED = ("a connection pooler between daemon and PostgreSQL shares server connections between transactions ({}). The "
           "daemon requires its own sessions: set pool_mode = session for its database (docs/postgresql.md), or "
           "connect directly")


class PoolerError(RuntimeError):
    """A pooler shares our sessions; the message is for the operator."""


async def check(conninfo: str) -> bool:
    """Returns True if there is a pooler that keeps sessions whole. Raises PoolerError if it does not, psycopg.Error if
    no server answers."""
    one = await session.AsyncConnection.connect(conninfo, autocommit=True)
    try:
        mine = await _pid(one)
        if mine == one.info.backend_pid:
            return False      # what the server reported at the start is true: there is no pooler
        other = await session.AsyncConnection.connect(conninfo, autocommit=True)
        try:
            # While `one` rests, a sharing pooler gives `other` the server connection that `one` used last. A pooler
            # that deals them in turn gives `one` another one afterwards.
            try:
                await other.execute("BEGIN")
            except psycopg.Error as error:
                raise PoolerError(REFUSED.format(str(error).strip())) from None
            if await _pid(other) == mine or await _pid(one) != mine:
                raise PoolerError(REFUSED.format("pool_mode = transaction"))
            await other.execute("ROLLBACK")
        finally:
            await other.close()
    finally:
        await one.close()
    return True


async def _pid(connection: psycopg.AsyncConnection) -> int:
    ((pid,),) = await session.rows(connection, PID)
    return pid
