"""A daemon, and sessions of programs that speak SQL to its database."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from support.daemon import Daemon
from support.odd import made_odd
from support.sessions import reset


class Sql:
    """One session. Commits each statement unless a test opens a transaction."""

    def __init__(self, conninfo: str):
        self.connection = psycopg.connect(conninfo, autocommit=True, row_factory=namedtuple_row)

    def rows(self, query: str, *values: object) -> list:
        cursor = self.connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: object):
        return self.rows(query, *values)[0][0]

    def transaction(self):
        return self.connection.transaction()


@pytest.fixture(scope="module")
def rested() -> Iterator[dict[str, list[Sql]]]:
    """Sessions of tests of the module that have ended, by their connection string: a new one plans all anew."""
    sessions: dict[str, list[Sql]] = {}
    yield sessions
    for one in sum(sessions.values(), []):
        one.connection.close()


@pytest.fixture
def connect(rested: dict[str, list[Sql]]) -> Iterator[Callable[[str], Sql]]:
    """Opens sessions on a database, or hands out those of tests before, which have been reset."""
    opened: list[tuple[str, Sql]] = []

    def open_one(conninfo: str) -> Sql:
        free = rested.setdefault(conninfo, [])
        opened.append((conninfo, free.pop() if free else Sql(conninfo)))
        return opened[-1][1]

    yield open_one
    for conninfo, one in opened:
        if reset(one.connection):
            rested[conninfo].append(one)
        else:
            one.connection.close()


@pytest.fixture(scope="module", params=["as made", "odd settings"])
def alone(request, postgres) -> str:
    """A database with queend's schema and no daemon: as it was made, and with ODD settings."""
    conninfo = postgres.database()
    return made_odd(postgres, conninfo) if request.param == "odd settings" else conninfo


@pytest.fixture
def sql(connect, alone: str) -> Sql:
    return connect(alone)


@pytest.fixture
def beside(connect, daemon: Daemon) -> Sql:
    """A session on the database of the running daemon."""
    return connect(daemon.conninfo)
