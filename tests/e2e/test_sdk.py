"""The published Python SDK, unmodified, in both its generations, against the daemon."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.daemon import Daemon

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MESSAGES = 100_000
# generation: what pip is asked for, batch of bulk consumers (0: the SDK's own choice)
GENERATIONS = {"0.15": ("queen-mq==0.15.0", 200), "2": ("queen-mq>=2,<3", 0)}


@dataclass
class Sdk:
    """An environment with one generation of the SDK."""

    generation: str
    batch: int
    python: Path

    def run(self, script: str, daemon: Daemon, *arguments: str) -> list[str]:
        """Runs a script of this folder in the environment; the lines it printed."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON", "LD_PRELOAD"))}
        done = subprocess.run([self.python, HERE / script, daemon.url, *arguments], capture_output=True, text=True, env=environment, timeout=600)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{daemon.story()}"
        return done.stdout.splitlines()


@pytest.fixture(scope="module", params=GENERATIONS)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    """Made once, kept in the checkout."""
    requirement, batch = GENERATIONS[request.param]
    folder = ROOT / f".venv-sdk-{request.param}"
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != requirement:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        done = subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        ready.write_text(requirement)
    return Sdk(request.param, batch, folder / "bin" / "python")


@pytest.fixture
def daemon_of_its_own(start_daemon) -> Daemon:
    daemon = start_daemon()
    yield daemon
    daemon.stop()


def test_calls(daemon_of_its_own: Daemon, sdk: Sdk) -> None:
    assert len(sdk.run("sdk_calls.py", daemon_of_its_own, sdk.generation)) >= 14


def test_hundred_thousand_messages(daemon_of_its_own: Daemon, sdk: Sdk) -> None:
    """Nothing lost, nothing twice, nothing out of order inside a partition: the script sees to the last two."""
    seen = json.loads(sdk.run("sdk_scenario.py", daemon_of_its_own, str(sdk.batch))[-1])
    print(seen)
    assert seen["crashed"] > 0 and seen["left"] == 0
    assert [seen[key] for key in ("queued", "workers", "movers", "moved", "replay")] == [MESSAGES] * 5
