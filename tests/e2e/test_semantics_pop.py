"""Pop: which messages, in which order, for whom, and what an empty answer looks like."""
from __future__ import annotations

import threading
from collections import Counter

import pytest
from support.client import QUEUE_MODE, Client, ack_of, data
from support.crowd import Crowd
from support.daemon import Daemon
from support.wait import until

SHORT_S = 3     # of leases and delays that end by themselves: what happens meanwhile fits in on a slow machine as well
LONG_S = 300


def empty(client: Client, queue: str | None, partition: str | None = None, **query: object) -> bool:
    """True if the answer is an empty one in an allowed form: 204 without body, or 200 with no messages."""
    answer = client.pop_answer(queue, partition, **query)
    if answer.status == 204:
        assert answer.body == b"" and answer.headers.get("content-length", "0") == "0"
        return True
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json["messages"] == []


def test_answer_with_messages(client: Client, queue: str) -> None:
    client.push(queue, {"n": 1}, partition="p")
    answer = client.pop_answer(queue, consumerGroup="g")
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    body = answer.json
    (message,) = body["messages"]
    assert body["success"] is True and body["queue"] == queue and body["partition"] == "p"
    assert body["consumerGroup"] == "g"
    assert body["partitionsClaimed"] == 1 and body["partitionId"] == message["partitionId"]
    assert body["leaseId"] == message["leaseId"]
    assert {"id", "transactionId", "traceId", "data", "producerSub", "createdAt", "partitionId", "partition",
            "leaseId", "consumerGroup", "queue", "deliveryAttempt", "offset"} == set(message)
    assert message["queue"] == queue and message["deliveryAttempt"] == 1 and message["offset"] == 0
    assert len(message["createdAt"]) == len("2026-01-02T03:04:05.678901Z")


