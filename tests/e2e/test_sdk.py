"""The published Python SDK, unmodified, in both its generations, against the daemon."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon import Daemon

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = Path(__file__).with_name("sdk_scenario.py")
MESSAGES = 100_000
# generation: what pip is asked for, batch of the consumers (0: the SDK's own choice)
GENERATIONS = {"0.15": ("queen-mq==0.15.0", 200), "2": ("queen-mq>=2,<3", 0)}


@pytest.fixture(params=GENERATIONS)
def sdk(request: pytest.FixtureRequest) -> tuple[Path, int]:
    """The interpreter of an environment with this generation of the SDK (made once, kept in the checkout), and the batch."""
    requirement, batch = GENERATIONS[request.param]
    folder = ROOT / f".venv-sdk-{request.param}"
    ready = folder / "ready"
    if not ready.exists() or ready.read_text() != requirement:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", requirement], check=True,
                       stderr=subprocess.DEVNULL)
        ready.write_text(requirement)
    return folder / "bin" / "python", batch


def test_hundred_thousand_messages(daemon_of_its_own: Daemon, sdk: tuple[Path, int]) -> None:
    python, batch = sdk
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("QUEEN", "PYTHON"))}
    done = subprocess.run([python, SCENARIO, daemon_of_its_own.url, str(batch)], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}\n{daemon_of_its_own.story()}"
    seen = json.loads(done.stdout.splitlines()[-1])
    print(seen)
    assert seen["crashed"] > 0 and seen["left"] == 0
    assert [seen[key] for key in ("queued", "workers", "movers", "moved", "replay")] == [MESSAGES] * 5


@pytest.fixture
def daemon_of_its_own(start_daemon) -> Daemon:
    daemon = start_daemon()
    yield daemon
    daemon.stop()
