"""The examples of docs/client.md, against a daemon. Those of tests run in a pytest of their own, with the plugin."""
from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.client import Client as Plain
from support.daemon import PACKAGE, ROOT, Daemon
from support.forked import queend
from support.wait import PATIENCE, until
from support.workers import consumed, pending

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
    files = {"shop.py", "parcels.py", "mail.py", "invoices.py", "conftest.py", "test_shop.py"}
    assert len(SHOWN) == 5 and set(FILES) == files


def test_the_clients(daemon: Daemon, client: Plain, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(SHOWN).replace("http://127.0.0.1:6632", daemon.url))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:4]) == ["customer-10 {'order': 10} 1", "customer-7 {'order': 7} 1",
                                 "customer-8 {'order': 8} 1", "customer-9 {'order': 9} 1"]
    assert lines[4] == "{'to': 'ada@example.org'}" and "status='queued'" in lines[5]
    assert lines[6:] == ["customer-7 0 order-7 {'order': 7}", "5 orders", "1 to bill", "billing 1 ", "shipping 4 ",
                         "5 to bill"]
    assert [one["data"] for one in client.pop("parcels")] == [{"order": 11}]
    assert client.get("/api/v1/messages/scheduled?queue=reminders").json["scheduled"] == []


def worked(folder: Path, daemon: Daemon, module: str, command: str, done: Callable[[], None]) -> list[str]:
    """Runs the workers of a file of the page until all is done. Returns the lines that they print, sorted."""
    (folder / f"{module}.py").write_text(FILES[f"{module}.py"].replace("http://127.0.0.1:6632", daemon.url))
    process = subprocess.Popen([*queend(), *command.split()], cwd=folder, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
    try:
        done()
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return sorted(output.splitlines())


def test_the_workers(start_daemon, folder: Path) -> None:
    daemon = start_daemon()
    command, one_group = re.findall(r"^queend (worker shop:app[^#\n]*)", PAGE, re.M)
    with daemon.client() as client:
        def done() -> None:
            until(lambda: client.show("receipts").status == 200, "a receipt is pushed")
            consumed(client, "orders", "payment")
            consumed(client, "receipts")

        for order in (7, -1, 9):
            client.push("orders", {"order": order}, partition=f"customer-{order}")
        assert worked(folder, daemon, "shop", command, done) == ["receipt {'order': 7}", "receipt {'order': 9}"]
        assert client.dead("orders") == 1
        client.push("orders", {"order": 11}, partition="customer-7")
        assert worked(folder, daemon, "shop", one_group, lambda: consumed(client, "orders", "payment")) == []
        until(lambda: pending(client, "receipts") == 1, "its receipt waits: the other worker does not run")


def test_typed_payloads(start_daemon, folder: Path) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("parcels", {"number": 7, "weight": "heavy"}, {"number": 8, "weight": 2})
        lines = worked(folder, daemon, "parcels", "worker parcels:app",
                       lambda: consumed(client, "parcels", "scale"))
        (letter,) = client.get("/api/v1/dlq?queue=parcels").json["messages"]
    (promised,) = re.findall(r"`(queue parcels: .*)`", PAGE)
    assert lines == ["parcel 8 2.0"] and letter["errorMessage"] == promised


def test_the_middleware(start_daemon, folder: Path) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.configure("mail", retryLimit=0)
        for name in ("ada@example.org", "eve", "nobody"):
            client.push("mail", {"to": name}, partition=name)
        lines = worked(folder, daemon, "mail", "worker mail:app", lambda: until(
            lambda: client.dead("mail") == 1 and pending(client, "mail", "sender") == 1, "only eve's mail waits"))
    assert lines == ["ada@example.org sent", "eve Later", "nobody ValueError"]


def test_traces(start_daemon, folder: Path) -> None:
    """Without an SDK there are no spans, and a trace is carried on all the same."""
    daemon, trace = start_daemon(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with daemon.client() as client:
        client.post("/api/v1/push", {"items": [{"queue": "invoices", "payload": 7, "traceparent": trace}]})
        worked(folder, daemon, "invoices", "worker invoices:app", lambda: consumed(client, "invoices", "printer"))
        (printed,) = client.pop("printed")
    assert printed["data"] == 7 and printed["traceparent"] == trace


@pytest.mark.daemon
def test_the_tests_of_an_application(folder: Path) -> None:
    """A daemon of its own, with its PostgreSQL, that ends with the session."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp",
                           str(folder / "temporary"), "test_shop.py"], cwd=folder, capture_output=True, text=True,
                          env=environment())
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr
    (log,) = {path.resolve() for path in folder.glob("temporary/*/queend.log")}     # pytest links to the folder, too
    assert '"stopped"' in log.read_text().splitlines()[-1]
