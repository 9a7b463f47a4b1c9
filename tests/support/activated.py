"""What systemd does for a daemon with a .socket unit: it binds, listens, hands the sockets over, and keeps them open
while daemons come and go (sd_listen_fds(3))."""
from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path
from typing import Any

from .daemon import HARDER, Daemon

# The sockets come under numbers of their own; the program wants them from 3 on, and its own process id.
HANDED = """
import fcntl, os, sys
high = [fcntl.fcntl(int(one), fcntl.F_DUPFD_CLOEXEC, 100) for one in sys.argv[1].split(",")]
for at, number in enumerate(high):
    os.dup2(number, 3 + at)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(high))}
os.execv(sys.argv[2], sys.argv[2:])
"""


class Manager:
    """Holds the sockets. `daemon` starts one on them; the one before has ended, or is about to."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = ("127.0.0.1",), kind: int = socket.SOCK_STREAM):
        self.sockets = []
        for host in hosts:
            one = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
            if ":" in host:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((host, self.port if self.sockets else 0))
            if kind == socket.SOCK_STREAM:
                one.listen(1024)
            self.sockets.append(one)
        self.folder = folder

    @property
    def port(self) -> int:
        return self.sockets[0].getsockname()[1]

    def daemon(self, conninfo: str, **settings: Any) -> Daemon:
        """Not waited for."""
        daemon = Daemon.__new__(Daemon)
        daemon.conninfo, daemon.settings = conninfo, settings
        numbers = [one.fileno() for one in self.sockets]
        daemon._begin({"QUEEND_DSN": conninfo, **HARDER, **settings}, numbers,
                      [sys.executable, "-c", HANDED, ",".join(map(str, numbers))])
        return daemon

    def close(self) -> None:
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.close()
