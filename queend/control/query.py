"""Query strings of the control plane, as lenient as clients of this protocol expect."""
from __future__ import annotations

import re

from fastapi import Request

from .._core import read_moment
from .answer import Refusal

NUMBER = re.compile(r"\s*([+-]?[0-9]{1,18})")


class Query:
    """The query of a request. What is empty counts as absent."""

    def __init__(self, request: Request):
        self.values = request.query_params

    def text(self, name: str) -> str | None:
        value = self.values.get(name) or None
        if value is not None and "\0" in value:
            raise Refusal(400, f"{name} contains a NUL character", "invalid_request")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """The number the value begins with, brought between low and high; the default where it begins with none."""
        found = NUMBER.match(self.values.get(name, ""))
        return min(max(int(found[1]) if found else default, low), high)

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        return default if not value else value in ("true", "1")

    def moment(self, name: str) -> int | None:
        """µs since the Unix epoch of a time in ISO 8601, None where there is none; refuses anything else."""
        value = self.values.get(name)
        return moment_of(name, value) if value else None


def moment_of(name: str, value: object) -> int:
    """µs since the Unix epoch of a time in ISO 8601; refuses anything else."""
    if isinstance(value, str) and (found := read_moment(value.encode())) is not None:
        return found
    raise Refusal(400, f"{name} must be a time in ISO 8601", "invalid_time")
