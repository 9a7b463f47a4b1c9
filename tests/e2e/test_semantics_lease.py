"""Lease extension, and configure as far as it changes what pop and ack do."""
from __future__ import annotations

import datetime

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import until

KEYS = {"leaseId", "success", "error", "expiresAt", "newExpiresAt", "lease_expires_at", "renewed"}


def seconds_left(text: str) -> float:
    return (datetime.datetime.fromisoformat(text) - datetime.datetime.now(datetime.UTC)).total_seconds()


@pytest.mark.parametrize("body", [None, b"", {}, [], b"null", {"seconds": 60}, {"other": 1}], ids=str)
def test_extends_by_a_minute_unless_told(client: Client, queue: str, body: object) -> None:
    client.configure(queue, leaseTime=5)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    result = client.extend(message["leaseId"], body)
    assert KEYS <= set(result) and result["leaseId"] == message["leaseId"]
    assert (result["success"], result["error"], result["renewed"]) == (True, None, 1)
    assert result["expiresAt"] == result["newExpiresAt"] == result["lease_expires_at"]
    assert 50 < seconds_left(result["expiresAt"]) <= 61


def test_never_shortens(client: Client, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)  # the default lease: five minutes
    assert seconds_left(client.extend(message["leaseId"], {"seconds": 1})["expiresAt"]) > 200
    assert seconds_left(client.extend(message["leaseId"], {"seconds": 1000})["expiresAt"]) > 900


def test_extends_every_partition_of_the_lease(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=3)
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abc"])
    messages = client.pop(queue, batch=3, partitions=3)
    assert client.extend(messages[0]["leaseId"], {"seconds": 100})["renewed"] == 3
    # A lease of three seconds taken later is over before any of these.
    client.push(queue, "d", partition="d")
    assert data(client.pop(queue)) == ["d"]
    assert data(until(lambda: client.pop(queue, batch=9, partitions=9), "the short lease expires")) == ["d"]
    assert all(client.ack(m)["success"] for m in messages)


def test_what_cannot_be_extended(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=1)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    for lease in ("00000000-0000-0000-0000-000000000000", "abc"):
        result = client.extend(lease, {"seconds": 60})
        assert (result["success"], result["error"], result["expiresAt"],
                result["renewed"]) == (False, "Lease not found", None, 0)
    (again,) = until(lambda: client.pop(queue), "the lease expires")
    assert client.extend(message["leaseId"])["success"] is False
    client.ack(again)
    assert client.extend(again["leaseId"])["error"] == "Lease not found"


@pytest.mark.parametrize("body", [{"seconds": "60"}, {"seconds": ""}, {"seconds": []}, {"seconds": 1.5},
                                  {"seconds": True}, {"seconds": 0}, {"seconds": -10}, {"seconds": 10**12}], ids=str)
def test_seconds_are_a_positive_whole_number(client: Client, body: dict) -> None:
    answer = client.post("/api/v1/lease/00000000-0000-0000-0000-000000000000/extend", body)
    assert answer.status == 400 and "seconds" in answer.json["error"]


def test_lease_time_of_the_queue_and_zero(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=0)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    assert 250 < seconds_left(client.extend(message["leaseId"], {"seconds": 300})["expiresAt"])
    client.configure(f"{queue}-2", leaseTime=1000)
    client.push(f"{queue}-2", 1)
    (message,) = client.pop(f"{queue}-2")
    assert seconds_left(client.extend(message["leaseId"], {"seconds": 1})["expiresAt"]) > 900


def test_configure_echoes_every_option(client: Client, queue: str) -> None:
    options = {"priority": 7, "leaseTime": 60, "retryLimit": 5, "retryDelay": 2000, "maxSize": 1000, "ttl": 7200,
               "deadLetterQueue": True,
               "dlqAfterMaxRetries": True, "delayedProcessing": 1, "windowBuffer": 2, "retentionSeconds": 3600,
               "completedRetentionSeconds": 600,
               "retentionEnabled": True, "encryptionEnabled": False, "maxWaitTimeSeconds": 30}
    result = client.configure(queue, namespace="ns", task="t", **options)
    assert result["configured"] is True and result["options"] == options
    assert (result["queue"], result["namespace"], result["task"]) == (queue, "ns", "t")


