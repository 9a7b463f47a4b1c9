"""A connection to one of several daemons: the standard library's client, kept open, retried with jitter."""
from __future__ import annotations

import http.client
import json
import logging
import random
import ssl
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote, urlsplit

from ..dial import connection
from .settings import LinkSettings, trusting

ARROW = "application/vnd.apache.arrow.stream"
COMMITS = 1024    # positions of one call
ABREAST = 3       # connections of one planner or commit: a daemon serves three reads of an address at a time
PAUSE_MOST = 5.0
FIRST = 10.0   # seconds that a query waits for a daemon when it is planned
HEALTH = 64 << 10    # bytes read of an answer about health
QUIET = 3.0    # seconds before the log says that no daemon answers
AGAIN = {408, 425, 429, 500, 502, 503, 504}


ADVICE = {401: '; set the option "token" or "tokenFile" to a valid token (docs/auth.md)',
          403: "; use a token with this permission (docs/auth.md)"}


class Refused(Exception):
    """An error answer of the daemon that a retry would not change."""

    def __init__(self, status: int, text: str, url: str):
        super().__init__(f"{url} answered {status}: {text}{ADVICE.get(status, '')}")
        self.status, self.text, self.url = status, text, url


class Unreachable(Exception):
    """No daemon answered within the time allowed."""


def reach(settings: LinkSettings) -> None:
    """Checks that any daemon answers, before a query begins. Raises Unreachable after at most FIRST seconds. So a wrong
    address is reported at once, while requests of a running query wait up to retryTimeoutMs."""
    until = time.monotonic() + min(FIRST, settings.patience)
    while True:
        wrong = [f"{url}: {failure}" for url in settings.urls
                 if (failure := _failure(url, settings, min(FIRST / len(settings.urls), settings.timeout)))]
        if len(wrong) < len(settings.urls):
            return
        if time.monotonic() >= until:
            raise Unreachable(f"no daemon answers ({'; '.join(wrong)}); set the option \"url\" to its address, like "
                              "http://HOST:6632")
        time.sleep(min(1.0, 5 * settings.pause))


def _failure(url: str, settings: LinkSettings, timeout: float) -> str | None:
    """Asks an address for its health. Returns the failure, None if a daemon answers at all."""
    wire = _connection(url, timeout, settings)
    try:
        wire.request("GET", "/health")
        answer = wire.getresponse()
        said = json.loads(answer.read(HEALTH))
        if said.get("status") in ("healthy", "unhealthy"):
            return None
        if answer.status in AGAIN and said.get("error"):
            return f"it answered {answer.status}: {said['error']}"
    except (OSError, http.client.HTTPException) as error:
        if _asks_for_certificate(error):
            return 'it requires a certificate of its clients: the option "cert" names the file of yours'
        return str(error) or type(error).__name__
    except (ValueError, AttributeError):
        pass
    finally:
        wire.close()
    return f"a server that is not queend answers there, with status {answer.status}"


def _connection(url: str, timeout: float, settings: LinkSettings) -> http.client.HTTPConnection:
    secure = urlsplit(url).scheme == "https"
    return connection(url, timeout, context=trusting(settings.ca, settings.own) if secure else None)


def _asks_for_certificate(error: Exception) -> bool:
    """Returns whether a server ended the session for want of the client's certificate (TLS 1.3)."""
    return isinstance(error, ssl.SSLError) and (error.reason or "").endswith("CERTIFICATE_REQUIRED")


class Trying:
    """The attempts of one request: number of failures, since when, and whether to retry."""

    def __init__(self, settings: LinkSettings):
        self.settings, self.attempts, self.began, self.told = settings, 0, 0.0, False
        self.last: dict[str, str] = {}    # by address, because each may have another failure

    def failed(self, url: str, failure: str, after: float = 0.0) -> None:
        """Waits before the next attempt, or raises if there is none. after: seconds that the daemon asks for."""
        now, self.attempts = time.monotonic(), self.attempts + 1
        self.began = self.began or now
        self.last[url] = failure
        left = self.settings.patience - (now - self.began)
        if left <= 0 or (self.settings.retries is not None and self.attempts > self.settings.retries):
            raise Unreachable(f"given up after {self.attempts} attempt{'s' * (self.attempts > 1)} in "
                              f"{now - self.began:.0f} s; {'; '.join(self.last.values())}; start the daemon, or raise "
                              "retryTimeoutMs, and run the query again")
        pause = min(PAUSE_MOST, self.settings.pause * 2**min(self.attempts - 1, 20)) * random.uniform(0.5, 1)
        pause = min(left, max(pause, after))    # one last attempt when the time is up
        if not self.told and now - self.began + pause > QUIET:
            logging.getLogger("queend.spark").warning("%s; retrying for up to %.0f s", failure, left)
            self.told = True
        time.sleep(pause)


