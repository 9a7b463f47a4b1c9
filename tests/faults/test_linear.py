"""The checker of histories of keys finds what is planted."""
from __future__ import annotations

from typing import Any

import pytest
from support.linear import Call, explained


def get(begun: float, ended: float, version: int, value: Any = None) -> Call:
    return Call("get", begun, ended, answer={"found": version > 0, "version": version, "value": value})


def put(begun: float, ended: float, value: Any, version: int, expect: int | None = None) -> Call:
    return Call("put", begun, ended, value, expect, {"applied": True, "version": version})


def refused(begun: float, ended: float, reason: str, version: int, value: Any, expect: int) -> Call:
    return Call("put", begun, ended, "x", expect, {"applied": False, "reason": reason, "version": version,
                                                   "value": value})


def lost(op: str, begun: float, value: Any = None, expect: int | None = None) -> Call:
    return Call(op, begun, value=value, expect=expect)


@pytest.mark.parametrize("calls", [
    [put(0, 1, "a", 1), get(2, 3, 1, "a")],
    [put(0, 9, "a", 1), get(2, 3, 1, "a"), get(1, 2, 0)],
    [put(0, 9, "a", 1), put(0, 9, "b", 2), get(3, 4, 1, "a"), get(5, 6, 2, "b")],
    [put(0, 1, "a", 1), refused(2, 3, "exists", 1, "a", 0), refused(2, 3, "version", 1, "a", 7)],
    [lost("put", 0, "a"), get(5, 6, 0), get(7, 8, 3, "a"), put(9, 10, "b", 4, expect=3)],
    [put(0, 1, 5, 1), lost("incr", 2), get(3, 4, 1, 5), get(5, 6, 2, 6)],
    [put(0, 1, "a", 1), lost("delete", 2), get(9, 10, 0)],
    [put(0, 1, "a", 1), put(2, 3, "b", 2), Call("restore", 4, 5, "a", 1), get(6, 7, 1, "a"), put(8, 9, "c", 3)]])
def test_what_can_have_happened(calls: list[Call]) -> None:
    assert explained(calls)


@pytest.mark.parametrize("calls", [
    pytest.param([put(0, 1, "a", 1), get(2, 3, 0)], id="a lost write"),
    pytest.param([put(0, 1, "a", 1), put(2, 3, "b", 2), get(4, 5, 1, "a")], id="a stale read"),
    pytest.param([put(0, 9, "a", 1), get(1, 2, 1, "a"), get(3, 4, 0)], id="a read that goes back"),
    pytest.param([put(0, 1, "a", 1, expect=0), put(2, 3, "b", 2, expect=0)], id="two that win"),
    pytest.param([put(0, 1, "a", 1), put(2, 3, "b", 2), put(4, 5, "c", 3, expect=1)], id="a condition that was lost"),
    pytest.param([put(0, 1, "a", 2), put(2, 3, "b", 1)], id="a version that falls"),
    pytest.param([put(0, 1, "a", 5), Call("restore", 2, 3, None, 0), put(4, 5, "b", 5)], id="a version given twice"),
    pytest.param([put(0, 1, 5, 1), lost("incr", 2), get(3, 4, 2, 7)], id="a call that took effect twice"),
    pytest.param([put(0, 1, "a", 1), refused(2, 3, "exists", 1, "b", 0)], id="a value that was never there"),
    pytest.param([get(0, 1, 0), refused(2, 3, "exists", 1, "a", 0), lost("put", 4, "a")],
                 id="an effect before its call"),
    pytest.param([put(0, 1, "a", 1), refused(2, 3, "absent", 0, None, 7)], id="a refusal without a reason")])
def test_what_cannot(calls: list[Call]) -> None:
    assert not explained(calls)
