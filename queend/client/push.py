"""Pushes, and messages that wait for their moment."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .call import Call, Steps, encoded, escaped
from .errors import NOT_FOUND, NotStored
from .message import Push, Scheduled, Stored


def push_many(pushes: Iterable[Push]) -> Steps[list[Stored]]:
    """Stores messages. Returns one result each, in order. Raises NotStored if the server stored only some of them.

    An attempt whose answer was lost is repeated. Ids made here are the same in each attempt, so a duplicate of one is
    the message itself, stored by an earlier attempt."""
    pushes = list(pushes)
    items = [push.item() for push in pushes]
    if not items:
        return []
    reply = yield Call("POST", "/api/v1/push", body=encoded({"items": items}))
    stored = [result(item, one, push.id is None and reply.repeated)
              for push, item, one in zip(pushes, items, reply.json, strict=True)]
    failed = [one for one in stored if one.error is not None]
    if failed:
        codes = {one.get("code", "") for one in reply.json if one["status"] == "failed"}
        raise NotStored(f"{len(failed)} of {len(stored)} messages were refused: {failed[0].error}",
                        codes.pop() if len(codes) == 1 else "", stored)
    return stored


def push(one: Push) -> Steps[Stored]:
    """Stores a message. Raises NotStored if the server refused it."""
    (stored,) = yield from push_many([one])
    return stored


def result(item: Mapping[str, Any], one: Mapping[str, Any], own: bool) -> Stored:
    """Returns what became of an item. own: a duplicate is the message itself."""
    status = one["status"]
    return Stored(item["queue"], one.get("partition", item["partition"]), item["transactionId"],
                  "queued" if own and status.startswith("duplicate") else status,
                  one.get("message_id"), one.get("partition_id"),
                  one.get("error", "refused") if status == "failed" else None)


def scheduled(one: Push) -> Steps[Scheduled]:
    """Stores a message that waits, and returns its names."""
    stored = yield from push(one)
    return Scheduled(stored.queue, stored.id, stored.partition)


def cancel(one: Scheduled) -> Steps[bool]:
    """Deletes a message, whether it was delivered or not. Returns whether the server had it; after a lost answer False
    may also mean that the first attempt deleted it."""
    path = f"/api/v1/queues/{escaped(one.queue)}/partitions/{escaped(one.partition)}/messages/{escaped(one.id)}"
    reply = yield Call("DELETE", path, accept=(NOT_FOUND,))
    return reply.status != NOT_FOUND and bool(reply.json["success"])


