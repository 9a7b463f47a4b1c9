"""The bodies of log reads: `entries` of an object, every field checked before anything is read."""
from __future__ import annotations

from typing import Any

from fastapi import Request

from ..._core import read_moment
from .answer import Refusal, is_whole
from .body import body_object

ENTRIES_MOST = 1024
NAME_BYTES = 255
INT8_MAX = 2**63 - 1


class Fields:
    """An object of a request. Each method returns one field or refuses the request (400) naming it."""

    def __init__(self, values: dict[str, Any], where: str = ""):
        self.values = values
        self.where = where

    def refuse(self, name: str, what: str) -> Refusal:
        return Refusal(400, f"{self.where}{name} {what}", "invalid_request")

    def queue(self) -> str:
        return self._name("queue", self.values.get("queue"), 1)

    def partition(self) -> str:
        """Returns a name; a number counts as spelled, absent means Default."""
        value = self.values.get("partition")
        if is_whole(value):
            value = str(value)
        return "Default" if value is None else self._name("partition", value, 0)

    def _name(self, name: str, value: Any, least: int) -> str:
        if not isinstance(value, str) or not least <= len(value.encode()) <= NAME_BYTES or "\0" in value:
            raise self.refuse(name, f"must be a text of {'1 to ' if least else 'at most '}{NAME_BYTES} bytes without "
                                    f"NUL")
        return value

    def whole(self, name: str, default: int | None, low: int = 0, high: int = INT8_MAX) -> int:
        """Returns a whole number from low to high. default None: it is required."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not is_whole(value) or not low <= value <= high:
            most = f"from {low} to {high}" if high < INT8_MAX else f"of at least {low}"
            raise self.refuse(name, f"must be a whole number {most}")
        return value

    def budget(self, name: str, default: int, low: int, high: int) -> int:
        """Returns a whole number, clamped to low and high, as the reference does: published clients send what their
        program set, and an answer says where it ended."""
        value = self.values.get(name)
        if value is None:
            return default
        if not is_whole(value) or abs(value) > INT8_MAX:
            raise self.refuse(name, "must be a whole number")
        return min(max(value, low), high)

    def moment(self, name: str, required: bool = False) -> int | None:
        """Returns µs since the Unix epoch, from ISO 8601 or milliseconds since the epoch."""
        value = self.values.get(name)
        if value is None and not required:
            return None
        if isinstance(value, str) and (moment := read_moment(value.encode())) is not None:
            return moment
        if is_whole(value) and 0 <= value < 1 << 48:
            return value * 1000
        raise self.refuse(name, "must be a time in ISO 8601 or in milliseconds since 1970")

    def cursor(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, "must be the value of next in an earlier answer")
        return value or None


async def fields_of(request: Request) -> Fields:
    return Fields(await body_object(request))


async def entries_of(request: Request) -> tuple[Fields, list[Fields]]:
    """Returns the request's object, and its `entries`: 1 to 1024 objects."""
    body = await fields_of(request)
    entries = body.values.get("entries")
    if not isinstance(entries, list) or not 1 <= len(entries) <= ENTRIES_MOST:
        raise body.refuse("entries", f"must be a list of 1 to {ENTRIES_MOST} objects")
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise body.refuse(f"entries[{i}]", "must be an object")
    return body, [Fields(entry, f"entries[{i}].") for i, entry in enumerate(entries)]
