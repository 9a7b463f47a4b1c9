"""Errors of jobs in one line: without Python's traceback, without Java's."""
from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..link import Refused, Unreachable
from ..marks import NoQueue

NAMES = "JobError|DataLost|RowRefused|NotStored|OptionError|SchemaError|NoQueue|Refused|Unreachable"
# Spark puts words of its own before an error, in the same line.
OURS = re.compile(rf"(?:^|: )(?:[\w.]+\.)?(?:{NAMES}): (.+)$", re.MULTILINE)
MARKED = re.compile(r"^\[[A-Z_.0-9]+\] ")
STATE = re.compile(r"\s*SQLSTATE: \w+;?.*$", re.DOTALL)
NAME = re.compile(r"^[\w.$]*(?:Exception|Error):\s*")
DEPTH = 30


class JobError(RuntimeError):
    """A job that cannot go on; the message says why and what may help."""


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Turns errors of the enclosed code into a JobError of one line that begins with `what`."""
    try:
        yield
    except JobError:
        raise
    except Exception as error:  # noqa: BLE001
        raise JobError(f"{what}: {told(error)}" if what else told(error)) from error


@contextmanager
def asking() -> Iterator[None]:
    """Turns the daemon's refusals in the enclosed code into a JobError."""
    try:
        yield
    except (NoQueue, Refused, Unreachable) as error:
        raise JobError(str(error)) from None


def told(error: BaseException) -> str:
    """Returns the cause of an error that Spark, Java or a Python worker wrapped."""
    texts = [str(error)]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(DEPTH):    # down to the cause
        if java is None:
            break
        try:
            message, name, java = java.getMessage(), java.getClass().getSimpleName(), java.getCause()
        except Exception:  # noqa: BLE001 - the JVM is gone: what was heard counts
            break
        texts.append(f"{name}: {message}" if message else name)
    for text in texts:
        if found := OURS.findall(text):
            return STATE.sub("", found[-1]).strip()
    return _line(texts[-1] if len(texts) > 1 else texts[0]) or type(error).__name__


def _line(text: Any) -> str:
    """Returns the first informative line, without what only Spark's developers read."""
    for line in STATE.sub("", str(text)).splitlines():
        found = MARKED.sub("", NAME.sub("", line.strip())).strip()
        if found:
            return found
    return ""
