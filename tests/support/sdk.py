"""The published Python SDK in both its generations: environments to run scripts in, and what is documented of it."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from .certificates import session_authority
from .daemon import ROOT, Daemon
from .shared import SHARED, alone
from .tokens import SECRET, token

HERE = ROOT / "tests" / "e2e"  # the scripts
# generation: what pip is asked for, batch of bulk consumers (0: the SDK's own choice)
GENERATIONS = {"0.15": ("queen-mq==0.15.0", 200), "2": ("queen-mq[zstd]>=2,<3", 0)}
# how the second generation may be told to talk
WIRES = {"json": {}, "binary": {"binary_push": True}, "framed": {"framed_pop": True},
         "compressed": {"binary_push": True, "push_compression": True},
         "all": {"binary_push": True, "push_compression": True, "framed_pop": True}}
TOKENS = {"JWT_ENABLED": "true", "JWT_SECRET": SECRET}
LEVELS = ("read-only", "read-write", "admin")

# what docs/compatibility.md says of methods that cannot be called here
NEVER = {"refused", "raises by itself"}


@dataclass
class Sdk:
    """An environment with one generation of the SDK."""

    generation: str
    batch: int
    python: Path

    def run(self, script: str, daemon: Daemon, *arguments: str) -> list[str]:
        """Runs a script of this folder in the environment; the lines it printed."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
        # Each client of httpx reads the certificates to trust: one takes 2 ms, those of the system 24 ms.
        environment["SSL_CERT_FILE"] = str(session_authority().file)
        done = subprocess.run([self.python, HERE / script, daemon.url, *arguments], capture_output=True, text=True,
                              env=environment, timeout=600)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{daemon.story()}"
        part = SHARED / f"part-{os.getpid()}-{threading.get_ident()}"
        part.write_text(done.stdout)
        part.rename(SHARED / f"{self._told(script, 'JWT_ENABLED' in daemon.settings)}-{time.time_ns()}")
        return done.stdout.splitlines()

    def called(self, script: str, tokens: bool) -> set[str] | None:
        """Methods that a script has called of a daemon without or with tokens; None if it did not run yet."""
        return self._words("covered ", self._told(script, tokens))

    def methods(self) -> set[str]:
        """What there is to call (sdk_covered.py)."""
        return self._words("methods ", f"sdk-{self.generation}-") or set()

    def _told(self, script: str, tokens: bool) -> str:
        return f"sdk-{self.generation}-{script}-{tokens}"

    @staticmethod
    def _words(beginning: str, files: str) -> set[str] | None:
        lines = [line for file in SHARED.glob(f"{files}*") for line in file.read_text().splitlines()
                 if line.startswith(beginning)]
        return {word for line in lines for word in line.split()[1:]} if lines else None


def prepare(generation: str) -> Sdk:
    """The environment of a generation, made once and kept in the checkout."""
    requirement, batch = GENERATIONS[generation]
    folder = ROOT / f".venv-sdk-{generation}"
    ready = folder / "ready"
    with alone():
        if not ready.exists() or ready.read_text() != requirement:
            subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
            pip(folder / "bin" / "python", "install", requirement)
            ready.write_text(requirement)
    return Sdk(generation, batch, folder / "bin" / "python")


def pip(python: Path, *words: str | Path) -> None:
    """Ours serves their environments: to give each one of its own takes longer than all the rest."""
    done = subprocess.run([sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check",
                           *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def documented(generation: str) -> dict[str, str]:
    """Method → what docs/compatibility.md says of it for a generation."""
    column, told = list(GENERATIONS).index(generation) + 1, {}
    for line in ((ROOT / "docs/compatibility.md").read_text()
                 .partition("## Methods of the Python client")[2].partition("\n## ")[0].splitlines()):
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            told |= dict.fromkeys(re.findall(r"`(.+?)`", cells[0]), cells[column])
    return {name: word for name, word in told.items() if word != "—"}


def bearer(role: str = "admin") -> str:
    return token(sub="the sdk", role=role, exp=3600)


def producers(daemon: Daemon) -> set[str | None]:
    """Returns who stored the records of all queues, as tokens named them; None is among them if a record does not tell.
    Reads each row once: to ask for one record after the other reads all records before each."""
    with psycopg.connect(daemon.conninfo) as connection:
        return {name for name, in connection.execute(
            "SELECT DISTINCT (SELECT m.producer_sub FROM queend.meta_piece(r.piece) m) FROM queend.log l"
            " CROSS JOIN LATERAL generate_series(0, l.n - 1) i"
            " LEFT JOIN LATERAL queend.meta_records(l.meta) r ON r.ord = i")}