def test_default_batch_is_one(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    assert data(client.pop(queue)) == [1]


@pytest.mark.parametrize("batch, got", [("0", 1), ("-3", 1), ("abc", 1), ("", 1), ("2abc", 2), (" 2", 2),
                                        ("99999999999999999999", 1), ("100000", 3)])
def test_batch_is_read_leniently(lenient: Client, queue: str, batch: str, got: int) -> None:
    lenient.push(queue, 1, 2, 3)
    assert len(lenient.pop(queue, batch=batch)) == got
    assert len(lenient.pop(queue, "Default", consumerGroup="g", batch=batch)) == got


def test_one_lease_per_partition_and_group(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    (first,) = client.pop(queue)
    assert first["consumerGroup"] == QUEUE_MODE
    assert empty(client, queue) and empty(client, queue, "Default")
    assert data(client.pop(queue, consumerGroup="other", batch=5)) == [1, 2]
    assert client.ack(first)["leaseReleased"] is True
    assert data(client.pop(queue)) == [2]


def test_unknown_queue_and_partition_are_empty_and_not_created(client: Client, queue: str) -> None:
    assert empty(client, queue) and empty(client, queue, "p")
    assert client.show(queue).status == 404


def test_auto_ack_consumes_on_delivery(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    first = client.pop(queue, batch=3, autoAck=True)
    assert data(first) == [0, 1, 2] and {one["leaseId"] for one in first} == {""}
    assert data(client.pop(queue, batch=10, autoAck=1)) == [3, 4]
    assert empty(client, queue)


def test_partitions_up_to_the_number_asked_for(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": f"{p}{n}"} for p in "abcdef" for n in range(3)])
    body = client.pop_answer(queue, batch=100, partitions=4).json
    assert body["partitionsClaimed"] == 4 and len(body["messages"]) == 12
    assert len({m["leaseId"] for m in body["messages"]}) == 1
    for partition in {m["partition"] for m in body["messages"]}:
        assert [m["data"] for m in body["messages"] if m["partition"] == partition] == [
            f"{partition}{n}" for n in range(3)]
    assert len(client.pop(queue, batch=100, partitions=4)) == 6


def test_batch_bounds_all_partitions_together(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": n} for p in "abc" for n in range(4)])
    first = client.pop(queue, batch=6, partitions=3)
    counts = Counter(m["partition"] for m in first)
    assert sorted(counts.values()) == [2, 4]
    # The third partition was left alone, the second is leased with what was taken.
    assert len(client.pop(queue, batch=6, partitions=3)) == 4
    assert empty(client, queue, partitions=3)


def test_no_partition_starves(client: Client, queue: str) -> None:
    names = [f"p{n}" for n in range(20)]
    client.push_items([{"queue": queue, "partition": name, "payload": n} for name in names for n in range(10)])
    taken: Counter[str] = Counter()
    for _ in range(60):
        (message,) = client.pop(queue, autoAck=True)
        taken[message["partition"]] += 1
    assert set(taken) == set(names), "every partition had its turn"
    assert max(taken.values()) - min(taken.values()) <= 2, taken


def test_order_survives_many_pops(client: Client, queue: str) -> None:
    for n in range(0, 90, 3):
        client.push(queue, n, n + 1, n + 2)
    seen: list[int] = []
    for batch in (1, 2, 7, 3, 20, 5, 50, 10):
        messages = client.pop(queue, batch=batch)
        seen += data(messages)
        assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages]))
    assert seen == list(range(90))


def test_redelivery_after_an_expired_lease(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=SHORT_S)
    client.push(queue, 1, 2, 3)
    first = client.pop(queue, batch=2)
    assert empty(client, queue, batch=2)
    client.configure(queue, leaseTime=LONG_S)
    again = until(lambda: client.pop(queue, batch=2), "the lease expires")
    assert data(again) == data(first) == [1, 2] and again[0]["leaseId"] != first[0]["leaseId"]
    assert [m["deliveryAttempt"] for m in again] == [2, 2]
    late = client.ack(first[1])
    assert (late["success"], late["error"]) == (False, "Invalid or expired lease")
    assert client.ack(again[1], cumulative=True)["success"]
    assert data(client.pop(queue, batch=5)) == [3]


def test_partial_ack_leaves_the_tail_until_the_lease_expires(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=SHORT_S)
    client.push(queue, 1, 2, 3)
    messages = client.pop(queue, batch=3)
    assert client.ack(messages[0])["leaseReleased"] is False
    assert empty(client, queue)
    assert data(until(lambda: client.pop(queue, batch=3), "the lease expires")) == [2, 3]


def test_delayed_processing_hides_young_messages(client: Client, queue: str) -> None:
    client.configure(queue, delayedProcessing=SHORT_S)
    (pushed,) = client.push(queue, 1)
    assert empty(client, queue) and empty(client, queue, "Default")
    (message,) = until(lambda: client.pop(queue), "the message is old enough")
    assert message["id"] == pushed["message_id"]


def test_window_buffer_withholds_a_partition_while_it_is_fed(client: Client, queue: str) -> None:
    client.configure(queue, windowBuffer=SHORT_S)
    client.push(queue, 1)
    assert empty(client, queue)
    answer = client.pop_answer(queue, "Default")
    assert answer.status in (200, 204)
    if answer.status == 200:
        assert answer.json["messages"] == []
    client.push(queue, 2)
    assert data(until(lambda: client.pop(queue, batch=5), "the window closes")) == [1, 2]


def test_window_buffer_delivers_a_partition_that_is_always_fed(daemon: Daemon, client: Client, queue: str) -> None:
    """A pop that waits is served although no pause between two messages is as long as the buffer."""
    client.configure(queue, windowBuffer=1)
    served = threading.Event()

    def feed() -> None:
        with daemon.client() as producer:
            while not served.wait(0.2):
                producer.push(queue, 1)

    with Crowd() as crowd:
        crowd.go(feed)
        try:
            assert until(lambda: client.pop(queue, wait=True, timeout=10_000, batch=1000, autoAck=True), "a delivery")
        finally:
            served.set()


def test_namespace_and_task_choose_among_queues(client: Client, queue: str) -> None:
    client.configure(f"{queue}-1", namespace=queue, task="x")
    client.configure(f"{queue}-2", namespace=queue, task="y")
    client.configure(f"{queue}-3", namespace="elsewhere", task="x" + queue)
    for n in (1, 2, 3):
        client.push(f"{queue}-{n}", n)
    body = client.pop_answer(None, namespace=queue, task="y").json
    assert data(body["messages"]) == [2] and body["queue"] == f"{queue}-2"
    assert body["messages"][0]["queue"] == f"{queue}-2"
    assert data(client.pop(None, namespace=queue)) == [1]
    assert empty(client, None, namespace=queue)
    assert data(client.pop(None, task="x" + queue)) == [3]
    both: list[dict] = []
    while messages := client.pop(None, namespace=queue, consumerGroup="g", batch=10, partitions=10):
        both += messages  # an answer may be of one queue alone
    assert sorted(data(both)) == [1, 2] and {m["queue"] for m in both} == {f"{queue}-1", f"{queue}-2"}
    assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in both], group="g"))


