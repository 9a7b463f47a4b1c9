"""The command line against a daemon: in this process where a terminal is not the subject, else at one of its own."""
from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from queend.cli import app

from .daemon import PACKAGE
from .wait import PATIENCE

# Nothing of whoever runs the tests may say which server is meant.
QUIET: dict[str, Any] = {"QUEEND_URL": None, "QUEEND_TOKEN": None, "QUEEND_TOKEN_FILE": None, "QUEEND_CONTEXT": None,
                         "COLUMNS": "200"}


class Done:
    """What a command did: status, both outputs."""

    def __init__(self, status: int, out: str, err: str):
        self.status, self.out, self.err = status, out, err

    def __repr__(self) -> str:
        return f"status {self.status}\n{self.out}\n{self.err}"

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Of ndjson."""
        return [json.loads(line) for line in self.out.splitlines()]


def heed_interrupts() -> None:
    """As at a terminal: a shell that was told to run the tests in the background has them ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Cli:
    """The commands, as called for one server. home: where saved servers are."""

    def __init__(self, url: str | None, home: Path, **environment: str):
        self.environment = {**QUIET, "XDG_CONFIG_HOME": str(home), **environment}
        if url:
            self.environment["QUEEND_URL"] = url

    def __call__(self, *words: str, input: str | bytes | None = None, **environment: str | None) -> Done:
        """In this process."""
        done = CliRunner().invoke(app, list(words), input=input, env={**self.environment, **environment})
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, **more: Any) -> Done:
        done = self(*words, **more)
        assert done.status == 0, done
        return done

    def process(self, *words: str, environment: dict[str, str] | None = None, **more: Any) -> subprocess.Popen:
        """As one types it: a process of its own."""
        return subprocess.Popen([sys.executable, "-m", "queend", *words], env={**self.clean(), **(environment or {})},
                                cwd="/",
                                preexec_fn=heed_interrupts, **more)

    def at_terminal(self, *words: str, answer: str = "", seconds: float = PATIENCE) -> tuple[int, str]:
        """At a terminal of its own, with `answer` typed as soon as it asks: its status, and all that was shown."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir("/")
            os.execve(sys.executable, [sys.executable, "-m", "queend", *words], {**self.clean(), "TERM": "xterm"})
        shown, deadline = b"", time.monotonic() + seconds
        while True:
            assert time.monotonic() < deadline, shown
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                read = os.read(terminal, 1 << 16)
            except OSError:      # it has ended
                read = b""
            if not read:
                break
            shown += read
            if answer and b"[y/N]" in shown:
                os.write(terminal, answer.encode() + b"\n")
                answer = ""
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()

    def clean(self) -> dict[str, str]:
        """The environment of a process of its own."""
        found = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "LANG": "C.UTF-8", **self.environment}
        return {name: value for name, value in found.items() if value is not None}
