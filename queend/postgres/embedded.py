"""An embedded PostgreSQL: created, started and stopped by the daemon, reachable only through a socket in its data
folder.

Layout of the data folder: `lock` (held while a daemon uses it), `pg/` (the cluster, mode 0700, owned by the account it
runs as; its socket lies there too), `postgres.log`, and `creating` or `created`: whether the cluster is complete.

A start may find everything that a kill can leave: a half-made cluster, a server that runs, recovers or ends, parts of
one, files that name ended processes. Only one daemon gets the lock; then it ends all processes that run in the folder
(postgres/stale_processes).

Every program inherits the opened data folder and gets `/proc/self/fd/N` as its path. The kernel resolves that link
without walking the real path. So the account needs no access to the folders above (a checkout below /root stays
closed), and a path longer than a socket address allows does no harm.
"""
from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from ..disk import reason, sync
from . import binaries, session, stale_processes
from .binaries import Account, Binaries, BinariesError
from .stale_processes import LeftoverError

ROLE = "postgres"  # not "queend": the schema of that name would silently enter its search path
DATABASE = "postgres"
PORT = "5432"  # only names the socket: nothing listens on a network
# sun_path holds 108 bytes; libpq appends "/.s.PGSQL.5432" and a zero.
LONGEST_SOCKET_FOLDER = 108 - len("/.s.PGSQL.5432") - 1
LOG_KEPT_BYTES = 16 << 20
LAST = re.compile(r"(?:FATAL|PANIC|error): +(.*)")
TO_A_CLIENT = ("the database system is ", "terminating ")      # the log has answers to connection attempts, too
RAW = re.compile(r"^(?!\d{4}-\d\d-\d\d |\s)(.+)", re.M)      # lines written before the server has its log format
TOLD_BYTES = 4000      # end of the log that is searched for the reason
PR_SET_PDEATHSIG = 1
OURS = {"lock", "pg", "creating", "created", "postgres.log", "postgres.log.1", "buffer"}
LOCK_S = 2.0  # how long the daemon waits for another daemon's lock
# None of the daemon's variables: PG… variables, a preloaded library or a locale would change what the server does.
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C", "TZ": "UTC"}
_libc = ctypes.CDLL(None)  # loaded before any fork


class EmbeddedError(RuntimeError):
    """The cluster cannot be created or started; the message names the reason and the log."""


