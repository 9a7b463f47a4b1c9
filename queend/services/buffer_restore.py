"""Brings the failover buffer of a backup back: checks it, copies it into a hidden folder, then renames the copies.

The hidden folder lies beside the folders of daemons, which have numbers for names, so a daemon ignores it. The copy is
made before the transaction of the restore, so a buffer that cannot be written leaves the database as it was. The next
restore removes what a killed restore left behind.
"""
from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..disk import reason, sync
from .backup import BackupError, Heard, copy, digest, readable
from .buffer import take

PREFIX = ".restored-"
ONLY = "the buffer of a backup may contain directories of regular files only"


@dataclass
class Copied:
    """Copies of the folders of a failover buffer. root: FILE_BUFFER_DIR; folders: in the hidden folder."""

    root: Path
    folders: list[Path]
    committed: bool = False

    def place(self) -> list[Path]:
        """Gives the copies names that daemons look for, and returns these. Call it as soon as the database is
        restored. Raises BackupError; the copies that have no such name yet then stay in the hidden folder."""
        self.committed = True
        placed: list[Path] = []
        try:
            for folder in self.folders:
                number = next(number for number in range(1 << 20) if not (self.root / str(number)).exists())
                folder.rename(self.root / str(number))
                placed.append(self.root / str(number))
            if placed:
                sync(self.root)
        except OSError as error:
            raise BackupError(f"the database was restored, but the failover buffer was not: {reason(error)}; rename "
                              f"the directories in {self.folders[0].parent} to unused numbers in {self.root}, then run "
                              "`queend failover adopt`") from None
        return placed


def checked(source: Path, made: dict[str, Any], heard: Heard) -> list[Path]:
    """Returns the folders of the failover buffer in a backup. Raises BackupError unless each holds exactly the files
    that backup.json lists, as they were written. Links are refused, because they would bring in files from elsewhere. A
    backup without a list must have as many folders as backup.json says."""
    root = source / "buffer"
    with readable(root):
        found = _walked(root)
    if "buffer" not in made:
        if len(found) != made["buffers"]:
            raise BackupError(f"{root} has {len(found)} directories, but backup.json lists {made['buffers']}: a part "
                              "of the failover buffer is missing")
        return list(found)
    files = {file.relative_to(root).as_posix(): file for folder in found.values() for file in folder}
    for one in made["buffer"]:
        file = files.pop(one["file"], None)
        if file is None:
            raise BackupError(f"{root / one['file']} is missing: messages of the failover buffer would be lost")
        if digest(file, heard) != (one["bytes"], one["sha256"]):
            raise BackupError(f"{file} is damaged: the checksum differs")
    for file in files.values():
        raise BackupError(f"{file} is not listed in backup.json: the backup was made without it")
    return [folder for folder, inside in found.items() if inside]


@contextmanager
def copied(folders: list[Path], root: Path) -> Iterator[Copied]:
    """Copies these folders of a backup into a hidden folder in `root`, on disk when the block begins. Removes it at
    the end, unless the copies could not be placed. Raises BackupError; then nothing was changed."""
    if not folders:
        yield Copied(root, [])
        return
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_leftovers(root)
        work = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))      # mode 0700
    except OSError as error:
        raise _unwritable(root, error) from None
    lock = None
    found = Copied(root, [])
    try:
        try:
            lock = take(work)
            for number, folder in enumerate(folders):
                into = work / str(number)
                into.mkdir(mode=0o700)
                for file in sorted(folder.iterdir()):
                    copy(file, into / file.name, 1)
                sync(into)
                found.folders.append(into)
            sync(work)
        except OSError as error:
            raise _unwritable(root, error) from None
        yield found
    finally:
        if lock is not None:
            os.close(lock)
        if not found.committed or not any(folder.exists() for folder in found.folders):
            shutil.rmtree(work, ignore_errors=True)


def _unwritable(root: Path, error: OSError) -> BackupError:
    why = f"{root} is not a directory" if isinstance(error, FileExistsError) else reason(error)
    return BackupError(f"nothing was changed: cannot copy the failover buffer to {root}: {why}; set FILE_BUFFER_DIR to "
                       "another directory")


def _remove_leftovers(root: Path) -> None:
    """Removes the hidden folders of restores that were killed; those that still run have theirs locked."""
    for folder in root.glob(PREFIX + "*"):
        if folder.is_symlink() or not folder.is_dir():
            continue
        lock = take(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _walked(root: Path) -> dict[Path, list[Path]]:
    """Returns the folders below `root` with their files. Raises BackupError for anything but folders of regular files,
    each with one name."""
    if not root.is_symlink() and not root.exists():
        return {}
    _check_folder(root)
    found = {}
    for folder in sorted(root.iterdir()):
        _check_folder(folder)
        found[folder] = sorted(folder.iterdir())
        for file in found[folder]:
            if not file.is_file() or file.is_symlink() or file.lstat().st_nlink > 1:
                raise BackupError(f"{file} is a link or not a regular file; {ONLY}")
    return found


def _check_folder(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        raise BackupError(f"{path} is not a directory; {ONLY}")
