"""Connections to the HTTP servers of URLs."""
from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit


def connection(url: str, timeout: float, **trusted: str | None) -> http.client.HTTPConnection:
    """Returns a connection that is not open yet. trusted: certificates, as ssl.create_default_context takes them."""
    place = urlsplit(url)
    host = place.hostname or ""
    if place.scheme != "https":
        return http.client.HTTPConnection(host, place.port, timeout=timeout)
    return http.client.HTTPSConnection(host, place.port, timeout=timeout,
                                       context=ssl.create_default_context(**trusted))  # type: ignore[arg-type]
