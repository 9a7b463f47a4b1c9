"""Consumer groups seen and moved from outside, while daemons serve them."""
from __future__ import annotations

from urllib.parse import quote

import pytest
from support.client import Client, ack_of, data
from support.daemon import Daemon
from support.wait import until

PAST = "2020-01-01T00:00:00Z"


def path(group: str, queue: str | None = None, partition: str | None = None, last: str | None = None) -> str:
    parts = ["consumer-groups", group, *(["queues", queue] if queue else []),
             *(["partitions", partition] if partition else []), *([last] if last else [])]
    return "/api/v1/" + "/".join(quote(part, safe="") for part in parts)


def seek(client: Client, group: str, queue: str, partition: str | None = None, **to) -> dict:
    answer = client.post(path(group, queue, partition, "seek"), to)
    assert answer.status == 200, answer.body
    return answer.json


def drain(client: Client, queue: str, group: str, least: int = 0, **query) -> list:
    """Pops and acknowledges until there is nothing, waiting for `least` messages; the payloads."""
    seen: list = []
    while len(seen) < least:
        messages = client.pop(queue, consumerGroup=group, batch=100, partitions=10, wait=True, timeout=100_000)
        assert messages, f"{seen} and nothing more"
        seen += data(messages)
        assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages], group))
    while messages := client.pop(queue, consumerGroup=group, batch=100, partitions=10, **query):
        seen += data(messages)
        assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages], group))
    return seen


def listed(client: Client, queue: str) -> dict[str, dict]:
    answer = client.get("/api/v1/consumer-groups")
    assert answer.status == 200
    return {one["name"]: one for one in answer.json if one["queueName"] == queue}


def test_figures_are_differences_of_offsets(client: Client, queue: str) -> None:
    client.push(queue, 0, 1, 2, 3, 4, partition="a")
    client.push(queue, 0, 1, partition="b")
    messages = client.pop(queue, "a", consumerGroup="g", batch=2)
    before = listed(client, queue)["g"]
    assert (before["members"], before["partitionsWithLag"], before["totalLag"], before["topics"]) == (1, 2, 7, [queue])
    client.ack_batch([ack_of(m) for m in messages], "g")
    assert drain(client, queue, "late", subscriptionMode="new") == []
    client.push(queue, 2, partition="b")
    groups = listed(client, queue)
    assert groups["g"]["totalLag"] == 6 and groups["g"]["state"] == "Stable" and groups["g"]["subscriptionMode"] is None
    assert drain(client, queue, "late") == [2]
    assert listed(client, queue)["late"]["subscriptionMode"] == "new" and listed(client, queue)["late"]["totalLag"] == 0
    a, b = client.get(path("g")).json[queue]["partitions"]
    assert {key: a[key] for key in ("partition", "totalConsumed", "offset", "head", "offsetLag",
                                    "leaseActive", "workerId")} == {
        "partition": "a", "totalConsumed": 2, "offset": 2, "head": 5, "offsetLag": 3,
        "leaseActive": False, "workerId": None}
    assert a["lastConsumedAt"] is not None and a["timeLagSeconds"] >= 0
    assert (b["partition"], b["offset"], b["offsetLag"], b["lastConsumedAt"]) == ("b", 0, 3, None)
    assert client.get(path("nobody")).json == {}


def test_lagging_partitions(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="a")
    (message,) = client.pop(queue, consumerGroup="slow")

    def mine(seconds: int) -> list[dict]:
        return [one for one in client.get(f"/api/v1/consumer-groups/lagging?minLagSeconds={seconds}").json
                if one["queue_name"] == queue]

    (one,) = until(lambda: mine(0), "a microsecond has passed")
    assert (one["consumer_group"], one["partition_name"], one["offset_lag"],
            one["worker_id"]) == ("slow", "a", 2, message["leaseId"])
    assert one["partition_id"] == message["partitionId"] and one["time_lag_seconds"] >= 0
    assert mine(3600) == []
    client.ack(message, group="slow")
    assert mine(0)[0]["offset_lag"] == 1


