"""A PostgreSQL server for the tests of the wire: TCP with trust or password, stopped and started at will."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg

from queend.service import binaries

ACCESS = """\
local   all all                    trust
host    all keeper   127.0.0.1/32  scram-sha-256
host    all all      127.0.0.1/32  trust
"""
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_tests():
    """A test run that is killed leaves no server behind."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)


class Cluster:
    """Roles: postgres (trust) and keeper (password `right`)."""

    def __init__(self, major=None):
        self.folder = Path(tempfile.mkdtemp(prefix="queend-core-"))
        self.data = self.folder / "data"
        self.account = binaries.account_for(self.data)
        self.programs = binaries.find(self.account, major).folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.server = None
        self.folder.chmod(0o755)
        self.data.mkdir(mode=0o700)
        os.chown(self.data, self.account.uid, self.account.gid)
        self._run("initdb", "-D", ".", "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        (self.data / "pg_hba.conf").write_text(ACCESS)       # in place: owner and mode stay
        self.start()
        with self.connect() as c:
            c.execute("CREATE ROLE keeper LOGIN PASSWORD 'right'")
            c.execute("CREATE SCHEMA queend")
            c.execute("GRANT USAGE ON SCHEMA queend TO PUBLIC")

    def dsn(self, **more):
        """A libpq connection string over TCP."""
        return " ".join(f"{k}={v}" for k, v in {"host": "127.0.0.1", "port": self.port, "user": "postgres",
                                                "dbname": "postgres", **more}.items())

    def connect(self):
        return psycopg.connect(self.dsn(), autocommit=True)

    def execute(self, query, *args):
        """One statement on a connection of its own; its rows, if it has any."""
        with self.connect() as c:
            cursor = c.execute(query, *args)
            return cursor.fetchall() if cursor.description else None

    def start(self):
        log = open(self.folder / "log", "ab")
        self.server = subprocess.Popen(
            [self.programs / "postgres", "-D", ".", "-p", str(self.port), "-k", ".", "-c", "listen_addresses=127.0.0.1",
             "-c", "fsync=off", "-c", "max_connections=40"],
            cwd=self.data, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=end_with_tests,
            **self.account.become())
        log.close()
        while True:
            try:
                return self.connect().close()
            except psycopg.OperationalError:
                if self.server.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-3000:]) from None

    def stop(self, how="QUIT"):
        """QUIT: as after a crash; INT: sessions are told, then a clean end."""
        self.server.send_signal(signal.SIGQUIT if how == "QUIT" else signal.SIGINT)
        self.server.wait()

    def remove(self):
        self.stop("QUIT")
        shutil.rmtree(self.folder)

    def _run(self, program, *args):
        subprocess.run([self.programs / program, *args], cwd=self.data, check=True, capture_output=True,
                       **self.account.become())
