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

from .wait import until


class Postgres:
    """One running cluster. major: its version, None takes what the daemon itself would take."""

    def __init__(self, folder: Path, major: int | None = None):
        self.cluster = Embedded(folder, {"shared_buffers": "256MB"}, major)
        self.conninfo = self.cluster.start()
        self._names = (f"t{number}" for number in itertools.count(1))

    def database(self) -> str:
        """Creates an empty database and returns how to connect to it."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
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
        self.cluster.stop()
