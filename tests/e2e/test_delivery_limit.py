"""A message that ends its consumers: seen on the page of its group and in the figures, and a dead letter in the end."""
from __future__ import annotations

from collections.abc import Callable

import psycopg
from support.client import Client, data
from support.daemon import Daemon
from support.wait import until

FAMILY = "queen_cluster_dlq_total"
WAITS = {"wait": True, "timeout": 100_000}


def place(client: Client, queue: str) -> dict:
    (one,) = client.get("/api/v1/consumer-groups/__QUEUE_MODE__").json[queue]["partitions"]
    return one


def dead_lettered(client: Client) -> float:
    """What the daemon has counted since it started."""
    lines = client.get("/metrics/prometheus").body.decode().splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith(FAMILY))


def test_a_message_that_ends_its_consumers(client: Client, queue: str) -> None:
    client.configure(queue, leaseTime=1, deliveryLimit=2)
    assert client.get(f"/api/v1/resources/queues/{queue}").json["options"]["deliveryLimit"] == {
        "value": 2, "inForce": 2, "unit": "leases", "default": 20, "asked": True}
    client.push(queue, "culprit", "good", partition="p")
    counted = dead_lettered(client)
    assert data(client.pop(queue, batch=2)) == ["culprit", "good"]
    assert data(client.pop(queue, batch=2, **WAITS)) == ["culprit", "good"]
    assert "standsSince" not in place(client, queue)
    assert data(client.pop(queue, batch=2, **WAITS)) == ["culprit"]
    one = place(client, queue)
    assert one["leasesLapsed"] == 2 and one["standsSince"].endswith("Z") and one["offset"] == 0
    metrics = client.get("/metrics/prometheus").body.decode()
    assert f'queend_standing_partitions{{group="__QUEUE_MODE__",queue="{queue}"}} 1.0' in metrics
    client.configure(queue, leaseTime=300)
    (good,) = client.pop(queue, batch=2, **WAITS)
    assert good["data"] == "good" and client.ack(good)["leaseReleased"] is True
    (dead,) = client.get(f"/api/v1/dlq?queue={queue}").json["messages"]
    assert (dead["data"],
            dead["errorMessage"]) == ("culprit", "Left by 3 consumers whose leases ran out (deliveryLimit 2)")
    assert "standsSince" not in place(client, queue) and client.pop(queue) == []
    assert dead_lettered(client) == counted + 1


def test_a_lease_that_ran_out_while_a_daemon_was_away_does_not_count(client: Client, queue: str, daemon: Daemon,
                                                                     start_daemon: Callable[..., Daemon]) -> None:
    client.configure(queue, leaseTime=1)
    client.push(queue, 1, 2)
    assert data(client.pop(queue, batch=2)) == [1, 2]
    start_daemon(daemon.conninfo)
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        ours = ("partition_id IN (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                " WHERE q.name = %s)")
        until(lambda: connection.execute(f"SELECT queend.away_since(consumed_at) FROM queend.cursors WHERE {ours}",
                                         (queue,)).fetchone()[0], "it notes its start")
        assert data(client.pop(queue, batch=2, **WAITS)) == [1, 2]
        assert connection.execute(f"SELECT count(*) FROM queend.standing WHERE {ours}", (queue,)).fetchone()[0] == 0
        assert data(client.pop(queue, batch=2, **WAITS)) == [1, 2]
        assert connection.execute(f"SELECT lapses FROM queend.standing WHERE {ours}", (queue,)).fetchone()[0] == 1
