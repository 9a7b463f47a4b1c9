"""A redriven message says what it was at first, in framed pops and in streams; a search says which copy was done."""
from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb
from support.client import Client, data
from support.daemon import Daemon
from support.feed import Feed
from support.frames import read_pop
from support.socket_feed import SocketFeed

NAMES = ("originTransactionId", "originQueue", "originPartition", "originOffset")


def came_back(client: Client, queue: str, *ids: str) -> None:
    """Dead letters of the group g with these ids come back."""
    for id in ids:
        client.push(queue, id, partition="p", transactionId=id)
        (message,) = client.pop(queue, consumerGroup="g")
        assert client.ack(message, "dlq", group="g")["success"]
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue})
    assert answer.json["redriven"] == len(ids), answer


def wanted(queue: str, place: int) -> dict:
    return {"originTransactionId": f"order-{place}", "originQueue": queue, "originPartition": "p",
            "originOffset": place}


def origin(message: dict) -> dict:
    return {name: message[name] for name in NAMES if name in message}


@pytest.mark.parametrize("query", [{}, {"autopilot": True}])
@pytest.mark.parametrize("before", [0, 3])
def test_framed_pops_list_the_origins(client: Client, queue: str, query: dict, before: int) -> None:
    """Beside what else the answer says of itself, with the place of the message that each belongs to."""
    came_back(client, queue, "order-0", "order-1")
    for n in range(before):
        client.push(queue, n, partition="other")
    told: list[dict] = []
    while sum(len(one["messages"]) for one in told) < 2 + before:     # a pop may find one partition before the other
        answer = client.pop_answer(queue, consumerGroup="g", frames=True, batch=100, partitions=9, wait=True, **query)
        assert answer.headers["content-type"] == "application/x-queen-pop"
        told.append(read_pop(answer.body))
    (one,) = [one for one in told if "p" in [message["partition"] for message in one["messages"]]]
    messages = [message for message in one["messages"] if message["partition"] == "p"]
    assert data(messages) == ["order-0", "order-1"]
    assert one["origins"] == [
        {"partitionId": message["partitionId"], "offset": message["offset"], **wanted(queue, place)}
        for place, message in enumerate(messages)]
    assert all(("autopilot" in one) == bool(query) for one in told)


def test_framed_pops_without_redriven_messages_list_none(client: Client, queue: str) -> None:
    client.push(queue, 1, traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
    assert "origins" not in read_pop(client.pop_answer(queue, frames=True).body)


@pytest.mark.parametrize("stream", [Feed, SocketFeed])
def test_streams_name_the_origin(daemon: Daemon, client: Client, queue: str, stream: type) -> None:
    came_back(client, queue, "order-0")
    with stream(daemon.address, queue, consumerGroup="g") as feed:
        assert origin(feed.message()) == wanted(queue, 0)


def test_a_search_tells_which_copy_was_done(client: Client, queue: str) -> None:
    came_back(client, queue, "order-0")

    def found() -> list[dict]:
        return client.get(f"/api/v1/messages/search?queue={queue}&text=order").json["messages"]
    new, old = found()
    assert (origin(new), origin(old)) == (wanted(queue, 0), {})
    assert old["redrivenAs"] == {"transactionId": new["transactionId"], "queue": queue, "partition": "p"}
    assert "redrivenAs" not in new and new["status"] == "pending"
    (message,) = client.pop(queue, consumerGroup="g")
    assert client.ack(message, group="g")["success"]
    new, old = found()
    assert (new["status"], old["redrivenAs"]["transactionId"]) == ("completed", new["transactionId"])
    path = f"/api/v1/traces/{old['partitionId']}/{old['transactionId']}"
    (trace,) = client.get(path).json["traces"]
    assert (trace["event_type"], trace["consumer_group"], trace["data"]) == ("redriven", "g", old["redrivenAs"])


def test_redriven_from_sql(daemon: Daemon, client: Client, queue: str) -> None:
    """As over HTTP: by the text of the error, for the group alone, in order, and with their origin."""
    for n, error in enumerate(("timeout of a", "no such customer", "timeout of b")):
        client.push(queue, n, partition="p", transactionId=f"order-{n}", traceparent=f"00-{'1' * 32}-{'2' * 16}-01")
        (message,) = client.pop(queue, consumerGroup="g")
        assert client.ack(message, "dlq", group="g", error=error)["success"]
    assert data(client.pop(queue, consumerGroup="other", batch=9, autoAck=True)) == [0, 1, 2]
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        def redrive(**asked: object) -> dict:
            return connection.execute("SELECT queen.redrive_dlq_v1(%s)", (Jsonb(asked),)).fetchone()[0]
        assert redrive(queue=queue, error="timeout") == {
            "success": True, "queue": queue, "redriven": 2, "unreadable": 0}
        for wrong in ({}, {"queue": ""}, {"queue": queue, "error": ""}, {"queue": queue, "color": "blue"},
                      {"queue": queue, "limit": 10_001}):
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                redrive(**wrong)
        with pytest.raises(psycopg.errors.UndefinedObject):
            redrive(queue="nowhere")
    assert client.dead(queue) == 1
    messages = client.pop(queue, consumerGroup="g", batch=9, wait=True, timeout=60_000)
    assert data(messages) == [0, 2] and all(one["traceparent"].endswith("-01") for one in messages)
    assert [origin(one) for one in messages] == [wanted(queue, 0), wanted(queue, 2)]
    assert client.pop(queue, consumerGroup="other") == [], "they are for the group they were dead letters of"
    found = client.get(f"/api/v1/messages/search?queue={queue}&text=0").json["messages"]
    assert found[-1]["redrivenAs"]["transactionId"] == messages[0]["transactionId"]