class Link:
    """Sends one request at a time."""

    def __init__(self, settings: LinkSettings):
        self.settings = settings
        self.turn = random.randrange(len(settings.urls))    # tasks begin at different daemons
        self._wire: http.client.HTTPConnection | None = None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @property
    def url(self) -> str:
        return self.settings.urls[self.turn % len(self.settings.urls)]

    def ask(self, path: str, values: Any, accept: str = "application/json") -> bytes:
        return self.post(path, json.dumps(values).encode(), "application/json", accept)

    def json(self, path: str, values: Any) -> Any:
        return json.loads(self.ask(path, values))

    def get(self, path: str) -> Any:
        return json.loads(self.post(path, b"", "application/json", method="GET"))

    def abreast(self, work: Callable[[Link], None], most: int = ABREAST) -> None:
        """Runs `work` in threads, each with a connection of its own; at most `most` of them, and never more than
        ABREAST. Returns when all have ended; raises the error of the first that failed."""
        with ExitStack() as opened:
            links = [self, *(opened.enter_context(Link(self.settings)) for _ in range(min(most, ABREAST) - 1))]
            with ThreadPoolExecutor(len(links)) as threads:
                for one in [threads.submit(work, link) for link in links]:
                    one.result()

    def commit(self, group: str, entries: list[dict[str, Any]]) -> None:
        """Stores the positions (queue, partition, offset) that a group has reached, so that the daemon knows its lag.
        Deleted partitions are skipped."""
        path = f"/api/v1/consumer-groups/{quote(group, safe='')}/offsets"
        pages = deque(entries[at:at + COMMITS] for at in range(0, len(entries), COMMITS))

        def send(link: Link) -> None:
            while pages:
                try:
                    page = pages.popleft()
                except IndexError:    # another thread took the last one
                    return
                link.ask(path, {"entries": page})

        self.abreast(send, len(pages))

    def post(self, path: str, body: bytes | memoryview, kind: str, accept: str = "application/json",
             method: str = "POST") -> bytes:
        """Returns the body of a successful answer. Retries lost connections and answers that ask for a later retry, at
        the next daemon, as long as the settings allow: a restart of a daemon fails no job."""
        headers = {"Content-Type": kind, "Accept": accept}
        if self.settings.token:
            headers["Authorization"] = f"Bearer {self.settings.token}"
        trying = Trying(self.settings)
        while True:
            try:
                if self._wire is None:
                    self._wire = self._open()
                try:
                    self._wire.request(method, path, body, headers)
                except (BrokenPipeError, ConnectionResetError):
                    pass    # a server that closes early may still have answered
                answer = self._wire.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, ssl.SSLCertVerificationError) and len(self.settings.urls) == 1:
                    self.close()
                    raise Unreachable(f"{self.url}: {error.verify_message}; the option \"ca\" names the authorities "
                                      "that are trusted") from None
                if _asks_for_certificate(error) and len(self.settings.urls) == 1:
                    self.close()
                    raise Unreachable(f"{self.url} requires a certificate of its clients: the option \"cert\" names "
                                      "the file of yours") from None
                url = self.url
                self._next()
                trying.failed(url, f"{url}: {error or type(error).__name__}")
                continue
            if answer.will_close:
                self.close()
            if 200 <= answer.status < 300:
                return data
            text = _reason(data)
            if answer.status not in AGAIN:
                raise Refused(answer.status, text, self.url)
            url = self.url
            if len(self.settings.urls) > 1:
                self._next()
            trying.failed(url, f"{url} answered {answer.status}: {text}", _after(answer.getheader("Retry-After")))

    def _next(self) -> None:
        self.close()
        self.turn += 1

    def _open(self) -> http.client.HTTPConnection:
        return _connection(self.url, self.settings.timeout, self.settings)


def _reason(data: bytes) -> str:
    try:
        said = json.loads(data)
        return str(said.get("error") or said.get("detail") or said)
    except (ValueError, AttributeError):
        return data[:500].decode(errors="replace")


def _after(value: str | None) -> float:
    """Returns the seconds that a daemon asks to wait, at most 60, and up to a quarter more as jitter."""
    try:
        return min(60.0, max(0.0, float(value or 0))) * random.uniform(1, 1.25)
    except ValueError:
        return 0.0
