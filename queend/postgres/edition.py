"""The edition of a database's functions, a number that only grows, and the oldest edition whose daemons they serve.

Both stand in sql/function/edition.sql and are installed with the functions, in one transaction
(docs/inside/decisions/versions.md).
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import psycopg

NUMBERS = re.compile(r"^\s*SELECT (\d+), (\d+)\s*$", re.M)


class Edition(NamedTuple):
    """An edition. number 0: functions of versions before editions existed."""

    number: int = 0
    serves: int = 0

    def serves_daemon(self, other: Edition) -> bool:
        """Returns whether a daemon of that edition can work with these functions."""
        return self.serves <= other.number <= self.number


def edition_in(folder: Path) -> Edition:
    """Returns the edition of these SQL files."""
    path = folder / "function" / "edition.sql"
    if not path.exists():
        return Edition()
    found = NUMBERS.search(path.read_text())
    assert found, f"{path} has no numbers"
    return Edition(int(found[1]), int(found[2]))


def edition_of(connection: psycopg.Connection) -> Edition:
    """Returns the edition of the database."""
    if connection.execute("SELECT to_regprocedure('queend.edition()')").fetchone() == (None,):
        return Edition()
    found = connection.execute("SELECT edition, serves FROM queend.edition()").fetchone()
    assert found
    return Edition(*found)
