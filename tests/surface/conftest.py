"""A daemon, and sessions of programs that speak SQL to its database."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from support.daemon import Daemon
from support.odd import made_odd


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


@pytest.fixture
def connect() -> Iterator[Callable[[str], Sql]]:
    """Opens sessions on a database; all are closed at the end of the test."""
    opened: list[Sql] = []

    def open_one(conninfo: str) -> Sql:
        opened.append(Sql(conninfo))
        return opened[-1]

    yield open_one
    for one in opened:
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
