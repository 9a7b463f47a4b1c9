"""Pops that wait, and cursors that were used."""
from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from .client import Client, pop_target
from .daemon import Daemon
from .wait import PATIENCE, until


@contextmanager
def waiting(daemon: Daemon, client: Client, queue: str, number: int = 1, beside: int | None = None,
            **query: object) -> Iterator[list[Client]]:
    """So many long polls, parked. beside: how many others are, where that cannot be read off: what was changed a moment
    ago wakes them, and they look at it before they park again."""
    with ExitStack() as stack:
        before = client.parked() if beside is None else beside
        clients = [stack.enter_context(daemon.client()) for _ in range(number)]
        for one in clients:
            one.send("GET", pop_target(queue, wait=True, timeout=100_000, **query))
        until(lambda: client.parked() == before + number, "the pops wait")
        yield clients


def settle(client: Client, queue: str, *partitions: str, group: str | None = None) -> None:
    """Cursors that were used once: only they are known well enough to be served by a push."""
    query = {"consumerGroup": group} if group else {}
    for partition in partitions:
        if group is None:
            client.push(queue, "first", partition=partition)
        for message in client.pop(queue, partition, batch=1000, **query):
            client.ack(message, group=group)


def all_wait(clients: list[Client], client: Client) -> bool:
    """Whether as many pops are parked as these clients sent. None of them may have an answer."""
    ready, _, _ = select.select([one.wire.socket for one in clients], [], [], 0)
    answers = [one.receive() for one in clients if one.wire.socket in ready]
    assert not answers, [(answer.status, answer.headers, answer.body) for answer in answers]
    return client.parked() >= len(clients)


def first_served(clients: list[Client]) -> Client:
    """The one that has an answer first. Workers are threads: which of several pops they serve first, nobody says."""
    ready, _, _ = select.select([one.wire.socket for one in clients], [], [], PATIENCE)
    return next(one for one in clients if one.wire.socket in ready)


def answer_of(client: Client) -> list[dict]:
    answer = client.receive()
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json["messages"]


@contextmanager
def claims_wait(daemon: Daemon) -> Iterator[Callable[[], bool]]:
    """Nothing is claimed in this block; gives a look at whether a claim waits."""
    with psycopg.connect(daemon.conninfo) as other, psycopg.connect(daemon.conninfo, autocommit=True) as eyes:
        other.execute("LOCK TABLE queend.cursors IN SHARE MODE")
        yield lambda: eyes.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                                   " AND wait_event_type = 'Lock'"
                                   " AND (query LIKE '%queend.claim(%'"
                                   " OR query LIKE '%queend.pop(%')").fetchone()[0] > 0
