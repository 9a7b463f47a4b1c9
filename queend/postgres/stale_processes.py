"""Processes of PostgreSQL that run in the folder of a cluster: finding and ending them.

A process belongs to a cluster if it is called postgres or initdb and its working directory is the cluster's folder, or
it has that folder open, as every process that we start has from the beginning. A number in a file, or a name alone,
proves nothing.

Root without CAP_SYS_PTRACE, as in most containers, may not see working directories of other accounts' processes. It
looks with the file system ids of the account then.
"""
from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("postgres", "initdb")
FAST_S = 5.0          # for a fast shutdown: sessions end, a checkpoint is written
IMMEDIATE_S = 5.0     # for an immediate one: the server gives its own processes as long
ORPHANS_S = 2.0       # for processes whose server is gone
GONE_S = 10.0         # for killed processes: their memory is given back
STUCK_S = 0.5         # a server that looks stuck for so long counts as stuck
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE = 1, 2, 3, 4
_libc = ctypes.CDLL(None)


class LeftoverError(RuntimeError):
    """Processes in the folder that not even SIGKILL ends."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    title: str


def inside(data: Path) -> list[Process]:
    """Returns the cluster's processes, as far as this process may see them."""
    try:
        here = _place(data)
    except FileNotFoundError:
        return []
    return [found for entry in os.scandir("/proc") if entry.name.isdigit() and (found := _look(entry.name, here))]


def end(data: Path, fast_s: float = FAST_S, immediate_s: float = IMMEDIATE_S,
        reap: Callable[[], object] = lambda: None) -> None:
    """Ends them all and returns when all have ended: asks for a fast shutdown, after `fast_s` for an immediate one, and
    kills the rest `immediate_s` after that. Skips the fast shutdown for a server that has no checkpoint to write:
    during a recovery it would never end (version 18). reap: called again and again, for the parent of the server.
    Raises LeftoverError."""
    begin = time.monotonic()
    said: dict[int, int] = {}
    stuck_since: float | None = None
    immediate_at = begin + fast_s
    while found := inside(data):
        now = time.monotonic()
        keeper = _keeper(data, found)
        if keeper is None:
            immediate_at = min(immediate_at, begin)
            kill_at = immediate_at + ORPHANS_S
        else:
            if not _stuck(keeper, found):
                stuck_since = None
            elif stuck_since is None:
                stuck_since = now
            elif now - stuck_since > STUCK_S:
                immediate_at = min(immediate_at, now)
            if _recovers(found):
                immediate_at = min(immediate_at, now)
            kill_at = immediate_at + immediate_s
        for one in found:
            number = signal.SIGKILL if now >= kill_at else signal.SIGQUIT if now >= immediate_at else signal.SIGINT
            # The server ends its own processes, unless it is gone or hangs.
            if (keeper is None or one is keeper or number == signal.SIGKILL) and said.get(one.pid) != number:
                said[one.pid] = number
                _send(data, one.pid, number)
        if now > kill_at + GONE_S:
            raise LeftoverError(f"processes {[one.pid for one in found]} still use {data} and cannot be stopped")
        reap()
        time.sleep(0.02)


def kill(data: Path) -> None:
    """Ends them at once: nothing in the folder is worth keeping. Raises LeftoverError."""
    end(data, -ORPHANS_S, 0.0)


def _place(path: str | Path) -> tuple[int, int]:
    there = os.stat(path)
    return there.st_dev, there.st_ino


def _look(pid: str, here: tuple[int, int]) -> Process | None:
    """Returns the process if it is one of the cluster's."""
    proc = Path("/proc", pid)
    try:
        if (proc / "comm").read_text().strip() not in PROGRAMS:
            return None
        try:
            ours = _in_folder(proc, here)
        except PermissionError:
            with _as_its_account(proc):
                ours = _in_folder(proc, here)
        if not ours:
            return None
        parent = int((proc / "stat").read_text().rpartition(")")[2].split()[1])
        title = (proc / "cmdline").read_bytes().rstrip(b"\0 ").decode(errors="replace")
    except (OSError, ValueError, IndexError):      # it has just ended, or belongs to another account
        return None
    return Process(int(pid), parent, title)


@contextmanager
def _as_its_account(proc: Path) -> Iterator[None]:
    """Gives this thread the file system ids of the account of a process, if it is root's. Such a change makes the
    kernel forget the signal at the end of the parent, and whether memory may be dumped; both are put back."""
    owner = proc.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        raise PermissionError
    at_end, dumpable = ctypes.c_int(0), _libc.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
    _libc.prctl(PR_GET_PDEATHSIG, ctypes.byref(at_end), 0, 0, 0)
    try:
        _libc.setfsgid(owner.st_gid)
        _libc.setfsuid(owner.st_uid)
        yield
    finally:
        _libc.setfsuid(0)
        _libc.setfsgid(os.getegid())
        _libc.prctl(PR_SET_PDEATHSIG, at_end.value, 0, 0, 0)
        if dumpable == 1:
            _libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def _in_folder(proc: Path, here: tuple[int, int]) -> bool:
    if (there := _place(proc / "cwd")) == here:
        return True
    if there != _place("/"):
        return False
    for entry in os.scandir(proc / "fd"):      # started by us, and not in its folder yet
        with suppress(OSError):
            if _place(entry.path) == here:
                return True
    return False


def _keeper(data: Path, found: list[Process]) -> Process | None:
    """Returns the server, the parent of the other processes."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    ids = {one.pid for one in found}
    return next((one for one in found if one.pid == pid and one.parent not in ids), None)


def _recovers(found: list[Process]) -> bool:
    return any(one.title.startswith("postgres: ") and " startup" in one.title for one in found)


def _stuck(keeper: Process, found: list[Process]) -> bool:
    """Returns whether no process is left that would write a checkpoint or whose end the server could wait for."""
    return all(one is keeper or " io worker" in one.title or one.title.endswith(" checkpointer") for one in found)


def _send(data: Path, pid: int, number: int) -> None:
    """Sends a signal to the process that has this number if it still is one of the cluster's, because numbers are
    reused."""
    with suppress(ProcessLookupError, FileNotFoundError):
        handle = os.pidfd_open(pid)
        try:
            if _look(str(pid), _place(data)):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
