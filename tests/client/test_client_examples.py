"""examples/replay.py does what it says, against a real daemon."""
from __future__ import annotations

import os
import subprocess
import sys

from support.daemon import PACKAGE, ROOT, Daemon


def test_replay(daemon: Daemon, queue: str) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), "QUEEND_URL": daemon.url}
    done = subprocess.run([sys.executable, str(ROOT / "examples/replay.py"), queue], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["to bill: 5", "billed: [1, 2, 3, 4, 5]", "without tax: [4, 5]",
                                        "billing: 2 to bill, paused", "billed again: [4, 5]"]
