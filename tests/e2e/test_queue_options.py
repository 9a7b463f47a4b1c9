"""Options of a queue that the reference only stores: priority, ttl. Capacity has a file of its own."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import until

HOUR = 3_600_000_000


@pytest.fixture
def db(daemon: Daemon) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        yield connection


def age(db: psycopg.Connection, queue: str, us: int) -> None:
    """Makes everything the queue holds older."""
    db.execute("UPDATE queend.log l SET created_at = l.created_at - %s FROM queend.partitions p JOIN queend.queues q"
               " ON q.id = p.queue_id"
               " WHERE q.name = %s AND l.partition_id = p.id", (us, queue))


# -- priority ----------------------------------------------------------------------------------------------------------

def fill(client: Client, space: str, priorities: dict[str, int], partitions: int) -> None:
    for name, priority in priorities.items():
        client.configure(f"{space}.{name}", namespace=space, task="work", priority=priority)
        client.push_items([{"queue": f"{space}.{name}", "partition": f"p{i}", "payload": name}
                           for i in range(partitions)])


def order(client: Client, pops: int, **query: object) -> list[str]:
    """The queues that so many pops of one message were answered from."""
    return [one["data"] for _ in range(pops) for one in client.pop(None, batch=1, autoAck=True, **query)]


@pytest.fixture(scope="module")
def strict(start_daemon) -> Daemon:
    return start_daemon(QUEEND_PRIORITY_SHARE=0)


def test_the_highest_priority_goes_first(strict: Daemon, queue: str) -> None:
    with strict.client() as client:
        fill(client, queue, {"low": -1, "high": 7, "middle": 3, "none": 0}, 8)
        assert order(client, 33, namespace=queue) == ["high"] * 8 + ["middle"] * 8 + ["none"] * 8 + ["low"] * 8
        fill(client, queue, {"high": 7, "low": -1}, 3)
        # from the beginning: 8 and 3
        assert order(client, 7, namespace=queue, task="work", consumerGroup="two") == ["high"] * 7
        client.configure(f"{queue}.high", namespace=queue, task="work", priority=-9)      # counts from the next pop on
        assert order(client, 2, namespace=queue, task="work", consumerGroup="two") == ["middle"] * 2


def test_a_lower_priority_is_served_while_the_higher_never_empties(client: Client, queue: str) -> None:
    fill(client, queue, {"high": 1, "low": 0, "lower": -1}, 20)
    got = []
    for _ in range(60):
        got += order(client, 1, namespace=queue)
        client.push(f"{queue}.high", "high", partition="more")
    others = [i for i, name in enumerate(got) if name != "high"]
    assert 5 <= len(others) <= 7 and {b - a for a, b in zip(others, others[1:])} == {10}      # one in ten,
    assert all(got[a] != got[b] for a, b in zip(others, others[1:]))                          # in turn


def test_equal_priorities_take_turns(client: Client, queue: str) -> None:
    fill(client, queue, {"a": 5, "b": 5, "c": 5}, 20)
    order(client, 12, namespace=queue)      # a queue that is chosen before its group was scanned has had its turn
    assert Counter(order(client, 12, namespace=queue)) == {"a": 4, "b": 4, "c": 4}


def test_a_waiting_pop_takes_the_higher_of_what_came(daemon: Daemon, client: Client, queue: str) -> None:
    fill(client, queue, {"low": 0, "high": 1}, 1)
    assert order(client, 2, namespace=queue) == ["high", "low"]
    with daemon.client() as waiter:
        waiter.send("GET", pop_target(None, namespace=queue, wait=True, timeout=60_000, autoAck=True))
        until(lambda: client.parked() == 1, "it waits")
        client.push(f"{queue}.low", "low again")
        assert data(waiter.receive().json["messages"]) == ["low again"]


# -- ttl ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("wait", [False, True], ids=["at once", "waiting"])
def test_what_is_older_than_the_ttl_is_not_delivered(client: Client, db: psycopg.Connection, queue: str,
                                                     wait: bool) -> None:
    client.configure(queue, ttl=600)
    client.push(queue, *range(5), partition="p")
    (leased,) = client.pop(queue, partition="p", consumerGroup="leased")
    age(db, queue, HOUR)
    assert client.pop(queue) == [] and client.pop(queue, partition="p", consumerGroup="other") == []
    client.push(queue, "young", partition="p")
    for group in ({}, {"consumerGroup": "other"}):
        assert data(client.pop(queue, batch=9, autoAck=True, wait=wait, timeout=30_000, **group)) == ["young"]
    assert client.ack(leased, group="leased")["success"]           # whoever got it in time may finish it
    assert data(client.pop(queue, partition="p", consumerGroup="leased", batch=9)) == ["young"]


def test_a_message_that_grew_old_is_not_delivered_again(client: Client, db: psycopg.Connection, queue: str) -> None:
    client.configure(queue, ttl=600, retryLimit=5)
    client.push(queue, "old", partition="p")
    (message,) = client.pop(queue)
    age(db, queue, HOUR)
    client.ack(message, "failed")
    client.push(queue, "young", partition="p")
    assert data(client.pop(queue, batch=9)) == ["young"]


def test_the_default_ttl_is_shown_and_not_enforced(client: Client, db: psycopg.Connection, queue: str) -> None:
    """Nobody asked for it: messages of existing users would be lost."""
    for options in ({"mode": "replace"}, {"mode": "replace", "leaseTime": 60}, {"ttl": None}, {"ttl": 0}):
        client.configure(queue, ttl=60)
        assert client.configure(queue, **options)["options"]["ttl"] == (0 if options.get("ttl") == 0 else 3600)
        client.push(queue, "kept")
        age(db, queue, 4 * HOUR)
        assert data(client.pop(queue, autoAck=True)) == ["kept"]
    assert client.configure(queue, ttl="3600")["options"]["ttl"] == 3600
    client.push(queue, "gone")
    age(db, queue, 4 * HOUR)
    assert client.pop(queue) == []


def test_retention_removes_what_is_older_than_the_ttl(start_daemon, queue: str) -> None:
    daemon = start_daemon(RETENTION_INTERVAL=3_600_000, EVICTION_INTERVAL=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as db:
        client.configure(queue, ttl=600)
        client.push(queue, 1, 2, 3, partition="p")
        age(db, queue, HOUR)
        client.push(queue, 4, partition="p")
        until(lambda: client.show(queue).json["totals"]["total"] == 1, "three are gone")
        assert data(client.pop(queue, batch=9, autoAck=True)) == [4]
        until(lambda: db.execute("SELECT kind, messages, queend.partition_uuid(partition_id) IS NOT NULL"
                                 " FROM queend.retention_history").fetchall() == [("ttl", 3, True)],
              "it is written down")


# -- configure ---------------------------------------------------------------------------------------------------------

NUMBERS = ("leaseTime", "retryLimit", "retryDelay", "maxSize", "ttl", "delayedProcessing",
           "windowBuffer", "retentionSeconds", "completedRetentionSeconds", "maxWaitTimeSeconds", "priority")


def test_what_was_configured_is_known_at_once(client: Client, queue: str) -> None:
    """The first pop finds the queue, so it makes its group; the next one goes by the options set in between."""
    for n in range(20):
        name = f"{queue}-{n}"
        client.configure(name)
        assert client.pop(name, consumerGroup="red") == []
        assert [one["name"] for one in client.get(f"/api/v1/consumer-groups?queue={name}").json] == ["red"]
        client.push(name, 1)
        client.configure(name, delayedProcessing=3600)
        assert client.pop(name, consumerGroup="red") == []
        client.configure(name, delayedProcessing=0)
        assert data(client.pop(name, consumerGroup="red")) == [1]


def test_every_option_is_checked(client: Client, queue: str) -> None:
    def configure(**options: object):
        return client.post("/api/v1/configure", {"queue": queue, "options": options})
    shown = configure(leaseTime=17).json["options"]
    for name in NUMBERS:
        for bad in (2**31, -2**31, 1.5, "x", "", "1.0", "1e3", True, [], {}, "٣", 10**30, "9" * 400):
            answer = configure(**{name: bad})
            assert answer.status == 400 and name in answer.json["error"] and answer.json["success"] is False, (
                name, bad, answer.body)
        assert configure(**{name: -1}).status == (200 if name == "priority" else 400)
        assert configure(**{name: "41"}).json["options"][name] == 41 == configure(**{name: 41}).json["options"][name]
    for name in ("deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled"):
        for bad in (1, 0, "yes", [], {}):
            answer = configure(**{name: bad})
            assert answer.status == 400 and name in answer.json["error"], (name, bad)
        assert configure(**{name: "true"}).json["options"][name] is True
    for bad in ([], 7, "x", True):
        assert client.post("/api/v1/configure", {"queue": queue, "options": bad}).status == 400
    assert client.configure(queue, mode="replace", leaseTime=17)["options"] == shown
