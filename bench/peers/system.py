"""A message system under load, run as an unprivileged account in a folder that is removed afterwards, reachable on the
loopback only."""

import abc
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from generator import HERE, build, follow
from process import cpu_seconds

SOURCES = [HERE / "peers" / f"{name}.c" for name in ("main", "link", "nats", "amqp", "pgmq")] + [
    HERE / "load" / f"{name}.c" for name in ("payload", "text")]
ACCOUNT = 65534  # nobody; only when we are root


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def version_of(package: str) -> str:
    """What Debian installed, or "" when it did not."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout


def disk_bytes(folder: Path) -> int:
    """Blocks that the files below `folder` take."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


class System(abc.ABC):
    """One system: `wire` and `host`, `port` are what the load generator wants to know, the rest is for the report.

    name: in the report. durability: when a message counts as stored, in words. version: of the server.
    """
    name = wire = durability = version = ""
    host, port = "127.0.0.1", 0
    autopilot = False  # may consumers leave it to the server how much they take?

    def __init__(self, major: int | None = None) -> None:
        """`major`: of PostgreSQL, for those that use it."""
        self.major = major
        self.home = Path(tempfile.mkdtemp(prefix="queend-peers-", dir=os.environ.get("QUEEND_BENCH_DIR")))
        self.started: list[subprocess.Popen] = []
        if os.getuid() == 0:
            os.chown(self.home, ACCOUNT, ACCOUNT)

    @abc.abstractmethod
    def start(self) -> None:
        """Returns when the system answers; what it started before it failed ends with `stop`."""

    def launch(self, command: list, environment: dict | None = None) -> subprocess.Popen:
        """Starts a program as the leader of a group of its own, so that whatever it starts ends with it."""
        other = dict(user=ACCOUNT, group=ACCOUNT, extra_groups=[]) if os.getuid() == 0 else {}
        with open(self.home / "log", "ab") as log:
            process = subprocess.Popen(command, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True,
                                       env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home),
                                            "LANG": "C.UTF-8", **(environment or {})}, **other)
        self.started.append(process)
        return process

    def await_port(self, process: subprocess.Popen, port: int, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"bench: {self.name} did not start:\n" + (self.home / "log")
                                     .read_text()[-3000:]) from None
                time.sleep(0.05)

    def create(self, queue: str) -> None:
        self._client(queue, "create")

    def count(self, queue: str) -> int:
        """Messages the queue holds."""
        return int(self._client(queue, "count"))

    def _command(self, queue: str) -> list[str]:
        return [str(build("peers", SOURCES)), self.wire, self.host, str(self.port), queue]

    def _client(self, queue: str, word: str) -> str:
        done = subprocess.run([*self._command(queue), word], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"bench: {self.name}: could not {word} {queue}")
        return done.stdout

    def run(self, queue: str, warm: float, seconds: float, roles: list[dict], start, stop) -> dict:
        """One load; `start` and `stop` are called when its measured window begins and ends. Returns the generator's
        report."""
        words = [",".join([role["kind"], *(f"{key}={value}" for key, value in role.items() if key != "kind")])
                 for role in roles]
        return follow([*self._command(queue), "run", str(warm), str(seconds), *words], start, stop)

    def cpu_seconds(self) -> dict[str, float]:
        """Seconds so far, by part of the system."""
        return {"server": sum(cpu_seconds(process.pid) for process in self.started if process.poll() is None)}

    def disk_bytes(self) -> int:
        return disk_bytes(self.home)

    def stop(self) -> None:
        for process in reversed(self.started):
            for sign in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, sign)
                    process.wait(20)
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
        shutil.rmtree(self.home, ignore_errors=True)
