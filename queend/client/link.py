"""What both clients have in common: their settings, their servers, and the requests of httpx that calls become."""
from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Union
from urllib.parse import urlsplit

import httpx

from .attempts import Attempts, Backoff
from .call import Call, Reply
from .token import checked

TLS = Union[ssl.SSLContext, bool]
URLs = Union[str, Sequence[str]]
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
KEPT = 60.0     # s: how long a connection without requests stays open
LIMITED = 429   # the server limits this client: another one is not asked instead


@dataclass(frozen=True)
class Settings:
    """Settings of a client. url: of the server, with the path of a proxy if there is one, or of several servers with
    the same database: another one is asked when one does not answer; deadline: seconds for a call with all its
    attempts; timeout: seconds for an attempt; connections: most that are open at once; backoff: pauses between
    attempts; tls: certificates to trust, or False to trust all."""

    url: URLs
    deadline: float = 30.0
    timeout: float = 10.0
    connections: int = 100
    backoff: Backoff = Backoff()
    tls: TLS = True

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("the list of URLs is empty")
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
                raise ValueError(f"the URL {url!r} does not have the form http://host:6632")
        if not self.deadline > 0 or not self.timeout > 0 or self.connections < 1:
            raise ValueError("deadline, timeout and connections must be above 0")

    @property
    def urls(self) -> list[str]:
        return [self.url] if isinstance(self.url, str) else list(self.url)

    @property
    def secure(self) -> bool:
        """True if a server is reached by TLS."""
        return any(url.startswith("https:") for url in self.urls)

    @property
    def limits(self) -> httpx.Limits:
        return httpx.Limits(max_connections=self.connections, max_keepalive_connections=self.connections,
                            keepalive_expiry=KEPT)

    def attempts(self, call: Call, now: float) -> Attempts:
        """Returns the attempts of a call that begins now."""
        return Attempts(call, now, self.deadline, self.timeout, self.backoff)

    def request(self, http: httpx.Client | httpx.AsyncClient, url: str, call: Call, token: str, seconds: float,
                quiet: float | None = None) -> httpx.Request:
        """Returns the request of a call to the server at `url`. seconds: for each of its parts; quiet: between two
        pieces of the answer."""
        headers = {"accept": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {checked(token)}"
        if call.body is not None:
            headers["content-type"] = "application/json"
        limit = httpx.Timeout(seconds, read=seconds if quiet is None else quiet)
        return http.build_request(call.method, located(url.rstrip("/") + call.path), params=call.parameters or None,
                                  content=call.body, headers=headers, timeout=limit)


class Servers:
    """The servers of a client. url: the one that requests go to. All threads of a client share it."""

    def __init__(self, urls: list[str]):
        self._urls = urls
        self.url = urls[0]

    def failed(self, url: str, status: int | None = None) -> None:
        """Has the next server asked from now on, unless that was done already. status: of the answer, None for none."""
        if self.url == url and status != LIMITED:
            self.url = self._urls[(self._urls.index(url) + 1) % len(self._urls)]


@lru_cache(maxsize=256)
def located(url: str) -> httpx.URL:
    """Returns a URL in parts. httpx takes longer to find them than this package takes for the rest of a request."""
    return httpx.URL(url)


def reply(answer: httpx.Response, may_be_done: bool) -> Reply:
    """Returns an answer that was read."""
    return Reply(answer.status_code, answer.headers, answer.content, may_be_done)


def was_sent(error: httpx.RequestError) -> bool:
    """Whether a request without an answer may have reached the server."""
    return not isinstance(error, UNSENT)
