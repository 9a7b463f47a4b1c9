"""Framed answers of a pop: what JSON would say, record by record, whatever way the messages came and lie."""
from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.frames import KIND, form_a, form_b, framed_group, group_a, read_pop, transaction
from support.wait import until

FRAMES = "application/x-queen-pop"


def push(client: Client, body: bytes) -> list[dict]:
    answer = client.request("POST", "/api/v1/push", body, KIND)
    assert answer.status == 201, (answer.status, answer.body)
    return answer.json


def pop(client: Client, queue: str, partition: str | None = None, **query: Any) -> dict:
    answer = client.pop_answer(queue, partition, frames=True, **query)
    assert answer.status == 200 and answer.headers["content-type"] == FRAMES, (
        answer.status, answer.headers, answer.body)
    return read_pop(answer.body)


def uuids(n: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(n)]


def fill(client: Client, queue: str) -> int:
    """Rows of every kind in two partitions; returns how many messages."""
    client.push(queue, {"n": 0}, partition="a", traceId=str(uuid.uuid4()), transactionId="text ü")
    client.push(queue, *({"n": n, "fill": "x" * 50} for n in range(1, 40)), partition="a")
    push(client, form_b(framed_group(queue, "a", [{"n": n} for n in range(40, 140)], uuids(100))[0],
                        framed_group(queue, "b", [{"n": n} for n in range(50)], [f"t{n}" for n in range(50)])[0]))
    push(client, form_a(group_a([b'{"n":%d}' % n for n in range(140, 200)], uuids(60), queue, "a"),
                        group_a([b'{"n":50}'], ["last"], queue, "b")))
    return 251


