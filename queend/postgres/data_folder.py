"""The data folder of an embedded cluster: closed to others, and used by one daemon at a time."""
from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

OURS = {"lock", "pg", "creating", "created", "postgres.log", "postgres.log.1", "buffer"}
LOCK_S = 2.0  # how long the daemon waits for another daemon's lock


class DataFolderError(RuntimeError):
    """The folder cannot be used; the message names the reason."""


def locked(folder: Path) -> int:
    """Makes the folder if there is none, and returns a descriptor that holds its lock until it is closed. Raises
    DataFolderError, OSError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise DataFolderError(f"QUEEND_DATA_DIR: cannot use {folder} as a data directory: {why}") from error
    _close(folder)
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
            raise DataFolderError(f"{folder} is in use by another queend (pid {owner}): stop it, or set "
                                  "QUEEND_DATA_DIR") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _close(folder: Path) -> None:
    """Closes the folder to other accounts. A folder with other things in it, such as /tmp, stays open."""
    if folder.stat().st_uid == os.geteuid() and all(path.name in OURS for path in folder.iterdir()):
        folder.chmod(0o700)
