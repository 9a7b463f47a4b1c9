"""Another wall clock for a daemon under test, by Debian's package faketime. Its monotonic clock is the machine's."""
from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from .sanitizer import PRELOAD

LIBRARIES = Path("/usr/lib") / sysconfig.get_config_var("MULTIARCH") / "faketime"
# What the library does for glibc's older waits has those of today end at once: a thread that waits would spin.
KEPT = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}


def other_clock(offset: str) -> dict[str, str]:
    """Settings of a daemon whose wall clock is off, say "+1h"."""
    return {"FAKETIME": offset, **preloaded("libfaketime.so.1")}


def clock_of(file: Path) -> dict[str, str]:
    """The same by what the file says, which is read once a second: the clock jumps when another offset is written."""
    return {"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1", **preloaded("libfaketimeMT.so.1")}


def preloaded(library: str) -> dict[str, str]:
    """Skips the test under a sanitizer: a daemon that has both libraries preloaded does not start."""
    if PRELOAD:
        pytest.skip("no other clock under a sanitizer")
    return {"LD_PRELOAD": str(LIBRARIES / library), **KEPT}
