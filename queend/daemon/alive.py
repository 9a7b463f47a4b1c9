"""The health check of a container: `python3 -m queend.daemon.alive [PATH]` ends with status 0 if the daemon that has
these settings answers `/livez`, or PATH, else with 1. Shows the daemon's own certificate if the daemon asks for one. A
daemon that does not accept it lives, but whether it is ready is then unknown. Imports no library but those of the
interpreter: a container runs the check every few seconds."""
from __future__ import annotations

import socket
import sys

from ..settings.early import early

PORT = "6632"      # the default in settings/fields.py
TIMEOUT_S = 4.0
NAMES = ("host", "port", "queend_tls_cert", "queend_tls_key", "queend_tls_client_ca")
EVERY_ADDRESS = ("", "0.0.0.0", "::", "[::]")
REQUIRED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "UNKNOWN_CA")      # ends of the daemon's alerts


def alive(path: str = "/livez") -> bool:
    settings = early(NAMES)
    host, port = settings.get("host", ""), int(settings.get("port", PORT))
    host = "127.0.0.1" if host in EVERY_ADDRESS else host.strip("[]")
    request = (f"GET {path} HTTP/1.1\r\nHost: {f'[{host}]' if ':' in host else host}:{port}\r\n"
               "Connection: close\r\n\r\n").encode()
    with socket.create_connection((host, port), TIMEOUT_S) as link:
        if "queend_tls_cert" in settings:
            return answers_tls(link, request, settings, path == "/livez")
        return answers(link, request)


def answers(link: socket.socket, request: bytes) -> bool:
    """Returns True if the status of the answer is 200."""
    link.sendall(request)
    with link.makefile("rb") as answer:
        return answer.readline(100).split()[1:2] == [b"200"]


def answers_tls(link: socket.socket, request: bytes, settings: dict[str, str], refused: bool) -> bool:
    """Returns True if the status of the answer is 200, and `refused` if the daemon requires another certificate."""
    import ssl  # here: a plain port does not need it

    authorities = settings.get("queend_tls_client_ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE      # its names are those of clients
    if authorities:
        context.load_cert_chain(settings["queend_tls_cert"], settings.get("queend_tls_key"))
    try:
        with context.wrap_socket(link) as sealed:
            return answers(sealed, request)
    except ssl.SSLError as error:
        return refused and bool(authorities) and (error.reason or "").endswith(REQUIRED)


if __name__ == "__main__":
    try:
        sys.exit(0 if alive(*sys.argv[1:2]) else 1)
    except (OSError, ValueError) as error:
        sys.exit(f"{error}")
