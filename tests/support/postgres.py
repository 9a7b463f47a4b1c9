"""A PostgreSQL of the tests' own: a cluster per version and session, a database per daemon."""
from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from queend.postgres.embedded import Embedded
from queend.postgres.migrate import migrate

from . import prepared
from .ports import free_port
from .wait import until

# No test cuts the power: what a server wrote before it was killed, the kernel has, and nobody needs to wait for the
# disk. The daemons of one module live until its end, fourteen of some: each may have twenty connections and more.
SETTINGS = {"shared_buffers": "256MB", "fsync": "off", "autovacuum_naptime": "1min", "max_connections": "600"}
# Over TCP everybody is let in, but who is called `keeper` needs a password; a standby may follow.
BY_TCP = """\
host all keeper 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""
# Clusters lie in memory where there is room: creating a database creates 300 files, which takes 0.3 s of the processor
# on a disk (ext4 without a journal) and 0.04 s here. ROOM_BYTES have to be free in the folder, MACHINE_BYTES of the
# machine's memory.
MEMORY, ROOM_BYTES, MACHINE_BYTES = Path("/dev/shm").resolve(), 4 << 30, 8 << 30


class Reachable(Embedded):
    """A cluster that listens on a port of 127.0.0.1 besides."""

    def _write_access(self) -> None:
        super()._write_access()
        with open(self.data / "pg_hba.conf", "a") as rules:
            rules.write(BY_TCP)


class Postgres:
    """One running cluster. major: its version, None takes what the daemon itself would take. tcp: whether it listens on
    `port` of 127.0.0.1, not only in its folder. plain: it is set up as the daemon does it, not as for tests. settings:
    of the server, on top of these."""

    def __init__(self, folder: Path, major: int | None = None, tcp: bool = False, plain: bool = False,
                 **settings: object):
        self.port = free_port() if tcp else None
        self.cluster = (Reachable if tcp else Embedded)(
            folder, {**({} if plain else SETTINGS),
                     **({"listen_addresses": "127.0.0.1", "port": str(self.port)} if tcp else {}),
                     **{name: str(value) for name, value in settings.items()}}, major)
        self._prepared = not plain and not (folder / "created").exists()
        if self._prepared:
            prepared.copy(folder, major, memory())
        self.conninfo = self.cluster.start()
        self._names = (f"t{number}" for number in itertools.count(1))
        self._migrated: str | None = None
        self._made: list[str] = []

    @property
    def data(self) -> Path:
        """The folder of the cluster; its socket lies there."""
        return self.cluster.data

    @property
    def log(self) -> Path:
        return self.cluster.log

    def dsn(self, **more: object) -> str:
        """How to connect over TCP."""
        return make_conninfo(**{"host": "127.0.0.1", "port": self.port, "user": "postgres",
                                "dbname": "postgres", **more})

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, autocommit=True)

    def database(self) -> str:
        """Creates a database with queend's schema and returns how to connect to it: a copy, the migrations run once."""
        if self._migrated is None:
            self._migrated = self._create(prepared.DATABASE if self._prepared else "template1")
            if self._prepared:
                with psycopg.connect(self._address(self._migrated)) as connection:
                    connection.execute(prepared.OWN)
            else:
                migrate(self._address(self._migrated))
        return self._address(self._create(self._migrated))

    def empty_database(self) -> str:
        """The same without the schema."""
        return self._address(self._create("template1"))

    def _create(self, template: str) -> str:
        # Copied as files, not page by page through the WAL: 33 ms of the processor with its end, instead of 70 ms.
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        self._made.append(name)
        return name

    def drop_databases(self) -> None:
        """Drops the databases it created if they take memory, except the one that is copied. No daemon may run on
        them."""
        if self.data.is_relative_to(MEMORY):
            if made := [name for name in self._made if name != self._migrated]:
                with self.connect() as connection:
                    for name in made:
                        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            self._made.clear()

    def _address(self, name: str) -> str:
        return self.conninfo.replace("dbname=postgres", f"dbname={name}")

    def execute(self, statement: str, *values: object) -> list[tuple] | None:
        """One statement on a connection of its own; its rows, if it has any."""
        with self.connect() as connection:
            cursor = connection.execute(statement, *values)
            return cursor.fetchall() if cursor.description else None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """All its processes stand still meanwhile. One that the postmaster was about to start as it was stopped shows
        up later, and a list of children is whole only where none of them comes or goes: it is read until all stand."""
        main = self.cluster.pid
        assert main is not None
        children = Path(f"/proc/{main}/task/{main}/children")
        stopped = [main]
        try:
            stand(main)
            while fresh := set(map(int, children.read_text().split())) - set(stopped):
                for pid in fresh:
                    stopped.append(pid)
                    stand(pid)
            yield
        finally:
            for pid in reversed(stopped):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def halt(self, number: int = signal.SIGQUIT) -> None:
        """Ends the server. SIGQUIT: as a crash would, no checkpoint, no farewell; SIGINT: cleanly."""
        assert self.cluster.pid is not None
        os.kill(self.cluster.pid, number)
        until(self.cluster.exited, "PostgreSQL has ended")

    def resume(self) -> None:
        self.cluster.restart()

    def restart(self) -> None:
        """Ends the server as a crash would and starts it again."""
        with self.away():
            pass

    @contextmanager
    def away(self) -> Iterator[None]:
        """Ends the server as a crash would; it is back at the end of the block."""
        self.halt()
        try:
            yield
        finally:
            self.resume()

    def stop(self) -> None:
        """At once: nobody reads what it leaves."""
        if self.cluster.pid is not None:
            self.halt()
        self.cluster.stop()


@contextmanager
def running(major: int | None = None, tcp: bool = False, plain: bool = False, below: str | None = None,
            **settings: object) -> Iterator[Postgres]:
    """A cluster in a folder of its own; both are gone at the end. below: where the folder is made; without it in memory
    where there is room, unless the cluster is plain."""
    # Not below pytest's own folder, which nobody else may enter: initdb 15 walks the path as its unprivileged account.
    with tempfile.TemporaryDirectory(prefix="queend-test-", dir=below or (None if plain else memory())) as folder:
        os.chmod(folder, 0o755)
        server = Postgres(Path(folder), major, tcp, plain, **settings)
        try:
            yield server
        finally:
            server.stop()


def memory() -> Path | None:
    """Returns the folder whose files lie in memory. None if it, or the machine, has too little room."""
    try:
        room = shutil.disk_usage(MEMORY).free
        available, = re.findall(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    except (OSError, ValueError):
        return None
    return MEMORY if room >= ROOM_BYTES and int(available) << 10 >= MACHINE_BYTES else None


def stand(pid: int) -> None:
    """Stops a process, and returns when each of its threads stands or has ended. The main thread may stand before a
    worker thread does, which then still takes what its sockets have to tell."""
    def stands(task: Path) -> bool:
        with suppress(ProcessLookupError, FileNotFoundError):
            # What comes after the name, which may have anything in it: stopped, a zombie, dead.
            return task.joinpath("stat").read_text().rpartition(") ")[2][0] in "TZX"
        return True

    with suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, signal.SIGSTOP)
        until(lambda: all(map(stands, Path(f"/proc/{pid}/task").iterdir())), f"process {pid} stands")
