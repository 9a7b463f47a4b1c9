"""Groups that get only the newest message of each partition: every situation of a pop that asks for it, or does not."""
from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.feed import Feed
from support.seeds import seed_of_run
from support.streams import Stream
from support.wait import until

GROUP = "latest"


def answer(client: Client, queue: str | None, partition: str | None = None, **query: Any) -> dict:
    """An answer that says that the group conflates."""
    got = client.pop_answer(queue, partition, **{"consumerGroup": GROUP, "conflation": True} | query)
    assert got.status == 200, (got.status, got.body)
    assert got.json.get("conflation") is True and "conflationConflict" not in got.json, got.json
    return got.json


def pop(client: Client, queue: str | None, partition: str | None = None, **query: Any) -> list[dict]:
    return answer(client, queue, partition, **query)["messages"]


def refused(client: Client, queue: str, **query: Any) -> str:
    got = client.pop_answer(queue, conflation=True, **query)
    assert got.status == 400
    return got.json["error"]


def committed(client: Client, queue: str, group: str = GROUP) -> int:
    return client.get(f"/api/v1/resources/queues/{queue}/depth?group={group}").json["pending"]


def test_the_newest_message_and_everything_before_it(client: Client, queue: str) -> None:
    client.push(queue, *range(10), partition="a")
    (message,) = pop(client, queue, batch=10)
    assert (message["data"], message["offset"], message["deliveryAttempt"]) == (9, 9, 1)
    client.push(queue, 10, 11, partition="a")      # behind the claim
    assert pop(client, queue, batch=10) == []
    acked = client.ack(message, group=GROUP)
    assert acked["success"] is True and acked["leaseReleased"] is True
    (message,) = pop(client, queue, batch=10)
    assert message["data"] == 11
    client.ack(message, group=GROUP)
    assert pop(client, queue, batch=10) == []
    assert data(client.pop(queue, consumerGroup="all", batch=20)) == list(range(12))


def test_every_answer_says_it(client: Client, queue: str) -> None:
    """Also empty ones, of unknown queues and partitions, while the group is paused, and after a long poll."""
    assert answer(client, queue)["reason"] == "queue_not_found"
    assert answer(client, queue, "absent")["reason"] == "queue_not_found"
    client.push(queue, 1, 2, partition="a")
    assert answer(client, queue, "absent")["reason"] == "partition_not_found"
    assert answer(client, queue, "a")["messages"][0]["data"] == 2
    assert answer(client, queue, "a")["reason"] == "leased"
    assert answer(client, queue, wait=True, timeout=1)["reason"] == "leased"
    assert answer(client, queue, autopilot=True)["reason"] == "leased"
    assert "autopilot" not in answer(client, queue, autopilot=True)      # it chooses nothing here
    got = client.get(f"/api/v1/pop?queue={queue}&consumerGroup={GROUP}&conflation=true").json
    assert got["conflation"] is True and got["reason"] == "leased"


def test_whoever_asks_is_served_by_what_is_stored(client: Client, queue: str) -> None:
    client.push(queue, *range(5), partition="a")
    assert data(pop(client, queue)) == [4]
    for query in ({}, {"conflation": False}, {"wait": True, "timeout": 1}):
        got = client.pop_answer(queue, consumerGroup=GROUP, **query).json
        assert got["conflation"] is True and got["messages"] == []


def test_a_group_that_began_without_it(client: Client, queue: str) -> None:
    """Normal deliveries, and each answer to a pop that asks tells of the conflict."""
    def ask(**query: Any) -> dict:
        got = client.pop_answer(queue, consumerGroup="plain", conflation=True, **query).json
        assert got["conflationConflict"] is True and "conflation" not in got
        return got

    client.push(queue, *range(5), partition="a")
    (first,) = client.pop(queue, consumerGroup="plain")
    assert first["data"] == 0
    assert ask()["messages"] == [] and ask(wait=True, timeout=1)["messages"] == []
    assert client.pop_answer(queue, "absent", consumerGroup="plain", conflation=True).json["conflationConflict"] is True
    client.ack(first, group="plain")
    assert data(ask(batch=3)["messages"]) == [1, 2, 3]
    client.push(queue, *range(5), partition="b")
    assert data(ask(batch=3, frames=True)["messages"]) == [0, 1, 2]      # in JSON: frames have no place for the key
    got = client.pop_answer(queue, consumerGroup="plain").json
    assert "conflationConflict" not in got and "conflation" not in got


