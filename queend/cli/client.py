"""A client of the server's protocol for the command line: one connection, JSON in and out, errors as sentences."""
from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ..dial import connection as opened
from . import server_clock

PAGE = 1000
NAMED, RENEWED = "use a name of the certificate in the URL", "the server needs another certificate"
# X509_V_ERR_…: CERT_NOT_YET_VALID, CERT_HAS_EXPIRED, HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH
CERTIFICATE_HINTS = {9: RENEWED, 10: RENEWED, 62: NAMED, 64: NAMED}
NEXT = re.compile(r'<([^>]*)>\s*;\s*rel="next"')


class ServerError(Exception):
    """A refusal of the server, or why there was no answer. status: exit status of the process; code: HTTP status, 0
    without an answer."""

    def __init__(self, text: str, status: int = 1, hint: str = "", code: int = 0, body: Any = None):
        super().__init__(text)
        self.text, self.status, self.hint, self.code, self.body = text, status, hint, code, body


class NoRoute(ServerError):
    """The server has no such route."""


class Answer:
    """An answer: status, headers in lower case, body; the path that was requested."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, path: str):
        self.status, self.headers, self.body, self.path = status, headers, body, path


class Server:
    def __init__(self, url: str, token: str = "", timeout: float = 30.0, ca: str | None = None,
                 cert: str | None = None):
        wrong = ServerError(f"invalid server URL {url!r}", 2, "expected a URL like http://host:6632")
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")
            self.base = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        except ValueError:      # a bracket that is not closed, a port or a name that is none, not UTF-8
            raise wrong from None
        if parts.scheme not in ("http", "https") or not host:
            raise wrong
        if parts.username or parts.password:
            raise ServerError("the server URL contains a password", 2,
                              "pass a token in QUEEND_TOKEN or with --token-file")
        if not token.isascii() or any(byte < " " for byte in token):
            raise ServerError("the token contains characters that are not allowed in tokens", 2)
        self.token, self.timeout, self.ca, self.cert = token, timeout, ca, cert
        self.secure = parts.scheme == "https"
        self.host, self.port = host, port or (443 if self.secure else 80)
        shown = f"[{host}]" if ":" in host else host
        self._origin = f"{parts.scheme}://{shown}{f':{port}' if port else ''}"
        self.url = self._origin + self.base
        self.answered = False      # a successful answer was read
        self.changed = False       # a request that may change something had a successful answer
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    # -- calls: path has {} for names, which are escaped -----------------------------------------------------------

    def get(self, path: str, *names: str, within: float | None = None, **query: Any) -> Any:
        return self.json("GET", path, *names, query=query, within=within)

    def post(self, path: str, *names: str, body: Any = None, within: float | None = None, **query: Any) -> Any:
        return self.json("POST", path, *names, query=query, body=body, within=within)

    def delete(self, path: str, *names: str, within: float | None = None, **query: Any) -> Any:
        return self.json("DELETE", path, *names, query=query, within=within)

    def json(self, method: str, path: str, *names: str, **more: Any) -> Any:
        """Returns the body of a successful answer. Raises ServerError for an error."""
        return self.read(self.call(method, path, *names, **more), method)

    def pages(self, path: str, *names: str, **query: Any) -> Any:
        """Yields the bodies of a long list, page by page, as the header Link names the next one."""
        target = _target(path, names, query)
        while target:
            answer = self.call("GET", "", target=target)
            yield self.read(answer, "GET")
            following = NEXT.search(answer.headers.get("link", ""))
            target = following[1] if following else ""

    def listed(self, path: str, key: str, limit: int | None, **query: Any) -> Iterator[dict[str, Any]]:
        """Yields the elements of a list, `limit` at most, also of servers that name no next page."""
        offset = 0
        while limit is None or offset < limit:
            page = PAGE if limit is None else min(PAGE, limit - offset)
            some = (self.get(path, limit=page, offset=offset, **query) or {}).get(key, [])
            yield from some
            offset += len(some)
            if len(some) < page:
                return

    def call(self, method: str, path: str, *names: str, query: dict[str, Any] | None = None, body: Any = None,
             headers: dict[str, str] | None = None, within: float | None = None, target: str = "",
             repeats: bool = False) -> Answer:
        """repeats: nothing is done twice if the request is sent twice, although it does more than read."""
        target = self.base + (target or _target(path, names, query or {}))
        sent = body if isinstance(body, bytes | None) else json.dumps(body, ensure_ascii=False).encode()
        words = {"Accept": "application/json", "User-Agent": "queend", **(headers or {})}
        if sent is not None:
            words.setdefault("Content-Type", "application/json")
        elif method in ("POST", "PUT"):
            words["Content-Length"] = "0"
        if self.token:
            words["Authorization"] = f"Bearer {self.token}"
        fresh = self._connection is None
        try:
            return self._exchange(method, target, sent, words, within or self.timeout)
        except (http.client.RemoteDisconnected, ConnectionError) as error:
            self.close()
            # The server may have closed an idle connection.
            if not fresh and (repeats or method == "GET" and "/pop" not in target):
                return self.call(method, path, query=query, body=sent, headers=headers, within=within,
                                 target=target.removeprefix(self.base))
            raise self._lost(error, method, "autoAck=true" in target) from None
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._lost(error, method, "autoAck=true" in target) from None

    def _exchange(self, method: str, target: str, body: bytes | None, headers: dict[str, str],
                  timeout: float) -> Answer:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._open(timeout)
        connection.timeout = timeout
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(timeout)
        except OSError as error:
            self.close()
            raise self._unreachable(error) from None
        try:
            connection.request(method, target, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass      # refused before the whole body was read: the answer may be there
        answer = connection.getresponse()
        server_clock.heard(answer.headers.get("Date"), self._time)
        read = answer.read()
        if answer.will_close:
            self.close()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, read,
                      target.partition("?")[0])

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        try:
            return opened(self.url, timeout, (self.cert, None) if self.cert else None, cafile=self.ca)
        except OSError as error:
            for name, file in (("certificates", self.ca), ("certificate and its key", self.cert)):
                if file and (isinstance(error, ssl.SSLError) or not os.access(file, os.R_OK)):
                    raise ServerError(f"cannot read the {name} in {file}: {error.strerror}", 2) from None
            raise

    def _time(self) -> datetime | None:
        """Returns the time of the database, to which default ranges extend; None if the server does not tell it."""
        try:
            told = self.get("/api/v1/analytics/queue-ops", queue="-")["timeRange"]["to"]
            return datetime.fromisoformat(told)
        except (ServerError, LookupError, TypeError, AttributeError, ValueError):
            return None

    # -- errors ----------------------------------------------------------------------------------------------------

    def _unreachable(self, error: OSError) -> ServerError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return ServerError(f"the certificate of {self.url} is not trusted: {error.verify_message}", 6,
                               CERTIFICATE_HINTS.get(error.verify_code,
                                                     "use --ca to name the CA certificates to trust"))
        if isinstance(error, ssl.SSLError):
            return ServerError(f"{self.url} does not speak TLS: {error.reason or error}", 6, "try http:// instead of "
                               "https://")
        if isinstance(error, socket.gaierror):
            return ServerError(f"cannot resolve the host name {self.host} of {self.url}: {error.strerror}", 6)
        if isinstance(error, TimeoutError):
            return ServerError(f"cannot connect to {self.url}: timeout", 6)
        return ServerError(f"cannot connect to {self.url}: {error.strerror or error}", 6,
                           "start a server with `queend serve`, or choose another one with --url, QUEEND_URL or "
                           "`queend context`")

    def _lost(self, error: Exception, method: str, consumes: bool) -> ServerError:
        doubt = "messages may have been consumed" if consumes else "" if method == "GET" else (
            "the server may or may not have executed the request")
        if isinstance(error, ssl.SSLError) and (error.reason or "").endswith("CERTIFICATE_REQUIRED"):      # TLS 1.3
            return ServerError(f"{self.url} requires a certificate of its clients", 6, "use --cert to name the file "
                               "with your certificate and its key")
        if isinstance(error, TimeoutError):
            return ServerError(f"{self.url} did not answer within the timeout", 6,
                               doubt or "use --timeout to wait longer")
        if isinstance(error, (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError)):
            return ServerError(f"the connection to {self.url} was closed before the answer was complete", 6, doubt)
        if isinstance(error, http.client.HTTPException):
            return ServerError(f"{self.url} is not an HTTP server", 6)
        return ServerError(f"the connection to {self.url} failed: "
                           f"{getattr(error, 'strerror', None) or error}", 6, doubt)

    def read(self, answer: Answer, method: str) -> Any:
        """Returns the body as JSON. Raises errors, also those that Queen MQ sends with status 200."""
        body: Any = None
        if answer.body.strip():
            try:
                body = json.loads(answer.body)
            except (ValueError, RecursionError):
                if answer.status < 300 or answer.status == 404:
                    raise NoRoute(f"{self._origin} did not answer {method} {answer.path} with JSON: it lacks the "
                                  "route, or is not a server of this protocol", 4, self._below(""),
                                  code=answer.status) from None
        told = body if isinstance(body, dict) else {}
        text = str(told.get("error") or told.get("detail") or "")
        if answer.status < 300:
            if text and set(told) <= {"error", "code", "success"}:
                raise ServerError(text, 4 if "not found" in text.lower() else 1, code=answer.status, body=body)
            self.answered = True
            self.changed = self.changed or method != "GET"
            return body
        text = text or answer.body[:200].decode(errors="replace").strip() or f"status {answer.status}"
        raise self._refused(answer, text, told, f"{method} {answer.path}")

    def _below(self, other: str) -> str:
        """Returns the hint about an unknown route if the server's URL has a path; otherwise the other hint."""
        return f"the URL of the server has the path {self.base}; try {self._origin}" if self.base \
            else other

    def _refused(self, answer: Answer, text: str, told: dict[str, Any], route: str) -> ServerError:
        code = answer.status
        more: dict[str, Any] = {"code": code, "body": told}
        if code == 401:
            what = "refused the token" if self.token else "requires a token"
            return ServerError(f"{self.url} {what}: {text}", 7,
                               f"pass {'another' if self.token else 'a'} token with QUEEND_TOKEN, --token-file or a "
                               "context", **more)
        if code == 403:
            return ServerError(f"access denied: {text}", 7, **more)
        if code in (404, 405) and (told.get("code") in ("no_such_route", "no_such_method") or text == "Not found"):
            return NoRoute(f"this server has no route {route}", 4,
                           self._below("it is another version, or another program"), **more)
        if code == 404:
            return ServerError(text, 4, **more)
        if code in (502, 503, 504):
            return ServerError(f"{self.url} is unavailable: {text}", 6, "run `queend doctor` to find the cause",
                               **more)
        return ServerError(text, 1, **more)


def _target(path: str, names: tuple[str, ...], query: dict[str, Any]) -> str:
    filled = path.format(*(quote(name, safe="") for name in names))
    words = {name.rstrip("_"): str(value).lower() if isinstance(value, bool) else value
             for name, value in query.items() if value is not None}
    return f"{filled}?{urlencode(words, doseq=True)}" if words else filled
