"""Instructions of one function of a program, call by call: no clock, so no noise."""
from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def instructions(function: str, words: Sequence[object], out: Path, **how: Any) -> list[int]:
    """Of each call of `function`, which does not call itself, while the program runs. out: a folder it may write to.
    how: as subprocess.run takes it."""
    # The second pattern is another than the first: callgrind forgets the one of two alike.
    done = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", f"--toggle-collect={function}",
                           f"--dump-after=*{function}", f"--callgrind-out-file={out}/out", *words],
                          capture_output=True, text=True, **how)
    assert done.returncode == 0, done.stderr
    dumps = []
    for path in out.glob("out.*"):
        text = path.read_text()
        if "Trigger: --dump-after=" in text:
            part = int(re.search(r"^part: (\d+)$", text, re.M)[1])
            dumps.append((part, int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1])))
    return [total for _, total in sorted(dumps)]