def test_bad_requests(client: Client, queue: str) -> None:
    client.push(queue, 1)
    assert "consumerGroup" in refused(client, queue)
    assert "consumerGroup" in refused(client, queue, consumerGroup="__QUEUE_MODE__")
    assert "autoAck" in refused(client, queue, consumerGroup=GROUP, autoAck=True)
    assert "autoAck" in refused(client, queue, consumerGroup=GROUP, commitOnDelivery=True)
    got = client.get(f"/api/v1/stream/{queue}?conflation=true")
    assert got.status == 400 and "consumerGroup" in got.json["error"]
    assert client.get(f"/api/v1/consumer-groups?queue={queue}").json == []      # none was made


def test_frames_are_json(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    got = client.pop_answer(queue, consumerGroup=GROUP, conflation=True, frames=True)
    assert got.headers["content-type"].startswith("application/json") and data(got.json["messages"]) == [2]
    assert got.json["conflation"] is True


def test_a_pop_that_acknowledges_at_once(client: Client, queue: str) -> None:
    """It did not ask for conflation: the group is served as it is stored."""
    client.push(queue, *range(4), partition="a")
    assert pop(client, queue, "absent") == []
    got = client.pop_answer(queue, consumerGroup=GROUP, autoAck=True, batch=10).json
    assert data(got["messages"]) == [3] and got["conflation"] is True and got["messages"][0]["leaseId"] == ""
    assert pop(client, queue) == []


@pytest.mark.parametrize("query, width", [({"batch": 5}, 5), ({"batch": 200}, 64), ({"partitions": 7}, 7),
                                          ({"partitions": 7, "batch": 3}, 3), ({}, 1), ({"autopilot": True}, 64)])
def test_the_width(client: Client, queue: str, query: dict, width: int) -> None:
    """At most one message of a partition; without `partitions`, the batch says how many, up to 64."""
    client.push_items([{"queue": queue, "partition": f"p{n % 70}", "payload": n} for n in range(210)])
    got = answer(client, queue, **query)
    assert len(got["messages"]) == width == got["partitionsClaimed"]
    assert {one["data"] // 70 for one in got["messages"]} == {2}
    assert len({one["partition"] for one in got["messages"]}) == width
    assert len({one["leaseId"] for one in got["messages"]}) == 1
    assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in got["messages"]], GROUP))
    assert committed(client, queue) == 210 - 3 * width


def test_a_message_that_is_given_back(client: Client, queue: str) -> None:
    """The newest message at that time comes next; the budget of retries is that of any group."""
    client.configure(queue, retryLimit=2)
    client.push(queue, 1, 2, partition="a")
    (message,) = pop(client, queue)
    client.push(queue, 3, partition="a")
    assert client.ack(message, "failed", GROUP)["leaseReleased"] is True
    (message,) = pop(client, queue)
    assert (message["data"], message["deliveryAttempt"]) == (3, 2)
    assert client.ack(message, "failed", GROUP)["leaseReleased"] is True
    (message,) = pop(client, queue)
    assert (message["data"], message["deliveryAttempt"]) == (3, 3)
    assert client.ack(message, "failed", GROUP)["dlq"] is True
    assert pop(client, queue) == [] and client.dead(queue) == 1
    client.push(queue, 4, partition="a")
    (message,) = pop(client, queue)
    assert (message["data"], message["deliveryAttempt"]) == (4, 1)
    assert client.ack(message, "dlq", GROUP)["success"] is True
    assert pop(client, queue) == [] and client.dead(queue) == 2


