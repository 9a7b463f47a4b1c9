"""Commands of `queend` other than `serve`."""
from __future__ import annotations

import os
import subprocess

from .daemon import ROOT
from .forked import PACKAGE, queend


def command(*words: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs one to its end, with nothing in its environment but what is given."""
    return subprocess.run([*queend(), *words], cwd=ROOT, capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PACKAGE), **environment})
