"""The level of every route, and where a request names its queues."""
from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

from .._core import hot_routes_of_core

PUBLIC, READ, WRITE, ADMIN = 0, 1, 2, 3
# verbs of queue permissions, with the core's numbers
PUSH, POP, READS, MANAGE = 1, 2, 4, 8
EVERY_QUEUE = "*"

# Rows of files: level, method, path below /. The routes of the control plane declare theirs (control/http/route); those
# of the core stand in its table (core/run/jobtypes). Paths are matched whole, a parameter is one segment.
ROUTES = """
public GET  :nothing
public GET  assets/*
"""
LEVELS = {"public": PUBLIC, "read": READ, "write": WRITE, "admin": ADMIN}


class Route:
    """A route. where: the place that names its queues: `body.queue`, `body.entries`, `query`, `itself` (the route asks
    the grant). "": the queue in its path, or all queues."""

    def __init__(self, level: int, method: str, path: str, where: str = ""):
        self.level, self.method, self.path, self.where = level, method, path, where
        parts = ("" if part == ":nothing" else f"(?P<{part[1:-1]}>.+)" if part[:1] == ":" and part[-1] == "*" else
                 f"(?P<{part[1:]}>[^/]+)" if part[:1] == ":" else ".*" if part == "*" else
                 re.escape(part) for part in path.split("/"))
        self.pattern = re.compile("/" + "/".join(parts), re.DOTALL)

    @property
    def order(self) -> list[bool]:
        """Returns the sort key: of the routes that match a path, the one with the first literal segment wins."""
        return [part[:1] == ":" for part in self.path.split("/")]

    @property
    def verb(self) -> int:
        return READS if self.level == READ else MANAGE


TABLE: list[Route] = []


def declare(level: int, method: str, path: str, where: str = "") -> None:
    TABLE.append(Route(level, method, path, where))
    TABLE.sort(key=lambda route: route.order)


for _line in ROUTES.strip().split("\n"):
    _level, _method, _path = _line.split()
    declare(LEVELS[_level], _method, _path)
for _declared in hot_routes_of_core():
    declare(*_declared)
UNKNOWN = Route(ADMIN, "*", "*")


def route_of(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """Returns the route of a raw path and its parameters as sent. An undeclared path needs the highest level."""
    for route in TABLE:
        if route.method == method and (match := route.pattern.fullmatch(path)):
            return route, match.groupdict()
    return UNKNOWN, {}


def queues_of(route: Route, parameters: dict[str, str], query: bytes, body: bytes) -> list[str]:
    """Returns the queues that a request names; EVERY_QUEUE if it names none. The route itself refuses malformed
    names."""
    if route.where == "itself":
        return []
    if "queue" in parameters:
        return [unquote(parameters["queue"], errors="replace")]
    if route.where == "query":
        named = parse_qs(query.decode("latin-1"), keep_blank_values=True, errors="replace").get("queue", [""])
        return [one or EVERY_QUEUE for one in named]      # the route takes a blank name for all queues
    if not route.where:
        return [EVERY_QUEUE]
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError:
        return [EVERY_QUEUE]
    entries = [sent] if route.where == "body.queue" else sent.get("entries") if isinstance(sent, dict) else None
    queues: list[Any] = [one.get("queue") if isinstance(one, dict) else None
                         for one in (entries if isinstance(entries, list) else [])]
    return [queue if isinstance(queue, str) else EVERY_QUEUE for queue in queues] or [EVERY_QUEUE]
