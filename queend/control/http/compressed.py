"""Compresses answers of the control plane with gzip, for requests that accept it. Why those of the data plane are not
compressed: docs/inside/decisions/calls.md#compressed-answers."""
from __future__ import annotations

import asyncio
import gzip
import re
from typing import Any

from .answer import ASIDE_BYTES

LEAST_BYTES = 1024      # a smaller answer fits into one packet uncompressed
LEVEL = 1
TEXT = re.compile(rb"text/|application/(json|problem\+json|javascript|x-ndjson)\b|image/svg\+xml")
NOTHING = re.compile(r"0(\.0*)?$")


def accepts_gzip(headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns whether Accept-Encoding, in one line or several, names gzip (or *) with a weight above 0. gzip itself
    wins over the asterisk (RFC 9110, 12.5.3)."""
    weights = {}
    for line in (value.decode("latin-1") for name, value in headers if name == b"accept-encoding"):
        for one in line.lower().split(","):
            coding, _, weight = (part.strip() for part in one.partition(";"))
            weights[coding] = not NOTHING.match(weight.removeprefix("q=").strip())
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


class Compressed:
    """Compresses whole answers of `app` that are text of LEAST_BYTES or more. Equal answers give equal bytes, because
    their ETag is made of them (control/http/etag)."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        accepted = accepts_gzip(scope["headers"])
        held: dict[str, Any] = {}

        async def compressed(event: dict) -> None:
            nonlocal held
            if event["type"] == "http.response.start" and _is_text(event):
                held = {**event, "headers": [*event["headers"], (b"vary", b"Accept-Encoding")]}
                return
            if held:
                start, held = held, {}
                body = event.get("body", b"")
                if accepted and not event.get("more_body") and len(body) >= LEAST_BYTES:
                    aside = len(body) > ASIDE_BYTES
                    body = await asyncio.to_thread(_packed, body) if aside else _packed(body)
                    kept = [pair for pair in start["headers"] if pair[0] != b"content-length"]
                    start["headers"] = [*kept, (b"content-encoding", b"gzip"), (b"content-length", b"%d" % len(body))]
                    event = {**event, "body": body}
                await send(start)
            await send(event)

        await self.app(scope, receive, compressed)


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, LEVEL, mtime=0)


def _is_text(start: dict) -> bool:
    headers = dict(start["headers"])
    return b"content-encoding" not in headers and bool(TEXT.match(headers.get(b"content-type", b"")))
