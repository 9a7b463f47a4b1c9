"""The examples of docs/client.md, as one program against a daemon."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.client import Client as Plain
from support.daemon import PACKAGE, ROOT, Daemon

PAGE = (ROOT / "docs" / "client.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE)}


def test_the_page_has_what_is_tested() -> None:
    assert len(BLOCKS) == 3


def test_the_clients(daemon: Daemon, client: Plain, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(BLOCKS).replace("http://127.0.0.1:6632", daemon.url))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sorted(lines[:4]) == ["customer-10 {'order': 10} 1", "customer-7 {'order': 7} 1",
                                 "customer-8 {'order': 8} 1", "customer-9 {'order': 9} 1"]
    assert lines[4] == "{'to': 'ada@example.org'}" and "status='queued'" in lines[5]
    assert [one["data"] for one in client.pop("parcels")] == [{"order": 11}]
    assert client.get("/api/v1/messages/scheduled?queue=reminders").json["scheduled"] == []
