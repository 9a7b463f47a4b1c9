"""Query strings of the control plane: texts, whole numbers, flags and times by name. A value of another kind is
refused, or ignored if QUEEND_STRICT is off."""
from __future__ import annotations

import re
from collections.abc import Sequence

from fastapi import Request

from ..._core import read_moment
from .answer import Refusal

WHOLE = re.compile(r"-?[0-9]{1,18}")
NUMBER = re.compile(r"\s*([+-]?[0-9]{1,18})")


class Query:
    """The query of a request. An empty value counts as absent."""

    def __init__(self, request: Request):
        self.values = request.query_params
        self.strict = request.app.state.control.settings.queend_strict

    def text(self, name: str) -> str | None:
        value = self.values.get(name) or None
        if value is not None and "\0" in value:
            raise Refusal(400, f"{name} contains a NUL character", "invalid_request")
        return value

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        """Returns a whole number from low to high. Not strict: the number at the beginning of the value, clamped to the
        bounds, or the default if there is none."""
        value = self.values.get(name)
        if self.strict and value and not (WHOLE.fullmatch(value) and low <= int(value) <= high):
            raise Refusal(400, f"{name} must be a whole number from {low} to {high}", "invalid_number")
        found = NUMBER.match(self.values.get(name, ""))
        return min(max(int(found[1]) if found else default, low), high)

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name)
        if self.strict and value and value not in ("true", "1", "false", "0"):
            raise Refusal(400, f"{name} must be true or false", "invalid_truth")
        return default if not value else value in ("true", "1")

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """Returns one of these; the first if it is absent. Refuses anything else."""
        value = self.text(name) or choices[0]
        if value not in choices:
            raise Refusal(400, f"{name} must be one of {', '.join(choices)}", "invalid_request")
        return value

    def moment(self, name: str) -> int | None:
        """Returns µs since the Unix epoch of a time in ISO 8601, None if it is absent; refuses anything else."""
        value = self.values.get(name)
        return moment_of(name, value) if value else None


def moment_of(name: str, value: object) -> int:
    """Returns µs since the Unix epoch of a time in ISO 8601; refuses anything else."""
    if isinstance(value, str) and (found := read_moment(value.encode())) is not None:
        return found
    raise Refusal(400, f"{name} must be a time in ISO 8601", "invalid_time")
