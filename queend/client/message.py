"""Messages, and what a push of them answers."""
from __future__ import annotations

import base64
import itertools
import math
import os
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .call import encoded

QUEUE_MODE = "__QUEUE_MODE__"
DEFAULT = "Default"
TURNS = [itertools.count(int.from_bytes(os.urandom(4), "big")) for _ in range(256)]       # of ids, by queue
# Returns traceparent and tracestate of pushes that name none. Set while a handler runs (opentelemetry.py).
TRACE: ContextVar[Callable[[], tuple[str | None, str | None]] | None] = ContextVar("TRACE", default=None)


@dataclass(frozen=True)
class Push:
    """A message to be stored. data: what JSON can hold; partition: messages of one partition keep their order; id: its
    transactionId, by which the partition recognises a duplicate, made here if it is not given; delay: seconds until it
    may be delivered; at: the moment from which it may be delivered, with a time zone. Only one of delay and at.
    traceparent, tracestate: its trace (W3C), by default that of the handler that runs, with the middleware `traced`.
    headers: texts by name."""

    queue: str
    data: Any
    partition: str = DEFAULT
    id: str | None = None
    delay: float | None = None
    at: datetime | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    headers: Mapping[str, str] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        own = self.traceparent is not None or "traceparent" in (self.headers or ())
        if not own and (current := TRACE.get()) is not None:
            for name, value in zip(("traceparent", "tracestate"), current(), strict=True):
                object.__setattr__(self, name, value)

    def checked(self) -> None:
        """Raises ValueError or TypeError if it cannot be stored."""
        encoded(self.item())

    def item(self) -> dict[str, Any]:
        """Returns the item of a request, with an id. Raises ValueError for a delivery time that is not possible."""
        item: dict[str, Any] = {"queue": self.queue, "partition": self.partition, "payload": self.data,
                                "transactionId": made_id(self.queue) if self.id is None else self.id}
        if self.delay is not None and self.at is not None:
            raise ValueError("a message has a delay or a moment (at), not both")
        if self.delay is not None:
            item["delayMs"] = milliseconds(self.delay)
        if self.at is not None:
            item["deliverAt"] = zoned(self.at)
        if self.traceparent is not None:
            item["traceparent"] = self.traceparent
        if self.tracestate is not None:
            item["tracestate"] = self.tracestate
        if self.headers:
            item["headers"] = dict(self.headers)
        return item


@dataclass(frozen=True)
class Stored:
    """What became of a pushed message. status: `queued`; `buffered` (on the server's disk, until its database is back);
    `duplicate`: the partition holds a message with this id; `duplicate_of_deleted`: it held one; `failed`, with
    `error`. message_id and partition_id are None unless it is in the database."""

    queue: str
    partition: str
    id: str
    status: str
    message_id: str | None = None
    partition_id: str | None = None
    error: str | None = None

    @property
    def new(self) -> bool:
        """Whether this push stored it."""
        return self.status in ("queued", "buffered")


@dataclass(frozen=True)
class Scheduled:
    """A message that waits for its moment, by its names. Without a partition it has one of its own, named like it, so
    that it holds back no other message."""

    queue: str
    id: str
    partition: str = ""

    def __post_init__(self) -> None:
        if not self.partition:
            object.__setattr__(self, "partition", self.id)


@dataclass(frozen=True)
class Origin:
    """The message that a redriven one was at first."""

    queue: str
    partition: str
    id: str
    offset: int


@dataclass(frozen=True)
class Message:
    """A delivered message. id: its transactionId; lease: the id of its lease, empty with auto_ack; group: None for the
    queue mode; attempt: 1 at the first delivery; key: an id that stays the same after a redrive, for what must be done
    once; headers: texts by name, as they were pushed."""

    queue: str
    partition: str
    id: str
    data: Any
    group: str | None
    attempt: int
    offset: int
    lease: str
    partition_id: str
    message_id: str
    created_at: datetime
    deliver_at: datetime | None = None
    origin: Origin | None = None
    producer: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    cloud_event: Mapping[str, Any] | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        return self.origin.id if self.origin else self.id


