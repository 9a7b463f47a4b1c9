"""A daemon for tests, with its PostgreSQL in a folder."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Settings of the program under test must not reach the daemon.
FOREIGN = ("QUEEND_", "QUEEN_", "PG_", "DATABASE_URL", "JWT_", "DB_", "POP_", "DEFAULT_", "FILE_BUFFER_", "SIDECAR_",
           "HOST", "PORT", "NUM_WORKERS", "LOG_LEVEL", "CORS_ORIGINS", "WEBAPP_ROOT")
LOOK = 0.05     # s: between two looks at the log while the daemon starts


class DaemonError(Exception):
    """The daemon did not start. The text has the end of its log."""


class Daemon:
    """Runs `queend serve` with an embedded PostgreSQL in `folder`. seconds: how long the start may take; settings:
    further ones, as environment variables."""

    def __init__(self, folder: Path, seconds: float = 120.0, **settings: object):
        self.folder = Path(folder)
        self.log = self.folder / "queend.log"
        self.url = ""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        environment |= {"QUEEND_DATA_DIR": str(self.folder / "data"), "HOST": "127.0.0.1", "PORT": "0"}
        environment |= {name: str(value) for name, value in settings.items()}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "queend", "serve"], env=environment,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        try:
            self._await_ready(time.monotonic() + seconds)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, seconds: float = 60.0) -> None:
        """Stops the daemon and its PostgreSQL; kills the daemon if that takes longer than so many seconds."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def lines(self) -> list[dict[str, Any]]:
        """Returns the log so far."""
        found: list[dict[str, Any]] = []
        for line in self.log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:      # of a line that is not written to its end, and of warnings of Python
                pass
        return found

    def _await_ready(self, end: float) -> None:
        while True:
            for line in self.lines():
                if line.get("event") == "ready":
                    scheme = str(line["detail"]).partition("://")[0]
                    self.url = f"{scheme}://127.0.0.1:{line['port']}"
                    return
            if self.process.poll() is not None or time.monotonic() > end:
                told = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
                raise DaemonError(f"queend serve is not ready (status {self.process.poll()}):\n{told}")
            time.sleep(LOOK)
