"""What the processes of one test run have in common."""
from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "TESTS_SHARED"  # xdist's workers inherit it from the process that started them
_maker = None if _VARIABLE in os.environ else os.getpid()
SHARED = Path(os.environ.get(_VARIABLE) or tempfile.mkdtemp(prefix="queend-tests-"))
os.environ[_VARIABLE] = str(SHARED)


@atexit.register
def remove() -> None:
    """Removes the folder, and what its links lead to, at the end of the process that made it."""
    if os.getpid() == _maker:
        for link in filter(Path.is_symlink, SHARED.iterdir()):
            shutil.rmtree(link.resolve(), ignore_errors=True)
        shutil.rmtree(SHARED, ignore_errors=True)


@contextmanager
def alone() -> Iterator[None]:
    """For what is made once in the checkout and used by all: one process is in here at a time."""
    folder = os.open(Path(__file__).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
