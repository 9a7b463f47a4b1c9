"""Transactions: all or nothing, and what refuses them."""
from __future__ import annotations

import pytest
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.wait import until

DEAD = "00000000-0000-0000-0000-000000000000"


def push(queue: str, *payloads: object, **more: object) -> dict:
    return {"type": "push", "items": [{"queue": queue, "payload": one, **more} for one in payloads]}


def ack(message: dict, status: str = "completed", lease: bool = True, **more: object) -> dict:
    return {"type": "ack", **ack_of(message, status, lease), **more}


def refused(client: Client, error: str, *operations: dict, **more: object) -> dict:
    result = client.transaction(*operations, **more)
    assert (result["success"], result["error"]) == (False, error), result
    return result


def test_moves_a_message_to_another_queue(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    first, second = client.pop(queue, batch=2)
    result = client.transaction(ack(first), push(f"{queue}-out", "a", "b"), ack(second),
                                requiredLeases=[first["leaseId"]])
    assert result["success"] is True and result["transactionId"]
    kinds = [(one["index"], one["type"], one["success"]) for one in result["results"]]
    assert kinds == [(0, "ack", True), (1, "push", True), (2, "push", True), (3, "ack", True)]
    acked, pushed = result["results"][0], result["results"][1]
    assert {"transactionId", "error", "dlq"} <= set(acked) and acked["transactionId"] == first["transactionId"]
    assert acked["dlq"] is False
    assert {"transactionId", "messageId", "partitionId", "queueName"} <= set(pushed)
    assert pushed["queueName"] == f"{queue}-out"
    moved = client.pop(f"{queue}-out", batch=5)
    assert data(moved) == ["a", "b"] and moved[0]["id"] == pushed["messageId"]
    assert moved[0]["transactionId"] == pushed["transactionId"]
    assert client.pop(queue) == []


def test_push_forms(lenient: Client, queue: str) -> None:
    result = lenient.transaction(
        {"type": "push", "queue": queue, "payload": 1},
        {"type": "push", "queue": queue, "data": 2, "transactionId": "t2"},
        {"type": "push", "queue": queue},
        {"type": "push", "items": [{"queue": queue, "partition": "p", "traceId": None}]}, {"type": "push", "items": []})
    assert result["success"] is True and len(result["results"]) == 4
    assert result["results"][1]["transactionId"] == "t2"
    assert data(lenient.pop(queue, "Default", batch=5)) == [1, 2, {}]
    assert data(lenient.pop(queue, "p")) == [{}]


def test_a_duplicate_push_undoes_all(client: Client, queue: str) -> None:
    client.push(queue, 1)
    client.push(f"{queue}-out", "old", transactionId="t")
    (message,) = client.pop(queue)
    result = client.transaction(ack(message), push(f"{queue}-out", "new"),
                                push(f"{queue}-out", "again", transactionId="t"))
    assert result["success"] is False and result["error"]
    assert data(client.pop(f"{queue}-out", batch=5)) == ["old"]
    assert client.ack(message)["success"] is True, "still leased, not consumed"


def test_a_repeat_inside_the_transaction_refuses_it_too(client: Client, queue: str) -> None:
    result = client.transaction(push(queue, 1, transactionId="t"), push(queue, 2, transactionId="t"))
    if result["success"]:  # or it is stored once and says so
        assert [bool(one.get("duplicate")) for one in result["results"]] == [False, True]
        assert data(client.pop(queue, batch=5)) == [1]
    else:
        assert result["error"] and client.pop(queue) == []


def test_an_ack_that_fails_undoes_all(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    first, second = client.pop(queue, batch=2)
    out = push(f"{queue}-out", "x")
    refused(client, "ACK operation failed: Message not found", out, ack(first),
            ack({**second, "transactionId": "nope"}))
    refused(client, "ACK operation failed: Invalid or expired lease", out, ack(first), ack({**second, "leaseId": DEAD}))
    refused(client, "ACK operation failed: Unknown error", out, ack(first), ack(second, "retry"))
    assert client.pop(f"{queue}-out") == []
    assert client.ack(first)["leaseReleased"] is False and client.ack(second)["leaseReleased"] is True


def test_a_refused_one_leaves_nothing_not_even_a_name(client: Client, queue: str) -> None:
    client.push(queue, 1, transactionId="t")
    (message,) = client.pop(queue)
    new = push(f"{queue}-new", "x")
    fresh = push(queue, "y", partition="fresh")
    for refused_by, more in [
        ([ack({**message, "transactionId": "nope"})], {}), ([ack({**message, "partitionId": DEAD})], {}),
        ([ack({**message, "leaseId": DEAD})], {}),
        ([ack(message, "retry")], {}), ([push(queue, 2, transactionId="t")], {}), ([{"type": "odd"}], {}),
        ([], {"requiredLeases": [DEAD]}),
        ([push(f"{queue}-new", 2, transactionId="u"), push(f"{queue}-new", 3, transactionId="u", partition="p"),
          push(f"{queue}-new", 3, transactionId="u", partition="p")], {}),
    ]:
        result = client.transaction(new, fresh, *refused_by, **more)
        assert result["success"] is False, result
        assert client.show(f"{queue}-new").status == 404 and "fresh" not in {
            one["name"] for one in client.show(queue).json["partitions"]}, result
    result = client.transaction(new, fresh, ack(message), requiredLeases=[message["leaseId"]])
    assert result["success"] is True and [one["success"] for one in result["results"]] == [True] * 3
    assert data(client.pop(f"{queue}-new")) == ["x"] and data(client.pop(queue, "fresh")) == ["y"]


def test_a_required_lease_must_live(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=2)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    client.configure(queue, leaseTime=300)
    (again,) = until(lambda: client.pop(queue), "the lease expires")
    out = push(f"{queue}-out", "x")
    for lease in (message["leaseId"], DEAD, "not-a-lease"):
        refused(client, "Invalid or expired lease", out, ack(message, lease=False), requiredLeases=[lease])
    assert client.pop(f"{queue}-out") == []
    assert client.transaction(out, ack(again, lease=False), requiredLeases=[again["leaseId"]])["success"] is True


@pytest.mark.parametrize("status", ["failed", "dlq"])
def test_failed_goes_straight_to_the_dead_letters(client: Client, queue: str, status: str) -> None:
    client.push(queue, 1, 2)
    (message,) = client.pop(queue)
    result = client.transaction(ack(message, status))
    assert result["success"] is True and result["results"][0]["dlq"] is True
    assert client.dead(queue) == 1
    assert data(client.pop(queue)) == [2]


def test_the_group_stands_in_the_operation(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue, consumerGroup="g")
    assert client.transaction(ack(message, consumerGroup="g"))["success"] is True
    assert client.pop(queue, consumerGroup="g") == [] and data(client.pop(queue, consumerGroup="h")) == [1]


@pytest.mark.parametrize("type_, shown", [("frobnicate", "frobnicate"), (None, "null"), (..., "null")])
def test_unknown_operations(client: Client, queue: str, type_: object, shown: str) -> None:
    operation = {} if type_ is ... else {"type": type_}
    refused(client, f"Unknown operation type: {shown}", push(queue, 1), operation)
    assert client.pop(queue) == []


@pytest.mark.parametrize("rider", [
    {"kv": [{"op": "put", "ns": "n", "key": "k", "value": 1}]},
    {"timers": [{"op": "schedule", "queue": "q", "timerKey": "k", "delayMs": 5}]},
    {"positions": [{"queue": "q", "group": "g", "offset": 1}]}], ids=lambda rider: next(iter(rider)))
def test_riders_it_does_not_know_are_refused_whole(client: Client, queue: str, rider: dict) -> None:
    answer = client.post("/api/v1/transaction", {"operations": [push(queue, 1)], **rider})
    assert answer.status == 400 and next(iter(rider)) in answer.json["error"]
    assert client.pop(queue) == []


def test_empty_riders_are_none(client: Client, queue: str) -> None:
    assert client.transaction(push(queue, 1), kv=[], timers=[], positions=[])["success"] is True


def test_a_push_is_visible_to_a_waiting_pop_only_with_its_ack(client: Client, queue: str) -> None:
    """After a refusal the partition is as if nothing had been: the next push gets the next offset."""
    client.push(queue, 1, transactionId="t")
    refused_result = client.transaction(push(queue, 2), push(queue, 3, transactionId="t"))
    assert refused_result["success"] is False
    client.push(queue, 4)
    messages = client.pop(queue, batch=5)
    assert data(messages) == [1, 4] and [m["offset"] for m in messages] == [0, 1]


@pytest.mark.parametrize("many", [600, 2300])
def test_acknowledgments_of_more_unknown_partitions_than_a_round_looks_up(daemon: Daemon, queue: str,
                                                                          many: int) -> None:
    """The look-ups end: it is refused, and the client behind it is served."""
    with daemon.client(60) as client:
        client.push(queue, 1)
        (message,) = client.pop(queue)
        refused(client, "ACK operation failed: Message not found", *(
            ack({**message, "partitionId": str(2_000_000_000 + n)}, lease=False) for n in range(many)))
        assert client.ack(message)["success"]
