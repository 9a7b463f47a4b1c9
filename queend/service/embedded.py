"""A PostgreSQL of our own: created, started and stopped by the daemon, reachable only through a socket in its data folder.

Layout of the data folder: `lock` (held while a daemon uses it), `pg/` (the cluster, mode 0700, owned by the account it
runs as; its socket lies there too), `postgres.log`.

Every program inherits the opened data folder and gets `/proc/self/fd/N` as its path. The kernel resolves that link without
walking the real path, so the account needs no access to the folders above (a checkout below /root stays closed), and a path
longer than a socket address allows does no harm.
"""
from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psycopg

from . import binaries
from .binaries import Account, Binaries, BinariesError

ROLE = "postgres"  # not "queend": the schema of that name would silently enter its search path
DATABASE = "postgres"
PORT = "5432"  # only names the socket: nothing listens on a network
# sun_path holds 108 bytes; libpq appends "/.s.PGSQL.5432" and a zero.
LONGEST_SOCKET_FOLDER = 108 - len("/.s.PGSQL.5432") - 1
LOG_KEPT_BYTES = 16 << 20
PR_SET_PDEATHSIG = 1
# Nothing of ours: PG… variables, a preloaded library or a locale would change what the server does.
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C", "TZ": "UTC"}
_libc = ctypes.CDLL(None)  # loaded before any fork


class EmbeddedError(RuntimeError):
    """The cluster cannot be created or started; the message names the reason and the log."""


