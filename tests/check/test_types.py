"""The types of the Python client: mypy --strict finds nothing in its files, nor in the programs that use it, which see
it as an installed package. Pyright finds nothing either, if `make test-pyright` has installed it.

In the other files mypy, which is less strict there, finds nothing either."""
from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/client.md",)
BUILD = ROOT / "build" / "types"      # what mypy remembers from one run to the next stays here
PYRIGHT = ROOT / "build" / "pyright" / "bin" / "basedpyright"
needs_pyright = pytest.mark.skipif(not PYRIGHT.exists(), reason="make test-pyright installs it")


@dataclass(frozen=True)
class Checker:
    """mypy for an environment. python: the interpreter of it; cache: what mypy remembers from one run to the next."""

    python: Path
    cache: Path

    def told(self, folder: Path, *paths: str) -> list[str]:
        """Returns the lines that mypy prints of files in a folder."""
        words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(self.cache),
                 "--config-file", "", "--python-executable", str(self.python), *paths]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        return (done.stdout + done.stderr).splitlines()


@pytest.fixture(scope="module")
def mypy() -> Checker:
    """mypy for an environment in which queend is installed as a wheel installs it."""
    venv.create(BUILD / "venv", clear=True)
    (site,) = (BUILD / "venv").glob("lib/python*/site-packages")
    (site / "queend").symlink_to(ROOT / "queend")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Checker(BUILD / "venv/bin/python", BUILD / "cache")


def programs(page: str) -> dict[str, str]:
    """Returns the programs of a page: those that begin with the name of a file, and the others as one."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    named = {block.splitlines()[0].removeprefix("# "): block for block in blocks if block.startswith("# ")}
    return {**named, "shown.py": "\n".join(block for block in blocks if not block.startswith("# "))}


@pytest.mark.parametrize("package", ["queend/client", "queend/testing"])
def test_the_types_of_a_package_are_true(mypy: Checker, package: str) -> None:
    assert mypy.told(ROOT, package) == []


def test_the_types_of_the_daemon_and_the_command_line_are_true(tmp_path: Path) -> None:
    # Spark and its formats are not locked: whether their types are there must not matter.
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-pyspark.*,deltalake.*,obstore.*,pyiceberg.*]\n"
                                       "follow_imports = skip\n")
    words = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--ignore-missing-imports", "--no-error-summary",
             "--cache-dir", str(BUILD / "daemon"), "--config-file", str(tmp_path / "mypy.ini"), "queend"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout + done.stderr).splitlines() == []


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_have_true_types(mypy: Checker, page: str, tmp_path: Path) -> None:
    found = programs(page)
    assert len(found) > 3
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    assert mypy.told(tmp_path, ".") == []


def test_an_example_has_true_types(mypy: Checker) -> None:
    """That of Django is not asked: Django has no types."""
    assert mypy.told(ROOT / "examples", "fastapi_orders.py", "orders.py") == []


def test_the_script_of_the_client_has_true_types(mypy: Checker) -> None:
    assert mypy.told(ROOT / "examples", "replay.py") == []


WRONG = """
from dataclasses import dataclass
from queend.client import App, AsyncClient, Client, Context, Message, TypedMessage
client = Client(token=7)
client.push("orders", 7, partition=7)
client.push("orders", 7).partition + 1
for message in client.pop("orders", wait="20"):
    message.lost
@dataclass
class Parcel:
    weight: float
app = App()
@app.worker("parcels")
def weigh(message: TypedMessage[Parcel], context: Context) -> None:
    message.payload.height
    context.push("scale", message.payload.weight, delay="1")
@app.middleware
def told(message: Message) -> None: ...
async def main() -> None:
    client = AsyncClient()
    client.push("orders", 7).id
    (await client.push("orders", 7)).id + 1
def admin(client: Client) -> None:
    client.configure("orders", lease="1m")
    client.seek("orders", "billing", "start")
    next(client.fetch("orders")).lease
"""


WRONG_LINES = [4, 5, 6, 7, 8, 15, 16, 17, 21, 22, 24, 25, 26]


def test_mistakes_of_a_program_are_found(mypy: Checker, tmp_path: Path) -> None:
    """Each line that is wrong, and no other: what the package declares is not Any."""
    (tmp_path / "wrong.py").write_text(WRONG)
    told = mypy.told(tmp_path, "wrong.py")
    assert sorted({int(line.split(":")[1]) for line in told}) == WRONG_LINES, told


def errors_of_pyright(*words: str | Path) -> list[dict[str, Any]]:
    """Returns the errors and warnings that pyright finds, with the settings of a folder."""
    done = subprocess.run([PYRIGHT, "--outputjson", *words], cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"], done.stdout + done.stderr
    return found["generalDiagnostics"]


@needs_pyright
def test_pyright_finds_nothing_in_the_client_and_its_examples() -> None:
    assert errors_of_pyright() == []


@needs_pyright
@pytest.mark.parametrize("page", PAGES)
def test_pyright_finds_nothing_in_the_programs_of_a_page(mypy: Checker, page: str, tmp_path: Path) -> None:
    """The package is installed there, as for mypy."""
    for name, text in programs(page).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    assert errors_of_pyright("-p", tmp_path, "--pythonpath", mypy.python) == []


@needs_pyright
def test_pyright_finds_mistakes_of_a_program(mypy: Checker, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    told = errors_of_pyright("-p", tmp_path, "--pythonpath", mypy.python)
    assert {one["range"]["start"]["line"] + 1 for one in told} == set(WRONG_LINES), told
