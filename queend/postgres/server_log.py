"""Why a program of PostgreSQL ended, read of what it wrote."""
from __future__ import annotations

import os
import re
from pathlib import Path

LAST = re.compile(r"(?:FATAL|PANIC|error): +(.*)")
TO_A_CLIENT = ("the database system is ", "terminating ")      # the log has answers to connection attempts, too
RAW = re.compile(r"^(?!\d{4}-\d\d-\d\d |\s)(.+)", re.M)      # lines written before the server has its log format
TOLD_BYTES = 4000      # end of the log that is searched for the reason


def reason_of(path: Path, begin: int) -> str:
    """Returns why a server ended, as its log says from position `begin` on; empty if the log does not say."""
    try:
        with open(path, "rb") as log:
            if (late := log.seek(0, os.SEEK_END) - TOLD_BYTES) > begin:
                log.seek(late)
                log.readline()      # the rest of a line that began before
            else:
                log.seek(begin)
            told = log.read().decode(errors="replace")
    except OSError:
        return ""
    # Lines of other levels are left out: they may quote statements and settings.
    return last_words(told) or printable(" ".join(RAW.findall(told)))


def last_words(text: str) -> str:
    """Returns why a program of PostgreSQL ended, of all it wrote; empty if that is not in there. Control characters
    are replaced by question marks."""
    return printable(([""] + [one for one in LAST.findall(text) if not one.startswith(TO_A_CLIENT)])[-1].strip())


def printable(text: str) -> str:
    """Returns the text with a question mark in place of each control character."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def how_ended(status: int) -> str:
    """Describes an exit status of `subprocess`; a negative one is the number of a signal."""
    return f"it was killed by signal {-status}" if status < 0 else f"it exited with status {status}"
