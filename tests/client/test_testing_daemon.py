"""What `queend.testing` does if its daemon does not start, and how pytest finds it. That it starts is shown by the
examples of the document."""
from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from queend import testing
from queend.testing import Daemon, DaemonError

ROOT = Path(__file__).resolve().parents[2]
PROBE = """
import sys
def test_the_fixtures_are_there(request):
    assert not [name for name in ("httpx", "queend.client", "queend.testing.daemon") if name in LOADED]
    assert request.session._fixturemanager.getfixturedefs("queend", request.node) is not None
LOADED = set(sys.modules)
"""


def test_a_daemon_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="NUM_WORKERS"):
        Daemon(tmp_path, NUM_WORKERS="many")


@pytest.mark.daemon
def test_a_daemon_that_does_not_start_in_time_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="not ready"):
        Daemon(tmp_path, seconds=0.0)


@pytest.mark.parametrize("plugins", [[], ["queend.testing"]])
def test_pytest_finds_the_fixtures_of_an_installed_queend(tmp_path: Path, plugins: list[str]) -> None:
    """By the entry point of the wheel; a conftest.py may name the plugin all the same. Nothing else is imported."""
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    made = tmp_path / "site" / "queend-0.1.0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: queend\nVersion: 0.1.0\n")
    (made / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{name} = {of}\n" for name, of in points.items()))
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = {plugins}\n")
    (tmp_path / "test_probe.py").write_text(PROBE)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=tmp_path, text=True,
                          capture_output=True, env={"PYTHONPATH": f"{ROOT}:{made.parent}"})
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_an_unknown_name_of_the_plugin() -> None:
    assert testing.Queues.__name__ == "Queues"
    with pytest.raises(AttributeError, match="no attribute 'Queue'"):
        _ = testing.Queue
