"""Where a consumer group starts, and who wakes a pop that waits."""
from __future__ import annotations

import threading
import time

import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.http import request
from support.wait import until


def test_a_group_starts_at_the_oldest_message_by_default(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    assert data(client.pop(queue, consumerGroup="plain", batch=5)) == [1, 2]
    assert data(client.pop(queue, consumerGroup="all", subscriptionMode="all", batch=5)) == [1, 2]


@pytest.mark.parametrize("query", [{"subscriptionMode": "new"}, {"subscriptionMode": "new-only"},
                                   {"subscriptionFrom": "now"}], ids=str)
def test_a_new_group_sees_what_comes_after_it(client: Client, queue: str, query: dict) -> None:
    client.push(queue, "old", partition="a")
    assert client.pop(queue, consumerGroup="g", batch=5, **query) == []
    client.push(queue, "new", partition="a")
    client.push(queue, "elsewhere", partition="b")
    # Remembered: no parameter is needed any more, also for a partition that came later.
    assert sorted(data(client.pop(queue, consumerGroup="g", batch=5, partitions=5))) == ["elsewhere", "new"]


def test_the_first_subscription_is_kept(client: Client, queue: str) -> None:
    client.push(queue, "old")
    assert client.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    assert client.pop(queue, consumerGroup="g", subscriptionMode="all") == []
    client.push(queue, "new")
    assert data(client.pop(queue, consumerGroup="g", subscriptionMode="all", batch=5)) == ["new"]


def test_a_group_may_start_at_a_time(client: Client, queue: str) -> None:
    client.push(queue, "first")
    border = client.push(queue, "second") and client.pop(queue, consumerGroup="reader", batch=2)[1]["createdAt"]
    client.push(queue, "third")
    assert data(client.pop(queue, consumerGroup="g", subscriptionFrom=border, batch=5)) == ["second", "third"]
    assert data(client.pop(queue, consumerGroup="early", subscriptionFrom="2020-01-01T00:00:00Z", batch=5)) == [
        "first", "second", "third"]
    assert client.pop(queue, consumerGroup="future", subscriptionFrom="2099-01-01T00:00:00Z", batch=5) == []


def test_queue_mode_has_no_subscription(client: Client, queue: str) -> None:
    client.push(queue, "old")
    assert data(client.pop(queue, subscriptionMode="new")) == ["old"]


def test_each_group_has_its_own_position(client: Client, queue: str) -> None:
    client.push(queue, *range(6))
    assert data(client.pop(queue, consumerGroup="a", batch=4, autoAck=True)) == [0, 1, 2, 3]
    assert data(client.pop(queue, consumerGroup="b", batch=2, autoAck=True)) == [0, 1]
    assert data(client.pop(queue, consumerGroup="a", batch=9, autoAck=True)) == [4, 5]
    assert data(client.pop(queue, batch=9)) == [0, 1, 2, 3, 4, 5]


# -- long poll ---------------------------------------------------------------------------------------------------------


def parked(client: Client, number: int) -> None:
    until(lambda: client.parked() == number, f"{number} pops wait")


@pytest.mark.parametrize("how", ["push", "transaction"])
@pytest.mark.parametrize("where", ["queue", "partition", "namespace"])
def test_a_waiting_pop_is_woken_by_a_commit(daemon: Daemon, client: Client, queue: str, how: str, where: str) -> None:
    client.configure(queue, namespace=f"ns-{queue}")
    target = {"queue": pop_target(queue, wait=True, timeout=100_000),
              "partition": pop_target(queue, "p", wait=True, timeout=100_000),
              "namespace": pop_target(None, namespace=f"ns-{queue}", wait=True, timeout=100_000)}[where]
    with daemon.client() as waiting:
        waiting.send("GET", target)
        parked(client, 1)
        if how == "push":
            client.push(queue, "hello", partition="p")
        else:
            assert client.transaction({"type": "push",
                                       "items": [{"queue": queue, "partition": "p", "payload": "hello"}]})["success"]
        assert data(waiting.receive().json["messages"]) == ["hello"]
    parked(client, 0)


def test_a_waiting_pop_is_woken_by_a_release(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    first, _ = client.pop(queue, batch=2)
    with daemon.client() as waiting:
        waiting.send("GET", pop_target(queue, batch=5, wait=True, timeout=100_000))
        parked(client, 1)
        assert client.ack(first, "retry")["leaseReleased"] is True
        assert data(waiting.receive().json["messages"]) == [1, 2]


def test_a_waiting_pop_finds_what_time_makes_ready(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=1)
    client.push(queue, 1)
    assert client.pop(queue)
    assert data(client.pop(queue, wait=True, timeout=100_000)) == [1], "after the lease"
    client.configure(f"{queue}-delay", delayedProcessing=1)
    client.push(f"{queue}-delay", 2)
    assert data(client.pop(f"{queue}-delay", wait=True, timeout=100_000)) == [2], "after the delay"


def test_a_waiting_pop_ends_empty(client: Client, queue: str) -> None:
    begin = time.monotonic()
    answer = client.pop_answer(queue, wait=True, timeout=300)
    assert time.monotonic() - begin >= 0.2, "it did wait"
    assert answer.status == 204 or answer.json["messages"] == []


def test_every_waiting_pop_gets_one_of_the_messages(daemon: Daemon, client: Client, queue: str) -> None:
    waiting = [daemon.client() for _ in range(10)]
    for one in waiting:
        one.send("GET", pop_target(queue, wait=True, timeout=100_000))
    parked(client, 10)
    client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(10)])
    assert sorted(one.receive().json["messages"][0]["data"] for one in waiting) == list(range(10))
    for one in waiting:
        one.close()


def test_a_client_that_left_takes_no_lease(daemon: Daemon, client: Client, queue: str) -> None:
    for abort in (False, True):
        gone = daemon.client()
        gone.send("GET", pop_target(queue, wait=True, timeout=100_000))
        parked(client, 1)
        assert gone.wire
        (gone.wire.abort if abort else gone.close)()
        parked(client, 0)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    assert message["deliveryAttempt"] == 1


def test_requests_behind_a_waiting_pop_are_answered_in_order(daemon: Daemon, client: Client, queue: str) -> None:
    with daemon.client() as piped:
        piped.send("GET", pop_target(queue, wait=True, timeout=100_000))
        assert piped.wire
        piped.wire.send(request("GET", "/livez") + request("GET", pop_target(queue)))
        parked(client, 1)
        client.push(queue, 1)
        first, second, third = piped.receive(), piped.receive(), piped.receive()
    assert data(first.json["messages"]) == [1] and second.json == {"status": "alive"}
    assert third.status == 204 or third.json["messages"] == []


def test_a_push_wakes_across_workers(daemon: Daemon, client: Client, queue: str) -> None:
    """Connections are dealt out to the workers in turn, so pops and pushes of many connections meet on different
    ones."""
    received: list[int] = []

    def consume() -> None:
        with daemon.client() as own:
            while len(received) < 40:
                for message in own.pop(queue, wait=True, timeout=2000, autoAck=True):
                    received.append(message["data"])

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(40):
        with daemon.client() as own:
            own.push(queue, n, partition=str(n % 5))
    for thread in threads:
        thread.join()
    assert sorted(received) == list(range(40))
