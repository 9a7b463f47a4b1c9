"""Windows of a stream: messages of a partition that come as one event and are acknowledged by one id, by both ways."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.feed import Feed, stream_target
from support.socket_feed import SocketFeed
from support.wait import until

GROUP = {"consumerGroup": "g", "subscriptionMode": "all"}


class Way:
    """A stream, and how its windows are settled."""

    def __init__(self, kind: type, daemon: Daemon, client: Client, queue: str):
        self.kind, self.daemon, self.client, self.queue = kind, daemon, client, queue
        self.opened: list[Any] = []

    def open(self, *where: str, **query: object) -> Any:
        self.opened.append(self.kind(self.daemon.address, self.queue, *where, **{**GROUP, **query}))
        return self.opened[-1]

    def settle(self, stream: Any, window: dict | str, status: str = "completed", **more: object) -> dict:
        id = window if isinstance(window, str) else window["windowId"]
        body = {"windowId": id, "consumerGroup": "g", "status": status, **more}
        if self.kind is SocketFeed:
            answer = stream.ask({"ack": body})
            assert answer["status"] == 200, answer
            return answer["ack"][0]
        return self.client.post("/api/v1/ack", body).json[0]

    def leave(self, stream: Any) -> None:
        stream.wire.abort()


@pytest.fixture(params=[Feed, SocketFeed], ids=["events", "socket"])
def way(request, daemon: Daemon, client: Client, queue: str) -> Iterator[Way]:
    one = Way(request.param, daemon, client, queue)
    yield one
    for stream in one.opened:
        stream.wire.close()


def lag(client: Client, queue: str) -> int:
    return client.get(f"/api/v1/resources/queues/{queue}").json["totals"]["pending"]


def test_messages_of_a_partition_come_and_are_done_as_one(way: Way, client: Client, queue: str) -> None:
    for n in range(25):
        client.push(queue, {"n": n}, partition="ab"[n % 5 == 0])
    stream = way.open(window=8)
    got: dict[str, list[int]] = {"a": [], "b": []}
    sizes = []
    while sum(sizes) < 25:
        window = stream.window()
        (partition,) = {one["partition"] for one in window["messages"]}
        (lease,) = {one["leaseId"] for one in window["messages"]}
        (uuid,) = {one["partitionId"] for one in window["messages"]}
        assert window["windowId"] == f"{uuid}:{lease}"
        assert (window["queue"], window["partition"]) == (queue, partition)
        got[partition] += [one["data"]["n"] for one in window["messages"]]
        sizes.append(len(window["messages"]))
        done = way.settle(stream, window)
        assert done["success"] and done["leaseReleased"] and not done["dlq"], done
        assert done["windowId"] == window["windowId"] and done["messages"] == sizes[-1]
        assert done["queueName"] == queue and done["partitionName"] == partition
    assert got == {"b": list(range(0, 25, 5)), "a": [n for n in range(25) if n % 5]}
    assert max(sizes) == 8, "as many as there are, up to the bound"
    assert client.pop(queue, **GROUP) == []


def test_what_is_pushed_while_it_waits_comes_as_a_window(way: Way, client: Client, queue: str) -> None:
    client.push(queue, 0)
    stream = way.open(window=5)
    assert way.settle(stream, stream.window())["success"]
    client.push_items([{"queue": queue, "partition": "p", "payload": n} for n in range(12)])
    sizes = []
    while sum(sizes) < 12:
        window = stream.window()
        assert data(window["messages"]) == list(range(sum(sizes), sum(sizes) + len(window["messages"])))
        sizes.append(len(window["messages"]))
        assert way.settle(stream, window)["messages"] == sizes[-1]
    assert max(sizes) <= 5


def test_a_window_that_failed_comes_again_whole_and_ends_among_the_dead_letters(way: Way, client: Client,
                                                                               queue: str) -> None:
    client.configure(queue, retryLimit=1, deadLetterQueue=True)
    client.push(queue, *range(6))
    stream = way.open(window=4)
    first = stream.window()
    assert data(first["messages"]) == [0, 1, 2, 3]
    failed = way.settle(stream, first, "failed", error="no paper")
    assert failed["success"] and failed["leaseReleased"] and not failed["dlq"] and failed["messages"] == 4
    again = stream.window()
    assert data(again["messages"]) == [0, 1, 2, 3] and again["windowId"] != first["windowId"]
    assert {one["deliveryAttempt"] for one in again["messages"]} == {2}
    dead = way.settle(stream, again, "failed", error="no ink")
    assert dead["success"] and dead["dlq"] and dead["messages"] == 4
    rest = stream.window()
    assert data(rest["messages"]) == [4, 5], "the next ones are not held by them"
    assert way.settle(stream, rest, "dlq")["dlq"]
    letters = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert sorted((one["data"], one["errorMessage"]) for one in letters)[:4] == [(n, "no ink") for n in range(4)]
    assert len(letters) == 6


def test_a_window_that_goes_back_waits_as_long_as_asked_for(way: Way, client: Client, queue: str) -> None:
    client.configure(queue, retryLimit=0)
    client.push(queue, *range(3))
    stream = way.open(window=3)
    window = stream.window()
    assert way.settle(stream, window, "retry", delayMs=300)["messages"] == 3
    again = stream.window()
    assert data(again["messages"]) == [0, 1, 2], "it counts as no failure"
    assert way.settle(stream, again)["success"]


def test_credit_is_counted_by_message(way: Way, client: Client, queue: str) -> None:
    for partition in "abc":
        client.push(queue, *range(4), partition=partition)
    stream = way.open(window=4, credit=10)
    first, second = stream.window(), stream.window()
    assert len(first["messages"]) == len(second["messages"]) == 4
    (held,) = {"a", "b", "c"} - {first["partition"], second["partition"]}
    # 2 of 10 are left, and a window is not cut: the third is there for others
    other = client.pop(queue, held, **GROUP, batch=1)
    assert data(other) == [0]
    assert client.ack(other[0], "retry", group="g")["success"]
    assert way.settle(stream, first)["success"]
    third = stream.window()
    assert third["partition"] == held and data(third["messages"]) == [0, 1, 2, 3]


def test_what_is_done_alone_is_no_part_of_the_window_any_more(way: Way, client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    stream = way.open(window=5)
    window = stream.window()
    for n in (0, 3):
        assert client.ack(window["messages"][n], group="g")["success"]
    done = way.settle(stream, window)
    assert done["success"] and done["leaseReleased"] and done["messages"] == 3
    assert way.settle(stream, window) == {**done, "success": False, "error": "Invalid or expired lease", "messages": 0,
                                          "leaseReleased": False}
    assert client.pop(queue, **GROUP) == []


def test_a_client_that_leaves_in_the_middle_loses_nothing(way: Way, client: Client, queue: str) -> None:
    client.push(queue, *range(6))
    stream = way.open(window=6, release=True)
    left = stream.window()
    assert len(left["messages"]) == 6
    way.leave(stream)
    second = way.open(window=6, release=True)
    again = second.window()
    assert data(again["messages"]) == list(range(6)) and again["windowId"] != left["windowId"]
    late = client.post("/api/v1/ack", {"windowId": left["windowId"], "consumerGroup": "g"}).json[0]
    assert (late["success"], late["error"]) == (False, "Invalid or expired lease")
    assert way.settle(second, again)["messages"] == 6


def test_a_lease_that_stays_is_acknowledged_by_who_comes_back(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, *range(3))
    with Feed(daemon.address, queue, window=3, **GROUP) as stream:
        window = stream.window()
    until(lambda: client.metric("queend_worker_streams") == 0, "it is gone")
    done = client.post("/api/v1/ack/batch", {"consumerGroup": "g", "acknowledgments": [
        {"windowId": window["windowId"]}]}).json[0]
    assert done["success"] and done["messages"] == 3


def test_several_windows_and_messages_in_one_command(way: Way, client: Client, queue: str) -> None:
    for partition in "ab":
        client.push(queue, *range(3), partition=partition)
    stream = way.open(window=3)
    one, two = stream.window(), stream.window()
    client.push(queue, "alone", partition="c")
    alone = stream.window()["messages"][0]
    own = {key: alone[key] for key in ("transactionId", "partitionId", "leaseId")}
    body = {"consumerGroup": "g", "acknowledgments": [{"windowId": one["windowId"]}, own,
                                                      {"windowId": two["windowId"]}, {"windowId": one["windowId"]}]}
    answer = (stream.ask({"ack": body})["ack"] if way.kind is SocketFeed
              else client.post("/api/v1/ack/batch", body).json)
    assert [done["success"] for done in answer] == [True, True, True, False]
    assert lag(client, queue) == 0 or until(lambda: lag(client, queue) == 0, "all is done")


def test_without_leases_there_is_no_id(way: Way, client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    window = way.open(window=3, autoAck=True).window()
    assert window["windowId"] is None and data(window["messages"]) == [0, 1, 2]


def test_large_ones_and_those_of_many_lines(way: Way, client: Client, queue: str) -> None:
    body = b'{"items":[{"queue":"%s","payload":{\r\n "a":\r[1,\n2]}},{"queue":"%s","payload":"%s"}]}' % (
        queue.encode(), queue.encode(), b"x" * 200_000)
    assert client.post("/api/v1/push", body).status == 201
    window = way.open(window=2).window()
    assert data(window["messages"]) == [{"a": [1, 2]}, "x" * 200_000]


def test_one_partition_only(way: Way, client: Client, queue: str) -> None:
    client.push(queue, "other", partition="b")
    client.push(queue, 1, 2, partition="a")
    stream = way.open("a", window=9)
    assert data(stream.window()["messages"]) == [1, 2]


def test_another_daemon_takes_the_id(way: Way, client: Client, queue: str, start_daemon: Callable[..., Daemon],
                                     daemon: Daemon) -> None:
    client.push(queue, *range(4))
    stream = way.open(window=2)
    window = stream.window()
    other = start_daemon(daemon.conninfo)
    with other.client() as elsewhere:
        done = elsewhere.post("/api/v1/ack", {"windowId": window["windowId"], "consumerGroup": "g"}).json[0]
    assert done["success"] and done["messages"] == 2
    assert data(stream.window()["messages"]) == [2, 3]
    other.stop()


@pytest.mark.parametrize("query, why", [
    ({"window": 0}, "window must be a whole number from 1 to 10000"),
    ({"window": 10001}, "window must be a whole number from 1 to 10000"),
    ({"window": "x"}, None), ({"window": 5, "batch": 5}, "window stands instead of batch and partitions"),
    ({"window": 5, "partitions": 2}, "window stands instead of batch and partitions"),
    ({"window": 5, "credit": 4}, "credit must be at least window")], ids=range(6))
def test_what_is_refused(client: Client, queue: str, query: dict, why: str | None) -> None:
    answer = client.get(stream_target(queue, **query))
    assert answer.status == 400 and (why is None or answer.json["error"] == why), answer.body


A = "4fe9646a-8d14-8b27-b925-fd5f2e542300"


@pytest.mark.parametrize("body", [
    {"windowId": 1}, {"windowId": A}, {"windowId": f"{A}:{A}x"}, {"windowId": f"{A};{A}"}, {"windowId": ""},
    {"windowId": f"{A}:{A}", "leaseId": A}, {"windowId": f"{A}:{A}", "transactionId": "a"},
    {"windowId": f"{A}:{A}", "cumulative": True}, {"windowId": f"{A}:{A}", "status": "done"}], ids=range(9))
def test_an_id_that_is_none_is_refused(client: Client, body: dict) -> None:
    assert client.post("/api/v1/ack", body).status == 400
    assert client.post("/api/v1/ack/batch", {"acknowledgments": [body]}).status == 400


def test_an_unknown_window_is_no_window(client: Client) -> None:
    done = client.post("/api/v1/ack", {"windowId": f"{A}:{A}"}).json[0]
    assert not done["success"] and done["messages"] == 0


def test_a_transaction_knows_no_windows(client: Client, queue: str, daemon: Daemon) -> None:
    client.push(queue, 1)
    with Feed(daemon.address, queue, window=1, **GROUP) as stream:
        id = stream.window()["windowId"]
        answer = client.post("/api/v1/transaction", {"operations": [{"type": "ack", "windowId": id,
                                                                     "consumerGroup": "g"}]})
    assert answer.status == 400
