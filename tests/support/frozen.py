"""A thread of another process that stands still, as one does that waits for a disk or hangs: stopped by ptrace,
alone."""
from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def thread_named(pid: int, name: str) -> int:
    return next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
                if (task / "comm").read_text().strip() == name)


@contextmanager
def frozen(thread: int) -> Iterator[None]:
    _ptrace(SEIZE, thread)
    try:
        _ptrace(INTERRUPT, thread)
        os.waitpid(thread, WALL)
        yield
    finally:
        _ptrace(DETACH, thread)


def _ptrace(what: int, thread: int) -> None:
    if libc.ptrace(what, thread, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
