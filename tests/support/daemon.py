"""The daemon as a user runs it: a process, its settings in the environment, its log on standard error."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import queend

from .client import Client
from .sanitizer import RUNTIME
from .wait import until

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(queend.__file__).parent.parent  # the build under test: in the checkout, or the sanitizers' one
# Settings of whoever runs the tests must not reach the daemon under test.
FOREIGN = ("PG_", "QUEEN_", "QUEEND_", "SIDECAR_", "DB_", "POP_", "DEFAULT_", "FILE_BUFFER_", "DATABASE_URL", "JWT_", "PORT", "HOST", "NUM_WORKERS", "LOG_LEVEL")


class Daemon:
    """One run of `queend serve`. settings: environment variables on top of the address of the database."""

    def __init__(self, conninfo: str, **settings: Any):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
        environment |= {"QUEEND_DSN": conninfo, "HOST": "127.0.0.1", "PORT": "0", "NUM_WORKERS": "2", "PYTHONPATH": str(PACKAGE)}
        environment["QUEEND_PUSH_TRIAL_MS"] = "0"  # another number of push streams after every batch: harder than any load
        environment["QUEEND_BUFFER_BYTES"] = "0"  # most tests ask what happens without; those of the buffer turn it on
        environment |= RUNTIME
        environment |= {k: str(v) for k, v in settings.items()}
        self.conninfo, self.settings = conninfo, settings
        self.log: list[dict] = []
        self.other: list[str] = []  # lines that are no log lines: nothing may write them
        self.process = subprocess.Popen([sys.executable, "-m", "queend", "serve"], env=environment, cwd="/",
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.line("ready") or self.process.poll() is not None, "the daemon is ready", 60)
        ready = self.line("ready")
        assert ready, f"the daemon ended with {self.process.poll()}: {self.story()}"
        self.port: int = ready["port"]
        self.address = ("127.0.0.1", self.port)
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self, timeout: float = 60.0) -> Client:
        return Client(self.address, timeout)

    def line(self, event: str) -> dict | None:
        """The latest log line of this event."""
        return next((line for line in reversed(self.log) if line.get("event") == event), None)

    def story(self) -> str:
        return "\n".join([json.dumps(line) for line in self.log[-30:]] + self.other[-30:])

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM; everything in flight is answered, the exit status is 0 and nothing leaked."""
        if self.process.poll() is None:
            self.terminate()
        self.ended()

    def ended(self, seconds: float = 60.0) -> None:
        """Waits for the end that `terminate` asked for and checks how it went."""
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        last = self.log[-1] if self.log else {}
        assert status == 0, f"exit status {status}: {self.story()}"
        assert last.get("event") == "stopped" and last["drained"] and not any(last["leaks"].values()), self.story()
        assert not self.other, f"not a log line: {self.other}"

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            text = raw.decode(errors="replace").rstrip("\n")
            try:
                self.log.append(json.loads(text))
            except ValueError:
                self.other.append(text)