def same(framed: list[dict], plain: list[dict]) -> None:
    assert len(framed) == len(plain)
    ids = {m["partition"]: m["partitionId"] for m in plain}
    for one, other in zip(framed, plain):
        for key in ("id", "transactionId", "traceId", "data", "producerSub", "partition", "deliveryAttempt", "offset"):
            assert one[key] == other[key], key
        assert one["partitionId"].isdecimal() and other["partitionId"] == ids[one["partition"]]
        moment = datetime.datetime.fromtimestamp(one["created_us"] // 1000000,
                                                 datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        assert f"{moment}.{one['created_us'] % 1000000:06}Z" == other["createdAt"]


@pytest.mark.parametrize("batch", [1000, 200, 60, 7, 1])
def test_the_same_as_json(client: Client, queue: str, batch: int) -> None:
    """In pieces of every size: stored frames go out whole where much of them is wanted, in pieces where not."""
    total = fill(client, queue)
    framed: list[dict] = []
    plain: list[dict] = []
    codecs: set[int] = set()
    for partition in "ab":
        while answer := client.pop(queue, partition, consumerGroup="plain", batch=batch, autoAck=True):
            plain += answer
    for partition in "ab":
        count = sum(m["partition"] == partition for m in plain)
        while count:
            answer = pop(client, queue, partition, consumerGroup="framed", batch=batch, autoAck=True)
            assert len(answer["messages"]) <= batch and answer["leaseId"] == "" and answer["consumerGroup"] == "framed"
            assert answer["queue"] == queue
            framed += answer["messages"]
            codecs |= set(answer["codecs"])
            count -= len(answer["messages"])
    assert len(framed) == total
    same(framed, plain)
    assert codecs == ({0, 1} if batch >= 60 else {0})


def test_several_partitions_and_the_choice_of_the_daemon(client: Client, queue: str) -> None:
    total = fill(client, queue)
    answer = pop(client, queue, autopilot=True, batch=1000, consumerGroup="g")
    assert answer["autopilot"]["batch"] == 1000 and answer["autopilot"]["partitions"] >= 1
    messages = answer["messages"]
    if len({m["partition"] for m in messages}) == 1:
        messages += pop(client, queue, batch=1000, consumerGroup="g")["messages"]
    assert len(messages) == total and {m["partition"] for m in messages} == {"a", "b"}
    assert "autopilot" not in pop(client, queue, batch=1000, partitions=2, consumerGroup="h")


def test_leases_acks_and_attempts_by_decimal_id(client: Client, queue: str) -> None:
    fill(client, queue)
    first = pop(client, queue, "a", batch=60)
    assert first["consumerGroup"] == "__QUEUE_MODE__" and len(first["messages"]) == 60
    assert {m["deliveryAttempt"] for m in first["messages"]} == {1}
    items = [{"transactionId": m["transactionId"], "partitionId": m["partitionId"], "leaseId": m["leaseId"],
              "status": "completed"} for m in first["messages"][:50]]
    items.append({**items[0], "transactionId": first["messages"][50]["transactionId"], "status": "retry"})
    assert all(one["success"] for one in client.ack_batch(items))
    again = pop(client, queue, "a", batch=60)
    assert data(again["messages"])[0] == {"n": 50} and again["messages"][0]["deliveryAttempt"] == 2
    assert again["leaseId"] != first["leaseId"]


@pytest.mark.parametrize("n", [5, 40])
def test_a_waiting_pop(daemon: Daemon, client: Client, queue: str, n: int) -> None:
    """Answered by the push itself: large groups as they came, small ones framed by the daemon."""
    client.configure(queue)
    with daemon.client() as waiter:
        for _ in range(3):
            waiter.send(
                "GET",
                f"/api/v1/pop/queue/{queue}?wait=true&timeout=100000&batch=30&autoAck=true&frames=true&autopilot=true")
            until(lambda: client.parked() == 1, "the pop is parked")
            told = push(client, form_b(framed_group(queue, "p", list(range(n)), uuids(n))[0]))
            answer = waiter.receive()
            assert answer.headers["content-type"] == FRAMES
            messages = read_pop(answer.body)["messages"]
            while len(messages) < n:
                messages += pop(client, queue, batch=1000, autoAck=True)["messages"]
            assert data(messages) == list(range(n))
            assert [(m["id"], m["transactionId"])
                    for m in messages] == [(one["message_id"], one["transaction_id"]) for one in told]


def test_what_is_answered_in_json(client: Client, queue: str) -> None:
    """Nothing to deliver, and pops over several queues."""
    client.configure(queue, namespace="framed-" + queue)
    answer = client.pop_answer(queue, frames=True)
    assert answer.headers["content-type"] == "application/json" and answer.json["messages"] == []
    client.push(queue, 1)
    answer = client.pop_answer(None, namespace="framed-" + queue, frames=True)
    assert answer.headers["content-type"] == "application/json" and data(answer.json["messages"]) == [1]


def test_binary_transactions(client: Client, queue: str) -> None:
    """Acks and framed pushes together or not at all; the head's results first."""
    client.push(queue, 1, 2, partition="in")
    one, two = pop(client, queue, "in", batch=2)["messages"]

    def commit(message: dict, group: bytes, flags: int = 0) -> dict:
        head = ('{"operations":[{"type":"ack","transactionId":"%s","partitionId":"%s","leaseId":"%s"}],'
                '"requiredLeases":["%s"],"kv":[]}' % (
            message["transactionId"], message["partitionId"], message["leaseId"], message["leaseId"])).encode()
        answer = client.request("POST", "/api/v1/transaction", transaction(head, group, flags=flags), KIND)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    done = commit(one, framed_group(queue, "out", list(range(20)))[0])
    assert done["success"] is True and [r["type"] for r in done["results"]] == ["ack"] + ["push"] * 20
    ids = uuids(3)
    done = commit(two, framed_group(queue, "out", [20, 21, 22], ids)[0], flags=2)
    assert (done["success"], done["results"], done["pushed"], done["duplicate"], done["acked"]) == (True, [], 3, 0, 1)
    refused = client.request("POST", "/api/v1/transaction", transaction(
        b"", framed_group(queue, "out", ["never", "x"], ["new", ids[1]])[0]), KIND).json
    assert refused["success"] is False and refused["reason"] == "duplicate" and refused["failedIndex"] == 1
    assert data(client.pop(queue, "out", batch=100)) == list(range(23)) and client.pop(queue, "in") == []
    for body in transaction(b'{"kv":[{"op":"get"}]}', framed_group(queue, "out", [1])[0]), form_b(
            framed_group(queue, "out", [1])[0]), transaction(b"", b"")[:-1]:
        assert client.request("POST", "/api/v1/transaction", body, KIND).status == 400