def test_a_lease_that_expires(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="a")
    (old,) = pop(client, queue, leaseSeconds=1)
    client.push(queue, 3, partition="a")
    (message,) = pop(client, queue, wait=True, timeout=30000)
    assert (message["data"], message["deliveryAttempt"]) == (3, 2)
    assert client.ack(old, group=GROUP)["success"] is False
    assert client.ack(message, group=GROUP)["success"] is True
    assert pop(client, queue) == []


def test_in_a_transaction(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, 3, partition="a")
    (message,) = pop(client, queue)
    assert client.transaction({"type": "ack", **ack_of(message), "consumerGroup": GROUP},
                              {"type": "push", "items": [{"queue": queue, "partition": "b", "payload": 9}]},
                              requiredLeases=[message["leaseId"]])["success"] is True
    assert data(pop(client, queue, batch=5)) == [9]


@pytest.mark.parametrize("partition", [None, "a"])
def test_a_waiting_pop(daemon: Daemon, client: Client, queue: str, partition: str | None) -> None:
    """Each push wakes it; what it gets is the newest message."""
    assert pop(client, queue, "a") == []
    with daemon.client() as waiting:
        for n in range(5):
            waiting.send("GET", pop_target(queue, partition, consumerGroup=GROUP, conflation=True, wait=True,
                                           timeout=60000))
            until(lambda: client.parked() == 1, "the pop waits")
            client.push(queue, *(10 * n + i for i in range(3)), partition="a")
            got = waiting.receive().json
            assert data(got["messages"]) == [10 * n + 2] and got["conflation"] is True
            assert client.ack(got["messages"][0], group=GROUP)["success"] is True


def test_delayed_messages(client: Client, queue: str) -> None:
    """A message that is not due holds back what stands behind it, here as for every group."""
    client.push(queue, 1, 2, partition="a")
    client.push(queue, 3, partition="a", delayMs=3600_000, transactionId=f"{queue}-3")
    client.push(queue, 4, partition="a")
    (message,) = pop(client, queue)
    assert message["data"] == 2 and client.ack(message, group=GROUP)["success"] is True
    assert pop(client, queue) == []
    assert client.request("DELETE", f"/api/v1/messages/{message['partitionId']}/{queue}-3").status == 200
    assert data(pop(client, queue, wait=True, timeout=60000)) == [4]


def test_deleted_messages(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, 3, partition="a")
    newest = client.pop(queue, consumerGroup="other", batch=3)[2]
    assert client.request("DELETE", f"/api/v1/messages/{newest['partitionId']}/{newest['transactionId']}").status == 200
    (message,) = pop(client, queue)
    assert message["data"] == 2 and client.ack(message, group=GROUP)["success"] is True
    assert pop(client, queue) == []


def test_a_group_that_is_registered_again(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, 3, partition="a")
    assert len(client.pop(queue, consumerGroup=GROUP)) == 1
    assert client.request("DELETE", f"/api/v1/consumer-groups/{GROUP}?deleteMetadata=true").status == 200
    assert data(pop(client, queue)) == [3]


def test_pops_of_a_namespace(client: Client, queue: str) -> None:
    space = queue[:60]
    assert pop(client, None, namespace=space) == []
    for name in ("one", "two"):
        client.configure(f"{queue}-{name}", namespace=space)
        client.push(f"{queue}-{name}", *range(4), partition="a")
    got = [message for _ in range(2) for message in pop(client, None, namespace=space)]
    assert sorted((m["queue"], m["data"]) for m in got) == [(f"{queue}-one", 3), (f"{queue}-two", 3)]
    assert pop(client, None, namespace=space) == []


def test_while_pops_are_paused(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="plain", autoAck=True)
    assert client.post("/api/v1/system/maintenance/pop", {"enabled": True}).status == 200
    try:
        assert answer(client, queue) == {"messages": [], "paused": True, "conflation": True}
        assert client.pop_answer(queue, consumerGroup="plain", conflation=True).json == {
            "messages": [], "paused": True, "conflationConflict": True}
        assert client.pop_answer(queue, consumerGroup="plain", autopilot=True).json == {"messages": [], "paused": True}
    finally:
        assert client.post("/api/v1/system/maintenance/pop", {"enabled": False}).status == 200
    assert data(pop(client, queue)) == [2]


