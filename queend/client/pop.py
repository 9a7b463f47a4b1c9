"""Pops: what the server delivers on request."""
from __future__ import annotations

import warnings
from datetime import datetime
from typing import Literal, Union

from .call import Call, Steps, escaped
from .message import Message, message, milliseconds, seconds, zoned

# Where a group begins that did not exist before.
Start = Union[Literal["all", "new"], datetime, None]
LONGEST = 115.0     # s: what the server parks a pop at most


def pop(queue: str, *, group: str | None, partition: str | None, batch: int | None, partitions: int | None,
        wait: float, lease: float | None, auto_ack: bool, start: Start,
        conflation: bool) -> Steps[list[Message]]:
    """Takes messages. With auto_ack no attempt is repeated that may have consumed some."""
    if not 0 <= wait <= LONGEST:
        raise ValueError(f"wait must be from 0 to {LONGEST:g} seconds, not {wait}")
    query = {**consumer(group, partitions, batch, lease, auto_ack, start, conflation),
             "wait": True if wait else None, "timeout": milliseconds(wait) if wait else None}
    reply = yield Call("GET", target("/api/v1/pop/queue", queue, partition), query, repeat=not auto_ack, patience=wait)
    if not reply.body:
        return []
    answer = reply.json
    if answer.get("conflationConflict"):
        warnings.warn(f"group {group!r} of queue {queue!r} does not conflate, because it began without: every message "
                      "is delivered. Delete the group to begin it again", RuntimeWarning, stacklevel=2)
    return [message(one, answer.get("queue", queue), answer.get("partition", ""), answer.get("consumerGroup"))
            for one in answer["messages"]]


def consumer(group: str | None, partitions: int | None, batch: int | None, lease: float | None, auto_ack: bool,
             start: Start, conflation: bool) -> dict[str, str | int | bool | None]:
    """Returns the query that pops and streams share."""
    if conflation and (group is None or auto_ack):
        raise ValueError("conflation requires a group, and cannot be combined with auto_ack")
    return {"consumerGroup": group, "batch": batch, "partitions": partitions,
            "conflation": True if conflation else None,
            "leaseSeconds": None if lease is None else seconds(lease),
            "autoAck": True if auto_ack else None, "subscriptionMode": start if isinstance(start, str) else None,
            "subscriptionFrom": zoned(start) if isinstance(start, datetime) else None}


def target(route: str, queue: str, partition: str | None) -> str:
    """Returns the path for a queue, or for one partition of it."""
    return f"{route}/{escaped(queue)}" + ("" if partition is None else f"/partition/{escaped(partition)}")


