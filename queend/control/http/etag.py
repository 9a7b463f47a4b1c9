"""ETags of answers to reads: a repeated request gets 304 as long as nothing has changed."""
from __future__ import annotations

import hashlib
from typing import Any

OF_A_BODY = (b"content-encoding", b"content-length", b"content-type")
# Answers that differ each time: a tag would only cost.
UNTAGGED = ("/health", "/metrics", "/metrics/prometheus")


class Tagged:
    """Gives GET answers (200, JSON) of `app` a strong ETag of their bytes; 304 if If-None-Match has it."""

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] in UNTAGGED:
            await self.app(scope, receive, send)
            return
        held: dict[str, Any] = {}

        async def tagged(event: dict) -> None:
            # an answer that comes in one piece; every other passes unchanged
            nonlocal held
            if event["type"] == "http.response.start" and _taggable(event):
                held = event
                return
            if held:
                start, held = held, {}
                if not event.get("more_body"):
                    tag = b'"%s"' % hashlib.blake2b(event["body"], digest_size=15).hexdigest().encode()
                    said = any(name == b"cache-control" for name, _ in start["headers"])
                    kept = [] if said else [(b"cache-control", b"no-cache")]
                    start = {**start, "headers": [*start["headers"], (b"etag", tag), *kept]}
                    if _has(scope["headers"], tag):
                        start = {**start, "status": 304, "headers": [
                            pair for pair in start["headers"] if pair[0] not in OF_A_BODY]}
                        event = {"type": "http.response.body", "body": b""}
                await send(start)
            await send(event)

        await self.app(scope, receive, tagged)


def _taggable(start: dict) -> bool:
    headers = dict(start["headers"])
    return (start["status"] == 200 and b"etag" not in headers
            and headers.get(b"content-type", b"").startswith(b"application/json"))


def _has(headers: list[tuple[bytes, bytes]], tag: bytes) -> bool:
    """Returns whether If-None-Match names the tag. Weak tags count: the comparison is the weak one."""
    wanted = [one.strip() for name, value in headers if name == b"if-none-match" for one in value.split(b",")]
    return b"*" in wanted or tag in [one.removeprefix(b"W/") for one in wanted]
