"""What is on the disk for good."""
from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Of a file its contents, of a folder its names."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