def test_a_new_group_of_a_namespace_with_many_queues(client: Client, queue: str) -> None:
    """It is made in all of them; the first pop finds what is there, whether it waits or not."""
    many = 150
    client.push_items([{"queue": f"{queue}.x.{n}", "payload": n} for n in range(many)])
    for group, more in (("at once", {}), ("waits", {"wait": True, "timeout": 100_000})):
        got = []
        while len(got) < many:
            messages = client.pop(None, namespace=queue, consumerGroup=group, autoAck=True, **more)
            assert messages, len(got)
            got += data(messages)
        assert sorted(got) == list(range(many))
        assert client.pop(None, namespace=queue, consumerGroup=group) == []


def test_namespace_of_a_queue_made_by_push(client: Client, queue: str) -> None:
    client.push(f"{queue}.invoice.v2", 7)
    assert data(client.pop(None, namespace=queue, task="invoice")) == [7]


def test_the_query_may_name_queue_and_partition(client: Client, queue: str) -> None:
    for partition in ("a/b", "c"):
        client.push(queue, partition, partition=partition)

    def popped(more: str) -> list:
        return sorted(data(client.get(f"/api/v1/pop?queue={queue}&{more}").json["messages"]))
    assert popped("partition=a%2Fb&consumerGroup=one") == ["a/b"]
    assert popped("partitions=2&batch=9&consumerGroup=all&autoAck=true") == ["a/b", "c"]
    assert popped("consumerGroup=all") == []


@pytest.mark.parametrize("query", ["", "?namespace=", "?task=&batch=3"])
def test_pop_without_queue_needs_a_namespace_or_a_task(client: Client, query: str) -> None:
    answer = client.get(f"/api/v1/pop{query}")
    assert (answer.status, answer.json["error"]) == (400, "namespace or task is required")


def test_autopilot_chooses_what_was_not_given_and_says_so(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": str(p), "payload": n} for p in range(4) for n in range(150)])
    body = client.pop_answer(queue, consumerGroup="g", autopilot=True).json
    assert body["autopilot"]["batch"] >= 200 and body["autopilot"]["partitions"] >= 2
    assert len(body["messages"]) >= 200 and body["partitionsClaimed"] >= 2
    given = client.pop_answer(queue, consumerGroup="h", autopilot=True, partitions=1).json
    assert given["autopilot"]["partitions"] == 1 and given["partitionsClaimed"] == 1 and len(given["messages"]) == 150
    small = client.pop_answer(queue, consumerGroup="i", autopilot=True, batch=3).json
    assert small["autopilot"]["batch"] == 3 and len(small["messages"]) == 3
    assert "autopilot" not in client.pop_answer(queue, consumerGroup="j").json


def test_empty_group_means_no_group(client: Client, queue: str) -> None:
    client.push(queue, 1)
    assert client.pop(queue, consumerGroup="")[0]["consumerGroup"] == QUEUE_MODE


def test_large_payloads_are_bounded_by_bytes_not_lost(client: Client, queue: str) -> None:
    for n in range(4):
        client.push(queue, {"n": n, "x": "x" * 3_000_000})
    seen: list[int] = []
    while messages := client.pop(queue, batch=10):
        seen += [one["data"]["n"] for one in messages]
        client.ack_batch([ack_of(m) for m in messages])
    assert seen == [0, 1, 2, 3]


def test_percent_encoded_paths_are_decoded_once(client: Client, queue: str) -> None:
    client.push(f"{queue} a%20b+c", "right")
    client.push(f"{queue} a b c", "wrong")
    assert data(client.pop(f"{queue} a%20b+c")) == ["right"]
    plus = client.get(f"/api/v1/pop/queue/{queue}%20a%2520b+c?consumerGroup=x")
    assert data(plus.json["messages"]) == ["right"], "a plus in a path is a plus"
