"""A PostgreSQL of the tests' own: a cluster per version and session, a database per daemon."""
from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from queend.service.embedded import Embedded
from queend.service.migrate import migrate

from .wait import until

# No test cuts the power: what a server wrote before it was killed, the kernel has, and nobody needs to wait for the disk.
SETTINGS = {"shared_buffers": "256MB", "fsync": "off", "autovacuum_naptime": "1min"}


class Postgres:
    """One running cluster. major: its version, None takes what the daemon itself would take."""

    def __init__(self, folder: Path, major: int | None = None):
        self.cluster = Embedded(folder, SETTINGS, major)
        self.conninfo = self.cluster.start()
        self._names = (f"t{number}" for number in itertools.count(1))
        self._migrated: str | None = None

    def database(self) -> str:
        """Creates a database with queend's schema and returns how to connect to it: a copy, the migrations run once."""
        if self._migrated is None:
            self._migrated = self._create("template1")
            migrate(self._address(self._migrated))
        return self._address(self._create(self._migrated))

    def empty_database(self) -> str:
        """The same without the schema."""
        return self._address(self._create("template1"))

    def _create(self, template: str) -> str:
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def _address(self, name: str) -> str:
        return self.conninfo.replace("dbname=postgres", f"dbname={name}")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(statement)

    def restart(self) -> None:
        """Ends the server as a crash would (no checkpoint, no farewell) and starts it again."""
        with self.away():
            pass

    @contextmanager
    def away(self) -> Iterator[None]:
        """Ends the server as a crash would; it is back at the end of the block."""
        assert self.cluster.pid is not None
        os.kill(self.cluster.pid, signal.SIGQUIT)
        until(self.cluster.exited, "PostgreSQL has ended")
        try:
            yield
        finally:
            self.cluster.restart()

    def stop(self) -> None:
        """At once: nobody reads what it leaves."""
        if self.cluster.pid is not None:
            os.kill(self.cluster.pid, signal.SIGQUIT)
        self.cluster.stop()
