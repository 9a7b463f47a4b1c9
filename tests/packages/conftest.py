"""What `make package` made, installed where nothing is: `make test-packages`. For root, with debootstrap and
systemd-nspawn."""
from __future__ import annotations

import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import Machine

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
BASE = "ca-certificates,curl,dbus,python3,python3-venv,systemd,systemd-sysv"


def told(what: str, began: float) -> None:
    """Seconds, for who runs it with -s."""
    print(f"\n    {what}: {time.monotonic() - began:.1f} s", flush=True)


@pytest.fixture(scope="session")
def wheels() -> list[Path]:
    found = sorted(DIST.glob("queend-*.whl"))
    assert found, "there is nothing in dist/: make package"
    return found


@pytest.fixture(scope="session")
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Debian with Python and systemd, from the mirror that debootstrap takes."""
    if given := request.config.getoption("--clean-folder"):
        yield Path(given)
        return
    folder, began = tmp_path_factory.mktemp("debian") / "root", time.monotonic()
    own = platform.freedesktop_os_release()["VERSION_CODENAME"]
    release = request.config.getoption("--debian") or own
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={BASE}", release, folder], check=True,
                   stdout=subprocess.DEVNULL)
    told("debootstrap", began)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def clean(base: Path, tmp_path: Path) -> Iterator[Machine]:
    """A copy of it, in which nothing of ours is."""
    folder = tmp_path / "root"
    subprocess.run(["cp", "-a", base, folder], check=True)
    machine = Machine(folder)
    yield machine
    machine.off()
    shutil.rmtree(folder)
