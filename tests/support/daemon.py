"""The daemon as a user runs it: a process, its settings in the environment, its log on standard error."""
from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import forked
from .certificates import session_authority, trusting
from .client import Client
from .forked import PACKAGE
from .http import secure_ports
from .sanitizer import preloaded
from .wait import PATIENCE, until

ROOT = Path(__file__).resolve().parents[2]
# Settings of whoever runs the tests must not reach the daemon under test.
FOREIGN = ("PG_", "QUEEN_", "QUEEND_", "SIDECAR_", "DB_", "POP_", "DEFAULT_", "FILE_BUFFER_", "DATABASE_URL", "JWT_",
           "PORT", "HOST", "NUM_WORKERS", "LOG_LEVEL")
HARDER = {
    "NUM_WORKERS": 2,
    "QUEEND_SLOTS": 4,         # each connection costs PostgreSQL 10 ms of the processor
    "QUEEND_BUFFER_BYTES": 0,  # most tests ask what happens without; those of the buffer turn it on
}


class Daemon:
    """One run of `queend serve`, ready when this returns. conninfo: its database. settings: environment variables
    besides. With OVER_TLS in the environment of the tests its port speaks TLS, and `Wire` with it, so with every
    client of the tests that is made of it."""

    def __init__(self, conninfo: str, **settings: Any):
        self.conninfo, self.settings = conninfo, settings
        self._begin({"QUEEND_DSN": conninfo, **HARDER, **settings})
        self.await_ready()

    @classmethod
    def plain(cls, conninfo: str, **settings: Any) -> Daemon:
        """With default settings, in an interpreter of its own, as people start it."""
        return cls._plain(conninfo, {"QUEEND_DSN": conninfo, **settings}).await_ready()

    @classmethod
    def under(cls, program: Sequence[str], conninfo: str, **settings: Any) -> Daemon:
        """As the tests start it, by a program that becomes the daemon."""
        daemon = cls.__new__(cls)
        daemon.conninfo, daemon.settings = conninfo, settings
        daemon._begin({"QUEEND_DSN": conninfo, **HARDER, **settings}, before=program)
        return daemon.await_ready()

    @classmethod
    def own(cls, folder: Path, alone: bool = False, **settings: Any) -> Daemon:
        """Starts one with default settings and its PostgreSQL in `folder`. Returns at once. alone: in an interpreter of
        its own, which takes 0.7 s of the processor."""
        return cls._plain("", {"QUEEND_DATA_DIR": folder, **settings}, alone)

    @classmethod
    def _plain(cls, conninfo: str, settings: dict[str, Any], alone: bool = True) -> Daemon:
        daemon = cls.__new__(cls)
        daemon.conninfo, daemon.settings = conninfo, settings
        daemon._begin(settings, alone=alone)
        return daemon

    def _begin(self, settings: dict[str, Any], handed: Sequence[int] = (), before: Sequence[str] = (),
               alone: bool = False) -> None:
        # handed: descriptors that it inherits; before: a program that starts it; alone: in an interpreter of its own
        environment = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        environment |= {"HOST": "127.0.0.1", "PORT": "0", "PYTHONPATH": str(PACKAGE)}
        self.over_tls = bool(os.environ.get("OVER_TLS")) and "QUEEND_TLS_CERT" not in settings
        if self.over_tls:
            pair = session_authority().shared
            settings = {"QUEEND_TLS_CERT": pair.cert, "QUEEND_TLS_KEY": pair.key, **settings}
        environment |= {k: str(v) for k, v in settings.items()}
        self.log: list[dict] = []
        self.other: list[str] = []  # lines that are no log lines: nothing may write them
        self.greeting: list[str] = []  # lines for who sits at a terminal
        self._heard = 0  # lines of the log that `await_event` has passed
        self.port = 0
        environment = preloaded(environment)
        if alone or handed or before or not forked.fits(environment):
            if before and "LD_PRELOAD" in environment:     # not for that program: a shell dies of ThreadSanitizer's
                before = [*before, "env", f"LD_PRELOAD={environment.pop('LD_PRELOAD')}"]
            self.process = subprocess.Popen([*before, sys.executable, "-m", "queend", "serve"], cwd="/",
                                            env=environment, pass_fds=handed, text=True, errors="replace",
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        else:
            self.process = forked.Forked(["serve"], environment)
        self._readers = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_greeting)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()

    @property
    def pid(self) -> int:
        return self.process.pid

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes of the process: VmRSS now, VmHWM the most since it began or since `clear_refs` was written."""
        status = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith(field)) * 1024

    def descriptors(self) -> int:
        """How many it has open. A job, or a look at its own threads, opens one for a moment."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def holds(self, inode: str) -> bool:
        """Whether this socket of its own is still open (socket_to gives the inode)."""
        links = Path(f"/proc/{self.pid}/fd").iterdir()
        return f"socket:[{inode}]" in {os.path.realpath(one).rpartition("/")[2] for one in links}

    def socket_to(self, client: Client) -> str:
        """The inode of its socket that serves this client."""
        ends = tuple(f"{port:04X}" for port in (self.port, client.wire.socket.getsockname()[1]))
        (inode,) = (at[9] for at in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
                    if (at[1][-4:], at[2][-4:]) == ends)
        return inode

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def url(self) -> str:
        return f"{'https' if self.over_tls or 'QUEEND_TLS_CERT' in self.settings else 'http'}://127.0.0.1:{self.port}"

    def client(self, timeout: float = PATIENCE) -> Client:
        return Client(self.address, timeout)

    def request(self, method: str, target: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
        """One call on a connection of its own: status, headers and body, as JSON if it is."""
        with self.client() as client:
            answer = client.request(method, target, body)
        is_json = answer.headers.get("content-type") == "application/json"
        return answer.status, answer.headers, answer.json if is_json and answer.body else answer.body.decode()

    # -- its log -----------------------------------------------------------------------------------------------------

    def line(self, event: str) -> dict | None:
        """The latest log line of this event."""
        return next((line for line in reversed(self.log) if line.get("event") == event), None)

    def told(self, event: str) -> dict:
        """The same, waited for: what the log tells is read a moment after the answer to the request it tells of."""
        return until(lambda: self.line(event), f"the daemon tells {event}")

    def await_event(self, event: str, seconds: float = PATIENCE) -> dict:
        """The next log line of this event after those that were awaited before."""
        def look() -> dict | None:
            over = self.process.poll() is not None and not self._readers[0].is_alive()
            while self._heard < len(self.log):
                self._heard += 1
                if self.log[self._heard - 1].get("event") == event:
                    return self.log[self._heard - 1]
            assert not over, f"the daemon ended with {self.process.returncode} before {event}: {self.story()}"
            return None
        return until(look, f"the daemon tells {event}", seconds)

    def await_ready(self) -> Daemon:
        self.port = self.await_event("ready")["port"]
        secure_ports.pop(self.port, None)
        if self.over_tls:
            secure_ports[self.port] = trusting(session_authority())
        return self

    def story(self) -> str:
        return "\n".join([json.dumps(line) for line in self.log[-30:]] + self.other[-300:])

    # -- its end -----------------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM; everything in flight is answered, the exit status is 0 and nothing leaked."""
        if self.process.poll() is None:
            self.terminate()
        self.ended()

    def ended(self, seconds: float = PATIENCE) -> None:
        """Waits for the end that `terminate` asked for and checks how it went."""
        status = self.wait(seconds)
        last = self.log[-1] if self.log else {}
        assert status == 0, f"exit status {status}: {self.story()}"
        assert last.get("event") == "stopped" and last["drained"] and not any(last["leaks"].values()), self.story()
        assert not self.other, f"not a log line: {self.other}"

    def end(self, number: int = signal.SIGTERM) -> int:
        """A signal, unless it has ended by itself; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit status, when all it wrote has been read."""
        status = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        return status

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.wait()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                try:
                    self.log.append(json.loads(line))
                except ValueError:
                    self.other.append(line.rstrip("\n"))
                self._has_read(line)

    def _has_read(self, line: str) -> None:
        """A line of the log, in the thread that reads them."""

    def _read_greeting(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.greeting.append(line)


class Unread(Daemon):
    """Nobody reads its log, from the moment it is ready until `reads` is set."""

    def _has_read(self, line: str) -> None:
        if '"ready"' in line:
            self.reads.wait()

    @functools.cached_property
    def reads(self) -> threading.Event:
        return threading.Event()
