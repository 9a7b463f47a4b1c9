"""Retries that wait: the partition pauses, others go on, and who waits for it is served when the pause ends."""
from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.parked import first_served
from support.wait import until

HOUR_MS = 3_600_000


def cursor(daemon: Daemon, queue: str, partition: str = "Default") -> dict:
    """The queue mode's cursor of a partition, as it is stored."""
    with psycopg.connect(daemon.conninfo, autocommit=True, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute("SELECT k.* FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                                  " JOIN queend.cursors k ON k.partition_id = p.id"
                                  " WHERE q.name = %s AND p.name = %s", (queue, partition)).fetchone()


def pause_ms(daemon: Daemon, queue: str, partition: str = "Default") -> float:
    row = cursor(daemon, queue, partition)
    return (row["retry_until"] - row["consumed_at"]) / 1000 if row["retry_until"] else 0


def test_what_failed_comes_again_without_a_pause_unless_told(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryLimit=5)
    client.push(queue, 1)
    for _ in range(3):
        (message,) = client.pop(queue)
        assert client.ack(message, "failed")["leaseReleased"] is True
        assert pause_ms(daemon, queue) == 0


def test_the_partition_waits_and_others_do_not(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryDelay=HOUR_MS)
    client.push(queue, "a1", "a2", partition="a")
    (message,) = client.pop(queue, "a")
    client.ack(message, "failed")
    assert pause_ms(daemon, queue, "a") == HOUR_MS
    client.push(queue, "b1", partition="b")
    assert client.pop(queue, "a") == []
    assert data(client.pop(queue, batch=10, partitions=10)) == ["b1"]
    assert client.pop(queue, batch=10, partitions=10) == []
    assert data(client.pop(queue, batch=10, consumerGroup="other", subscriptionMode="all")) in (
        ["a1", "a2"], ["b1"]), "the pause is the group's"


def test_a_backoff_step_by_step_and_then_the_dead_letters(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryLimit=3, retryBackoff=[50, 100, 150])
    client.push(queue, 1, 2)
    for step in (50, 100, 150):
        messages = client.pop(queue, batch=2, wait=True, timeout=100_000)
        assert data(messages) == [1, 2]
        assert not any(one["dlq"] for one in client.ack_batch([ack_of(m, "failed") for m in messages]))
        assert pause_ms(daemon, queue) == step
        paused = cursor(daemon, queue)["retry_until"]
    messages = client.pop(queue, batch=2, wait=True, timeout=100_000)
    assert data(messages) == [1, 2] and cursor(daemon, queue)["consumed_at"] >= paused
    assert all(one["dlq"] for one in client.ack_batch([ack_of(m, "failed") for m in messages]))


def test_a_parked_pop_is_served_when_the_pause_ends(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryDelay=300)
    client.push(queue, "late", partition="p")
    (message,) = client.pop(queue)
    with daemon.client() as one, daemon.client() as another:
        one.send("GET", pop_target(queue, wait=True, timeout=100_000))
        another.send("GET", pop_target(queue, "p", wait=True, timeout=100_000))
        until(lambda: client.parked() >= 2, "both wait")
        client.ack(message, "failed")
        paused = cursor(daemon, queue, "p")["retry_until"]
        first = first_served([one, another])
        (again,) = first.receive().json["messages"]
        assert again["data"] == "late" and cursor(daemon, queue, "p")["consumed_at"] >= paused
        client.ack(again, "failed")
        assert data((one if first is another else another).receive().json["messages"]) == ["late"]


def test_a_pause_that_another_daemon_made(client: Client, daemon: Daemon, start_daemon: Callable[..., Daemon],
                                          queue: str) -> None:
    """The one that waits believes in a lease of an hour."""
    peer = start_daemon(daemon.conninfo)
    with peer.client() as waiting:
        client.configure(queue, leaseTime=3600, retryDelay=400)
        client.push(queue, "late")
        (message,) = client.pop(queue)
        assert waiting.pop(queue) == []
        waiting.send("GET", pop_target(queue, wait=True, timeout=100_000))
        client.ack(message, "failed")
        paused = cursor(daemon, queue)["retry_until"]
        (again,) = waiting.receive().json["messages"]
        assert again["data"] == "late" and cursor(daemon, queue)["consumed_at"] >= paused


def test_a_pause_outlives_the_daemon(start_daemon: Callable[..., Daemon], queue: str) -> None:
    first = start_daemon()
    with first.client() as client:
        client.configure(queue, retryDelay=1500)
        client.push(queue, "late")
        (message,) = client.pop(queue)
        client.ack(message, "failed")
    paused = cursor(first, queue)["retry_until"]
    first.kill()
    second = start_daemon(first.conninfo)
    with second.client() as client:
        (again,) = client.pop(queue, wait=True, timeout=100_000)
    assert again["data"] == "late" and cursor(second, queue)["consumed_at"] >= paused


def test_an_acknowledgment_says_itself_how_long(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryDelay=HOUR_MS)
    client.push(queue, 1, 2)
    (message,) = client.pop(queue)
    client.ack(message, "failed", delayMs=0)
    assert pause_ms(daemon, queue) == 0
    (message,) = client.pop(queue)
    client.ack(message, "retry")
    assert pause_ms(daemon, queue) == 0
    messages = client.pop(queue, batch=2)
    client.ack_batch([ack_of(messages[0], "completed", delayMs=HOUR_MS), ack_of(messages[1], "retry", delayMs=200)])
    assert pause_ms(daemon, queue) == 200
    (message,) = client.pop(queue, wait=True, timeout=100_000)
    assert message["data"] == 2
    client.ack_batch([ack_of(message, "retry", delayMs=366 * 86_400_000)])
    assert pause_ms(daemon, queue) == 366 * 86_400_000 and client.pop(queue) == []


@pytest.mark.parametrize("delay", ["5", -1, 1.5, True, [], {}, 366 * 86_400_000 + 1, 10**30], ids=str)
def test_a_delay_that_is_none_is_refused(client: Client, queue: str, delay: object) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    for answer in (client.post("/api/v1/ack", ack_of(message, "retry", delayMs=delay)),
                   client.post("/api/v1/ack/batch", {"acknowledgments": [ack_of(message, "retry", delayMs=delay)]}),
                   client.post("/api/v1/transaction",
                               {"operations": [{"type": "ack", **ack_of(message, delayMs=delay)}]})):
        assert answer.status == 400 and "delayMs" in answer.json["error"]
    assert client.ack(message)["success"] is True


def test_a_new_configuration_does_not_end_a_pause_and_a_seek_does(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryDelay=HOUR_MS)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    client.ack(message, "failed")
    client.configure(queue)
    assert client.pop(queue) == []
    assert client.post(f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{queue}/seek",
                       {"timestamp": "1970-01-01T00:00:00Z"}).status == 200
    assert until(lambda: data(client.pop(queue)), "the message") == [1]


@pytest.mark.parametrize("told", [[], [-1], "1", {"type": "linear"}, {"type": "exponential", "initial": 0}], ids=str)
def test_a_backoff_that_is_none_is_refused(client: Client, queue: str, told: object) -> None:
    answer = client.post("/api/v1/configure", {"queue": queue, "options": {"retryBackoff": told}})
    assert answer.status == 400 and answer.json["error"].startswith("options.retryBackoff")
    assert answer.json["success"] is False
    assert client.show(queue).status == 404
