"""Lines of Python libraries in the log: one of each form a minute."""
from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from queend import log


@pytest.fixture
def lines() -> Iterator[list[dict]]:
    root, before, written = logging.getLogger(), log._threshold, []
    handlers, level = root.handlers[:], root.level
    log.through(lambda text: written.append(json.loads(text)))
    log.level_set("info")
    yield written
    log.through(log._direct)
    root.handlers[:], log._threshold = handlers, before
    root.setLevel(level)


def test_a_line_that_repeats_is_written_once_and_counted(lines: list[dict], monkeypatch: pytest.MonkeyPatch) -> None:
    pool = logging.getLogger("psycopg.pool")
    for number in range(146):
        pool.warning("discarding closed connection: %s", number)
    pool.warning("another line")
    assert [one["detail"] for one in lines] == ["discarding closed connection: 0", "another line"]
    monkeypatch.setattr(log, "REPEAT_S", 0)
    pool.warning("discarding closed connection: %s", 146)
    assert lines[2]["detail"] == "discarding closed connection: 146" and lines[2]["repeated"] == 145
    assert lines[2]["logger"] == "psycopg.pool" and lines[2]["level"] == "warn"


def test_forms_that_are_remembered_have_a_bound(lines: list[dict]) -> None:
    pool = logging.getLogger("psycopg.pool")
    (forward,) = [one for one in logging.getLogger().handlers if isinstance(one, log._Forward)]
    for number in range(3 * log.FORMS_MOST):
        pool.warning(f"form {number}")
    assert len(lines) == 3 * log.FORMS_MOST and len(forward._told) <= log.FORMS_MOST
