"""A folder with a Debian in it, as a machine of its own: programs in it, or its systemd booted (systemd-nspawn)."""
from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from support.wait import until

QUIET = ("--quiet", "--register=no", "--keep-unit")
PLAIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
         "DEBIAN_FRONTEND": "noninteractive"}


class Machine:
    def __init__(self, root: Path):
        self.root = root
        self.nspawn: subprocess.Popen | None = None
        self.leader = 0

    def run(self, *words: object, network: bool = False, bind: Path | None = None, check: bool = True) -> str:
        """A program in it; its standard output. Booted: beside what runs there. network: that of this machine. bind:
        is /given there."""
        if self.nspawn:
            before = ["nsenter", "-t", self.leader, "-a", "env", "-i", *(f"{k}={v}" for k, v in PLAIN.items())]
        else:
            before = ["systemd-nspawn", *QUIET, "--pipe", "--as-pid2", "-D", self.root,
                      *(() if network else ("--private-network",)), *((f"--bind-ro={bind}:/given",) if bind else ()),
                      *(f"--setenv={k}={v}" for k, v in PLAIN.items())]
        done = subprocess.run([str(word) for word in (*before, *words)], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
        return done.stdout

    def shell(self, script: str, **more: object) -> str:
        return self.run("sh", "-ec", script, **more)  # type: ignore[arg-type]

    def put(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def boot(self) -> None:
        """Its systemd, until everything has started."""
        words = ["systemd-nspawn", *QUIET, "--boot", "--private-network", "--console=pipe", "-D", str(self.root)]
        self.nspawn = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        children = Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children")

        def started() -> bool:
            for child in children.read_text().split():      # the first one only prepares
                self.leader = int(child)
                if self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded"):
                    return True
            return False

        until(started, "everything has started", 180)

    def off(self) -> None:
        if self.nspawn is None:
            return
        self.nspawn.send_signal(signal.SIGTERM)      # nspawn asks its systemd to end
        try:
            self.nspawn.wait(60)
        except subprocess.TimeoutExpired:
            os.kill(self.nspawn.pid, signal.SIGKILL)
            self.nspawn.wait()
        self.nspawn = None
