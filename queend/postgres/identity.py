"""The identity of a database, by which the failover buffer knows the database that its messages belong to."""
from __future__ import annotations

from . import session

IDENTITY = """
SELECT encode(sha256(c.seed || int8send(s.system_identifier) || int8send(d.oid::bigint)), 'hex'),
    encode(sha256(c.seed), 'hex') FROM queend.catalog c, pg_control_system() s, pg_database d
 WHERE d.datname = current_database()"""


class Identity(str):
    """The identity of a database; each copy has another. lineage: common to all copies; empty: not known."""

    lineage: str

    def __new__(cls, text: str, lineage: str = "") -> Identity:
        self = super().__new__(cls, text)
        self.lineage = lineage
        return self


def identity_of(conninfo: str) -> Identity:
    """Returns the identity of a database, which differs for every other one, also for a copy. Raises
    psycopg.OperationalError if it cannot be reached."""
    with session.connect(conninfo, autocommit=True) as connection:
        return Identity(*connection.execute(IDENTITY).fetchone())
