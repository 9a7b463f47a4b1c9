"""The level of every route, and where a request says which queues it is about."""
from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

PUBLIC, READ, WRITE, ADMIN = 0, 1, 2, 3
# verbs of queue permissions, as the core counts them
PUSH, POP, READS, MANAGE = 1, 2, 4, 8
EVERY_QUEUE = "*"

# Level, method, path below /, where its queues are named: a path parameter, `body.queue`, `body.entries`, `query`, `itself` (the
# route asks the grant), or nowhere (then it is about all of them). Paths are matched whole, a parameter is one segment; the
# first that fits counts.
ROUTES = """
public GET  health
read   GET  metrics
read   GET  metrics/prometheus
public GET  livez
public GET  readyz
read   GET  openapi.json
public GET  :nothing
public GET  assets/*
write  POST api/v1/push
write  POST api/v1/events/:queue
write  GET  api/v1/pop
write  GET  api/v1/pop/queue/:queue
write  GET  api/v1/pop/queue/:queue/partition/:partition
write  POST api/v1/ack
write  POST api/v1/ack/batch
write  POST api/v1/transaction
write  POST api/v1/lease/:lease/extend
write  POST api/v1/configure                                                  body.queue
read   POST api/v1/fetch                                                      body.entries
read   POST api/v1/fetch/offsets                                              body.entries
read   POST api/v1/partitions/changed                                         body.entries
read   POST api/v1/offsets                                                    body.queue
read   GET  api/v1/consumer-groups
read   GET  api/v1/consumer-groups/lagging
read   GET  api/v1/consumer-groups/:group
admin  DELETE api/v1/consumer-groups/:group
write  POST api/v1/consumer-groups/:group/subscription
write  POST api/v1/consumer-groups/:group/offsets                             body.entries
admin  DELETE api/v1/consumer-groups/:group/queues/:queue
write  POST api/v1/consumer-groups/:group/queues/:queue/seek
write  POST api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek
admin  POST api/v1/stats/refresh
read   GET  api/v1/messages                                                   query
read   GET  api/v1/messages/:partition/:transaction
write  DELETE api/v1/messages/:partition/:transaction
write  POST api/v1/messages/:partition/:transaction/retry
write  POST api/v1/messages/:partition/:transaction/dlq
read   GET  api/v1/dlq                                                        query
admin  DELETE api/v1/dlq                                                      query
admin  POST api/v1/dlq/redrive
write  POST api/v1/traces
read   GET  api/v1/traces/names
read   GET  api/v1/traces/by-name/:name
read   GET  api/v1/traces/:partition/:transaction
read   GET  api/v1/resources/queues
read   GET  api/v1/resources/queues/:queue
admin  DELETE api/v1/resources/queues/:queue
read   GET  api/v1/resources/queues/:queue/depth
read   GET  api/v1/resources/partitions                                       query
read   GET  api/v1/resources/namespaces
read   GET  api/v1/resources/tasks
read   GET  api/v1/resources/overview
admin  DELETE api/v1/queues/:queue/clear
read   GET  api/v1/status
read   GET  api/v1/status/queues
read   GET  api/v1/status/queues/:queue
read   GET  api/v1/status/queues/:queue/messages
read   GET  api/v1/status/analytics
read   GET  api/v1/status/buffers
read   GET  api/v1/analytics/system-metrics
read   GET  api/v1/analytics/worker-metrics
read   GET  api/v1/analytics/queue-lag
read   GET  api/v1/analytics/queue-ops
read   GET  api/v1/analytics/queue-parked-replicas
read   GET  api/v1/analytics/retention
read   GET  api/v1/analytics/postgres-stats
admin  GET  api/v1/system/maintenance
admin  POST api/v1/system/maintenance
admin  GET  api/v1/system/maintenance/pop
admin  POST api/v1/system/maintenance/pop
admin  GET  api/v1/system/shared-state
admin  POST api/v1/migration/test-connection
admin  POST api/v1/migration/start
admin  GET  api/v1/migration/status
admin  POST api/v1/migration/validate
admin  POST api/v1/migration/reset
admin  GET  internal/api/shared-state/stats
admin  GET  internal/api/inter-instance/stats
admin  POST internal/api/notify                                               body.queue
write  POST streams/v1/queries                                                itself
write  POST streams/v1/cycle                                                  itself
read   POST streams/v1/state/get                                              itself
"""
LEVELS = {"public": PUBLIC, "read": READ, "write": WRITE, "admin": ADMIN}


class Route:
    """A line of ROUTES."""

    def __init__(self, level: str, method: str, path: str, where: str = ""):
        self.level, self.method, self.path, self.where = LEVELS[level], method, path, where
        parts = ("" if part == ":nothing" else f"(?P<{part[1:]}>[^/]+)" if part[0] == ":" else ".*" if part == "*" else re.escape(part)
                 for part in path.split("/"))
        self.pattern = re.compile("/" + "/".join(parts), re.DOTALL)

    @property
    def verb(self) -> int:
        return READS if self.level == READ else MANAGE


TABLE = [Route(*line.split()) for line in ROUTES.split("\n") if line]
UNKNOWN = Route("admin", "*", "*")


def route_of(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a raw path and its parameters as sent. One that is in no line needs the highest level."""
    for route in TABLE:
        if route.method == method and (match := route.pattern.fullmatch(path)):
            return route, match.groupdict()
    return UNKNOWN, {}


def queues_of(route: Route, parameters: dict[str, str], query: bytes, body: bytes) -> list[str]:
    """The queues a request is about; EVERY_QUEUE where it names none. What it says wrongly is refused by the route itself."""
    if "queue" in parameters:
        return [unquote(parameters["queue"], errors="replace")]
    if route.where == "query":
        return parse_qs(query.decode("latin-1"), errors="replace").get("queue", [EVERY_QUEUE])
    if route.where == "itself":
        return []
    if not route.where:
        return [EVERY_QUEUE]
    try:
        sent = orjson.loads(body)
    except orjson.JSONDecodeError:
        return [EVERY_QUEUE]
    named = [sent] if route.where == "body.queue" else sent.get("entries") if isinstance(sent, dict) else None
    queues: list[Any] = [one.get("queue") if isinstance(one, dict) else None for one in named] if isinstance(named, list) else []
    return [queue if isinstance(queue, str) else EVERY_QUEUE for queue in queues] or [EVERY_QUEUE]
