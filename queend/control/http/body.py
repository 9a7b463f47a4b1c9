"""The body of a request, as a JSON object whose names are checked."""
from __future__ import annotations

import asyncio
from typing import Any

import orjson
from fastapi import Request

from .answer import ASIDE_BYTES, Refusal
from .known import checked

DEPTH = 254      # levels of JSON that orjson writes; it reads more


async def body_object(request: Request, strict: bool = False, required: bool = True,
                      most: int | None = None) -> dict[str, Any]:
    """Returns the request body as a JSON object. Any other JSON counts as an object without keys, or with `strict` is
    refused. Refuses a body that is not JSON or has more than `most` bytes, and a missing one if `required`; otherwise
    null counts as missing. Parses a large body in a thread."""
    body = await request.body()
    if most is not None and len(body) > most:
        raise Refusal(413, f"The request body has {len(body)} bytes, and {most} are allowed: send fewer values",
                      "body_too_large")
    if not body.strip():
        if not required:
            return {}
        raise Refusal(400, "Empty request body", "empty_body")
    try:
        value = await asyncio.to_thread(_read, body) if len(body) > ASIDE_BYTES else _read(body)
    except orjson.JSONEncodeError:
        raise Refusal(400, f"Invalid JSON: nested more than {DEPTH} levels deep", "invalid_json") from None
    except orjson.JSONDecodeError as error:
        raise Refusal(400, f"Invalid JSON: {_undecodable(body) or error}", "invalid_json") from None
    if not isinstance(value, dict):
        if strict and (required or value is not None):
            raise Refusal(400, "request body must be a JSON object", "invalid_request")
        return {}
    checked(request)(value)
    return value


def _read(body: bytes) -> Any:
    """Raises orjson.JSONEncodeError if a part could not be written again, because it is nested too deeply."""
    value = orjson.loads(body)
    if body.count(b"[") + body.count(b"{") > DEPTH:
        orjson.dumps(value)
    return value


def _undecodable(body: bytes) -> str:
    """Returns where a body is not UTF-8, in the words of the data plane; empty if it is. orjson tells no place."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start}"
    return ""
