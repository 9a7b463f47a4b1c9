"""Parameters and parts of answers that several routes share, described with the pieces of `schema`."""
from __future__ import annotations

from typing import Any

from .schema import FLAG, ID, INTEGER, NAME, NUMBER, TEXT, TIME, parameter, titled, whole

FROM, TO = (parameter(name, TIME, "ISO 8601; without a zone UTC") for name in ("from", "to"))
QUEUE, PARTITION, GROUP = parameter("queue", NAME), parameter("partition", NAME), parameter("consumerGroup", NAME)
PAGINATION = titled("Pagination", whole(limit=INTEGER, offset=INTEGER))
DONE = {"const": True}
SIX_COUNTS = titled("MessageCounts", whole(total=INTEGER, pending=INTEGER, processing=INTEGER, completed=INTEGER,
                                           failed=INTEGER, deadLetter=INTEGER))
HEAD = {"id": ID, "name": TEXT, "namespace": TEXT, "task": TEXT, "createdAt": TIME}
MESSAGES = whole(total=INTEGER, pending=INTEGER, processing=INTEGER)
PLACE = {"id": ID, "transactionId": TEXT, "partitionId": ID, "queuePath": TEXT, "queue": TEXT, "partition": TEXT}
# origin of a redriven message
ORIGIN = {"originTransactionId": TEXT, "originQueue": TEXT, "originPartition": TEXT, "originOffset": INTEGER}
HEADERS = {"type": "object", "additionalProperties": TEXT, "maxProperties": 64}
HEADERS_RULE = "at most 64 names of 1 to 256 bytes; at most 16 KiB as JSON"
BESIDES = {"headers": HEADERS, **ORIGIN}      # of a message: only what it has
WAS = {"timestamp": "2026-01-02T03:04:05.678Z"}


def each(kind: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns members of one kind."""
    return dict.fromkeys(names, kind)


def integers(*names: str) -> dict[str, Any]:
    return each(INTEGER, *names)


SPAN = {"timeRange": titled("TimeRange", whole(**{"from": TIME, "to": TIME})), "bucketMinutes": INTEGER}
WORKER = {"hostname": TEXT, **integers("port", "workerId", "avgEventLoopLagMs", "maxEventLoopLagMs", "freeSlots",
                                       "dbConnections", "jobQueueSize", "messagesProcessed")}
LAG = {"avgLagMs": NUMBER, "maxLagMs": INTEGER}
OPS = ("push", "pop", "ack")
PEERLESS = whole(enabled=FLAG, running=FLAG, server_id=TEXT,
                 queue_config_cache=whole(**integers("size", "hits", "misses"), hit_rate=NUMBER),
                 server_health=whole(**integers("servers_tracked", "servers_alive", "servers_dead",
                                                "heartbeats_received", "restarts_detected")),
                 maintenance_mode=FLAG, pop_maintenance_mode=FLAG)
