"""The TypeScript client against daemons: `make test-typescript`. Its tests are TypeScript, run by Node; what happens to
their daemons and their network they ask for here."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.controls import Controls, Watched
from support.daemon import ROOT, Daemon
from support.tokens import SECRET, token
from support.wait import PATIENCE

CLIENT = ROOT / "clients" / "typescript"
PROGRAMS = CLIENT / "node_modules" / ".bin"
FILES = sorted((CLIENT / "tests").glob("*.test.ts"))
EXAMPLES = [(page.name, place, text) for page in (CLIENT / "README.md", ROOT / "docs" / "typescript.md")
            for place, text in enumerate(re.findall(r"^```ts\n(.*?)^```", page.read_text(), re.M | re.S))]


def run(*words: str | Path, cwd: Path = CLIENT, **more: str) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=4 * PATIENCE,
                          env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class World:
    """A daemon behind a network that loses what it is told to lose; beside it a daemon with room for one pop that waits
    and a daemon with tokens."""

    def __init__(self, start: Callable[..., Daemon]):
        self._start = start
        self.daemon = start()
        self.network = Watched(self.daemon.port)
        self.small = start(QUEEND_MAX_PARKED=1, NUM_WORKERS=1)
        self.guarded = start(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
        self.controls = Controls(lose=self.network.lose, lost=lambda: self.network.lost, cut=self.network.cut,
                                 asked=self.network.asked, restart=self.restart)

    def restart(self) -> None:
        """Stops the daemon. Another one, at another port, serves the network from then on."""
        self.daemon.stop()
        self.daemon = self._start(self.daemon.conninfo)
        self.network.target = self.daemon.port

    @property
    def environment(self) -> dict[str, str]:
        return {"QUEEND_URL": self.network.url, "CONTROLS": self.controls.url, "SMALL": self.small.url,
                "GUARDED": self.guarded.url,
                "TOKEN": token(sub="svc", role="read-write", queues={"mine": ["push", "pop"]})}

    def close(self) -> None:
        self.controls.close()
        self.network.close()


@pytest.fixture
def world(start_daemon: Callable[..., Daemon]) -> Iterator[World]:
    """One per file: a daemon that a test has started again ends with that test."""
    one = World(start_daemon)
    yield one
    one.close()


@pytest.fixture(scope="module")
def built() -> None:
    run(PROGRAMS / "tsc")
    run(PROGRAMS / "tsc", "--project", "tests")


def test_the_types_are_made_of_the_routes() -> None:
    """tests/check compares the hash of what they were made of, without npm."""
    made = run(sys.executable, "-c", "import runpy; print(runpy.run_path('tools/typescript.py')['types'](), end='')",
               cwd=ROOT)
    assert (CLIENT / "src" / "api.ts").read_text() == made, "run: make typescript"


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_under_node(world: World, built: None, file: Path) -> None:
    told = run("node", "--test", "--test-timeout=170000", f"build/tests/{file.stem}.js", **world.environment)
    assert "Warning" not in told and re.search(r"^# pass [1-9]", told, re.M), told


@pytest.fixture(scope="module")
def installed(built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user who has installed the package."""
    folder = tmp_path_factory.mktemp("user")
    package = run("npm", "pack", "--silent", "--pack-destination", folder).split()[-1]
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", f"./{package}", cwd=folder)
    return folder


@pytest.mark.parametrize("page, place, text", EXAMPLES, ids=[f"{page}-{place}" for page, place, _ in EXAMPLES])
def test_an_example(start_daemon: Callable[..., Daemon], installed: Path, page: str, place: int, text: str) -> None:
    daemon = start_daemon()
    (installed / "example.ts").write_text(text.replace("http://127.0.0.1:6632", daemon.url))
    run(PROGRAMS / "tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--typeRoots",
        CLIENT / "node_modules" / "@types", "--types", "node", "example.ts", cwd=installed)
    promised = re.findall(r"console\.log\(.*\); +// (.*)", text)
    assert run("node", "example.js", cwd=installed).splitlines() == promised
