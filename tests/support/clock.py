"""Another wall clock for a daemon under test, by Debian's package faketime."""
from __future__ import annotations

import sysconfig
from pathlib import Path

LIBRARY = Path("/usr/lib") / sysconfig.get_config_var("MULTIARCH") / "faketime" / "libfaketime.so.1"


def other_clock(offset: str) -> dict[str, str]:
    """Settings of a daemon whose wall clock is off, say "+1h"; its monotonic clock is the machine's."""
    return {"LD_PRELOAD": str(LIBRARY), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
