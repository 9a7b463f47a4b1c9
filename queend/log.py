"""What operators read: one JSON object per line on standard error, the same form as the core's lines."""
from __future__ import annotations

import datetime
import logging
import os
from typing import Any

import orjson

RANKS = {"trace": 0, "debug": 0, "info": 1, "warn": 2, "error": 3}
_threshold = RANKS["info"]


def level_set(level: str) -> None:
    """Lines below `level` (trace, debug, info, warn, error) are dropped from now on; Python libraries follow."""
    global _threshold
    _threshold = RANKS[level]
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    root.setLevel(logging.DEBUG if level == "trace" else logging.WARNING)


def line(level: str, event: str, detail: str | None = None, **facts: Any) -> None:
    """Writes one line. event: a word in snake case; detail: a text for people; facts: further keys."""
    if RANKS[level] < _threshold:
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "event": event, **({"detail": detail} if detail is not None else {}), **facts}
    os.write(2, orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n")


class _Forward(logging.Handler):
    """Lines of Python libraries, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warn" if record.levelno >= logging.WARNING else "debug"
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        line(level, "library", text, logger=record.name)
