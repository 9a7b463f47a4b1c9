"""Two daemons on one database: neither hears of the other but through what stands in it."""
from __future__ import annotations

import pytest
from support.client import Client, ack_of, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.wait import until


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_waiting_pop_hears_of_a_push_elsewhere(client: Client, other: Client, peer: Daemon, queue: str,
                                                 known: bool) -> None:
    if known:
        other.push(queue, "first", partition="p")
        assert data(other.pop(queue, autoAck=True)) == ["first"]
    for target in (pop_target(queue, wait=True, timeout=100_000, autoAck=True),
                   pop_target(queue, "p", wait=True, timeout=100_000, autoAck=True)):
        with peer.client() as waiting:
            waiting.send("GET", target)
            client.push(queue, "hello", partition="p")
            assert data(waiting.receive().json["messages"]) == ["hello"]


def test_leases_hold_everywhere(client: Client, other: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    (message,) = client.pop(queue)
    assert other.pop(queue, "Default") == []
    assert other.extend(message["leaseId"])["renewed"] == 1
    assert other.ack(message)["leaseReleased"] is True
    assert data(other.pop(queue, "Default", batch=5)) == [2]


def test_acks_of_what_only_the_other_daemon_has_seen(client: Client, other: Client, queue: str) -> None:
    """Queue, partition and group are new; the acknowledging daemon must find them in the database."""
    for round_ in range(5):
        name, group = f"{queue}-{round_}", f"group-{round_}"
        client.push_items([{"queue": name, "partition": p, "payload": p} for p in "ab"])
        messages = client.pop(name, consumerGroup=group, batch=2, partitions=2)
        assert all(one["success"] and one["queueName"] == name
                   for one in other.ack_batch([ack_of(m) for m in messages], group))
        client.push(name, "c", partition="c")
        (message,) = client.pop(name, consumerGroup=group)
        assert other.transaction({"type": "ack", **ack_of(message), "consumerGroup": group})["success"] is True
        assert client.pop(name, "c", consumerGroup=group) == [] and other.pop(name, consumerGroup=group) == []


def test_a_transaction_elsewhere_is_fenced(client: Client, other: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    out = {"type": "push", "items": [{"queue": f"{queue}-out", "payload": "x"}]}
    assert client.ack(message, "retry")["success"]
    dead = other.transaction(out, {"type": "ack", **ack_of(message, lease=False)}, requiredLeases=[message["leaseId"]])
    assert dead["success"] is False and "Invalid or expired lease" in dead["error"]
    (again,) = other.pop(queue, "Default")
    assert client.transaction(out, {"type": "ack", **ack_of(again)},
                              requiredLeases=[again["leaseId"]])["success"] is True
    assert data(client.pop(f"{queue}-out")) == ["x"]


def test_options_hold_everywhere(client: Client, other: Client, queue: str) -> None:
    other.push(queue, "a", "b")
    (message,) = other.pop(queue)
    client.configure(queue, retryLimit=0)
    assert other.ack(message, "failed")["dlq"] is True
    client.configure(queue, delayedProcessing=1000)
    other.push(queue, "late")
    assert data(other.pop(queue, batch=5)) == []


def test_a_queue_deleted_elsewhere_is_gone(client: Client, other: Client, queue: str) -> None:
    for round_ in range(3):
        (one,) = other.push(queue, round_, transactionId="same")
        assert one["status"] == "queued"
        (message,) = other.pop(queue, "Default")
        assert message["data"] == round_ and message["offset"] == 0
        assert client.delete(queue)["existed"] is True
        assert other.ack(message)["success"] is True, "what is gone is done"
        assert other.pop(queue, "Default") == []


def test_pushes_through_both_are_one_order_without_twins(client: Client, daemon: Daemon, peer: Daemon,
                                                         queue: str) -> None:
    told: list[tuple[str, str, str]] = []

    def push(number: int) -> None:
        with (daemon, peer)[number % 2].client() as own:
            for n in range(100):
                (one,) = own.push(queue, n, transactionId=f"{number // 2}.{n}", partition=str(number // 2))
                told.append((one["transaction_id"], one["status"], one["message_id"]))

    with Crowd() as crowd:
        crowd.all(push, range(4))
    assert len(told) == 400 and sum(status == "queued" for _, status, _ in told) == 200
    assert len({(transaction, message)
                for transaction, _, message in told}) == 200, "a duplicate names the message that is stored"
    for partition in "01":
        messages = client.pop(queue, partition, batch=1000)
        assert [m["offset"] for m in messages] == list(range(100)) and data(messages) == list(range(100))
        assert [m["id"] for m in messages] == sorted(m["id"] for m in messages)


@pytest.mark.parametrize("acknowledged", ["where it was popped", "elsewhere"])
def test_a_lease_that_ends_early_is_heard_of(client: Client, other: Client, peer: Daemon, queue: str,
                                             acknowledged: str) -> None:
    """A pop that waits at one daemon gets what is left when the other's lease is given up, long before that would have
    ended."""
    client.push(queue, 1, 2)
    (message,) = (client if acknowledged == "where it was popped" else other).pop(queue, wait=True)
    with peer.client() as waiting:
        waiting.send("GET", pop_target(queue, wait=True, timeout=60000, autoAck=True))
        until(lambda: other.parked() > 0, "it waits")
        assert client.ack(message)["leaseReleased"] is True
        assert data(waiting.receive().json["messages"]) == [2]
