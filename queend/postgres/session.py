"""Sessions of PostgreSQL that set their options by a first statement, not at the start: PgBouncer refuses a start that
has `options`.

A connection string of ours carries them as libpq's `options` does (`-c name=value …`). `parted` takes them out. The
classes below connect without them and set them with the first statement, so that every user of such a string gets the
session it describes.
"""
from __future__ import annotations

import asyncio
import re
from typing import Any

import psycopg
from psycopg import waiting
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

# Operations on a whole database have no time limit.
UNHURRIED = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
STILL_S = 5.0      # time for an answer after the server's statement_timeout
WORD = re.compile(r"(?:\\.|\S)+", re.S)
SETTING = re.compile(r"(?:-c|--)([A-Za-z_][\w.$-]*)=(.*)", re.S)


def parted(conninfo: str, **more: Any) -> tuple[str, list[tuple[str, str]]]:
    """Returns the connection string without its options, and the options as (name, value) in their order. more: words
    that replace others.

    Options that are more than settings (a switch of the server's command line) stay where they are.
    """
    words = conninfo_to_dict(conninfo, **more)
    settings = read(str(words.pop("options", None) or ""))
    if settings is None:
        return make_conninfo(conninfo, **more), []
    return make_conninfo("", **words), settings


def read(options: str) -> list[tuple[str, str]] | None:
    """Parses `-c name=value --name=value …`, with a backslash before characters that do not separate words. Returns
    None if there is anything else."""
    found = []
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.S) for word in WORD.findall(options)]
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word += words.pop(0)
        match = SETTING.fullmatch(word)
        if not match:
            return None
        found.append((match[1].replace("-", "_"), match[2]))
    return found


def statement(settings: list[tuple[str, str]]) -> str:
    """Returns one statement that sets them; empty if there are none."""
    calls = ", ".join(f"set_config({_literal(name)}, {_literal(value)}, false)" for name, value in settings)
    return f"SELECT {calls}" if calls else ""


def _literal(text: str) -> str:
    return " E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def told(error: BaseException) -> str:
    """Returns the server's message, else libpq's, on one line; empty if there is none."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return on_one_line(re.sub(r"\[Errno -?\d+\] ", "", said or str(error)))


def on_one_line(text: str) -> str:
    """Joins the lines of a message, with their hints and contexts, by semicolons."""
    return "; ".join(filter(None, map(str.strip, text.splitlines())))


class Connection(psycopg.Connection[Any]):
    @classmethod
    def connect(cls, conninfo: str = "", **more: Any) -> Any:
        options = {"options": more.pop("options")} if "options" in more else {}
        rest, settings = parted(conninfo, **options)
        connection = super().connect(rest, **more)
        if settings:
            try:
                connection.cursor(row_factory=tuple_row).execute(statement(settings))      # its columns have one name
                if not connection.autocommit:
                    connection.commit()
            except BaseException:
                connection.close()
                raise
        return connection


class AsyncConnection(psycopg.AsyncConnection[Any]):
    patience: float | None = None      # s, for the answer to a statement; None: no limit
    pulse: Any = None                  # counts waits (control/pulse); None: not counted

    @classmethod
    def patience_for(cls, settings: list[tuple[str, str]]) -> float | None:
        return None

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Waits for a statement. A cancelled statement ends at once, and its connection with it: the server notices
        that (`conninfo.PAGES`). psycopg would ask the server to cancel it, by a call of libpq that waits for an
        answer and holds the interpreter meanwhile: a server that hangs would stop the whole control plane."""
        limit = asyncio.timeout(self.patience)
        if self.pulse is not None:
            self.pulse.began(limit)
        try:
            async with limit:
                return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=timeout)
        except TimeoutError:
            self.pgconn.finish()
            raise psycopg.OperationalError("the database does not answer") from None
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise
        finally:
            if self.pulse is not None:
                self.pulse.ended(limit)

    @classmethod
    async def connect(cls, conninfo: str = "", **more: Any) -> Any:
        options = {"options": more.pop("options")} if "options" in more else {}
        rest, settings = parted(conninfo, **options)
        connection = await super().connect(rest, **more)
        connection.patience = cls.patience_for(settings)
        if settings:
            try:
                await connection.cursor(row_factory=tuple_row).execute(statement(settings))
                if not connection.autocommit:
                    await connection.commit()
            except BaseException:
                await connection.close()
                raise
        return connection


class PatientConnection(AsyncConnection):
    """A connection of a pool of pages. A server that keeps its statement_timeout answers in time; one that does not
    counts as hanging, and the wait ends."""

    @classmethod
    def patience_for(cls, settings: list[tuple[str, str]]) -> float | None:
        limit = next((value for name, value in reversed(settings) if name == "statement_timeout"), "")
        return int(limit) / 1000 + STILL_S if limit.isdigit() and int(limit) else None


async def rows(connection: psycopg.AsyncConnection[Any], query: str, *values: Any, binary: bool = False,
               **named: Any) -> list[Any]:
    """Returns all rows of a statement."""
    return await (await connection.execute(query, values or named or None, binary=binary)).fetchall()


connect = Connection.connect
