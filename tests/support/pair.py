"""A PostgreSQL server, the standby that follows it, and one address that leads to whichever serves."""
from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queend.postgres import binaries

from .ports import free_port
from .postgres import Postgres
from .proxy import Proxy, swallow
from .wait import until

MINE = "pid <> pg_backend_pid() AND backend_type = 'client backend'"


class Pair:
    """`front` is the proxy in between: rules on it are what the daemons see of the network."""

    def __init__(self, folder: Path, major: int | None = None):
        self.folder, self.major, self.servers = folder, major, 0
        self.primary = Postgres(self._next(), major, tcp=True)
        self.front = Proxy(self.primary.port)
        self._follow()

    def dsn(self, name: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.front.port} user=postgres dbname={name}"

    def fail_over(self, look: Callable[[Postgres], set[Any]]) -> set[Any]:
        """The standby hears nothing for a second, then the primary is gone and the standby takes over. look: what a
        server has. Returns what went with the old one."""
        self.behind.rule = swallow
        time.sleep(1.0)         # what is lost is what was committed in it
        self.front.target = free_port()
        self.front.cut()
        old, new = self.primary, self.standby
        until(lambda: old.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {MINE}") == [],
              "nobody is connected")
        had = look(old)
        self.behind.close()
        old.stop()
        assert new.execute("SELECT pg_promote()") == [(True,)]
        gone = had - look(new)
        self.primary, self.front.target = new, new.port
        self._follow()
        return gone

    def stop(self) -> None:
        self.front.close()
        self.behind.close()
        self.standby.stop()
        self.primary.stop()

    def _next(self) -> Path:
        self.servers += 1
        folder = self.folder / str(self.servers)
        folder.mkdir(mode=0o755)
        return folder

    def _follow(self) -> None:
        """A new standby of the primary."""
        folder = self._next()
        account = binaries.account_for(folder)
        (folder / "pg").mkdir(mode=0o700)
        if not account.is_self:
            os.chown(folder / "pg", account.uid, account.gid)
        subprocess.run([binaries.find(account, self.major).folder / "pg_basebackup", "-D", ".", "-h", "127.0.0.1", "-p",
                        str(self.primary.port), "-U", "postgres",
                        "--checkpoint=fast", "--wal-method=stream", "--no-sync"], cwd=folder / "pg", check=True,
                       capture_output=True, **account.become())
        (folder / "pg" / "standby.signal").touch()
        (folder / "created").touch()
        self.behind = Proxy(self.primary.port)
        self.standby = Postgres(folder, self.major, tcp=True,
                                primary_conninfo=f"host=127.0.0.1 port={self.behind.port} user=postgres")
        until(lambda: self.primary.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"),
              "the standby follows")
