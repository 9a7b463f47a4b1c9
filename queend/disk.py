"""Files that survive a crash of the machine as a whole: the old one or the new one, never a part."""
from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Flushes a path to the disk: a file's contents, or a folder's names."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write(path: Path, text: str) -> None:
    """Writes the whole file or nothing, readable for this account alone."""
    partial = path.with_suffix(".new")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def reason(error: OSError) -> str:
    """Returns why the system refused an operation, and the file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
