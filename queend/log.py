"""The log for operators: one JSON object per line on standard error, the same form as the core's lines."""
from __future__ import annotations

import contextlib
import datetime
import logging
import os
import time
from collections.abc import Callable
from typing import Any

import orjson

REPEAT_S = 60.0      # between two lines of one form of a library, or of a pass of a service that fails again
FORMS_MOST = 256     # forms that are told apart
MOST = 4096      # bytes of a line: a pipe that is ready for writing takes so much without a wait
RANKS = {"trace": 0, "debug": 0, "info": 1, "warn": 2, "error": 3}
_threshold = RANKS["info"]
_hidden: dict[str, str] = {}      # texts in quotes → replacement


def level_set(level: str) -> None:
    """Drops lines below `level` (trace, debug, info, warn, error) from now on, also those of Python libraries."""
    global _threshold
    _threshold = RANKS[level]
    root = logging.getLogger()
    root.handlers[:] = [_Forward()]
    root.setLevel(logging.DEBUG if level == "trace" else logging.WARNING)


def hide(words: dict[str, str]) -> None:
    """Hides texts, given by name: a message that quotes one of them gets the name instead."""
    _hidden.update({f"{quote}{text}{quote}": f"({name})" for name, text in words.items() for quote in "\"'"})


def hidden() -> str:
    """Returns the hidden texts for the core, one a line."""
    return "\n".join(text for text in _hidden if "\n" not in text)


def masked(text: str) -> str:
    for one, name in _hidden.items():
        text = text.replace(one, name)
    return text


def line(level: str, event: str, detail: str | None = None, **facts: Any) -> None:
    """Writes one line. event: a word in snake case; detail: a text for people; facts: further keys."""
    if RANKS[level] < _threshold:
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "event": event, **({"detail": masked(detail)} if detail is not None else {}),
              **facts}
    text = _text(record)
    if len(text) > MOST:      # escapes make a character up to six bytes
        text = _text({**record, "detail": str(record.get("detail", ""))[:MOST // 8], "cut": True})
    if len(text) > MOST:
        text = _text({"time": now, "level": level, "event": event, "cut": True})
    _write(text)


def _text(record: dict[str, Any]) -> bytes:
    return orjson.dumps(record, default=str, option=orjson.OPT_NON_STR_KEYS) + b"\n"


def _direct(text: bytes) -> None:
    with contextlib.suppress(OSError):      # the reader of the log is gone: the daemon serves on
        os.write(2, text)


_write: Callable[[bytes], None] = _direct


def through(write: Callable[[bytes], None]) -> None:
    """Writes lines through `write` from now on: the daemon's own function, which never waits for a slow reader."""
    global _write
    _write = write


class _Forward(logging.Handler):
    """Passes on lines of Python libraries, in our form. Of lines that differ in their values alone, one in REPEAT_S:
    the next one says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, str], float] = {}     # when a line of this logger and form was written
        self._left: dict[tuple[str, str], int] = {}       # how many were left out since

    def emit(self, record: logging.LogRecord) -> None:
        form, now = (record.name, str(record.msg)), time.monotonic()
        if now - self._told.get(form, -REPEAT_S) < REPEAT_S:
            self._left[form] = self._left.get(form, 0) + 1
            return
        if len(self._told) >= FORMS_MOST:
            self._told.clear()
            self._left.clear()
        self._told[form] = now
        left = self._left.pop(form, 0)
        level = "error" if record.levelno >= logging.ERROR else "warn" if record.levelno >= logging.WARNING else "debug"
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        line(level, "library", text, logger=record.name, **({"repeated": left} if left else {}))
