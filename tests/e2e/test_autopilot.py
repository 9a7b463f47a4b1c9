"""Pops that leave it to the daemon how much they take: it chooses by what it saw of the group's consumers."""
from __future__ import annotations

from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.parked import answer_of, settle, waiting
from support.wait import until


def fill(client: Client, queue: str, partitions: int, each: int) -> None:
    client.push_items([{"queue": queue, "partition": f"p{p:03}", "payload": n}
                       for p in range(partitions) for n in range(each)])


def consume(client: Client, queue: str, **query: object) -> dict:
    """A pop of group g whose messages are acknowledged; what it was answered."""
    body = client.pop_answer(queue, consumerGroup="g", **query).json
    assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in body["messages"]], group="g"))
    return body


def test_one_partition_where_each_has_a_batch(client: Client, queue: str) -> None:
    fill(client, queue, 8, 100)
    for _ in range(3):
        consume(client, queue, batch=50)
    body = consume(client, queue, batch=50, autopilot=True)
    assert body["autopilot"] == {"partitions": 1, "batch": 50} and len(body["messages"]) == 50


def test_many_partitions_where_each_has_one_message(client: Client, queue: str) -> None:
    fill(client, queue, 96, 1)
    for _ in range(16):
        consume(client, queue)
    body = consume(client, queue, autopilot=True)
    # an eighth of what is ready at least, however long the acknowledgments took
    assert body["autopilot"]["partitions"] >= 10 and body["autopilot"]["batch"] >= 100
    assert body["partitionsClaimed"] >= 10


def test_a_batch_fits_the_lease(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=1)
    fill(client, queue, 1, 10)
    lost = client.pop_answer(queue, consumerGroup="g", batch=2).json
    assert data(lost["messages"]) == [0, 1]

    def given() -> dict | None:
        body = client.pop_answer(queue, consumerGroup="g", autopilot=True).json
        return body if body["messages"] else None

    again = until(given, "the lease runs out")
    # two messages were not done in a second: half of the lease is enough for none, and one is the least
    assert again["autopilot"]["batch"] == 1 and data(again["messages"]) == [0]


def test_one_that_waits_is_given_what_fills_its_batch(daemon: Daemon, client: Client, queue: str) -> None:
    names = [f"p{p:03}" for p in range(40)]
    settle(client, queue, *names)
    with waiting(daemon, client, queue, autopilot=True) as (waiter,):
        client.push_items([{"queue": queue, "partition": name, "payload": name} for name in names])
        messages = answer_of(waiter)
        assert sorted(data(messages)) == names
