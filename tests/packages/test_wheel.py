"""A wheel in a Debian where nothing is: no compiler, no network, no PostgreSQL."""
from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import told

SERVE = """
cd /tmp
QUEEND_DATA_DIR=/tmp/queend /opt/queend/bin/queend serve 2> /tmp/log &
daemon=$!
for i in $(seq 600); do /opt/queend/bin/queend status > /dev/null 2>&1 && break; kill -0 $daemon; sleep 0.1; done
/opt/queend/bin/queend push orders '{"n":1}' --partition customer-7
/opt/queend/bin/queend pop orders --ack -o json
kill $daemon
wait $daemon
tail -n 1 /tmp/log
"""


@pytest.fixture
def given(wheels: list[Path], base: Path, tmp_path: Path) -> Path:
    """The wheel for the Python of the machine, and all it needs, as it comes compiled."""
    folder = tmp_path / "wheels"
    python = next(path.name for path in sorted((base / "usr/bin").glob("python3.??")))
    tag = "cp" + python.removeprefix("python").replace(".", "")
    wheel, = (path for path in wheels if f"-{tag}-" in path.name)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary",
                    ":all:", "--python-version", python.removeprefix("python"), "--dest", folder, wheel], check=True)
    return folder


def test_installed_and_served_from_the_wheel(clean, given):
    assert not list((clean.root / "usr/bin").glob("*gcc*")) and not (clean.root / "usr/lib/postgresql").exists()
    began = time.monotonic()
    clean.run("python3", "-m", "venv", "/opt/queend")
    clean.run("/opt/queend/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/given", "queend", bind=given)
    told("venv and installation of the wheel", began)
    clean.run("useradd", "--system", "somebody")
    began = time.monotonic()
    clean.put("/opt/serve.sh", SERVE)      # /tmp is another one in each run
    for account in ("somebody", "root"):
        out = clean.shell(f"runuser -u {account} -- sh -e /opt/serve.sh; rm -rf /tmp/queend /tmp/log")
        assert '"n":1' in out.replace(" ", "") and '"stopped","drained":true' in out, out
    told("served twice with a PostgreSQL of its own, first message included", began)
    assert list((clean.root / "opt/queend/share/queend/systemd").glob("queend.service"))
