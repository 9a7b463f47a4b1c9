"""Commands of `queend` other than `serve`."""
from __future__ import annotations

import os
import subprocess
import sys

from .daemon import ROOT


def command(*words: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs one to its end, with nothing in its environment but what is given."""
    return subprocess.run([sys.executable, "-m", "queend", *words], cwd=ROOT, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], **environment})
