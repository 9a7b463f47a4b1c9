"""Answers of the control plane: JSON by orjson, errors as {"error", "code"}."""
from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import orjson
from fastapi import Request
from fastapi.responses import Response
from pydantic import AfterValidator


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class Refusal(Exception):
    """An answer with an error; `extra` are further keys of its body."""

    def __init__(self, status: int, error: str, code: str, headers: dict[str, str] | None = None, **extra: Any):
        self.status, self.error, self.code, self.headers, self.extra = status, error, code, headers, extra

    def answer(self) -> Json:
        return Json({**self.extra, "error": self.error, "code": self.code}, self.status, self.headers)


def not_found(what: str, **extra: Any) -> Refusal:
    return Refusal(404, f"{what} not found", f"{what.split()[-1].lower()}_not_found", **extra)


ASIDE_BYTES = 65_536
FULL = "QD409"      # SQLSTATE of sql/function/names.sql


def full(error: Any) -> Refusal:
    """Returns the refusal of one name more than the operator allows."""
    return Refusal(409, error.diag.message_primary or "There are too many", "bound_reached")


async def body_object(request: Request, strict: bool = False, required: bool = True) -> dict[str, Any]:
    """Returns the request body as a JSON object. Any other JSON counts as an object without keys, or with `strict` is
    refused. Refuses a body that is not JSON, and a missing one if `required`; otherwise null counts as missing. Parses
    a large body in a thread."""
    from .known import checked      # here: it imports this file

    body = await request.body()
    if not body.strip():
        if not required:
            return {}
        raise Refusal(400, "Empty request body", "empty_body")
    try:
        value = await asyncio.to_thread(orjson.loads, body) if len(body) > ASIDE_BYTES else orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"Invalid JSON: {error}", "invalid_json") from None
    if not isinstance(value, dict):
        if strict and (required or value is not None):
            raise Refusal(400, "request body must be a JSON object", "invalid_request")
        return {}
    checked(request)(value)
    return value


def is_whole(value: Any) -> bool:
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
