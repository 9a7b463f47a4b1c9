"""The wheel of the client alone: what is in it, and that a program needs nothing else but httpx."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import httpx
import pytest
from support.daemon import Daemon

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
sys.path[:0] = sys.argv[2:]
from queend.client import Client
with Client(sys.argv[1]) as client:
    client.push("wheel", {"n": 7})
    (message,) = client.pop("wheel")
    client.ack(message)
assert not [name for name in sys.modules if name.startswith("queend.") and not name.startswith("queend.client")]
print(message.data)
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return copy_to(tmp_path)


def copy_to(folder: Path) -> Path:
    """Copies what the wheel is made from: setuptools leaves files beside its sources."""
    shutil.copytree(ROOT / "clients/python", folder / "clients/python")
    shutil.copytree(ROOT / "queend/client", folder / "queend/client", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "queend/__init__.py", folder / "queend")
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_to(tmp_path_factory.mktemp("wheel"))
    page = (ROOT / "clients/python/README.md").read_text()
    (command,) = re.findall(r"^pip (wheel .*)$", page, re.M)
    subprocess.run([sys.executable, "-m", "pip", *command.split(), "--no-build-isolation"], cwd=folder, check=True)
    (made,) = folder.glob("dist/*.whl")
    return made


def test_it_holds_the_client_alone(wheel: Path) -> None:
    assert wheel.name.startswith("queend_client-") and wheel.name.endswith("-py3-none-any.whl")
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert files == {f"queend/client/{path.name}" for path in (ROOT / "queend/client").iterdir() if path.is_file()}


def test_its_metadata_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
    told = message_from_bytes(archive.read(name))
    assert all(told[key] for key in ("Author", "Summary", "Keywords", "License-Expression", "Description-Content-Type"))
    assert {"Typing :: Typed", "Programming Language :: Python :: 3"} <= set(told.get_all("Classifier"))


def test_the_command_of_the_page_installs_the_client(copied: Path, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(pip install .*?)^```", (ROOT / "docs/client.md").read_text(), re.M | re.S)
    alone, whole = (line.partition("#")[0].split() for line in block.splitlines())
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", *alone, "--no-deps", "--no-build-isolation", "--target", site], cwd=copied,
                   check=True)
    assert (site / "queend/client/__init__.py").exists() and not (site / "queend/cli").exists()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert whole == ["pip", "install", "'.[client]'"] and "client" in project["optional-dependencies"]


def test_a_program_with_the_wheel(wheel: Path, daemon: Daemon, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", PROGRAM, daemon.url, str(tmp_path),
                           str(Path(httpx.__file__).parents[1])], capture_output=True, text=True)
    assert done.stdout.strip() == "{'n': 7}", done.stderr
