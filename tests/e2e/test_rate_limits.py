"""Rates of delivery per partition and group: the limited partition waits, others go on, whoever asks."""
from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.wait import until

HOUR = 3600


def test_the_limited_partition_waits_and_others_do_not(client: Client, other: Client, queue: str) -> None:
    client.configure(queue, rateLimit=4, ratePeriod=4 * HOUR)
    client.push(queue, *range(20), partition="a")
    assert data(client.pop(queue, "a", batch=3, autoAck=True)) == [0, 1, 2]
    assert data(other.pop(queue, "a", batch=3, autoAck=True, wait=True, timeout=30000)) == [3]
    assert client.pop(queue, "a") == [] and other.pop(queue, "a") == []
    client.push(queue, "b", partition="b")
    assert data(client.pop(queue, batch=50, partitions=50, autoAck=True)) == ["b"]
    assert client.pop(queue, batch=50, partitions=50) == []
    assert data(client.pop(queue, "a", batch=50, consumerGroup="another", subscriptionMode="all")) == [0, 1, 2, 3]


def test_whoever_waits_gets_them_at_the_rate(client: Client, daemon: Daemon, queue: str) -> None:
    """Twenty a second, one at once: the last of eleven comes no sooner than half a second after the first."""
    client.configure(queue, rateLimit=20, rateBurst=1)
    client.push(queue, "before", partition="p")
    now = "SELECT extract(epoch FROM clock_timestamp())"
    with daemon.client() as waiting, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        began, got = 0.0, []
        while len(got) < 12:
            waiting.send("GET", pop_target(queue, wait=True, timeout=30000, batch=50, autoAck=True))
            if len(got) == 1:
                began = float(database.execute(now).fetchone()[0])
                client.push(queue, *range(11), partition="p")
            got += data(waiting.receive().json["messages"])
        assert float(database.execute(now).fetchone()[0]) - began >= 0.45
    assert got == ["before", *range(11)]


def test_leases_acknowledged_one_by_one_do_not_fill_the_bucket(client: Client, queue: str) -> None:
    """Neither does what is delivered from memory, or by the push that stored it."""
    client.configure(queue, rateLimit=3, ratePeriod=3 * HOUR)
    client.push(queue, *range(5))
    for n in range(3):
        (message,) = client.pop(queue)
        assert message["data"] == n and client.ack(message)["success"]
    assert client.pop(queue, wait=True, timeout=300) == []


def test_a_push_hands_nothing_over_past_the_rate(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, rateLimit=1, ratePeriod=HOUR)
    client.push(queue, "first")
    assert data(client.pop(queue, autoAck=True)) == ["first"]
    with daemon.client() as waiting:
        waiting.send("GET", pop_target(queue, wait=True, timeout=4000, autoAck=True))
        until(lambda: client.parked() >= 1, "it waits")
        client.push(queue, "second")
        assert waiting.receive().json["messages"] == []


def test_sql_pops_at_the_same_rate(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, rateLimit=2, ratePeriod=2 * HOUR)
    client.push(queue, *range(5))
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def popped() -> list:
            ((one,),), = database.execute("SELECT queen.pop_unified_batch_v4(jsonb_build_array(jsonb_build_object("
                                          "'queue_name', %s::text, 'batch_size', 10, 'auto_ack', true)))", [queue])
            return [message["data"] for message in one["result"]["messages"]]
        assert popped() == [0, 1] and popped() == []
    assert client.pop(queue) == []


def test_the_rate_outlives_the_daemon(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.configure("q", rateLimit=1, ratePeriod=HOUR)
        client.push("q", 1, 2)
        assert data(client.pop("q", batch=5, autoAck=True)) == [1]
    daemon.stop()
    with start_daemon(daemon.conninfo).client() as client:
        assert client.pop("q", wait=True, timeout=500) == []


def test_a_seek_starts_with_a_full_bucket(client: Client, queue: str) -> None:
    client.configure(queue, rateLimit=2, ratePeriod=2 * HOUR)
    client.push(queue, *range(5))
    messages = client.pop(queue, batch=5, consumerGroup="g", subscriptionMode="all")
    assert data(messages) == [0, 1]
    assert all(one["success"] for one in client.ack_batch([ack_of(m) for m in messages], "g"))
    assert client.pop(queue, batch=5, consumerGroup="g") == []
    answer = client.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", {"timestamp": "1970-01-01T00:00:00Z"})
    assert answer.status == 200
    assert data(client.pop(queue, batch=5, consumerGroup="g")) == [0, 1]


@pytest.mark.parametrize("bad", [{"rateLimit": -1}, {"rateLimit": 1.5}, {"rateLimit": 1_000_001}, {"ratePeriod": 0},
                                 {"ratePeriod": "soon"}, {"rateBurst": -5}], ids=str)
def test_what_is_no_rate_is_refused(client: Client, queue: str, bad: dict) -> None:
    answer = client.post("/api/v1/configure", {"queue": queue, "options": bad})
    assert answer.status == 400 and next(iter(bad)) in answer.json["error"]
