"""The folder of the failover buffer: one for each daemon, locked as long as the daemon runs.

Below FILE_BUFFER_DIR there are the folders 0, 1, 2, …. A daemon takes the first unlocked folder with messages, else the
first unlocked one. So daemons on one host never share a file. The folder of a killed daemon is drained by the next
daemon that starts. Or, after it was unlocked for QUEEND_BUFFER_ADOPT_MS, a running daemon with an empty folder adopts
it: segment after segment moves there.

A folder names its owner, by host and port, so that a restarted daemon finds its own records and stores them before
newer ones. If another daemon is adopting them, the restarted one asks for the folder (the file `wanted`) and waits up
to RETURN_S: the adopter stores the segment that it has moved, and releases the folder. A segment that an adopter had
moved when it was killed is in the folder that the file `adopter` names; the owner waits for it as long.

The messages of a folder belong to one database, which the file `database` names. It is written once the database is
known, and folders of other databases stay untouched.
"""
from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import log
from ..disk import reason, write
from ..postgres.identity import Identity
from ..settings.model import Settings

MOST = 256
RETURN_S = 10.0
PAUSE_S = 0.05


class FolderError(RuntimeError):
    """There is no folder for the buffer; the message is for the operator."""


class Folder:
    """A locked folder. `path` is None if the settings want no buffer. identity: of the database; None: not known yet,
    and `claim` follows."""

    def __init__(self, settings: Settings, identity: str | None = None):
        self.path: Path | None = None
        self.lock = -1
        self.identity = identity
        self.adopt_s = settings.queend_buffer_adopt_ms / 1000
        # a port that the kernel chooses changes at each start
        self.owner = f"{socket.gethostname()}:{settings.port}" if settings.port else ""
        self._alone: dict[Path, float] = {}              # unlocked folders, and since when
        self._adopting: tuple[Path, int] | None = None    # the one being adopted, and its lock
        self.found: set[Path] = set()      # segments, at the start
        self.foreign: list[Path] = []      # unlocked folders with messages for other databases
        if not settings.queend_buffer_bytes:
            return
        try:
            root = root_of(settings)
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take(root, identity)
            assert self.path
            if identity is not None:
                self.claim(identity)
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            why = f"{error.filename} is not a directory" if isinstance(error, FileExistsError) else reason(error)
            raise FolderError(f"failover buffer: {why}; set FILE_BUFFER_DIR to another directory, or disable "
                              "the buffer with QUEEND_BUFFER_BYTES=0") from error
        if free < settings.queend_buffer_bytes:
            log.line("warn", "buffer_disk_small",
                     f"{self.path} has {free} bytes free, less than QUEEND_BUFFER_BYTES "
                     f"({settings.queend_buffer_bytes})")

    def _take(self, root: Path, identity: str | None) -> None:
        there = folders(root)
        foreign = [path for path in there if of_another(path, identity)]
        self.foreign = [path for path in foreign if not _locked(path)]
        if self.foreign:
            log.line("error", "buffer_of_another_database",
                     f"{', '.join(map(str, self.foreign))}: kept, not stored in this database")
        filled = [path for path in there if path not in foreign and any(path.glob("*.seg"))]
        mine = [path for path in there if path not in foreign and self.owner and _read(path / "owner") == self.owner]
        others = (root / str(number) for number in range(MOST))
        for path in [*mine, *(one for one in filled if one not in mine),
                     *(one for one in others if one not in filled and one not in foreign and one not in mine)]:
            path.mkdir(mode=0o700, exist_ok=True)
            lock = take(path)
            if lock is None and path in mine:
                lock = self._returned(path)
            if lock is None:
                continue
            self.path, self.lock = path, lock
            (path / "wanted").unlink(missing_ok=True)
            _await_adopter(path)
            _note(path / "owner", self.owner)
            self.found = set(path.glob("*.seg"))
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o700)
            left = [other for other in filled if other != path and not _locked(other)]
            if left:
                log.line("warn", "buffer_left_behind",
                         f"no daemon drains {', '.join(map(str, left))}: "
                         + (f"this daemon does so after {self.adopt_s:g} s, when its own buffer is "
                            "empty" if self.adopt_s
                            else "start another daemon with this directory"))
            return
        raise FolderError(f"failover buffer: all {MOST} directories in {root} are in use")

    def _returned(self, path: Path) -> int | None:
        """Returns the lock of this daemon's own folder, which its adopter gives back; None: not within RETURN_S."""
        (path / "wanted").touch(mode=0o600)
        lock = _until(lambda: take(path))
        (path / "wanted").unlink(missing_ok=True)
        if lock is None:
            log.line("warn", "buffer_not_returned", f"{path}: another daemon drains the messages that this daemon "
                                                    "buffered; new pushes may be stored before them")
        return lock

    def claim(self, identity: str) -> bool:
        """Assigns the folder to the database, which is known now. Returns False if the messages found there belong to
        another."""
        self.identity = identity
        if self.path is None or (belongs_to(self.path) == identity and belongs_to(self.path).lineage
                                 == getattr(identity, "lineage", "")):
            return True
        if of_another(self.path, identity):
            return False
        try:
            mark(self.path, identity)
        except OSError as error:      # a full disk: draining makes room
            log.line("warn", "buffer_not_marked", f"{self.path}: {error}")
        return True

    def part(self) -> Path | None:
        """Moves what was taken since the start into a folder without a database, which the next start will find.
        Requires that the claim failed and all writes have ended. Returns its path, None if there was nothing."""
        assert self.path
        taken = set(self.path.glob("*.seg")) - self.found
        if not taken:
            return None
        for number in range(MOST):
            path = self.path.parent / str(number)
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            for one in taken:
                one.rename(path / one.name)
            return path
        raise FolderError(f"failover buffer: all {MOST} directories in {self.path.parent} are in use")

    def adopt(self, offer: Callable[[str, int], None]) -> None:
        """Looks once at the other folders: offers the oldest segment of a folder whose daemon is gone. Must be called
        again and again."""
        if self.path is None or self.identity is None or not self.adopt_s:
            return
        now = time.monotonic()
        if self._adopting is None:
            for path in folders(self.path.parent):
                if path == self.path:
                    continue
                if of_another(path, self.identity) or not any(path.glob("*.seg")) or _locked(path):
                    self._alone.pop(path, None)
                elif now - self._alone.setdefault(path, now) >= self.adopt_s and (lock := take(path)) is not None:
                    if of_another(path, self.identity):      # another daemon claimed it before the lock
                        os.close(lock)
                        continue
                    self._adopting = path, lock
                    log.line("warn", "buffer_adopted", f"{path}: its daemon has stopped")
                    break
        if self._adopting is None:
            return
        path, lock = self._adopting
        if any(self.path.glob("*.seg")):
            return      # the last moved segment is not stored yet, or this daemon buffers
        numbers = sorted(int(one.stem) for one in path.glob("*.seg") if one.stem.isdigit())
        if numbers and not _wanted(path):
            _note(path / "adopter", self.path.name)
            offer(str(path), numbers[0])
            return
        if not numbers:
            (path / "position").unlink(missing_ok=True)
        (path / "adopter").unlink(missing_ok=True)
        self._alone.pop(path, None)
        self._adopting = None
        os.close(lock)

    def close(self) -> None:
        if self._adopting is not None:
            os.close(self._adopting[1])
            self._adopting = None
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def root_of(settings: Settings) -> Path:
    """Returns the folder that holds the folders."""
    return (settings.file_buffer_dir or settings.queend_data_dir / "buffer").absolute()


