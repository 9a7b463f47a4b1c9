"""Settings with several elements, which commas part."""
from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from .messages import veiled


def listed(text: str) -> list[str]:
    """Splits a text at its commas."""
    return [one for one in (one.strip() for one in text.split(",")) if one]


# Settings with lists: what each element looks like, and how the message about an invalid element describes it.
LISTS = {
    "cors_origins": (r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]+/*",
                     "origin; expected a value like `https://app.example`, with a port if it is not the default one"),
    "queend_hosts": (r"\*|\[[0-9a-f:.]+\]|[^\s/:]+", "host name; expected a value like `queue.example`, without a "
                                                     "port"),
    "jwt_skip_paths": (r"/[!-~]*", "path; expected a value like `/metrics`"),
    "queend_otlp_headers": (r"[!#$%&'*+.^_`|~0-9a-z-]+ *=[ -~]*", "header; expected a value like `name=value`")}
TARGET = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\],]+)(?::([0-9]{1,5}))?/([^,]+)")
PLACE = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)"


def peers_read(text: str, port: int) -> list[tuple[str, int]]:
    """Returns host and port of each element of QUEEN_UDP_PEERS. Raises ValueError naming an invalid element."""
    found = []
    for one in listed(text):
        match = re.fullmatch(f"{PLACE}(?::(\\d+))?", one)
        if not match or not _is_place(match[1], match[2]):
            raise ValueError(f"{veiled(one)} is not a peer; expected `host` or `host:port`, with a port from 1 to "
                             "65535 and IPv6 addresses in brackets")
        found.append((match[1].strip("[]"), int(match[2] or port)))
    return found


def _is_place(host: str, port: str | None) -> bool:
    """Returns whether host and port are valid in form."""
    with suppress(ValueError):
        if host.startswith("["):
            ip_address(host.strip("[]"))
        return port is None or 0 < int(port) < 65536
    return False


def urls_read(text: str, scheme: str = "http") -> list[str]:
    """Returns the URLs of QUEEN_PEERS. scheme: of those without one. Raises ValueError naming an invalid one."""
    found = []
    for one in listed(text):
        url = one if "://" in one else f"{scheme}://{one}"
        match = re.fullmatch(f"https?://{PLACE}(?::(\\d+))?(/[!-~]*)?", url)
        if not match or not _is_place(match[1], match[2]):
            raise ValueError(f"{veiled(one)} is not the URL of a daemon; expected `http://host:6632`, with a port from "
                             "1 to 65535 and IPv6 addresses in brackets")
        place = urlsplit(url)
        found.append(url if place.port else f"{place.scheme}://{place.netloc}:6632{place.path}")
    return found


def targets_read(text: str) -> set[tuple[str, int, str]]:
    """Parses `host[:port]/database` with commas. Returns host, port, database. Raises ValueError for an invalid
    element."""
    found = set()
    for one in listed(text):
        match = TARGET.fullmatch(one)
        if not match or not 0 < int(match[2] or 5432) < 65536:
            raise ValueError(f"{one} is not a target; expected host:port/database, with a port from 1 to 65535, or "
                             "host:port/* for all databases of a server")
        found.add((match[1].strip("[]").lower(), int(match[2] or 5432), match[3]))
    return found
