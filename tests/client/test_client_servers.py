"""Clients that know several servers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.daemon import Daemon
from support.wait import PATIENCE

from queend.client import Unavailable
from queend.client.link import Servers

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def several(kind: type) -> Any:
    """Returns a function that makes a client of several servers."""
    made = []

    def make(*urls: str, deadline: float = PATIENCE) -> Any:
        made.append(kind(list(urls), deadline=deadline, timeout=PATIENCE))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_server_that_is_away_is_not_asked_again(several: Any, daemon: Daemon, client: Plain, queue: str) -> None:
    one = several(NOBODY, daemon.url)
    one.push(queue, 1)
    assert one.server == daemon.url
    assert [message.data for message in one.pop(queue)] == [1]


def test_an_answer_that_is_lost_stores_nothing_twice(several: Any, daemon: Daemon, network: Lossy, client: Plain,
                                                     queue: str) -> None:
    one = several(network.url, daemon.url)
    network.lose("POST /api/v1/push", answers=True)
    assert one.push(queue, 1).status == "queued" and network.lost == 1
    assert one.server == daemon.url
    assert [message["data"] for message in client.pop(queue, batch=9)] == [1]


def test_leases_are_those_of_any_server(several: Any, start_daemon: Callable[..., Daemon], daemon: Daemon,
                                        queue: str) -> None:
    """Both daemons have the same database."""
    second = start_daemon(daemon.conninfo)
    one = several(second.url, daemon.url)
    one.push(queue, 1)
    (message,) = one.pop(queue)
    second.stop()
    one.ack(message)
    assert one.server == daemon.url and one.pop(queue) == []


def test_a_stream_goes_on_with_another_server(several: Any, daemon: Daemon, network: Lossy, queue: str) -> None:
    one = several(network.url, daemon.url)
    one.push(queue, 1)
    with one.stream(queue) as messages:
        first = next(messages)
        one.ack(first)
        network.lose("GET /api/v1/stream", answers=False)
        network.cut()
        one.push(queue, 2)
        second = next(messages)
        one.ack(second)
    assert [first.data, second.data] == [1, 2] and one.server == daemon.url


def test_no_server_answers(several: Any) -> None:
    with pytest.raises(Unavailable):
        several(NOBODY, "http://127.0.0.1:2", deadline=0.5).push("orders", 1)


def test_a_limit_of_a_server_is_not_evaded() -> None:
    servers = Servers(["http://a", "http://b"])
    servers.failed("http://a", 429)
    assert servers.url == "http://a"
    servers.failed("http://a", 503)
    servers.failed("http://a")      # by another thread, which asked the same server
    assert servers.url == "http://b"
    servers.failed("http://b")
    assert servers.url == "http://a"


@pytest.mark.parametrize("urls", [[], ["http://here:6632", "there:6632"]])
def test_slips(kind: type, urls: list[str]) -> None:
    with pytest.raises(ValueError):
        kind(urls)
