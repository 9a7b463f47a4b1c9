"""What both clients have in common: their settings, and the requests of httpx that calls become."""
from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Union
from urllib.parse import urlsplit

import httpx

from .attempts import Attempts, Backoff
from .call import Call, Reply
from .token import checked

TLS = Union[ssl.SSLContext, bool]
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
KEPT = 60.0     # s: how long a connection without requests stays open


@dataclass(frozen=True)
class Settings:
    """Settings of a client. url: of the server, with the path of a proxy if there is one; deadline: seconds for a call
    with all its attempts; timeout: seconds for an attempt; connections: most that are open at once; backoff: pauses
    between attempts; tls: certificates to trust, or False to trust all."""

    url: str
    deadline: float = 30.0
    timeout: float = 10.0
    connections: int = 100
    backoff: Backoff = Backoff()
    tls: TLS = True

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"the URL {self.url!r} does not have the form http://host:6632")
        if not self.deadline > 0 or not self.timeout > 0 or self.connections < 1:
            raise ValueError("deadline, timeout and connections must be above 0")

    @property
    def limits(self) -> httpx.Limits:
        return httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections,
                            keepalive_expiry=KEPT)

    def attempts(self, call: Call, now: float) -> Attempts:
        """Returns the attempts of a call that begins now."""
        return Attempts(call, now, self.deadline, self.timeout, self.backoff)

    def request(self, http: httpx.Client | httpx.AsyncClient, call: Call, token: str, seconds: float,
                quiet: float | None = None) -> httpx.Request:
        """Returns the request of a call. seconds: for each of its parts; quiet: between two pieces of the answer."""
        headers = {"accept": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {checked(token)}"
        if call.body is not None:
            headers["content-type"] = "application/json"
        limit = httpx.Timeout(seconds, read=seconds if quiet is None else quiet)
        return http.build_request(call.method, self.url.rstrip("/") + call.path, params=call.parameters,
                                  content=call.body, headers=headers, timeout=limit)


def reply(answer: httpx.Response, may_be_done: bool) -> Reply:
    """Returns an answer that was read."""
    return Reply(answer.status_code, answer.headers, answer.content, may_be_done)


def was_sent(error: httpx.RequestError) -> bool:
    """Whether a request without an answer may have reached the server."""
    return not isinstance(error, UNSENT)
