"""The answer to a request whose token does not permit it."""
from __future__ import annotations

import orjson


class Refused(Exception):
    """A refusal. status: 401, 403 or 503; the message is the text for the client. It contains no part of the token."""

    def __init__(self, status: int, error: str):
        super().__init__(error)
        self.status, self.error = status, error

    def answer(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """Returns status, headers, body."""
        more = {401: {"www-authenticate": "Bearer"}, 503: {"retry-after": "1"}}.get(self.status, {})
        headers = {"content-type": "application/json", **more}
        return (self.status, [(name.encode(), value.encode()) for name, value in headers.items()],
                orjson.dumps({"error": self.error}))


NO_ROLE = "Insufficient permissions: the token has no known role (JWT_ROLES_CLAIM)"


VERBS = {1: "push", 2: "pop", 4: "read", 8: "manage"}      # with the core's numbers


def lacking(verb: int, queue: str | None, group: str | None = None) -> str:
    """Names the verb (or one of several), the queue and the group that a token lacks. queue: "*" for all; None: the
    queue does not exist. Follows gate_lacking of the core."""
    verbs = " or ".join(name for bit, name in VERBS.items() if verb & bit)
    if queue is None:
        return "Insufficient permissions for this queue: it does not exist, and the token is limited to queues"
    return f'Insufficient permissions for this queue: the token lacks {verbs} for "{queue}"' + (
        "" if group is None else f' on behalf of the group "{group}"')


EXPIRED = "Token has expired"


VERIFICATION_FAILED = "Token verification failed: "


def unverified(why: str) -> Refused:
    return Refused(401, VERIFICATION_FAILED + why)