def folders(root: Path) -> list[Path]:
    """Returns the folders of daemons, by number."""
    return sorted((one for one in root.iterdir() if one.name.isdigit() and one.is_dir()), key=lambda one: int(one.name))


def holds_messages(settings: Settings) -> bool:
    """Returns whether there is an unlocked folder with messages in it."""
    try:
        return any(any(one.glob("*.seg")) and not _locked(one) for one in folders(root_of(settings)))
    except OSError:
        return False


def mark(path: Path, identity: str) -> None:
    """Assigns the folder to that database. Older versions read `database` as a whole, so the lineage stands in a file
    beside it."""
    write(path / "lineage", f"{getattr(identity, 'lineage', '')}\n")
    write(path / "database", f"{identity}\n")


def belongs_to(path: Path) -> Identity:
    """Returns the database that a folder's messages are for; empty: the first one that claims it."""
    return Identity(_read(path / "database"), _read(path / "lineage"))


def _note(path: Path, text: str) -> None:
    """Writes a line into a file of a folder unless it is there. Goes on without it on a full disk, because draining
    makes room; then the order of messages may suffer when the daemon of the folder returns."""
    if _read(path) == text:
        return
    try:
        write(path, f"{text}\n")
    except OSError as error:
        log.line("warn", "buffer_not_marked", f"{path}: {error}")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def of_another(path: Path, identity: str | None) -> bool:
    """Returns whether a folder holds messages for another database than this one."""
    return identity is not None and belongs_to(path) not in ("", identity) and \
        ((path / "quarantine").exists() or any(path.glob("*.seg")))


def take(path: Path) -> int | None:
    """Locks a folder. Returns an open file that holds the lock; None: another daemon has it."""
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _wanted(path: Path) -> bool:
    """Returns whether the owner of a folder waits for it. An owner that was killed while it waited leaves the file."""
    try:
        return abs(time.time() - (path / "wanted").stat().st_mtime) < 2 * RETURN_S
    except FileNotFoundError:
        return False


def _await_adopter(path: Path) -> None:
    """Waits, up to RETURN_S, until the daemon that adopted from this folder has stored the segment it had moved."""
    name = _read(path / "adopter")
    if name.isdigit():
        other = path.parent / name
        moved = list(other.glob("*.seg"))
        _until(lambda: not any(one.exists() for one in moved) or not _locked(other) or None)
        (path / "adopter").unlink(missing_ok=True)


def _until(look: Callable[[], Any]) -> Any:
    """Calls `look` until it returns something, and returns that; None after RETURN_S."""
    end = time.monotonic() + RETURN_S
    while (seen := look()) is None and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return seen


def _locked(path: Path) -> bool:
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
