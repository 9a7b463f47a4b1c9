"""The answer to a request whose token does not let it in."""
from __future__ import annotations

import orjson


class Refused(Exception):
    """status: 401, 403 or 503; the message is what the client is told. It never contains any of the token."""

    def __init__(self, status: int, error: str):
        super().__init__(error)
        self.status, self.error = status, error

    def answer(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Status, headers, body."""
        more = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(self.status, {})
        headers = {"content-type": "application/json", **more}
        return (self.status, [(name.encode(), value.encode()) for name, value in headers.items()],
                orjson.dumps({"error": self.error}))


def unverified(why: str) -> Refused:
    return Refused(401, f"Token verification failed: {why}")
