"""The database at the start of the daemon: waits for it, and brings it to the schema of this version."""
from __future__ import annotations

import asyncio
import contextlib
import socket
import time

import psycopg
from psycopg.conninfo import conninfo_to_dict

from .. import log
from .._core import refusal
from ..postgres import pooler, session
from ..postgres.identity import identity_of
from ..postgres.migrate import MigrationBusy, MigrationError, editions, migrate
from ..services.surroundings import surroundings

REFUSES = "PostgreSQL refuses this daemon"
LOCKS_WAIT_S = 5.0       # how long a migration may wait for its locks before the daemon serves without the database
POOLER_S = 20.0
AGAIN_S = 60.0           # between two lines that say why the database cannot be used


class StartError(RuntimeError):
    """The daemon cannot start; the message is for the operator."""


def refusal_of(conninfo: str, reason: str) -> str | None:
    """Returns a sentence with `reason` if every attempt will fail until the configuration changes; None if a later
    attempt may succeed. Blocks."""
    address = session.parted(conninfo)[0]
    words = conninfo_to_dict(address)
    hosts = [] if words.get("hostaddr") else [
        one for one in str(words.get("host") or "").split(",") if one and one[0] not in "/@"]
    unknown = [host for host in hosts if _unknown(host)]
    if unknown:
        return (f"cannot connect to PostgreSQL: {reason}; check the host name in PG_HOST or QUEEND_DSN"
                if len(unknown) == len(hosts) else None)
    return f"{REFUSES}: {reason}" if refusal(address, 5000) else None


def _unknown(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        return error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return False


class DatabaseStart:
    """The database that a connection string names. unreachable: why it could not be reached, as last logged."""

    def __init__(self, target: str):
        self.target, self.unreachable = target, ""

    async def reach(self, stop: asyncio.Event, wait_s: float, patient: bool = False) -> str | None:
        """Brings the database to the schema of this version and returns its identity. None: it could not be reached
        within wait_s, or `stop` was set.

        patient: waits even if the database refuses us, which is logged again every minute; otherwise that is a
        StartError.
        """
        deadline, told = time.monotonic() + wait_s, 0.0
        while not stop.is_set():
            try:
                if await asyncio.wait_for(pooler.check(self.target), POOLER_S):
                    log.line("info", "pooler", "PostgreSQL sessions are not shared")
                if applied := await asyncio.to_thread(migrate, self.target, patience_s=LOCKS_WAIT_S):
                    log.line("info", "migrated", applied=applied)
                ours, theirs = await asyncio.to_thread(editions, self.target)
                if theirs.number > ours.number:
                    log.line("info", "database_newer", "the SQL functions of the database have edition "
                                                       f"{theirs.number}; they serve this daemon's edition "
                                                       f"{ours.number} and are used unchanged")
                for one in await asyncio.to_thread(surroundings, self.target):
                    log.line("error" if one.level == "critical" else "warn", one.event,
                             f"{one.title}: {one.seen}. {one.advice}")
                return await asyncio.to_thread(identity_of, self.target)
            except (psycopg.Error, TimeoutError, MigrationBusy) as error:
                waits, read_only = isinstance(error, MigrationBusy), False
                reason = session.told(error) or "no answer; a connection pooler may have no free connection"
                if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):      # a standby, until it is promoted
                    waits, read_only, reason = True, True, f"the database is read-only: {reason}"
                elif not isinstance(error, (psycopg.OperationalError, psycopg.errors.InsufficientPrivilege,
                                            TimeoutError, MigrationBusy)):
                    raise StartError(f"the database is not usable: {reason}; it is partly restored, or was changed by "
                                     "hand") from None
                refused = None
                if isinstance(error, psycopg.errors.InsufficientPrivilege):
                    refused = f"{REFUSES}: {reason}"
                elif not waits:
                    refused = await asyncio.to_thread(refusal_of, self.target, reason)
                if refused and not patient:
                    raise StartError(refused) from None
                why = reason if waits else f"cannot connect to PostgreSQL: {reason}"
                if why != self.unreachable or time.monotonic() - told >= AGAIN_S:
                    log.line("error" if refused or read_only else "warn",
                             "migration_waits" if waits else "database_unreachable", reason)
                    told = time.monotonic()
                self.unreachable = why
                if time.monotonic() >= deadline:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 1.0)
            except (MigrationError, pooler.PoolerError) as error:
                raise StartError(str(error)) from None
        return None
