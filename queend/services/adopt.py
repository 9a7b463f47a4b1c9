"""Folders of the failover buffer whose database was moved: a dump and a restore, or pg_upgrade, gave it another
identity.

Messages of such a folder are stored in the present database only at an operator's command (`queend failover adopt`).
The seed of the schema moves with the data. So a folder that knows its seed can tell a database that was moved from a
foreign one.
"""
from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from ..postgres.identity import Identity
from .buffer import FolderError, belongs_to, folders, mark, of_another, take

HEAD = b"QUEENBUF"
RECORD = struct.Struct("<III")      # mark, length of the rest, checksum
MARK = 0x63655251


@dataclass(frozen=True)
class Found:
    """A folder with messages for another database. moved: its database has the seed of this one; None: the folder does
    not know its seed."""

    path: Path
    messages: int
    oldest_us: int
    moved: bool | None


def find(root: Path, identity: Identity) -> list[Found]:
    """Returns the folders of other databases below `root`."""
    if not root.is_dir():
        return []
    found = []
    for path in folders(root):
        if of_another(path, identity):
            messages, oldest = _waiting(path)
            lineage = belongs_to(path).lineage
            found.append(Found(path, messages, oldest, lineage == identity.lineage if lineage else None))
    return found


def adopt(found: Found, identity: Identity) -> None:
    """Assigns the folder to this database: the next daemon that takes the folder stores its messages. Raises
    FolderError."""
    lock = take(found.path)
    if lock is None:
        raise FolderError(f"{found.path} is in use by a daemon: stop it first")
    try:
        mark(found.path, identity)
    finally:
        os.close(lock)


def _waiting(path: Path) -> tuple[int, int]:
    """Returns how many messages of the folder are not stored yet, and when the first was taken (µs); damaged bytes end
    a file's count."""
    messages, oldest = 0, 0
    first, at = _position(path)
    for segment in sorted(path.glob("*.seg")):
        number = int(segment.stem) if segment.stem.isdigit() else 0
        if number < first:
            continue
        with open(segment, "rb") as file:
            if file.read(len(HEAD)) != HEAD:
                continue
            file.seek(max(16, at) if number == first else 16)
            while len(head := file.read(RECORD.size)) == RECORD.size:
                sign, length, _ = RECORD.unpack(head)
                rest = file.read(25) if sign == MARK and length >= 25 else b""
                if len(rest) < 25:
                    break
                messages += 1
                oldest = oldest or struct.unpack_from("<q", rest, 17)[0]
                file.seek(length - 25, os.SEEK_CUR)
    return messages, oldest


def _position(path: Path) -> tuple[int, int]:
    try:
        number, at = struct.unpack_from("<Qq", (path / "position").read_bytes())
    except (OSError, struct.error):
        return 0, 0
    return number, at
