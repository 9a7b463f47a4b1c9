"""A daemon as in real use: some queues with thousands of partitions, groups with lag, leases, dead letters of several
errors, paused queues and groups, and names of 200 characters."""
from __future__ import annotations

import psycopg
from support.client import Client
from support.daemon import Daemon

LONG = "orders-of-the-department-with-the-longest-name-of-all-"
LONG_NAME = (LONG * 4)[:200]
WIDE_NAME = "W" * 200      # nowhere to break
PARTITIONS = 2500
ERRORS = ("connection refused: postgres-primary.internal:5432", "no such customer",
          "Traceback (most recent call last):\n  File \"/srv/app/worker.py\", line 81, in handle\n    raise Timeout()\n"
          "app.errors.Timeout: the payment provider did not answer within 30 s " + "(attempt 3 of 3) " * 12,
          "HTTP 503", "HTTP 503 from https://api.example.com/v2/charge")
# Lets the messages of a queue be so many µs older.
OLDER = """UPDATE queend.log SET created_at = created_at - %s WHERE partition_id IN
           (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s)"""


def items(queue: str, partitions: int, each: int) -> list[dict]:
    return [{"queue": queue, "partition": f"customer-{part:05}", "transactionId": f"{queue}-{part:05}-{n}",
             "payload": {"order": 1000 * part + n, "customer": f"customer-{part:05}", "total": 12.5 * n,
                         "items": [{"sku": "A-4711", "quantity": 1 + n % 3}], "note": "leave it at the door"}}
            for part in range(partitions) for n in range(each)]


def push(client: Client, all_items: list[dict]) -> None:
    for at in range(0, len(all_items), 2000):
        assert client.post("/api/v1/push?format=counts", {"items": all_items[at:at + 2000]}).status == 201


def fail(client: Client, queue: str, group: str, errors: list[str]) -> None:
    """Makes a dead letter of each error."""
    taken: list[dict] = []
    while len(taken) < len(errors):
        taken += client.pop(queue, consumerGroup=group, subscriptionMode="all", batch=100, partitions=20)
    for message, error in zip(taken, errors, strict=False):
        client.ack(message, "dlq", group, error=error)


def fill(daemon: Daemon) -> None:
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        push(client, items("orders", PARTITIONS, 2))
        for queue, partitions, each in (("payments", 300, 2), ("shipping-labels", 40, 5),
                                        ("notifications.email", 12, 80), ("audit", 1, 400), ("telemetry", 60, 10),
                                        (LONG_NAME, 3, 10), (WIDE_NAME, 2, 5)):
            push(client, items(queue, partitions, each))
        push(client, [{"queue": LONG_NAME, "partition": name, "transactionId": name, "payload": name}
                      for name in (LONG_NAME, WIDE_NAME)])
        client.post("/api/v1/configure", {"queue": "payments", "options": {"retryLimit": 5, "leaseTime": 120}})
        for group in ("billing", "search-index", "warehouse-eu-central", LONG_NAME, WIDE_NAME):
            client.pop("orders", consumerGroup=group, subscriptionMode="all", batch=60, partitions=50, autoAck="true")
        for group, leases in (("billing", 12), ("search-index", 3), (LONG_NAME, 1)):
            client.pop("orders", consumerGroup=group, batch=2 * leases, partitions=leases, leaseSeconds=3000)
        fail(client, "payments", "billing", [ERRORS[n % 3] for n in range(70)])
        fail(client, "payments", "ledger", [ERRORS[3 + n % 2] for n in range(15)])
        fail(client, LONG_NAME, WIDE_NAME, [LONG_NAME, WIDE_NAME, ERRORS[2]])
        fail(client, WIDE_NAME, LONG_NAME, [WIDE_NAME])
        client.pop("notifications.email", batch=400, partitions=12, autoAck="true")
        client.pop("audit", consumerGroup="archive", subscriptionMode="all", batch=100, autoAck="true")
        session.execute(OLDER, (3 * 3600 * 1_000_000, "payments"))
        session.execute(OLDER, (400 * 1_000_000, "audit"))
        client.post("/api/v1/queues/shipping-labels/pause", {})
        client.pop("telemetry", consumerGroup="dashboards", subscriptionMode="all", batch=20, partitions=4,
                   autoAck="true")
        client.post("/api/v1/consumer-groups/dashboards/queues/telemetry/pause", {})
        client.push_items([{"queue": "notifications.email", "partition": f"customer-{n:05}",
                            "payload": {"to": "a@b.eu"}, "delayMs": 600_000 * (n + 1)} for n in range(8)])
        client.push_items([{"queue": WIDE_NAME, "partition": WIDE_NAME, "payload": WIDE_NAME * 20, "delayMs": 9_000_000,
                            "transactionId": WIDE_NAME}])
        for message in client.pop("audit", consumerGroup="trace", subscriptionMode="all", batch=5):
            client.post("/api/v1/traces", {
                **{key: message[key] for key in ("transactionId", "partitionId")}, "consumerGroup": "trace",
                "data": {"text": "looked at", "step": WIDE_NAME}, "traceNames": ["checkout", LONG_NAME, WIDE_NAME]})
        for name in ("totals-per-hour", LONG_NAME, WIDE_NAME):
            client.post("/streams/v1/queries", {"name": name, "source_queue": "orders", "sink_queue": "telemetry",
                                                "config_hash": "1"})
