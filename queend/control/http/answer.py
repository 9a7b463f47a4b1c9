"""Answers of the control plane: JSON by orjson, errors as {"error", "code"}."""
from __future__ import annotations

import re
from typing import Annotated, Any, TypeGuard
from urllib.parse import unquote_to_bytes

import orjson
from fastapi.responses import Response
from pydantic import AfterValidator


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


PART = "Part of the request was done: send it again for the rest"


class Refusal(Exception):
    """An answer with an error; `extra` are further keys of its body. done: what a part of the request has done before
    (`in_parts`)."""

    def __init__(self, status: int, error: str, code: str, headers: dict[str, str] | None = None, **extra: Any):
        self.status, self.error, self.code, self.headers, self.extra = status, error, code, headers, extra
        self.done: dict[str, Any] = {}

    def answer(self) -> Json:
        error = f"{self.error}. {PART}" if self.done else self.error
        return Json({**self.extra, **self.done, "error": error, "code": self.code}, self.status, self.headers)


def not_found(what: str, **extra: Any) -> Refusal:
    return Refusal(404, f"{what} not found", f"{what.split()[-1].lower()}_not_found", **extra)


ASIDE_BYTES = 65_536      # a larger body is read and written in a thread
FULL = "QD409"      # SQLSTATE of sql/function/names.sql


def full(error: Any) -> Refusal:
    """Returns the refusal of one name more than the operator allows."""
    return Refusal(409, error.diag.message_primary or "The limit is reached", "bound_reached")


def is_whole(value: Any) -> TypeGuard[int]:
    """Returns whether a value is a whole number of JSON; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _decoded(raw: str) -> str:
    # The application sees the path as it was sent, so that a name may contain an encoded slash.
    if re.search(r"%(?![0-9A-Fa-f]{2})", raw):
        raise Refusal(400, "path has a % that is not followed by two hexadecimal digits", "invalid_path")
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise Refusal(400, "path is not valid UTF-8 once decoded", "invalid_path") from None
    if "\0" in text:
        raise Refusal(400, "path contains a NUL character", "invalid_path")
    return text


PathName = Annotated[str, AfterValidator(_decoded)]
