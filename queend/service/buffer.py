"""The folder of the failover buffer: one for each daemon, locked for as long as it runs.

Below FILE_BUFFER_DIR there are the folders 0, 1, 2, …. A daemon takes the first that holds messages and that no other has, else
the first that no other has. So daemons that share a host never share a file, and what one that was killed left behind is
drained by the next that starts.
"""
from __future__ import annotations

import fcntl
import os
import shutil
import stat
from pathlib import Path

from .. import log
from ..config import Settings

MOST = 256


class FolderError(RuntimeError):
    """There is no folder for the buffer; the message is for the operator."""


class Folder:
    """A locked folder. `path` is None when the settings want no buffer."""

    def __init__(self, settings: Settings):
        self.path: Path | None = None
        self.lock = -1
        if not settings.queend_buffer_bytes:
            return
        root = (settings.file_buffer_dir or settings.queend_data_dir / "buffer").absolute()
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take(root)
            assert self.path
            free = shutil.disk_usage(self.path).free
        except OSError as error:
            raise FolderError(f"failover buffer: {error}; FILE_BUFFER_DIR names another folder, QUEEND_BUFFER_BYTES=0 does without") from error
        if free < settings.queend_buffer_bytes:
            log.line("warn", "buffer_disk_small", f"{self.path} has {free} bytes free, QUEEND_BUFFER_BYTES are {settings.queend_buffer_bytes}")

    def _take(self, root: Path) -> None:
        numbers = [int(one.name) for one in root.iterdir() if one.name.isdigit() and one.is_dir()]
        filled = sorted(number for number in numbers if any((root / str(number)).glob("*.seg")))
        for number in [*filled, *(number for number in range(MOST) if number not in filled)]:
            path = root / str(number)
            path.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            self.path, self.lock = path, lock
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o700)
            left = [other for other in filled if other != number and not _locked(root / str(other))]
            if left:
                log.line("warn", "buffer_left_behind", f"nobody drains {', '.join(str(root / str(one)) for one in left)}: start another daemon there")
            return
        raise FolderError(f"failover buffer: all {MOST} folders in {root} are taken")

    def close(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


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