@pytest.mark.parametrize("where", ["client", "other"])
def test_seek_back_and_to_the_end(request, client: Client, queue: str, where: str) -> None:
    """Whichever daemon is asked, both deliver from the new place, though one believes that there is nothing."""
    reader: Client = request.getfixturevalue(where)
    for partition in "ab":
        client.push(queue, *range(3), partition=partition)
    assert sorted(drain(reader, queue, "g", 6)) == [0, 0, 1, 1, 2, 2]
    told = seek(client, "g", queue, timestamp=PAST)
    assert told == {"success": True, "consumerGroup": "g", "queueName": queue, "seekToEnd": False,
                    "targetTimestamp": "2020-01-01T00:00:00.000Z", "partitionsUpdated": 2}
    assert sorted(data(until(lambda: reader.pop(queue, consumerGroup="g", batch=100, partitions=10),
                             "the messages are back"))) == [0, 0, 1, 1, 2, 2]
    assert seek(client, "g", queue, toEnd=True)["partitionsUpdated"] == 2     # the leases are void
    assert listed(client, queue)["g"]["totalLag"] == 0
    client.push(queue, "new", partition="a")
    assert data(reader.pop(queue, "a", consumerGroup="g", batch=100)) == ["new"]


def test_a_waiting_pop_hears_of_a_seek_elsewhere(client: Client, other: Client, peer: Daemon, queue: str) -> None:
    client.push(queue, "again")
    assert drain(other, queue, "g", 1) == ["again"]
    with peer.client() as waiting:
        waiting.send("GET", f"/api/v1/pop/queue/{quote(queue, safe='')}?consumerGroup=g&wait=true&timeout=100000")
        until(lambda: other.parked() > 0, "the pop is parked")
        seek(client, "g", queue, timestamp=PAST)
        assert data(waiting.receive().json["messages"]) == ["again"]


def test_who_does_not_wait_hears_of_a_push_elsewhere(client: Client, other: Client, queue: str) -> None:
    client.push(queue, 1)
    assert drain(other, queue, "g", 1) == [1]
    client.push(queue, 2, partition="elsewhere")
    assert data(until(lambda: other.pop(queue, consumerGroup="g"), "the other daemon has looked")) == [2]


def test_seek_to_an_offset_and_one_partition(client: Client, queue: str) -> None:
    for partition in "ab":
        client.push(queue, *range(5), partition=partition)
    assert len(drain(client, queue, "g")) == 10
    told = seek(client, "g", queue, "a", offset=3)
    assert told["updated"] is True and told["cursorMovedTo"] is not None
    assert drain(client, queue, "g") == [3, 4]
    assert seek(client, "g", queue, offset=4)["targetOffset"] == 4
    assert sorted(drain(client, queue, "g")) == [4, 4]
    assert seek(client, "g", queue, offset=2**60)["partitionsUpdated"] == 2 and drain(client, queue, "g") == []
    seek(client, "g", queue, offset=0)
    for updated in (True, False):      # nothing named: the end, where it stands then
        assert seek(client, "g", queue, "a")["updated"] is updated
    assert drain(client, queue, "g") == [0, 1, 2, 3, 4]
    assert client.post(path("nobody", queue, "a", "seek")).status == 404
    assert client.post(path("g", queue, "c", "seek")).json == {"success": False, "error": "Partition not found",
                                                               "code": "partition_not_found"}


def test_seek_by_time_goes_behind_what_was_stored_then(client: Client, queue: str) -> None:
    client.push(queue, "old")
    (old,) = client.pop(queue, consumerGroup="g")
    client.ack(old, group="g")
    until(lambda: client.push(f"{queue}-clock", 0) and client.pop(f"{queue}-clock", autoAck=True)[0]["createdAt"]
          > old["createdAt"], "time goes on")
    client.push(queue, "young")
    (young,) = client.pop(queue, consumerGroup="g")
    client.ack(young, group="g")
    seek(client, "g", queue, timestamp=old["createdAt"])
    assert drain(client, queue, "g") == ["young"]