def test_two_daemons(client: Client, other: Client, peer: Daemon, queue: str) -> None:
    """Group, claims and acknowledgments are those of the database."""
    client.push(queue, 1, 2, 3, partition="a")
    (message,) = pop(client, queue)
    assert pop(other, queue) == []
    until(lambda: other.pop_answer(queue, consumerGroup=GROUP).json.get("conflation") is True, "it knows the group")
    client.push(queue, 4, partition="a")
    assert other.ack(message, group=GROUP)["success"] is True
    with peer.client() as waiting:
        (message,) = pop(waiting, queue, wait=True, timeout=60000)
    assert message["data"] == 4 and client.ack(message, group=GROUP)["success"] is True
    assert pop(other, queue, "a") == [] and pop(client, queue, "a") == []


def test_after_a_restart(start_daemon, queue: str) -> None:
    first = start_daemon()
    with first.client() as client:
        client.push(queue, 1, 2, 3, partition="a")
        (message,) = pop(client, queue)
    first.stop()
    with start_daemon(first.conninfo).client() as client:
        client.push(queue, 4, partition="a")
        assert client.pop_answer(queue, consumerGroup=GROUP).json["conflation"] is True
        assert client.ack(message, group=GROUP)["success"] is True
        assert data(pop(client, queue)) == [4]


def test_histories(daemon: Daemon, peer: Daemon, queue: str) -> None:
    """Producers and consumers at two daemons. In each partition what is delivered rises from one completed
    acknowledgment to the next, nothing comes again after it was completed, and the last message is completed."""
    rng = random.Random(seed_of_run())
    parts, each = [f"p{n}" for n in range(6)], 60
    seeds = [rng.randrange(1 << 30) for _ in range(6)]

    def produce(at: int) -> None:
        own = random.Random(seeds[at])
        with (daemon, peer)[at].client() as client:
            left = dict.fromkeys(parts[at::2], 0)
            while left:
                part = own.choice(list(left))
                n = min(own.randint(1, 4), each - left[part])
                client.push(queue, *range(left[part], left[part] + n), partition=part)
                left[part] += n
                if left[part] == each:
                    del left[part]

    def consume(at: int) -> list[tuple[str, int]]:
        own = random.Random(seeds[at])
        done = []
        with (daemon, peer)[at % 2].client() as client:
            while not all_done():
                for message in pop(client, queue, batch=own.choice([1, 3, 64]), wait=True, timeout=200):
                    status = own.choice(["completed", "completed", "completed", "retry"])
                    acked = client.ack(message, status, GROUP)
                    assert acked["success"] is True
                    if status == "completed":
                        done.append((message["partition"], message["data"]))
                        if message["data"] == each - 1:
                            ended.add(message["partition"])
        return done

    ended: set[str] = set()

    def all_done() -> bool:
        return len(ended) == len(parts)

    with daemon.client() as client:
        assert pop(client, queue) == []
    with ThreadPoolExecutor(6) as pool:
        producers = [pool.submit(produce, at) for at in range(2)]
        consumers = [pool.submit(consume, at) for at in range(2, 6)]
        for one in producers:
            one.result()
        each_done = [one.result() for one in consumers]
    for one in each_done:
        for part in parts:
            seen = [n for name, n in one if name == part]
            assert seen == sorted(seen), "what a consumer completes of a partition rises"
    done = [pair for one in each_done for pair in one]
    assert len(done) == len(set(done)), "nothing is completed twice"
    assert {part for part, n in done if n == each - 1} == set(parts)
    with daemon.client() as client:
        assert pop(client, queue, batch=64) == [] and committed(client, queue) == 0