class Embedded:
    """One cluster below `folder`; `start` and `stop` may alternate. Not thread safe.

    settings: further server settings (name → value), put on the server's command line after ours.
    major: PostgreSQL major version for a new cluster; None takes the first one found.
    """

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, major: int | None = None):
        try:
            self.folder = Path(folder).resolve()
        except (OSError, RuntimeError):      # RuntimeError: up to Python 3.12
            raise EmbeddedError(f"QUEEND_DATA_DIR: cannot resolve {folder}: its links form a circle, or the working "
                                "directory was removed") from None
        self.data = self.folder / "pg"
        self.log = self.folder / "postgres.log"
        self.settings = settings or {}
        self.major = major
        self._lock: int | None = None
        self._opened: int | None = None
        self._server: subprocess.Popen | None = None
        self._log_begin = 0      # where in the log the present run begins

    def start(self, timeout: float = 60.0) -> str:
        """Creates the cluster if there is none, starts it, waits until it serves and returns its conninfo. Raises
        EmbeddedError."""
        self.begin()
        try:
            self.await_ready(timeout)
        except BaseException:
            self.stop()
            raise
        return self.conninfo()

    def begin(self) -> str:
        """Starts the cluster as `start` does, without the wait. Must be called from a thread that lives as long as the
        server is to."""
        try:
            self._take_lock()
            self._prepare()
            self._launch()
        except OSError as error:
            self.stop()
            ours = str(error.filename or "").startswith(str(self.folder))
            raise EmbeddedError(f"{'QUEEND_DATA_DIR: ' if ours else ''}{reason(error)}") from error
        except (BinariesError, LeftoverError, subprocess.SubprocessError) as error:
            self.stop()
            raise EmbeddedError(str(error)) from error
        except BaseException:
            self.stop()
            raise
        return self.conninfo()

    def await_ready(self, timeout: float = 60.0, recovery: float = math.inf,
                    enough: Callable[[], bool] = lambda: False) -> bool:
        """Waits until the server serves. Returns False if it still recovers after `recovery` seconds, or `enough`
        returned true. May be called from any thread. Raises EmbeddedError if the server ends, or answers no attempt for
        `timeout` seconds; then all of its processes have ended."""
        begin = heard = time.monotonic()      # heard: when it last answered anything
        server = self._server
        assert server is not None
        while True:
            try:
                psycopg.connect(self.conninfo(), connect_timeout=5).close()
                return True
            except psycopg.OperationalError as error:
                why = session.told(error)
            now = time.monotonic()
            # starting up, in recovery: however long that takes, a restart takes longer
            if "the database system is " in why:
                heard = now
                if now - begin > recovery:
                    return False
            if enough():
                return False
            if (status := server.poll()) is not None or now - heard > timeout:
                words = self._last_words() or (why if status is None else how_ended(status))
                try:
                    self._halt()
                except LeftoverError as error:
                    raise EmbeddedError(str(error)) from error
                raise EmbeddedError(f"PostgreSQL did not start in {self.data}: {words}; see {self.log}")
            time.sleep(min(0.1, 0.01 + (now - begin) / 20))      # each attempt is a process of the server

    def conninfo(self) -> str:
        """Returns the connection string, valid in this process."""
        return f"host={self._socket_folder()} port={self.settings.get('port', PORT)} user={ROLE} dbname={DATABASE}"

    @property
    def pid(self) -> int | None:
        """Returns the server's process id while it runs."""
        return self._server.pid if self._server and self._server.poll() is None else None

    def exited(self) -> bool:
        """Returns True if the server was started and ended without a stop."""
        return self._server is not None and self._server.poll() is not None

    def restart(self, timeout: float = 60.0) -> None:
        """Starts the server again after it ended, and waits until it serves. Raises EmbeddedError."""
        self.begin_again()
        self.await_ready(timeout)

    def begin_again(self) -> None:
        """Starts the server again as `restart` does, without the wait."""
        self._server = None
        try:
            self._clear()
            self._launch()
        except (LeftoverError, OSError, subprocess.SubprocessError) as error:
            raise EmbeddedError(str(error)) from error

    def stop(self, timeout: float = 30.0) -> None:
        """Stops the server by a fast shutdown (sessions are ended, a checkpoint is written); immediate after `timeout`
        seconds, or if there is nothing to write."""
        self._halt(timeout)
        for fd in (self._opened, self._lock):
            if fd is not None:
                os.close(fd)
        self._opened = self._lock = None

    # -- steps ------------------------------------------------------------------------------------------------------

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
            raise EmbeddedError(f"QUEEND_DATA_DIR: cannot use {self.folder} as a data directory: {why}") from error
        self._close_folder()
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A daemon killed just before may still hold the lock, and one that just started may not have written
                # its name yet.
                if time.monotonic() < deadline:
                    time.sleep(0.01)
                    continue
                owner = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
                os.close(fd)
                raise EmbeddedError(f"{self.folder} is in use by another queend (pid {owner}): stop it, or set "
                                    "QUEEND_DATA_DIR") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._lock = fd

    def _close_folder(self) -> None:
        """Closes the folder to other accounts. A folder with other things in it, such as /tmp, stays open."""
        if self.folder.stat().st_uid == os.geteuid() and all(path.name in OURS for path in self.folder.iterdir()):
            self.folder.chmod(0o700)

    def _prepare(self) -> None:
        self.account: Account = binaries.account_for(self.data)
        if (self.folder / "created").exists():
            for name in ("PG_VERSION", "global/pg_control"):
                if not (self.data / name).exists():
                    raise self._damaged(f"{name} is missing")
            version = (self.data / "PG_VERSION").read_text(errors="replace").strip()
            if not version.isdecimal():
                raise self._damaged(f"PG_VERSION contains no valid version: {version[:20]!r}")
            self._open()
            self._clear()
            try:
                self.programs: Binaries = binaries.find(self.account, int(version))
            except BinariesError as error:
                raise EmbeddedError(f"the cluster in {self.data} was created by PostgreSQL {version}: "
                                    f"{error}") from error
            return
        if self.data.exists():
            if not (self.folder / "creating").exists() and any(self.data.iterdir()):
                raise EmbeddedError(f"{self.data} exists, but was not created by queend; set QUEEND_DATA_DIR to "
                                    "another directory")
            # an interrupted initdb, which may go on: no message was ever stored in it
            if (self.folder / "creating").exists():
                stale_processes.kill(self.data)
                shutil.rmtree(self.data)
        self.programs = binaries.find(self.account, self.major)
        self._create()

    def _damaged(self, what: str) -> EmbeddedError:
        return EmbeddedError(f"the cluster in {self.data} is damaged: {what}; restore a backup of the directory, or "
                             f"move {self.folder} away to start with an empty cluster")

    def _create(self) -> None:
        (self.folder / "creating").touch()
        self.data.mkdir(mode=0o700, exist_ok=True)
        if not self.account.is_self:
            os.chown(self.data, self.account.uid, self.account.gid)
        here = self._open()
        done = subprocess.run(
            [self.programs.folder / "initdb", "-D", here, "-U", ROLE, "-A", "peer", "--encoding=UTF8", "--locale=C"],
            cwd="/", pass_fds=[self._opened], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            preexec_fn=dying_with(os.getpid(), signal.SIGKILL), **self.account.become())
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed in {self.data}: {last_words(done.stderr) or done.stderr.strip()}")
        (self.folder / "creating").rename(self.folder / "created")
        sync(self.folder)      # before anything is stored: a start that finds `creating` removes the cluster

    def _open(self) -> str:
        """Opens the data folder and returns the path by which every program that inherits it finds it."""
        if self._opened is None:
            self._opened = os.open(self.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._opened}"

    def _launch(self) -> None:
        self._write_access()
        if self.log.exists() and self.log.stat().st_size > LOG_KEPT_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        command: list[str | Path] = [self.programs.folder / "postgres", "-D", self._open()]
        for name, value in {**server_settings(self.programs.major), **self.settings}.items():
            command += ["-c", f"{name}={value}"]
        with open(self.log, "ab", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, 0o600)) as log:
            os.fchmod(log.fileno(), 0o600)      # it tells of what people store
            self._log_begin = log.tell()
            # A session of its own: Ctrl-C in the terminal must reach the daemon first, which drains and then stops us.
            self._server = subprocess.Popen(
                command, cwd="/", pass_fds=[self._opened], env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, preexec_fn=dying_with(os.getpid(), signal.SIGINT),
                **self.account.become())

    def _write_access(self) -> None:
        """Writes the access rules: the account that the server runs as and the account of the daemon, identified by the
        kernel, without passwords."""
        # `all` leaves out connections that copy the cluster (pg_basebackup)
        self._write("pg_hba.conf", "local all all peer map=queend\nlocal replication all peer map=queend\n")
        users = {self.account.name, binaries.name_of(os.geteuid())}
        self._write("pg_ident.conf", "".join(f'queend "{user}" {ROLE}\n' for user in sorted(users)))

    def _write(self, name: str, text: str) -> None:
        path = self.data / name
        if not path.exists():
            path.touch(0o644)
        if path.read_text() != text:
            path.write_text(text)  # in place: owner and mode stay

    def _clear(self) -> None:
        """Ends what a killed daemon or a dead server left in the folder: our lock proves that no other daemon uses
        it."""
        stale_processes.end(self.data)
        # No process is left: a remaining file names an ended process, or a number that another process has by now.
        for path in (self.data / "postmaster.pid", *self.data.glob(".s.PGSQL.*.lock")):
            path.unlink(missing_ok=True)

    def _halt(self, timeout: float = stale_processes.FAST_S) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        try:
            stale_processes.end(self.data, timeout, reap=server.poll)
            # The server is not found in its folder if it has just been started, or if /proc hides it.
            for number, seconds in ((signal.SIGINT, timeout), (signal.SIGQUIT, stale_processes.IMMEDIATE_S)):
                if server.poll() is None:
                    server.send_signal(number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        server.wait(seconds)
        finally:
            server.kill()
            server.wait()

    def _last_words(self) -> str:
        """Returns why the server of the present run ended, as its log says; empty if the log does not say."""
        try:
            with open(self.log, "rb") as log:
                if (begin := log.seek(0, os.SEEK_END) - TOLD_BYTES) > self._log_begin:
                    log.seek(begin)
                    log.readline()      # the rest of a line that began before
                else:
                    log.seek(self._log_begin)
                told = log.read().decode(errors="replace")
        except OSError:
            return ""
        told = told.replace(f"/proc/self/fd/{self._opened}", str(self.data))
        # Lines of other levels are left out: they may quote statements and settings.
        return last_words(told) or printable(" ".join(RAW.findall(told)))

    def _socket_folder(self) -> str:
        path = str(self.data)
        if len(os.fsencode(path)) <= LONGEST_SOCKET_FOLDER and "," not in path:
            return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
        self._open()
        return f"/proc/{os.getpid()}/fd/{self._opened}"


def last_words(text: str) -> str:
    """Returns why a program of PostgreSQL ended, of all it wrote; empty if that is not in there. Control characters
    are replaced by question marks."""
    return printable(([""] + [one for one in LAST.findall(text) if not one.startswith(TO_A_CLIENT)])[-1].strip())


def printable(text: str) -> str:
    """Returns the text with a question mark in place of each control character."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def how_ended(status: int) -> str:
    """Describes an exit status of `subprocess`; a negative one is the number of a signal."""
    return f"it was killed by signal {-status}" if status < 0 else f"it exited with status {status}"


def server_settings(major: int = binaries.OLDEST) -> dict[str, str]:
    """Returns server settings that fit a queue: every commit durable, few checkpoints, no parallel plans, local socket
    only."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # The more of the log lies in these buffers, the less vacuum waits: pages it has to fetch go through a small ring,
    # and each turn of the ring waits for a commit.
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
        # A checkpoint makes the next write of every page a full page of WAL: rare checkpoints are cheap.
        "checkpoint_timeout": "15min",
        "max_wal_size": "4GB",
        # Keeps enough WAL for the full speed of one checkpoint interval: a WAL file that must be created, not renamed,
        # delays a commit by 40 ms.
        "min_wal_size": "2GB",
        "checkpoint_completion_target": "0.9",
        "wal_buffers": "16MB",
        "autovacuum_naptime": "15s",
        "autovacuum_vacuum_cost_limit": "2000",
        # 45 million dead rows in one pass over the indexes; taken only while a vacuum needs it
        "autovacuum_work_mem": "256MB",
        **({"vacuum_buffer_usage_limit": "128MB"} if major >= 16 else {}),  # the ring
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "random_page_cost": "1.1",
        "log_checkpoints": "off",
        "log_line_prefix": "%m [%p] ",
    }


def dying_with(parent: int, number: int) -> Callable[[], None]:
    """Returns a function for the child between fork and exec: a killed daemon then ends its PostgreSQL, too, so that no
    server runs unattended."""
    def die_with_parent() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:      # killed before the request to be notified
            os._exit(1)

    return die_with_parent
