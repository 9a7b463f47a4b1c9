"""The error of an acknowledgment is kept as it was sent: a text as itself, anything else as JSON."""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.client import Client, ack_of
from support.daemon import Daemon
from support.streams import Stream

ERRORS = [{"code": 7, "why": ["ü", None]}, [1, 2], 42, True]
Way = Callable[[Client, Daemon, dict, dict], Any]


def by_sql(client: Client, daemon: Daemon, message: dict, item: dict) -> None:
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        connection.execute("SELECT queen.ack_messages_v2(%s)", (Jsonb([item]),))


WAYS: dict[str, Way] = {
    "ack": lambda client, daemon, message, item: client.post("/api/v1/ack", item),
    "batch": lambda client, daemon, message, item: client.ack_batch([item]),
    "transaction": lambda client, daemon, message, item: client.transaction({"type": "ack", **item}),
    "sql": by_sql}


@pytest.mark.parametrize("error", ERRORS, ids=["object", "list", "number", "truth"])
@pytest.mark.parametrize("way", WAYS)
def test_kept(daemon: Daemon, client: Client, queue: str, way: str, error: Any) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    WAYS[way](client, daemon, message, ack_of(message, "dlq", error=error))
    (dead,) = client.get(f"/api/v1/dlq?queue={quote(queue)}").json["messages"]
    assert json.loads(dead["errorMessage"]) == error


def test_of_a_cycle(client: Client, queue: str) -> None:
    stream = Stream(client, f"s-{queue}", queue)
    client.push(queue, 1)
    body = stream.body(stream.pop())
    body["ack"] |= {"status": "failed", "error": ERRORS[0]}
    assert stream.post(body)["success"]
    (dead,) = client.get(f"/api/v1/dlq?queue={quote(queue)}").json["messages"]
    assert json.loads(dead["errorMessage"]) == ERRORS[0]
