"""Protects keys in memory from core dumps and from other processes of the same account."""
from __future__ import annotations

import ctypes
import resource

from .. import log

PR_SET_DUMPABLE = 4


def close(leave: bool = False) -> None:
    """Forbids core dumps of this process and of the server it starts, and debuggers other than root's. leave: changes
    nothing."""
    if leave:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.line("warn", "dumpable", "the kernel refuses to protect the memory of this process: error "
                                     f"{ctypes.get_errno()}")
