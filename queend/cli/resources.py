"""Queues and groups of a server: all of them page by page, or one; the refusal of an unknown one names it."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .client import Server, ServerError
from .remote import NOT_FOUND, Stop

PARTITIONS = 10_000      # of one page
LONG_S = 600.0      # time limit of requests that remove or move many messages
EVER = "1970-01-01T00:00:00Z"      # before every stored message


def queues_of(server: Server) -> Iterator[dict[str, Any]]:
    for page in server.pages("/api/v1/resources/queues", limit=1000):
        yield from (page or {}).get("queues", [])


def groups_of(server: Server, queue: str | None = None, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields groups, a row for each of their queues. With `queue`, a token needs rights for that queue alone."""
    for page in server.pages("/api/v1/consumer-groups", limit=1000, queue=queue):
        yield from (row for row in page or [] if queue in (None, row["queueName"]) and name in (None, row["name"]))


def found(server: Server, name: str, hint: str = "", **query: Any) -> dict[str, Any]:
    """Returns a queue, which must exist. hint: what to do if it does not."""
    try:
        return server.get("/api/v1/resources/queues/{}", name, **query)
    except ServerError as error:
        if error.status == NOT_FOUND and error.text == "Queue not found":
            raise Stop(f"there is no queue {name!r}", NOT_FOUND, hint) from None
        raise


def head_of(server: Server, name: str) -> dict[str, Any] | None:
    """Returns a queue without its partitions, or None if there is none."""
    try:
        return server.get("/api/v1/resources/queues/{}", name, limit=0)
    except ServerError as error:
        if error.status != NOT_FOUND:
            raise
        return None


def partition_of(server: Server, name: str, partition: str) -> dict[str, Any]:
    """Returns a partition of a queue, which must exist."""
    offset = 0
    while True:
        rows = found(server, name, limit=PARTITIONS, offset=offset)["partitions"]
        for row in rows:
            if row["name"] == partition:
                return row
        offset += PARTITIONS
        if len(rows) < PARTITIONS:
            raise Stop(f"there is no partition {partition!r} in {name!r}", NOT_FOUND)


def known(server: Server, queue: str | None, partition: str | None = None, group: str | None = None) -> None:
    """Refuses a partition and a group that do not exist. Without a queue, partitions are not checked. A list calls this
    only if it is empty: dead letters outlive their group and their partition."""
    if queue is not None and partition is not None:
        partition_of(server, queue, partition)
    if group is not None and not any(True for _ in groups_of(server, queue, group)):
        raise no_group(group, queue)


def checked(rows: Iterable[dict[str, Any]], server: Server, queue: str | None, partition: str | None = None,
            group: str | None = None) -> Iterator[dict[str, Any]]:
    """Yields rows. If there are none, refuses a partition and a group that do not exist."""
    count = 0
    for row in rows:
        count += 1
        yield row
    if not count:
        known(server, queue, partition, group)


def no_group(name: str, queue: str | None = None) -> Stop:
    return Stop(f"there is no group {name!r}" + (f" of {queue!r}" if queue else ""), NOT_FOUND)