class Embedded:
    """One cluster below `folder`; `start` and `stop` may alternate. Not thread safe.

    settings: further server settings (name → value), put on the server's command line after ours.
    major: PostgreSQL major version for a new cluster; None takes what is found first.
    """

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, major: int | None = None):
        self.folder = Path(folder).resolve()
        self.data = self.folder / "pg"
        self.log = self.folder / "postgres.log"
        self.settings = settings or {}
        self.major = major
        self._lock: int | None = None
        self._opened: int | None = None
        self._server: subprocess.Popen | None = None

    def start(self, timeout: float = 60.0) -> str:
        """Creates the cluster if there is none, starts it and returns its conninfo. Raises EmbeddedError."""
        self._take_lock()
        try:
            self._prepare(timeout)
            self._launch(timeout)
        except BinariesError as error:
            self.stop()
            raise EmbeddedError(str(error)) from error
        except BaseException:
            self.stop()
            raise
        return self.conninfo()

    def conninfo(self) -> str:
        """How to connect, valid in this process."""
        return f"host={self._socket_folder()} port={self.settings.get('port', PORT)} user={ROLE} dbname={DATABASE}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._server.pid if self._server and self._server.poll() is None else None

    def exited(self) -> bool:
        """True if the server was started and is gone without our asking."""
        return self._server is not None and self._server.poll() is not None

    def restart(self, timeout: float = 60.0) -> None:
        """Starts the server again after it went away."""
        self._stop_leftovers(timeout)
        self._launch(timeout)

    def stop(self, timeout: float = 30.0) -> None:
        """Fast shutdown (sessions are ended, a checkpoint is written); immediate after `timeout` seconds."""
        if self._server is not None:
            if self._server.poll() is None:
                self._server.send_signal(signal.SIGINT)
                try:
                    self._server.wait(timeout)
                except subprocess.TimeoutExpired:
                    self._server.send_signal(signal.SIGQUIT)
                    self._server.wait()
            self._server = None
        for fd in (self._opened, self._lock):
            if fd is not None:
                os.close(fd)
        self._opened = self._lock = None

    # -- steps ------------------------------------------------------------------------------------------------------

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(fd, 20).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise EmbeddedError(f"{self.folder} is in use by another queend (pid {owner}); set QUEEND_DATA_DIR") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._lock = fd

    def _prepare(self, timeout: float) -> None:
        self.account: Account = binaries.account_for(self.data)
        if (self.folder / "created").exists():
            self._open()
            self._stop_leftovers(timeout)
            major = int((self.data / "PG_VERSION").read_text())
            self.programs: Binaries = binaries.find(self.account, major)
            return
        if self.data.exists() and any(self.data.iterdir()):
            if not (self.folder / "creating").exists():
                raise EmbeddedError(f"{self.data} exists and was not made by queend; set QUEEND_DATA_DIR")
            shutil.rmtree(self.data)  # an interrupted initdb: nothing was ever stored in it
        self.programs = binaries.find(self.account, self.major)
        self._create()

    def _create(self) -> None:
        (self.folder / "creating").touch()
        self.data.mkdir(mode=0o700, exist_ok=True)
        if not self.account.is_self:
            os.chown(self.data, self.account.uid, self.account.gid)
        here = self._open()
        done = subprocess.run(
            [self.programs.folder / "initdb", "-D", here, "-U", ROLE, "-A", "peer", "--encoding=UTF8", "--locale=C"],
            cwd="/", pass_fds=[self._opened], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            **self.account.become())
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed in {self.data}:\n{done.stderr.strip()}")
        (self.folder / "creating").rename(self.folder / "created")

    def _open(self) -> str:
        """Opens the data folder and returns the path by which every program that inherits it finds it."""
        if self._opened is None:
            self._opened = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._opened}"

    def _launch(self, timeout: float) -> None:
        self._write_access()
        if self.log.exists() and self.log.stat().st_size > LOG_KEPT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        command: list[str | Path] = [self.programs.folder / "postgres", "-D", self._open()]
        for name, value in {**server_settings(self.programs.major), **self.settings}.items():
            command += ["-c", f"{name}={value}"]
        with open(self.log, "ab") as log:
            begin = log.tell()
            # A session of its own: Ctrl-C in the terminal must reach the daemon first, which drains and then stops us.
            self._server = subprocess.Popen(command, cwd="/", pass_fds=[self._opened], env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True, preexec_fn=_die_with_parent, **self.account.become())
        self._await_ready(begin, timeout)

    def _await_ready(self, log_begin: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        assert self._server is not None
        while True:
            try:
                psycopg.connect(self.conninfo(), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                reason = str(error)
            if self._server.poll() is not None or time.monotonic() > deadline:
                with open(self.log, "rb") as log:
                    log.seek(log_begin)
                    told = log.read()[-4000:].decode(errors="replace").strip()
                raise EmbeddedError(f"PostgreSQL did not start in {self.data}: {reason}\n{told}")
            time.sleep(0.01)

    def _write_access(self) -> None:
        """Who may connect: the account it runs as and the account of the daemon, told by the kernel, no passwords."""
        self._write("pg_hba.conf", "local all all peer map=queend\n")
        users = {self.account.name, binaries.name_of(os.geteuid())}
        self._write("pg_ident.conf", "".join(f'queend "{user}" {ROLE}\n' for user in sorted(users)))

    def _write(self, name: str, text: str) -> None:
        path = self.data / name
        if path.read_text() != text:
            path.write_text(text)  # in place: owner and mode stay

    def _stop_leftovers(self, timeout: float) -> None:
        """Ends what a killed daemon left: our lock proves that no other daemon uses this cluster."""
        deadline = time.monotonic() + timeout
        asked = False
        while pids := _processes_in(self.data):
            postmaster = _postmaster(self.data)
            if postmaster in pids and not asked:
                os.kill(postmaster, signal.SIGINT)
                asked = True
            if time.monotonic() > deadline:
                raise EmbeddedError(f"processes {pids} still use {self.data}")
            time.sleep(0.01)
        # Nobody is in there: a file that is left names a process that died, or by now a stranger.
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (self.data / name).unlink(missing_ok=True)

    def _socket_folder(self) -> str:
        path = str(self.data)
        if len(os.fsencode(path)) <= LONGEST_SOCKET_FOLDER and "," not in path:
            return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
        self._open()
        return f"/proc/{os.getpid()}/fd/{self._opened}"


def server_settings(major: int = binaries.OLDEST) -> dict[str, str]:
    """Server settings that fit a queue: every commit durable, few checkpoints, no parallel plans, local socket only."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The more of the log lies in these buffers, the less vacuum waits: pages it has to fetch go through a small ring, and each turn of it waits for a commit.
    buffers = max(64, min(memory // 8, 4 << 30) >> 20)
    return {
        "listen_addresses": "",
        "unix_socket_directories": ".",
        "port": PORT,
        "max_connections": "200",
        "shared_buffers": f"{buffers}MB",
        "synchronous_commit": "on",
        "fsync": "on",
        "full_page_writes": "on",
        # A checkpoint makes the next write of every page a full page of WAL: seldom is cheap.
        "checkpoint_timeout": "15min",
        "max_wal_size": "4GB",
        # What a checkpoint's time of full speed needs is kept: a WAL file that must be made, not renamed, holds up a commit for 40 ms.
        "min_wal_size": "2GB",
        "checkpoint_completion_target": "0.9",
        "wal_buffers": "16MB",
        "autovacuum_naptime": "15s",
        "autovacuum_vacuum_cost_limit": "2000",
        "autovacuum_work_mem": "256MB",  # 45 million dead rows in one pass over the indexes (version 15 and 16; later ones need less), taken only while a vacuum needs it
        **({"vacuum_buffer_usage_limit": "128MB"} if major >= 16 else {}),  # the ring
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "random_page_cost": "1.1",
        "log_checkpoints": "off",
        "log_line_prefix": "%m [%p] ",
    }


def _die_with_parent() -> None:
    """A killed daemon takes its PostgreSQL along (fast shutdown), so that nothing is left running unattended."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def _postmaster(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _processes_in(data: Path) -> list[int]:
    """Ids of the PostgreSQL processes that run inside `data`."""
    here = data.stat()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                there = os.stat(f"/proc/{entry.name}/cwd")
                program = Path(f"/proc/{entry.name}/comm").read_text().strip()
            except OSError:
                continue
            if program == "postgres" and (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                found.append(int(entry.name))
    return found
