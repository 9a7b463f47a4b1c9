"""The retention service of running daemons: what queues let go is gone, what holds it back is told, one daemon works
for all."""
from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import psycopg
import pytest
from support.client import Client
from support.daemon import Daemon
from support.faults import Faults
from support.wait import until

from queend.services import retention

HOLDER = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""

OFTEN = {"RETENTION_INTERVAL": 100, "EVICTION_INTERVAL": 100}


@pytest.fixture(scope="module")
def daemon(start_daemon) -> Daemon:
    return start_daemon(**OFTEN)


def total(client: Client, queue: str) -> int:
    return client.get(f"/api/v1/resources/queues/{queue}").json["totals"]["total"]


def metric(client: Client, name: str) -> float:
    """A sample of the exposition, 0 where there is none yet."""
    lines = client.get("/metrics/prometheus").body.decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")), 0.0)


def test_what_waited_too_long_goes_as_often_as_it_is_asked_for(daemon, client, queue):
    """Of the times something was removed two were closer to each other than half of the default, 60 s."""
    client.configure(queue, maxWaitTimeSeconds=1)
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def removed() -> list[float]:
            client.push(queue, 1)
            return [at for at, in database.execute(
                "SELECT extract(epoch FROM h.executed_at)::float8 FROM queend.retention_history h JOIN queend.queues q"
                " ON q.id = h.queue_id WHERE q.name = %s ORDER BY 1", (queue,))]
        times = until(lambda: len(found := removed()) > 2 and found, "three times")
    assert min(after - before for before, after in pairwise(times)) < 30


def test_expired(client, queue):
    client.configure(queue, retentionEnabled=True, retentionSeconds=1)
    client.push(queue, *range(5))
    assert total(client, queue) == 5
    until(lambda: total(client, queue) == 0, "all has expired")
    assert client.pop(queue) == []
    until(lambda: metric(client, 'queend_retention_removed_messages_total{reason="expired"}') >= 5, "it is counted")
    (again,) = client.push(queue, "after")
    assert again["status"] == "queued"
    assert [m["data"] for m in client.pop(queue, consumerGroup="new", autoAck=True)] == ["after"]