def test_acknowledgments_read_no_log(client: Client, queue: str) -> None:
    """A daemon acknowledges what it has delivered by the lease, here as elsewhere, whatever the claim passed."""
    before = client.metric("queend_worker_acked_by_lease_total")
    for n in range(3):
        client.push(queue, *range(10), partition="a")
        (message,) = pop(client, queue)
        assert client.ack(message, group=GROUP)["leaseReleased"] is True
        assert committed(client, queue) == 0
    assert client.metric("queend_worker_acked_by_lease_total") == before + 3


def test_extended_leases(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="a")
    (message,) = pop(client, queue)
    assert client.extend(message["leaseId"])["renewed"] == 1
    assert client.ack(message, group=GROUP)["success"] is True
    assert pop(client, queue) == []


def test_the_source_of_a_stream(client: Client, queue: str) -> None:
    """A cycle acknowledges what the claim has passed."""
    stream = Stream(client, queue, queue)
    client.push(queue, *range(5), partition="a")
    for newest in (4, 9):
        (message,) = stream.pop(conflation=True, partitions=4)
        assert message["data"] == newest
        done = stream.cycle([message], sets={"last": newest}, release_lease=True)
        assert done["ack_result"]["lease_released"] is True
        assert stream.pop(conflation=True, partitions=4) == []
        client.push(queue, *range(newest + 1, newest + 6), partition="a")
    assert stream.state(message["partitionId"]) == {"last": 9}


@pytest.mark.parametrize("more", [{}, {"window": 5}], ids=["messages", "windows"])
def test_streams_of_events(daemon: Daemon, client: Client, queue: str, more: dict) -> None:
    client.push(queue, *range(5), partition="a")
    with Feed(daemon.address, queue, consumerGroup=GROUP, conflation=True, **more) as feed:
        for newest in (4, 7, 10):
            if more:
                window = feed.window()
                (message,) = window["messages"]
                done = client.post("/api/v1/ack", {"windowId": window["windowId"], "consumerGroup": GROUP}).json[0]
            else:
                message = feed.message()
                done = client.ack(message, group=GROUP)
            assert message["data"] == newest and done["success"] is True
            client.push(queue, *range(newest + 1, newest + 4), partition="a")
    client.pop(queue, consumerGroup="plain")
    with Feed(daemon.address, queue, consumerGroup="plain", conflation=True) as feed:
        assert "does not conflate" in feed.event().data


def test_events_of_a_group_that_conflates(client: Client, queue: str) -> None:
    """CloudEvents are an array, which has no place for more."""
    client.push(queue, 1, 2, partition="a")
    got = client.pop_answer(queue, consumerGroup=GROUP, conflation=True, format="cloudevents")
    assert [event["data"] for event in got.json] == [2]


def test_figures(client: Client, queue: str) -> None:
    """Lag counts every message; the depth also tells how many will be delivered."""
    assert pop(client, queue) == []
    client.push_items([{"queue": queue, "partition": f"p{n % 3}", "payload": n} for n in range(30)])
    (message,) = pop(client, queue)
    depth = client.get(f"/api/v1/resources/queues/{queue}/depth?group={GROUP}").json
    assert (depth["conflation"], depth["pending"], depth["effectivePending"]) == (True, 30, 3)
    (row,) = client.get(f"/api/v1/consumer-groups?queue={queue}").json
    assert (row["name"], row["conflation"], row["totalLag"]) == (GROUP, True, 30)
    client.ack(message, group=GROUP)
    shown = client.get(f"/api/v1/consumer-groups/{GROUP}").json[queue]
    assert shown["conflation"] is True and sorted(one["offsetLag"] for one in shown["partitions"]) == [0, 10, 10]
    client.pop(queue, consumerGroup="plain")
    assert "conflation" not in client.get("/api/v1/consumer-groups/plain").json[queue]
    assert client.get(f"/api/v1/resources/queues/{queue}/depth?group=plain").json["conflation"] is False
    assert client.get(f"/api/v1/resources/queues/{queue}/depth").json["conflation"] is False
