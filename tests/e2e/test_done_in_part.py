"""Requests that work in several transactions: an error says what was done, and the same request does the rest."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
from support.client import Answer, Client, ack_of
from support.daemon import Daemon
from support.faults import Faults

PART = "Part of the request was done: send it again for the rest"


@pytest.fixture(scope="module")
def own(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon()


@pytest.fixture(scope="module")
def faults(own: Daemon) -> Iterator[Faults]:
    with closing(Faults(own.conninfo, "dead_delete", "group_seek", "retain", "messages_erase")) as one:
        yield one


def fill(client: Client, queue: str, messages: int, partitions: int = 1) -> None:
    client.push_items([{"queue": queue, "partition": f"p{i % partitions}", "payload": "eve"} for i in range(messages)])


def bury(client: Client, queue: str, messages: int) -> None:
    fill(client, queue, messages)
    taken = client.pop(queue, batch=messages)
    assert len(taken) == messages
    client.ack_batch([ack_of(one, "dlq") for one in taken])


def purge(client: Client, queue: str) -> Answer:
    return client.request("DELETE", f"/api/v1/dlq?queue={quote(queue)}")


def redrive(client: Client, queue: str) -> Answer:
    return client.post("/api/v1/dlq/redrive", {"queue": queue})


def seek(client: Client, queue: str) -> Answer:
    return client.post(f"/api/v1/consumer-groups/g/queues/{quote(queue, safe='')}/seek", {"toEnd": True})


def clear(client: Client, queue: str) -> Answer:
    return client.request("DELETE", f"/api/v1/queues/{quote(queue, safe='')}/clear")


def erase(client: Client, queue: str) -> Answer:
    return client.post(f"/api/v1/queues/{quote(queue, safe='')}/erase", {"text": "eve"})


@pytest.mark.parametrize(("what", "function", "buried", "messages", "partitions", "told", "rest"), [
    (purge, "dead_delete", True, 1005, 1, {"deleted": 1000}, {"deleted": 5}),
    (redrive, "dead_delete", True, 205, 1, {"redriven": 200}, {"redriven": 5}),
    (seek, "group_seek", False, 1006, 1005, {"partitionsUpdated": 1000}, {"partitionsUpdated": 1005}),
    (clear, "retain", False, 1005, 1005, {"count": 1000}, {"count": 5}),
    (erase, "messages_erase", False, 505, 1, {"erased": 500, "next": "log.0.0"}, {"erased": 5, "next": None})],
    ids=lambda value: getattr(value, "__name__", None))
def test_an_error_says_what_was_done(own: Daemon, faults: Faults, queue: str, what: Callable[[Client, str], Answer],
                                     function: str, buried: bool, messages: int, partitions: int,
                                     told: dict[str, Any], rest: dict[str, Any]) -> None:
    with own.client() as client:
        if buried:
            bury(client, queue, messages)
        else:
            client.push(queue, "eve", partition="p0")
            client.pop(queue, consumerGroup="g", autoAck="true")
            fill(client, queue, messages - 1, partitions)
        faults.plant(function, "57P01", 1, after=1)
        answer = what(client, queue)
        assert answer.status == 503 and answer.json["code"] == "database_unavailable"
        assert answer.json["error"].endswith(f". {PART}") and answer.json.items() >= told.items(), answer.json
        answer = what(client, queue)
        assert answer.status == 200 and answer.json.items() >= rest.items(), answer.json


def test_an_error_of_the_first_part_says_nothing_of_it(own: Daemon, faults: Faults, queue: str) -> None:
    with own.client() as client:
        bury(client, queue, 3)
        faults.plant("dead_delete", "57P01", 1)
        for what in (purge, redrive):
            answer = what(client, queue)
            assert answer.status == (503 if what is purge else 200), answer
            if what is purge:
                assert set(answer.json) == {"error", "code"} and PART not in answer.json["error"]
