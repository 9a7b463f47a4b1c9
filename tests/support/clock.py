"""Other clocks: of a daemon under test, by Debian's package faketime (its monotonic clock is the machine's), and of a
database."""
from __future__ import annotations

import sysconfig
from pathlib import Path

import psycopg
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


def set_back(database: psycopg.Connection, seconds: int) -> None:
    """Sets back the clock of a database, as everything in it reads that clock (queend.now_us)."""
    database.execute(f"""CREATE OR REPLACE FUNCTION queend.now_us() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint - {seconds * 1_000_000} $$""")


def preloaded(library: str) -> dict[str, str]:
    """Skips the test under a sanitizer: a daemon that has both libraries preloaded does not start."""
    if PRELOAD:
        pytest.skip("no other clock under a sanitizer")
    return {"LD_PRELOAD": str(LIBRARIES / library), **KEPT}
