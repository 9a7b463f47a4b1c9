"""The address that the daemon listens on, before it does."""
from __future__ import annotations

import errno
import os
import socket


def taken(host: str, port: int, shared: bool) -> str:
    """Returns why another program keeps the daemon from listening at an address, or an empty text. It is looked at
    before anything is made in the data folder; the core binds later, and names all other reasons. host: an empty text
    is every address; shared: with SO_REUSEPORT."""
    try:
        for family, kind, protocol, _, where in socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM,
                                                                   flags=socket.AI_PASSIVE):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                if shared:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"PORT: {host or '*'} port {port} is taken: {os.strerror(error.errno)}"
    return ""
