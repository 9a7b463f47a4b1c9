"""Connections to the HTTP servers of URLs."""
from __future__ import annotations

import http.client
import ssl
from typing import Optional, Tuple
from urllib.parse import urlsplit

Pair = Tuple[str, Optional[str]]      # files of a client's certificate and its key; None: the first has both


def connection(url: str, timeout: float, own: Pair | None = None, context: ssl.SSLContext | None = None,
               **trusted: str | None) -> http.client.HTTPConnection:
    """Returns a connection that is not open yet. own: the certificate that is shown to a server that asks for one.
    trusted: certificates, as ssl.create_default_context takes them. context: in place of both."""
    place = urlsplit(url)
    host = place.hostname or ""
    if place.scheme != "https":
        return http.client.HTTPConnection(host, place.port, timeout=timeout)
    context = context or ssl.create_default_context(**trusted)  # type: ignore[arg-type]
    if own:
        context.load_cert_chain(*own)
    return http.client.HTTPSConnection(host, place.port, timeout=timeout, context=context)
