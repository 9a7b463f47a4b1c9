"""The command line against a daemon: in this process where a terminal is not the subject, else at one of its own."""
from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from queend.cli import app

from .daemon import PACKAGE
from .forked import queend
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
        return subprocess.Popen([*queend(), *words], env={**self.clean(), **(environment or {})},
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


class AtTerminal:
    """A command that goes on at a terminal of its own, until it is interrupted."""

    def __init__(self, cli: Cli, *words: str, **environment: str):
        self.shown = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            heed_interrupts()
            os.chdir("/")
            os.execve(sys.executable, [sys.executable, "-m", "queend", *words],
                      {**cli.clean(), "TERM": "xterm", **environment})

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.terminal)      # the command gets SIGHUP if it still runs
        if self.pid:
            os.waitpid(self.pid, 0)

    def read(self, seconds: float = 0.0) -> None:
        """Takes what is shown now; waits for some at most `seconds`."""
        if select.select([self.terminal], [], [], seconds)[0]:
            with suppress(OSError):      # it has ended
                self.shown += os.read(self.terminal, 1 << 16).decode(errors="replace")

    def shows(self, text: str) -> None:
        """Waits until the picture has a text, or the output a control."""
        deadline = time.monotonic() + PATIENCE
        while text not in (self.shown if text.startswith("\x1b") else "\n".join(self.rows())):
            assert time.monotonic() < deadline, self.shown
            self.read(1.0)

    def rows(self) -> list[str]:
        """Returns the rows that are not empty, as a terminal makes them of all output so far: it knows line ends,
        cursor up, and both kinds of erasing."""
        rows, at, line = [""], 0, ""      # line: the row of the cursor, up to the cursor
        for control, up, sign in re.findall(r"(\x1b\[([\d;]*)[A-Za-z])|([^\x1b])", self.shown):
            if control.endswith("A"):
                at = max(0, at - int(up or 1))
            elif control.endswith(("K", "J")):
                rows[at] = line
                if control.endswith("J"):
                    del rows[at + 1:]
            elif sign == "\r":
                line = ""
            elif sign == "\n":
                at += 1
                rows += [""] * (at + 1 - len(rows))
            elif sign:
                line += sign
                rows[at] = line + rows[at][len(line):]
        return [row.rstrip() for row in rows if row.strip()]

    def interrupt(self) -> None:
        os.write(self.terminal, b"\x03")

    def ended(self) -> int:
        """Waits for the end of the command. Returns its status."""
        while True:
            self.read(1.0)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