def test_traces_of_removed_messages_are_kept_for_a_day(daemon, client, queue):
    client.configure(queue, retentionEnabled=True, retentionSeconds=1)
    client.push(queue, 1, 2)
    for message in (messages := client.pop(queue, batch=2)):
        client.post("/api/v1/traces", {"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                                       "data": {}, "traceNames": [queue]})
    until(lambda: total(client, queue) == 0, "the messages have expired")

    def traced() -> list[str]:
        return [one["transaction_id"] for one in client.get(f"/api/v1/traces/by-name/{queue}").json["traces"]]
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        database.execute("UPDATE queend.traces SET created_at = created_at - %s WHERE transaction_id = %s",
                         (86_400_000_000, messages[0]["transactionId"]))
    until(lambda: traced() == [messages[1]["transactionId"]], "the trace of yesterday is gone")


def test_disabled_keeps_everything(client, queue):
    client.configure(queue, retentionSeconds=1, completedRetentionSeconds=1)
    other = queue + "-on"
    client.configure(other, retentionEnabled=True, retentionSeconds=1)
    client.push(queue, "kept")
    client.push(other, "gone")
    until(lambda: total(client, other) == 0, "the other queue's message has expired")
    assert total(client, queue) == 1


def test_completed_and_what_pins_it(daemon, client, queue):
    client.configure(queue, retentionEnabled=True, completedRetentionSeconds=1)
    client.push(queue, 1, 2, 3)
    client.pop(queue, consumerGroup="quick", batch=3, autoAck=True)
    client.pop(queue, consumerGroup="slow", batch=1, autoAck=True)
    name = f'queend_retention_pinned_messages{{group="slow",queue="{queue}"}}'
    until(lambda: metric(client, name) == 2, "the slow group pins what it has not consumed")
    until(lambda: any(line.get("event") == "retention_pinned" and line["queue"] == queue and line["group"] == "slow"
                      for line in daemon.log), "the log tells it")
    assert total(client, queue) == 3
    client.pop(queue, consumerGroup="slow", batch=9, autoAck=True)
    until(lambda: total(client, queue) == 0 and metric(client, name) == 0, "all has been consumed by everybody")


def test_waited_too_long(client, queue):
    client.configure(queue, maxWaitTimeSeconds=1)
    client.push(queue, *range(3))
    until(lambda: total(client, queue) == 0, "nobody came for them")
    until(lambda: metric(client, 'queend_retention_removed_messages_total{reason="waited"}') >= 3, "it is counted")


def test_a_parked_pop_hears_of_what_comes_after(client, daemon, queue):
    client.configure(queue, retentionEnabled=True, retentionSeconds=1)
    client.push(queue, *range(300))
    until(lambda: total(client, queue) == 0, "all has expired")
    with daemon.client() as waiter:
        waiter.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000")
        client.push(queue, "fresh")
        assert [m["data"] for m in waiter.receive().json["messages"]] == ["fresh"]


def test_one_works_for_all_and_the_next_takes_over(start_daemon):
    first = start_daemon(**OFTEN)
    with first.client() as client:
        until(lambda: metric(client, "queend_retention_working") == 1, "the first one works")
    second = start_daemon(first.conninfo, **OFTEN)
    with second.client() as client, psycopg.connect(first.conninfo, autocommit=True) as db:
        client.configure("q", retentionEnabled=True, retentionSeconds=1)
        client.push("q", "one")
        until(lambda: total(client, "q") == 0, "the first one removed it")
        assert metric(client, "queend_retention_removed_rows_total") == 0
        first.stop()
        client.push("q", "two")
        until(lambda: total(client, "q") == 0, "the second one removed it")
        until(lambda: metric(client, "queend_retention_removed_rows_total") == 1, "it is counted")
        pid = until(lambda: db.execute(HOLDER, divmod(retention.LOCK, 1 << 32)).fetchone(), "it holds the lock")
        assert db.execute("SELECT pg_terminate_backend(%s)", pid).fetchone() == (True,)
        client.push("q", "three")
        until(lambda: total(client, "q") == 0, "it works on after its session was ended")


def recorded(database: psycopg.Connection) -> int:
    return database.execute("SELECT COALESCE(sum(h.messages), 0)::int FROM queend.retention_history h").fetchone()[0]


def test_a_run_that_fails_in_the_middle_loses_no_figure(start_daemon, queue):
    """Its steps before are counted and recorded, in one row with the rest of the run if there is one."""
    daemon = start_daemon(**OFTEN, RETENTION_BATCH_SIZE=1, EVICTION_BATCH_SIZE=1)
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          closing(Faults(daemon.conninfo, "retain")) as faults):
        for n in range(6):
            client.push(queue, n, partition=f"p{n % 2}")
        database.execute("UPDATE queend.log SET created_at = created_at - 3600000000")
        faults.plant("retain", "57P01", 1, after=2)
        client.configure(queue, retentionEnabled=True, retentionSeconds=600)
        until(lambda: total(client, queue) == 0, "all has expired")
        daemon.told("retention_failed")
        assert recorded(database) == 6
        until(lambda: metric(client, 'queend_retention_removed_messages_total{reason="expired"}') == 6, "it is counted")
        assert database.execute("SELECT h.messages, h.partition_id IS NULL FROM queend.retention_history h"
                                " ORDER BY h.executed_at").fetchall() == [(2, False), (4, True)]


def test_a_killed_daemon_has_recorded_what_it_removed(start_daemon, queue):
    daemon = start_daemon(**OFTEN, RETENTION_BATCH_SIZE=1, EVICTION_BATCH_SIZE=1)
    with (daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database,
          closing(Faults(daemon.conninfo, "leases_moot")) as faults):
        for n in range(3):
            client.push(queue, n)
        faults.plant("leases_moot", "57P01")
        client.configure(queue, retentionEnabled=True, retentionSeconds=1)
        daemon.await_event("retention_failed")
        daemon.process.kill()
        daemon.process.wait()
        left = database.execute("SELECT sum(l.n)::int FROM queend.log l").fetchone()[0]
        assert recorded(database) == 3 - left > 0


def test_random_ids_of_what_is_gone_are_free_again(client, queue):
    """Also those the daemon remembers by itself."""
    ids = [f"order {n}" for n in range(200)]

    def push(some: list[str]) -> set[str]:
        answers = client.push_items(
            [{"queue": queue, "partition": "p", "transactionId": one, "payload": one} for one in some])
        return {one["status"] for one in answers}
    client.configure(queue)
    for at in range(0, 200, 20):
        assert push(ids[at:at + 20]) == {"queued"}
    assert push(ids) == {"duplicate"}
    client.configure(queue, retentionEnabled=True, retentionSeconds=1)
    until(lambda: total(client, queue) == 0, "all has expired")
    client.configure(queue, retentionEnabled=False)      # else what comes next expires as well
    assert push(ids[:50]) == {"queued"}
    assert push(ids[:50]) == {"duplicate"}
    assert push(ids[50:]) == {"queued"}
    assert push(ids) == {"duplicate"}
    assert len(client.pop(queue, batch=500, autoAck=True)) == 200