def test_a_lease_that_a_seek_voided_moves_nothing(client: Client, queue: str) -> None:
    client.push(queue, 0, 1)
    messages = client.pop(queue, consumerGroup="g", batch=2)
    seek(client, "g", queue, timestamp=PAST)
    assert not any(one["success"] for one in client.ack_batch([ack_of(m) for m in messages], "g"))
    assert drain(client, queue, "g") == [0, 1]


@pytest.mark.parametrize("where", ["client", "other"])
def test_a_deleted_group_starts_afresh(request, client: Client, queue: str, where: str) -> None:
    reader: Client = request.getfixturevalue(where)
    client.push(queue, 0, 1, partition="a")
    assert drain(reader, queue, "g", 2) == [0, 1] and drain(reader, queue, "h", 2) == [0, 1]
    gone = client.request("DELETE", path("g", queue)).json
    assert gone == {"success": True, "consumerGroup": "g", "queueName": queue, "deletedPartitions": 1,
                    "metadataDeleted": True, "existed": True}
    assert "g" not in listed(client, queue)
    assert data(until(lambda: reader.pop(queue, consumerGroup="g", batch=5), "it reads from the beginning")) == [0, 1]
    assert reader.pop(queue, "a", consumerGroup="h") == []
    assert client.request("DELETE", path("h")).json["deletedPartitions"] >= 1


def test_a_group_deleted_without_its_subscription_keeps_its_start(client: Client, queue: str) -> None:
    client.push(queue, "before")
    assert drain(client, queue, "n", subscriptionMode="new") == []
    client.push(queue, "after")
    assert drain(client, queue, "n") == ["after"]
    told = client.request("DELETE", path("n", queue) + "?deleteMetadata=false").json
    assert told["metadataDeleted"] is False and told["deletedPartitions"] == 1
    assert data(until(lambda: client.pop(queue, consumerGroup="n", batch=5), "it starts again")) == ["after"]
    assert client.request("DELETE", path("n", queue)).json["metadataDeleted"] is True
    assert data(until(lambda: client.pop(queue, consumerGroup="n", batch=5), "it starts again")) == ["before", "after"]


def test_a_subscription_moves_who_has_consumed_nothing(client: Client, queue: str) -> None:
    client.push(queue, "before")
    assert drain(client, queue, "n", subscriptionMode="new") == []
    told = client.post(path("n", last="subscription"), {"subscriptionTimestamp": PAST}).json
    assert told == {"success": True, "consumerGroup": "n", "newTimestamp": PAST, "rowsUpdated": 1}
    assert drain(client, queue, "n") == ["before"]
    assert client.post(path("nobody", last="subscription"), {"subscriptionTimestamp": PAST}).json["rowsUpdated"] == 0


@pytest.mark.parametrize("target, body, error", [
    ("g/queues/q/seek", {}, "Must specify either 'toEnd': true or 'timestamp'"),
    ("g/queues/q/seek", {"timestamp": "yesterday"}, "timestamp must be a time"),
    ("g/queues/q/seek", {"toEnd": "yes"}, "toEnd must be true or false"),
    ("g/queues/q/seek", {"offset": -1}, "offset must be a whole number"),
    ("g/queues/q/seek", {"offset": True}, "offset must be a whole number"),
    ("g/queues/q/seek", {"offset": 2**64}, "offset must be a whole number"),
    ("g/queues/q/seek", b"", "Empty request body"), ("g/queues/q/seek", b"{", "Invalid JSON"),
    ("g/subscription", {}, "Missing subscriptionTimestamp in request body"),
    ("g/subscription", {"subscriptionTimestamp": 5}, "subscriptionTimestamp must be"),
    ("%ff/subscription", {"subscriptionTimestamp": PAST}, "path is not valid UTF-8"),
])
def test_bad_requests_name_what_is_wrong(client: Client, target: str, body: object, error: str) -> None:
    answer = client.post(f"/api/v1/consumer-groups/{target}", body)
    assert answer.status == 400 and answer.json["error"].startswith(error), answer.body


