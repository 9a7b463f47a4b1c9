"""A request and its answer, without I/O."""
from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import quote

from .errors import BadAnswer, Forbidden, NotFound, Refused, Unauthorized

Result = TypeVar("Result")
Query = Mapping[str, "str | int | bool | None"]
# Answers after which the same request may be sent again: the server, or a proxy in front of it, is busy or away.
BUSY = frozenset({408, 429, 502, 503, 504})
# The answers among these that say for sure that nothing was done.
UNTOUCHED = frozenset({408, 429})


@dataclass(frozen=True)
class Call:
    """A request. path: with names escaped; body: JSON, None for none; repeat: whether it may be sent again although an
    earlier attempt may have taken effect; patience: seconds that the server may take for the answer beyond the usual
    time; doubt: words by which a 503 of queend says that the request may have been done, and without which nothing was
    (if this is empty, any 503 may mean that); accept: statuses of errors that are no error for this call."""

    method: str
    path: str
    query: Query = field(default_factory=lambda: dict[str, "str | int | bool | None"]())
    body: bytes | None = None
    repeat: bool = True
    patience: float = 0.0
    doubt: str = ""
    accept: tuple[int, ...] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """The query as texts, without members that are None."""
        return {name: str(value).lower() if isinstance(value, bool) else str(value)
                for name, value in self.query.items() if value is not None}


@dataclass(frozen=True)
class Reply:
    """An answer. headers: names in lower case; repeated: an earlier attempt may have taken effect."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: bool = False

    @property
    def json(self) -> Any:
        """The body. Raises BadAnswer if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise BadAnswer(f"the answer is no JSON (status {self.status}): {self.body[:200]!r}") from None

    @property
    def retry_after(self) -> float:
        """Seconds that the server asks to wait; 0 if it says nothing that is a number."""
        try:
            return max(0.0, float(self.headers.get("retry-after", "")))
        except ValueError:
            return 0.0

    def untouched(self, doubt: str) -> bool:
        """Whether the answer, one of BUSY, says for sure that nothing was done. doubt: that of the call."""
        if self.status != 503 or not doubt:
            return self.status in UNTOUCHED
        body = self._members
        return body is not None and "error" in body and doubt not in str(body["error"])

    @property
    def refusal(self) -> tuple[str, str]:
        """The error of a refusal, and its code."""
        body = self._members
        if body is None:
            return f"status {self.status}: {self.body[:200]!r}", ""
        return str(body.get("error", f"status {self.status}")), str(body.get("code", ""))

    @property
    def _members(self) -> dict[str, Any] | None:
        """The body if it is a JSON object; that of a proxy may be anything."""
        try:
            body: Any = json.loads(self.body)
        except ValueError:
            return None
        return cast("dict[str, Any]", body) if isinstance(body, dict) else None

    def checked(self, accept: tuple[int, ...] = ()) -> Reply:
        """Returns itself if it is a success, or of a status to accept. Raises Unauthorized, Forbidden, NotFound or
        Refused."""
        if self.status < 300 or self.status in accept:
            return self
        error, code = self.refusal
        kind = {401: Unauthorized, 403: Forbidden, 404: NotFound}.get(self.status, Refused)
        raise kind(error, self.status, code)


# One operation: yields requests, is sent their answers, which are successes, and returns what the caller asked for.
Steps = Generator[Call, Reply, Result]


def advanced(steps: Steps[Result], call: Call, reply: Reply) -> Call:
    """Gives an operation the answer to its latest request. Returns its next request; raises StopIteration with the
    result at its end, and BadAnswer for an answer that is a success but lacks what the operation reads."""
    try:
        return steps.send(reply)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise BadAnswer(f"the answer to {call.method} {call.path} is not one of queend ({described(error)}): "
                        f"{reply.body[:200]!r}") from error


def described(error: Exception) -> str:
    """Returns the type and text of an exception."""
    return f"{type(error).__name__}: {error}"


def encoded(value: Any) -> bytes:
    """Returns a value as JSON. Raises TypeError or ValueError for a value that JSON cannot hold."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def escaped(name: str) -> str:
    """Returns a name as a segment of a path, also one that would mean a folder."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
