"""A daemon, and sessions of programs that speak SQL to its database."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from support.daemon import Daemon


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


@pytest.fixture(scope="module")
def alone(postgres) -> str:
    """A database with queend's schema and no daemon."""
    return postgres.database()


@pytest.fixture
def sql(connect, alone: str) -> Sql:
    return connect(alone)


@pytest.fixture
def beside(connect, daemon: Daemon) -> Sql:
    """A session on the database of the running daemon."""
    return connect(daemon.conninfo)