def test_a_group_that_was_rewound_is_alive(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="g", batch=2, autoAck="true")
    seek(client, "g", queue, timestamp=PAST)
    (group,) = [one for one in client.get("/api/v1/consumer-groups").json if one["queueName"] == queue]
    assert (group["name"], group["state"], group["totalLag"]) == ("g", "Stable", 2)


def test_a_group_that_polls_is_listed_before_its_first_message(client: Client, queue: str) -> None:
    client.configure(queue)
    until(lambda: client.pop_answer(queue, consumerGroup="early").json["reason"] == "empty",
          "the daemon knows the queue")
    told = next(one for one in client.get("/api/v1/consumer-groups").json
                if (one["queueName"], one["name"]) == (queue, "early"))
    assert (told["members"], told["totalLag"], told["state"]) == (0, 0, "Stable")
    client.push(queue, 1)
    assert client.pop(queue, consumerGroup="early")
    told = next(one for one in client.get("/api/v1/consumer-groups").json
                if (one["queueName"], one["name"]) == (queue, "early"))
    assert (told["members"], told["totalLag"]) == (1, 1)


def test_what_a_group_has_consumed_is_not_what_a_seek_says(client: Client, queue: str) -> None:
    def consumed(group: str) -> list[int]:
        client.get("/api/v1/consumer-groups")
        return [one["totalConsumed"]
                for one in client.get(f"/api/v1/consumer-groups/{group}").json[queue]["partitions"]]

    def foremost() -> int:
        (one,) = client.get(f"/api/v1/status/queues/{queue}").json["partitions"]
        return one["cursor"]["totalConsumed"]

    def seek(group: str, **where) -> None:
        assert client.post(f"/api/v1/consumer-groups/{group}/queues/{quote(queue)}/seek", where).status == 200

    client.push(queue, *range(10), partition="p")
    assert len(client.pop(queue, consumerGroup="g", batch=3, autoAck=True)) == 3
    assert consumed("g") == [3] and foremost() == 3
    for where in ({"toEnd": True}, {"offset": 0}, {"offset": 7}):
        seek("g", **where)
        assert consumed("g") == [3] and foremost() == 3, where
    assert len(client.pop(queue, consumerGroup="g", batch=2, autoAck=True)) == 2
    messages = client.pop(queue, consumerGroup="g", batch=1)
    assert consumed("g") == [5] and client.ack(messages[0], group="g")
    seek("g", offset=0)
    assert len(client.pop(queue, consumerGroup="g", batch=4, autoAck=True)) == 4
    assert consumed("g") == [10] and foremost() == 10      # four of them twice: it has consumed ten times
    seek("g", offset=0)
    first, _, third = client.pop(queue, consumerGroup="g", batch=3)
    assert client.ack(third, group="g") and consumed("g") == [11]      # beyond a gap
    seek("g", offset=5)
    assert consumed("g") == [11]


def test_from_beginning_is_how_the_published_clients_say_all(client: Client, queue: str) -> None:
    client.push(queue, 1, 2, partition="p")
    assert data(client.pop(queue, consumerGroup="g", subscriptionMode="from_beginning", batch=9)) == [1, 2]


def test_what_a_group_has_consumed_begins_with_its_subscription(client: Client, queue: str) -> None:
    client.push(queue, *range(5), partition="p")
    assert client.pop(queue, consumerGroup="later", subscriptionMode="new", batch=9) == []
    client.push(queue, *range(3), partition="p")
    assert len(client.pop(queue, consumerGroup="later", batch=2, autoAck=True)) == 2
    (one,) = client.get("/api/v1/consumer-groups/later").json[queue]["partitions"]
    assert (one["totalConsumed"], one["offset"]) == (2, 7)
    assert client.post("/api/v1/consumer-groups/later/subscription",
                       {"subscriptionTimestamp": "2020-01-01T00:00:00Z"}).status == 200
    (one,) = client.get("/api/v1/consumer-groups/later").json[queue]["partitions"]
    assert (one["totalConsumed"], one["offset"]) == (2, 7)
