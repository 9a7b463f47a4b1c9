"""The examples of docs/client.md, against a daemon. Those of tests run in a pytest of their own, with the plugin."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.client import Client as Plain
from support.daemon import PACKAGE, ROOT, Daemon
from support.wait import PATIENCE, until

PAGE = (ROOT / "docs" / "client.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
FILES = {block.splitlines()[0].removeprefix("# "): block for block in BLOCKS if block.startswith("# ")}
SHOWN = [block for block in BLOCKS if not block.startswith("# ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the page shows."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE)}


def test_the_page_has_what_is_tested() -> None:
    assert len(SHOWN) == 3 and set(FILES) == {"shop.py", "conftest.py", "test_shop.py"}


def test_the_clients(daemon: Daemon, client: Plain, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(SHOWN).replace("http://127.0.0.1:6632", daemon.url))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:4]) == ["customer-10 {'order': 10} 1", "customer-7 {'order': 7} 1",
                                 "customer-8 {'order': 8} 1", "customer-9 {'order': 9} 1"]
    assert lines[4] == "{'to': 'ada@example.org'}" and "status='queued'" in lines[5]
    assert [one["data"] for one in client.pop("parcels")] == [{"order": 11}]
    assert client.get("/api/v1/messages/scheduled?queue=reminders").json["scheduled"] == []


def test_the_workers(start_daemon, folder: Path) -> None:
    daemon = start_daemon()
    (folder / "shop.py").write_text(FILES["shop.py"].replace("http://127.0.0.1:6632", daemon.url))
    with daemon.client() as client:
        for order in (7, -1, 9):
            client.push("orders", {"order": order}, partition=f"customer-{order}")
        (command,) = re.findall(r"^queend (worker shop:app) +# all workers$", PAGE, re.M)
        process = subprocess.Popen([sys.executable, "-m", "queend", *command.split()], cwd=folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        try:
            until(lambda: client.show("receipts").status == 200, "a receipt is pushed")
            for queue, group in (("orders", "?group=payment"), ("receipts", "")):
                until(lambda: client.get(f"/api/v1/resources/queues/{queue}/depth{group}").json["pending"] == 0, queue)
        finally:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
        assert sorted(output.splitlines()) == ["receipt {'order': 7}", "receipt {'order': 9}"]
        assert client.dead("orders") == 1


@pytest.mark.daemon
def test_the_tests_of_an_application(folder: Path) -> None:
    """A daemon of its own, with its PostgreSQL, that ends with the session."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp",
                           str(folder / "temporary"), "test_shop.py"], cwd=folder, capture_output=True, text=True,
                          env=environment())
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
    (log,) = {path.resolve() for path in folder.glob("temporary/*/queend.log")}     # pytest links to the folder, too
    assert '"stopped"' in log.read_text().splitlines()[-1]
