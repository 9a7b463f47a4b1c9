"""Requests that never arrive, answers that never come back, connections that are cut: nothing is lost and nothing is
done twice."""
from __future__ import annotations

import itertools
import random
from typing import Any
from urllib.parse import quote

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.daemon import Daemon
from support.wait import until

from queend.client import Client, LeaseLost, Push, TransactionRefused, Unavailable

ANSWERS = pytest.mark.parametrize("answers", [False, True], ids=["request lost", "answer lost"])
PUSH, POP, ACK = "POST /api/v1/push", "GET /api/v1/pop", "POST /api/v1/ack/batch"
TRANSACTION, EXTEND, STREAM = "POST /api/v1/transaction", "POST /api/v1/lease", "GET /api/v1/stream"


def end_leases(client: Plain, queue: str) -> None:
    """Has everything delivered again, from the first message on."""
    answer = client.post(f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{quote(queue)}/seek", {"offset": 0})
    assert answer.status == 200, answer.body


@ANSWERS
def test_a_push(lossy: Any, network: Lossy, client: Plain, queue: str, answers: bool) -> None:
    network.lose(PUSH, answers, times=2)
    stored = lossy.push_many([Push(queue, 1), Push(queue, 2, id="mine")])
    assert [one.status for one in stored] == ["queued", "duplicate" if answers else "queued"]
    assert network.lost == 2
    assert [one["data"] for one in client.pop(queue, batch=9)] == [1, 2]


@ANSWERS
def test_acknowledgments(lossy: Any, network: Lossy, client: Plain, queue: str, answers: bool) -> None:
    lossy.push_many(Push(queue, n, partition=f"p{n % 2}") for n in range(6))
    messages = lossy.pop(queue, batch=9, partitions=2)
    assert len(messages) == 6
    network.lose(ACK, answers)
    lossy.ack(messages)
    assert network.lost == 1 and client.pop(queue, batch=9, partitions=9) == []


@ANSWERS
def test_an_acknowledgment_of_a_lease_that_has_ended(lossy: Any, network: Lossy, client: Plain, queue: str,
                                                     answers: bool) -> None:
    lossy.push(queue, 1)
    (message,) = lossy.pop(queue)
    end_leases(client, queue)
    network.lose(ACK, answers)
    with pytest.raises(LeaseLost):
        lossy.ack(message)
    assert [one["data"] for one in client.pop(queue)] == [1]


@ANSWERS
def test_a_failure_is_counted_once(lossy: Any, network: Lossy, client: Plain, queue: str, answers: bool) -> None:
    client.configure(queue, retryLimit=1)
    lossy.push(queue, 1)
    network.lose(ACK, answers)
    lossy.fail(lossy.pop(queue), "boom")
    assert client.dead(queue) == 0
    (again,) = lossy.pop(queue)
    assert again.attempt == 2 and lossy.fail(again, "boom")[0].dead


@ANSWERS
@pytest.mark.parametrize("ids", [None, "mine"], ids=["ids made", "ids given"])
def test_a_transaction(lossy: Any, network: Lossy, client: Plain, queue: str, answers: bool, ids: str | None) -> None:
    lossy.push(queue, 1)
    (message,) = lossy.pop(queue)
    network.lose(TRANSACTION, answers)
    with lossy.transaction() as t:
        t.ack(message)
        t.push(f"{queue}-out", 2, id=ids)
        t.push(f"{queue}-out", 3)
        t.require(message)
    assert network.lost == 1 and [one.status for one in t.stored] == ["queued", "queued"]
    assert client.pop(queue) == [] and [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [2, 3]


@ANSWERS
def test_a_transaction_that_skips_duplicates(lossy: Any, network: Lossy, client: Plain, queue: str,
                                             answers: bool) -> None:
    lossy.push(f"{queue}-out", 0, id="mine")
    lossy.push(queue, 1)
    (message,) = lossy.pop(queue)
    network.lose(TRANSACTION, answers)
    with lossy.transaction(skip_duplicates=True) as t:
        t.ack(message)
        t.push(f"{queue}-out", 1, id="mine")
    with lossy.transaction(skip_duplicates=True) as t:
        t.push(f"{queue}-out", 2)
        network.lose(TRANSACTION, answers)
    assert client.pop(queue) == [] and [one["data"] for one in client.pop(f"{queue}-out", batch=9)] == [0, 2]


@ANSWERS
def test_a_transaction_of_acknowledgments_alone(lossy: Any, network: Lossy, client: Plain, queue: str,
                                                answers: bool) -> None:
    lossy.push_many([Push(queue, 1), Push(queue, 2)])
    messages = lossy.pop(queue, batch=2)
    network.lose(TRANSACTION, answers)
    with lossy.transaction() as t:
        t.ack(messages)
    assert client.pop(queue) == []


@ANSWERS
def test_a_transaction_whose_lease_has_ended(lossy: Any, network: Lossy, client: Plain, queue: str,
                                             answers: bool) -> None:
    lossy.push(queue, 1)
    (message,) = lossy.pop(queue)
    end_leases(client, queue)
    network.lose(TRANSACTION, answers)
    with pytest.raises(TransactionRefused):
        with lossy.transaction() as t:
            t.ack(message)
            t.push(f"{queue}-out", 2)
    assert [one["data"] for one in client.pop(queue)] == [1] and client.pop(f"{queue}-out") == []


@ANSWERS
def test_an_extension(lossy: Any, network: Lossy, queue: str, answers: bool) -> None:
    lossy.push(queue, 1)
    (message,) = lossy.pop(queue)
    network.lose(EXTEND, answers)
    lossy.extend(message, 600)
    lossy.ack(message)


@ANSWERS
def test_a_pop(lossy: Any, network: Lossy, queue: str, answers: bool) -> None:
    """Messages of a lost answer come again when their lease ends: to the next attempt, if it waits for so long."""
    lossy.push(queue, 1)
    network.lose(POP, answers)
    (message,) = until(lambda: lossy.pop(queue, wait=5, lease=1), "the lease of a lost answer ends")
    assert network.lost == 1 and message.data == 1


def test_a_pop_that_consumes_is_not_repeated(lossy: Any, network: Lossy, client: Plain, queue: str) -> None:
    lossy.push(queue, 1)
    network.lose(POP, answers=False)
    with pytest.raises(Unavailable) as raised:
        lossy.pop(queue, auto_ack=True)
    assert raised.value.may_be_done and network.lost == 1
    assert [one.data for one in lossy.pop(queue, auto_ack=True)] == [1]


@ANSWERS
def test_a_stream(lossy: Any, network: Lossy, queue: str, answers: bool) -> None:
    lossy.push_many(Push(queue, n) for n in range(3))
    network.lose(STREAM, answers)
    with lossy.stream(queue, lease=1, credit=1) as messages:
        for n in range(2):
            one = next(messages)
            assert one.data == n
            lossy.ack(one)
        network.cut()
        one = next(messages)
        assert one.data == 2
        lossy.ack(one)
    assert lossy.pop(queue) == []


def test_a_random_network(daemon: Daemon, network: Lossy, client: Plain, queue: str) -> None:
    """Messages move from queue to queue while one of twenty requests and answers is lost."""
    draw = random.Random(5)
    network.rule = lambda to_server, data: network_rule(network, draw, to_server, data)
    with Client(network.url, deadline=120, timeout=120) as q:
        for n in range(24):
            q.push(queue, n, partition=f"p{n % 3}")
        moved: list[int] = []
        while len(moved) < 24:
            for one in q.pop(queue, batch=5, partitions=2, wait=1, lease=2):
                try:
                    with q.transaction() as t:
                        t.ack(one)
                        t.push(f"{queue}-out", one.data, partition=one.partition)
                    moved.append(one.data)
                except TransactionRefused as error:     # delivered again after its lease
                    assert error.reason == "rejected_ack"
    out = client.pop(f"{queue}-out", batch=500, partitions=9)
    assert sorted(one["data"] for one in out) == list(range(24))
    for partition, messages in itertools.groupby(out, key=lambda one: one["partition"]):
        numbers = [one["data"] for one in messages]
        assert numbers == sorted(numbers), partition


def network_rule(network: Lossy, draw: random.Random, to_server: bool, data: bytes) -> list[Any]:
    network.left = int(draw.random() < 0.05)
    network.path, network.answers = data[:5], draw.random() < 0.5
    return network._rule(to_server, data)
