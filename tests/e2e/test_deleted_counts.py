"""No figure of a page counts a deleted message: totals, backlogs, lags."""
from __future__ import annotations

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.wait import until


@pytest.fixture(scope="module")
def daemon(start_daemon) -> Daemon:
    return start_daemon(STATS_INTERVAL_MS=200)


def delete(client: Client, queue: str, *ids: str) -> None:
    for one in ids:
        assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/p/messages/{one}").json["success"]


def listed(client: Client, queue: str) -> dict:
    """The messages of the queue in the list of queues, as soon as its kept figures say nothing of deleted ones."""
    row, = (one for one in client.get(f"/api/v1/resources/queues?search={queue}").json["queues"]
            if one["name"] == queue)
    return row["messages"]


def test_pages_of_a_queue(client: Client, queue: str) -> None:
    client.configure(queue, namespace=queue)
    client.push_items([{"queue": queue, "partition": "p", "transactionId": f"m{n}", "payload": n} for n in range(8)])
    assert data(client.pop(queue, "p", consumerGroup="g", batch=3, autoAck=True)) == [0, 1, 2]
    delete(client, queue, "m1", "m5", "m7")
    shown = client.show(queue).json
    stats = next(one["stats"] for one in shown["partitions"] if one["name"] == "p")
    for counts in (shown["totals"], stats):
        assert (counts["total"], counts["pending"], counts["completed"]) == (5, 3, 2)
    status = client.get(f"/api/v1/status/queues/{queue}").json
    assert (status["totals"]["messages"]["total"], status["totals"]["messages"]["pending"]) == (5, 3)
    until(lambda: (listed(client, queue)["total"], listed(client, queue)["pending"]) == (5, 3), "the list follows")
    namespace, = (one for one in client.get("/api/v1/resources/namespaces").json["namespaces"]
                  if one["namespace"] == queue)
    assert (namespace["messages"]["total"], namespace["messages"]["pending"]) == (5, 3)
    (group,) = (one for one in client.get("/api/v1/consumer-groups").json if one["queueName"] == queue)
    assert group["totalLag"] == 3
    assert len(client.get(f"/api/v1/messages?queue={queue}").json["messages"]) == 5
    delete(client, queue, "m0", "m2", "m3", "m4", "m6")
    assert client.show(queue).json["totals"]["total"] == 0
    for page in ("resources", "status"):
        shown = client.get(f"/api/v1/{page}/queues/{queue}").json["partitions"]
        assert [one["newestMessage"] for one in shown] == [None] * len(shown)
    until(lambda: listed(client, queue)["total"] == 0, "the list follows")


def test_the_newest_message_is_one_that_was_not_deleted(client: Client, queue: str, daemon: Daemon) -> None:
    for n in range(3):
        client.push(queue, n, partition="p", transactionId=f"m{n}")
    stored = {one["transactionId"]: one for one in client.get(f"/api/v1/messages?queue={queue}").json["messages"]}

    def newest() -> set[str | None]:
        pages = (client.get(f"/api/v1/{page}/queues/{queue}").json["partitions"] for page in ("resources", "status"))
        return {one["newestMessage"] for page in pages for one in page if one["name"] == "p"}

    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        for left in ("m2", "m1", "m0", None):
            assert newest() == {left and stored[left]["createdAt"]}
            named = database.execute("SELECT last_message_id::text FROM queen.partition_lookup WHERE queue_name = %s",
                                     (queue,)).fetchall()
            assert named == ([(stored[left]["id"],)] if left else [])
            if left:
                delete(client, queue, left)


def test_what_a_clear_removes(client: Client, queue: str, daemon: Daemon) -> None:
    """The answer says what the page said before; retention counts so as well, and what it keeps for a group."""
    client.push_items([{"queue": queue, "partition": "p", "transactionId": f"m{n}", "payload": n} for n in range(5)])
    delete(client, queue, "m0", "m3")
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        (pinned,), _ = database.execute(
            "SELECT pinned FROM queend.retain((SELECT id FROM queend.queues WHERE name = %s), 0, 9, 99, 0,"
            " queend.now_us() + 1000000, 0)", (queue,)).fetchall()
    assert pinned == client.show(queue).json["totals"]["total"] == 3
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear").json["count"] == 3
    client.push_items([{"queue": queue, "partition": "p", "transactionId": "m9", "payload": 9}])
    assert data(client.pop(queue, consumerGroup="g")) == [9]
    delete(client, queue, "m9")
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear?partition=p").json["count"] == 0
    client.push(queue, "next", partition="p")
    assert data(client.pop(queue, consumerGroup="g", wait=True)) == ["next"]      # no lease of what is gone is left