@dataclass(frozen=True)
class Record:
    """A stored message, as `fetch` reads it: it is not delivered, so there is nothing to acknowledge. id: its
    transactionId; data: bytes of a CloudEvent are their base64 text; created_at: when the push stored it, to the
    microsecond; origin: the dead letter that was redriven; key: an id that stays the same after a redrive; headers:
    texts by name, as they were pushed."""

    queue: str
    partition: str
    id: str
    data: Any
    offset: int
    created_at: datetime
    origin: Origin | None = None
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def key(self) -> str:
        return self.origin.id if self.origin else self.id


def message(item: Mapping[str, Any], queue: str = "", partition: str = "", group: str | None = None) -> Message:
    """Returns the message that an element of an answer describes. The others: for what the element does not say."""
    named = item.get("consumerGroup") or group
    data = item["data"]
    if item.get("dataEncoding") == "base64":
        data = base64.b64decode(data)
    due = item.get("deliverAt")
    return Message(
        queue=item.get("queue", queue), partition=item.get("partition", partition), id=item["transactionId"], data=data,
        group=None if named == QUEUE_MODE else named, attempt=item["deliveryAttempt"], offset=item["offset"],
        lease=item.get("leaseId") or "", partition_id=item["partitionId"], message_id=item["id"],
        created_at=moment(item["createdAt"]), deliver_at=moment(due) if due else None, origin=origin(item),
        producer=item.get("producerSub"), traceparent=item.get("traceparent"), tracestate=item.get("tracestate"),
        cloud_event=item.get("cloudEvent"), headers=item.get("headers") or {})


def record(item: Mapping[str, Any], queue: str, partition: str) -> Record:
    """Returns the stored message that a record of an answer describes."""
    return Record(queue, partition, item["transactionId"], item["payload"], item["offset"], moment(item["ts"]),
                  origin(item), item.get("headers") or {})


def origin(item: Mapping[str, Any]) -> Origin | None:
    """Returns the message that a redriven one was at first, or None if the message was not redriven."""
    if item.get("originTransactionId") is None:
        return None
    return Origin(item["originQueue"], item["originPartition"], item["originTransactionId"], item["originOffset"])


def moment(text: str) -> datetime:
    """Returns the time that an answer names."""
    return datetime.fromisoformat(text)


def zoned(at: datetime) -> str:
    """Returns a moment as requests name it. Raises ValueError if it has no time zone."""
    if at.tzinfo is None:
        raise ValueError(f"the moment {at.isoformat()} has no time zone")
    return at.isoformat()


def made_id(queue: str = "") -> str:
    """Returns a UUID of version 7. The server finds duplicates of such ids most cheaply, because they grow with time.
    A queue without order takes the sum of the three parts behind the time as the number of a partition. The last part
    is made so that the sums of one queue count up: its messages go to the partitions in turn."""
    drawn = int.from_bytes(os.urandom(6), "big")
    first, second = drawn >> 36, 1 << 31 | drawn & 0x3fffffff       # 12 and 30 random bits
    last = next(TURNS[hash(queue) % len(TURNS)]) - first - second & 0xffffffff
    text = f"{int(time.time() * 1000) << 80 | (7 << 12 | first) << 64 | second << 32 | last:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def milliseconds(seconds: float) -> int:
    """Returns a delay in milliseconds, rounded up. Raises ValueError below 0."""
    if not seconds >= 0:
        raise ValueError(f"a delay of {seconds} s is not possible")
    whole = int(seconds * 1000)
    return whole if whole >= seconds * 1000 else whole + 1


def seconds(time: float) -> int:
    """Returns a time in whole seconds, rounded up. Raises ValueError if it is not above 0."""
    if not 0 < time < math.inf:
        raise ValueError(f"a time of {time} s is not possible")
    return math.ceil(time)
