"""The filter of an erasure: by transactionId, by a text of the payload, by a value at a place in it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from ..._core import record_key
from ..http.answer import Refusal
from .redrive import origin_of, shown_of
from .search import TEXT_MOST, spellings

IDS_MOST = 1000
KEYS = ("partition", "transactionIds", "text", "path")
MISSING = object()


@dataclass(frozen=True)
class Wanted:
    """A filter whose set conditions must all match. ids: keys of records; texts: spellings of the text; path: steps of
    a JSON Pointer."""

    partition: str | None
    ids: frozenset[bytes]
    texts: tuple[bytes, ...]
    path: tuple[str, ...] | None
    value: Any

    @property
    def by_payload(self) -> bool:
        return bool(self.texts) or self.path is not None

    def fits(self, key: bytes, payload: bytes | None, headers: str | None = None) -> bool | None:
        """Returns whether a record matches; None if the filter needs a payload that cannot be read. key: of its
        transactionId; payload: None if it cannot be read; headers: they name the origin of a redriven one."""
        if self.ids and key not in self.ids and self._origin(headers) not in self.ids:
            return False
        if not self.by_payload:
            return True
        if payload is None:
            return None
        if self.texts and not any(text in payload for text in self.texts) and not self._in_headers(headers):
            return False
        if self.path is None:
            return True
        try:
            return _same(_found(orjson.loads(payload), self.path), self.value)
        except orjson.JSONDecodeError:      # nested deeper than is read here
            return None

    def _in_headers(self, headers: str | None) -> bool:
        own = shown_of(headers).get("headers")
        return own is not None and any(text in orjson.dumps(own) for text in self.texts)

    def _origin(self, headers: str | None) -> bytes | None:
        origin = origin_of(headers)
        return record_key(origin["originTransactionId"]) if origin else None


def wanted_of(body: dict[str, Any]) -> Wanted:
    """Reads the filter of a request's body; refuses an empty filter."""
    if not any(name in body for name in KEYS):
        raise Refusal(400, f"A filter is required: give one of {', '.join(KEYS)}", "filter_required")
    ids, path = body.get("transactionIds", []), body.get("path")
    for name in ("partition", "text", "path"):
        value = body.get(name)
        if name in body and (not isinstance(value, str) or "\0" in value or len(value) > TEXT_MOST):
            raise Refusal(400, f"{name} must be a text of at most {TEXT_MOST} characters without NUL",
                          "invalid_request")
    if not isinstance(ids, list) or len(ids) > IDS_MOST or not all(isinstance(one, str) and one for one in ids):
        raise Refusal(400, f"transactionIds must be a list of 1 to {IDS_MOST} texts", "invalid_request")
    if ("value" in body) != (path is not None):
        raise Refusal(400, "path and value must be given together", "invalid_request")
    return Wanted(body.get("partition"), frozenset(map(record_key, ids)),
                  tuple(spellings(body["text"])) if "text" in body else (), _steps(path), body.get("value"))


def _steps(path: str | None) -> tuple[str, ...] | None:
    if path is None:
        return None
    if not path.startswith("/"):
        raise Refusal(400, "path must be a JSON Pointer that starts with a slash, such as /customer/email",
                      "invalid_request")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))


def _found(value: Any, path: tuple[str, ...]) -> Any:
    """Returns the value at a place in a JSON value; MISSING if there is no such place."""
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def _same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal as JSON: true is not 1, inside of objects and arrays neither."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
