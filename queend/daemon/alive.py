"""The health check of a container: `python3 -m queend.daemon.alive [PATH]` ends with status 0 if the daemon that has
these settings answers `/livez`, or PATH, else with 1. Shows the daemon's own certificate if the daemon asks for one. A
daemon that does not accept it lives, but whether it is ready is then unknown."""
from __future__ import annotations

import http.client
import ssl
import sys

from ..settings.certificates import named
from ..settings.load import load

TIMEOUT_S = 4.0
REQUIRED = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "UNKNOWN_CA")      # ends of the daemon's alerts


def alive(path: str = "/livez") -> bool:
    settings = load()
    host = settings.address()
    host = "127.0.0.1" if host in ("", "0.0.0.0", "::", "[::]") else host.strip("[]")
    files = named(settings)
    if files:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE      # its names are those of clients
        if files[2]:
            context.load_cert_chain(files[0], files[1])
        link: http.client.HTTPConnection = http.client.HTTPSConnection(host, settings.port, timeout=TIMEOUT_S,
                                                                       context=context)
    else:
        link = http.client.HTTPConnection(host, settings.port, timeout=TIMEOUT_S)
    try:
        link.request("GET", path)
        return link.getresponse().status == 200
    except ssl.SSLError as error:
        return path == "/livez" and bool(files and files[2]) and (error.reason or "").endswith(REQUIRED)


if __name__ == "__main__":
    try:
        sys.exit(0 if alive(*sys.argv[1:2]) else 1)
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"{error}")
