"""The load generator of the benchmark, for tests of what it sends."""
from __future__ import annotations

import json
import subprocess
import sys

from .daemon import ROOT

BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

from generator import LOAD, build  # noqa: E402


def load(port: int, *roles: str, seconds: float = 60, warm: float = 0) -> dict:
    """Its report; it ends after so many seconds, or when every role has its count."""
    done = subprocess.run([build("load", LOAD), "127.0.0.1", str(port), str(warm), str(seconds), *roles],
                          capture_output=True, text=True, check=True)
    first, second, report = done.stdout.splitlines()
    assert (first, second) == ("start", "stop")
    return json.loads(report)
