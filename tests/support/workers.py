"""Handlers of both kinds in tests, and when the queue of a worker is consumed."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queend.client import Context, Message

from .client import Client as Plain
from .wait import until

LONG = 120.0    # s: on a busy machine no request may fail because an answer was late


def pending(client: Plain, queue: str, group: str | None = None) -> int:
    more = "" if group is None else f"?group={group}"
    return client.get(f"/api/v1/resources/queues/{queue}/depth{more}").json.get("pending", -1)


def consumed(client: Plain, queue: str, group: str | None = None) -> None:
    until(lambda: pending(client, queue, group) == 0, f"{queue} is consumed")


def seek(client: Plain, queue: str) -> None:
    """Ends the leases of the group, and has everything delivered again."""
    answer = client.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", {"offset": 0})
    assert answer.status == 200, answer.body


def handler_of(kind: str, body: Callable[..., None]) -> Callable[..., Any]:
    """Returns a handler of a kind that does the same."""
    if kind == "function":
        return lambda message, context: body(message, context)

    async def handler(message: Message, context: Context) -> None:
        body(message, context)
    return handler


KINDS = pytest.mark.parametrize("form", ["function", "coroutine"])