def test_what_a_configure_says_counts_at_once(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=1, delayedProcessing=50)
    result = client.configure(queue, retryLimit=1, delayedProcessing=None)
    assert result["options"]["leaseTime"] == 1 and result["options"]["delayedProcessing"] == 0
    client.push(queue, 1)
    assert data(client.pop(queue)) == [1], "effective at once"


def test_a_deleted_queue_is_gone_and_can_be_made_again(client: Client, queue: str) -> None:
    client.push(queue, 1, transactionId="t")
    (message,) = client.pop(queue)
    assert client.delete(queue) == {"deleted": True, "queue": queue, "existed": True}
    assert client.pop(queue) == [] and client.ack(message)["success"] is True, "what is gone is done"
    assert client.push(queue, 2, transactionId="t")[0]["status"] == "queued"
    assert data(client.pop(queue, batch=5)) == [2]
    assert client.delete(queue)["existed"] is True
    assert client.delete(queue)["existed"] is False


@pytest.mark.parametrize("cached", [True, False], ids=["from memory", "from the log"])
def test_a_pop_may_ask_for_the_length_of_its_leases(start_daemon, queue: str, cached: bool) -> None:
    daemon: Daemon = start_daemon(**({} if cached else {"QUEEND_CACHE_BYTES": 0}))
    with daemon.client() as client, daemon.client() as waiting:
        for number in range(2):     # the second time with what came after the cursor was known
            client.push(queue, number)
            (message,) = client.pop(queue, leaseSeconds=7000)
            assert 6000 < seconds_left(client.extend(message["leaseId"], {"seconds": 1})["expiresAt"]) <= 7001
            client.ack(message)
        waiting.send("GET", pop_target(queue, wait=True, timeout=60000, leaseSeconds=7000))
        until(lambda: client.parked(), "the pop is parked")
        client.push(queue, 3)
        (message,) = waiting.receive().json["messages"]
        assert 6000 < seconds_left(client.extend(message["leaseId"], {"seconds": 1})["expiresAt"]) <= 7001


@pytest.mark.parametrize("more", [8, 600], ids=["to its end", "ended early"])
def test_asked_for_beside_partitions_that_are_free(daemon: Daemon, client: Client, queue: str, more: int) -> None:
    """All of partition c is leased, for longer than was known at first. A pop tries c, then two that have messages."""
    client.configure(queue, leaseTime=1)
    client.push(queue, 1, 2, partition="c")
    (lease,) = {one["leaseId"] for one in client.pop(queue, batch=10)}
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        (first_end,) = db.execute("SELECT lease_until FROM queend.cursors WHERE lease_id = %s", (lease,)).fetchone()
        db.execute("UPDATE queend.cursors SET lease_until = lease_until + %s WHERE lease_id = %s",
                   (more * 1_000_000, lease))
        until(lambda: db.execute("SELECT queend.now_us() > %s", (first_end + 100_000,)).fetchone()[0],
              "the end that was known at first")
        client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
        assert sorted(data(client.pop(queue, batch=10, partitions=3, autoAck=True))) == ["a", "b"]
        if more > 30:
            db.execute("UPDATE queend.cursors SET lease_until = queend.now_us() WHERE lease_id = %s", (lease,))
    assert data(client.pop(queue, batch=10, wait=True, timeout=30_000)) == [1, 2]


@pytest.mark.parametrize("seconds", ["", "0", "-1", "86401", "soon", "5m", "90,000", "1e5", "5.0", " 5", "99999999999"])
def test_a_length_that_is_none_is_refused(client: Client, queue: str, seconds: str) -> None:
    answer = client.pop_answer(queue, leaseSeconds=seconds)
    assert answer.status == 400 and answer.json["error"] == "leaseSeconds must be a whole number from 1 to 86400"
