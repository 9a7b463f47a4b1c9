"""Queues and consumer groups: how far behind groups are, seeks, pauses, options, deletions."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict, Union, cast

from .attempts import Backoff
from .call import Call, Reply, Steps, encoded, escaped
from .errors import NOT_FOUND, NotFound
from .fetch import EVER
from .message import milliseconds, zoned

LONG = 60.0     # s: for requests that may concern many partitions, beyond the usual time
PAGE = 1000     # groups of one answer
TIMES = {"lease_time", "delayed_processing", "window_buffer", "ttl", "rate_period", "retention_seconds",
         "completed_retention_seconds", "max_wait_time_seconds"}
# The target of a seek: an offset, a time, or one end of the queue.
Position = Union[int, datetime, Literal["beginning", "end"]]


@dataclass(frozen=True)
class Group:
    """A consumer group of a queue. name: `QUEUE_MODE` for consumers that name no group; lag: messages that the group
    has not consumed; partitions: how many of its partitions have such messages; oldest: seconds for which the oldest of
    these messages has been due, in whole seconds; paused: whether the group or its queue is paused."""

    queue: str
    name: str
    lag: int
    partitions: int
    oldest: float
    paused: bool


class QueueOptions(TypedDict, total=False):
    """Options of a queue; None resets one to its default (docs/queue-options.md). Times are in seconds, rounded up
    to whole ones; those of retry_delay and retry_backoff to milliseconds. retry_backoff: the pauses before the first,
    second and further retries, or a rule."""

    lease_time: float | None
    retry_limit: int | None
    delivery_limit: int | None
    retry_delay: float | None
    retry_backoff: Sequence[float] | Backoff | None
    delayed_processing: float | None
    window_buffer: float | None
    max_size: int | None
    ttl: float | None
    rate_limit: int | None
    rate_period: float | None
    rate_burst: int | None
    group_rate_limit: int | None
    group_rate_burst: int | None
    queue_rate_limit: int | None
    queue_rate_burst: int | None
    ordered: bool | None
    spread_partitions: int | None
    priority: int | None
    retention_enabled: bool | None
    retention_seconds: float | None
    completed_retention_seconds: float | None
    max_wait_time_seconds: float | None
    encryption_enabled: bool


def depth(queue: str, group: str | None) -> Steps[int]:
    """Returns how many messages a group has not consumed; without a group, the largest number of any group in each
    partition."""
    path = f"/api/v1/resources/queues/{escaped(queue)}/depth"
    reply = yield Call("GET", path, {"group": group, "limit": 0}, accept=(NOT_FOUND,))
    return int(known(reply, queue, group).json["pending"])


def groups(queue: str) -> Steps[list[Group]]:
    """Returns the consumer groups of a queue, by name."""
    found: list[Group] = []
    while True:
        reply = yield Call("GET", "/api/v1/consumer-groups", {"queue": queue, "limit": PAGE, "offset": len(found)})
        rows: list[dict[str, Any]] = reply.json
        found += [Group(queue, row["name"], row["totalLag"], row["partitionsWithLag"], float(row["maxTimeLag"]),
                        bool(row.get("paused"))) for row in rows]
        if len(rows) < PAGE:
            return found


def seek(queue: str, group: str, to: Position, partition: str | None) -> Steps[int]:
    """Moves the cursors of a group. Returns the number of partitions. Not repeated after a lost answer: a second seek
    to the end would skip what was pushed between the two."""
    where = "" if partition is None else f"/partitions/{escaped(partition)}"
    path = f"/api/v1/consumer-groups/{escaped(group)}/queues/{escaped(queue)}{where}/seek"
    reply = yield Call("POST", path, body=encoded(target(to)), repeat=False, patience=LONG, accept=(NOT_FOUND,))
    answer = known(reply, queue, group, partition).json
    return int(answer["partitionsUpdated"] if partition is None else answer["updated"])


def target(to: Position) -> dict[str, Any]:
    """Returns what a seek asks for. Raises ValueError for another position, or a moment without a time zone."""
    if isinstance(to, datetime):
        return {"timestamp": zoned(to)}
    if to == "end":
        return {"toEnd": True}
    if to == "beginning":
        return {"timestamp": EVER}
    if isinstance(to, int) and not isinstance(to, bool) and to >= 0:      # pyright: ignore[reportUnnecessaryIsInstance]
        return {"offset": to}
    raise ValueError(f"a seek goes to an offset, a datetime, 'beginning' or 'end', not to {to!r}")


def switch(verb: Literal["pause", "resume"], queue: str, group: str | None) -> Steps[bool]:
    """Pauses or resumes a queue, or one group of it. Returns whether that changed anything; after a lost answer False
    may also mean that the first attempt did."""
    path = (f"/api/v1/queues/{escaped(queue)}/{verb}" if group is None else
            f"/api/v1/consumer-groups/{escaped(group)}/queues/{escaped(queue)}/{verb}")
    reply = yield Call("POST", path, accept=(NOT_FOUND,))
    return bool(known(reply, queue, group).json["changed"])


def delete_group(queue: str, group: str) -> Steps[bool]:
    """Deletes a group of a queue. Returns whether it existed. Not repeated after a lost answer: a consumer may have
    begun the group again."""
    path = f"/api/v1/consumer-groups/{escaped(group)}/queues/{escaped(queue)}"
    reply = yield Call("DELETE", path, repeat=False, patience=LONG)
    return bool(reply.json["existed"])


def delete_queue(queue: str) -> Steps[bool]:
    """Deletes a queue. Returns whether it existed. Not repeated after a lost answer: a push may have made the queue
    again."""
    reply = yield Call("DELETE", f"/api/v1/resources/queues/{escaped(queue)}", repeat=False, patience=LONG)
    return bool(reply.json["existed"])


def configure(queue: str, namespace: str | None, task: str | None, replace: bool,
              options: Mapping[str, Any]) -> Steps[QueueOptions]:
    """Sets options of a queue, and creates it if it does not exist. Returns its options. Raises TypeError for an
    unknown option, before any request: the server would ignore it."""
    if unknown := [name for name in options if name not in QueueOptions.__annotations__]:
        raise TypeError(f"there is no option {unknown[0]!r} of a queue; options are: "
                        f"{', '.join(QueueOptions.__annotations__)}")
    body: dict[str, Any] = {"queue": queue, "options": dict(sent(name, value) for name, value in options.items()),
                            "mode": "replace" if replace else "merge"}
    body |= {name: value for name, value in (("namespace", namespace), ("task", task)) if value is not None}
    reply = yield Call("POST", "/api/v1/configure", body=encoded(body))
    given = {word(name): name for name in QueueOptions.__annotations__}
    found: Any = {given[name]: received(name, value) for name, value in reply.json["options"].items() if name in given}
    options_now: QueueOptions = found
    return options_now


def word(name: str) -> str:
    """Returns the name that the server has for an option."""
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)


def sent(name: str, value: Any) -> tuple[str, Any]:
    """Returns an option as requests have it, whose pauses are in milliseconds."""
    if name == "encryption_enabled":      # the server ignores encryptionEnabled: false
        return "encryption", "on" if value else "off"
    if name == "retry_delay" and value is not None:
        value = milliseconds(value)
    elif isinstance(value, Backoff):
        value = {"type": "exponential", "initial": max(1, milliseconds(value.initial)), "multiplier": value.multiplier,
                 "max": max(1, milliseconds(value.max)), "jitter": value.jitter}
    elif name == "retry_backoff" and value is not None:
        value = [milliseconds(pause) for pause in value]
    elif name in TIMES and value is not None:
        value = math.ceil(value)
    return word(name), value


def received(name: str, value: Any) -> Any:
    """Returns the value of an option that an answer has, with its pauses in seconds."""
    if name == "retryDelay":
        return value / 1000
    if name == "retryBackoff" and value is not None:
        if isinstance(value, list):
            return [pause / 1000 for pause in cast("list[int]", value)]
        return Backoff(value["initial"] / 1000, value["multiplier"], value["max"] / 1000, value["jitter"])
    return value


def known(reply: Reply, queue: str, group: str | None = None, partition: str | None = None) -> Reply:
    """Returns an answer. Raises NotFound, which names what does not exist, if its status is 404."""
    if reply.status != NOT_FOUND:
        return reply
    error, code = reply.refusal
    names = {"Queue not found": f"queue {queue!r}", "Consumer group not found": f"group {group!r} of queue {queue!r}",
             "Partition not found": f"partition {partition!r} of queue {queue!r}"}
    raise NotFound(f"there is no {names[error]}" if error in names else error, reply.status, code)
