"""What keeps keys in memory from being written down or read by others of the same account."""
from __future__ import annotations

import ctypes
import resource

from . import log

PR_SET_DUMPABLE = 4


def close(leave: bool = False) -> None:
    """No core dump of this process, nor of the server it starts, and no debugger but root's. leave: as it is."""
    if leave:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.line("warn", "dumpable", f"the kernel refuses to protect this process: error {ctypes.get_errno()}")
