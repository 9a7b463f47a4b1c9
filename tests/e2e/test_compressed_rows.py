"""Rows large enough are stored compressed. Nothing a client sees tells them from others."""
from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon

from queend._core import record_read

WORDS = "gift no invoice inside express parcel standard return voucher".split()


@pytest.fixture
def payloads() -> list[dict]:
    rng = random.Random(11)
    return [{"order": n, "note": " ".join(rng.choice(WORDS) for _ in range(30))} for n in range(100)]


def codecs(daemon: Daemon, queue: str) -> list[tuple[int, int]]:
    """(records, first byte of the body) of the queue's rows, in order."""
    with psycopg.connect(daemon.conninfo) as db:
        return db.execute("SELECT l.n, get_byte(l.body, 0) FROM queend.log l JOIN queend.partitions p"
                          " ON p.id = l.partition_id"
                          " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s"
                          " ORDER BY l.partition_id, l.base", (queue,)).fetchall()


def test_compressed_and_plain_rows_pop_alike(daemon: Daemon, client: Client, queue: str, payloads: list[dict]) -> None:
    client.push(queue, *payloads, traceId=str(uuid.UUID(int=7)))
    client.push(queue, "small")
    client.push(queue, {"noise": random.Random(3).randbytes(2000).hex()[:1500], "more": "x"})
    assert [c for _, c in codecs(daemon, queue)] == [0x11, 0x10, 0x11]
    first = client.pop(queue, batch=7)
    assert data(first) == payloads[:7] and {m["traceId"] for m in first} == {str(uuid.UUID(int=7))}
    assert client.ack_batch([{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                              "leaseId": m["leaseId"], "status": "completed"}
                             for m in first])[-1]["success"]
    rest = client.pop(queue, batch=1000, autoAck="true")
    assert data(rest)[:93] == payloads[7:] and data(rest)[93] == "small"


def test_a_retry_that_overlaps_stores_what_is_new(daemon: Daemon, client: Client, queue: str,
                                                  payloads: list[dict]) -> None:
    """Half of a compressed row is there already: the database cuts it after the daemon has sent it plain."""
    items = [{"queue": queue, "payload": p, "transactionId": f"t{n}"} for n, p in enumerate(payloads)]
    before = client.push_items(items[:50])
    after = client.push_items(items[25:75])
    assert [one["status"] for one in after] == ["duplicate"] * 25 + ["queued"] * 25
    assert [one["message_id"] for one in after[:25]] == [one["message_id"] for one in before[25:]]
    again = client.push_items(items[25:75])
    assert {one["status"] for one in again} == {"duplicate"}
    assert [one["message_id"] for one in again] == [one["message_id"] for one in after]
    assert codecs(daemon, queue) == [(50, 0x11), (25, 0x10)]
    assert data(client.pop(queue, batch=1000)) == payloads[:75]


def test_retry_and_dead_letter(daemon: Daemon, client: Client, queue: str, payloads: list[dict]) -> None:
    client.post("/api/v1/configure", {"queue": queue, "options": {"retryLimit": 1, "retryDelay": 0}})
    client.push(queue, *payloads)
    for first in 0, 1:      # the record at 1 fails twice
        popped = client.pop(queue, batch=3, wait="true", timeout=100_000)
        assert data(popped) == payloads[first:first + 3]
        client.ack_batch([{"transactionId": m["transactionId"], "partitionId": m["partitionId"],
                           "leaseId": m["leaseId"],
                           "status": "failed" if m["data"] == payloads[1] else "completed"} for m in popped])
    assert data(client.pop(queue, batch=3)) == payloads[4:7]
    with psycopg.connect(daemon.conninfo) as db:
        (body, n, i), = db.execute("SELECT b.body, b.n, (d.record_offset - b.base)::int FROM queend.dead_letters d"
                                   " JOIN queend.dead_bodies b USING (partition_id)"
                                   " JOIN queend.queues q ON q.id = d.queue_id WHERE q.name = %s", (queue,)).fetchall()
    assert json.loads(record_read(body, n, i)[0]) == payloads[1]


def test_transactions_store_compressed_rows(daemon: Daemon, client: Client, queue: str, payloads: list[dict]) -> None:
    answer = client.post("/api/v1/transaction", {
        "operations": [{"type": "push", "items": [{"queue": queue, "payload": p} for p in payloads]}]})
    assert answer.status == 200 and answer.json["success"], answer.body
    assert codecs(daemon, queue) == [(100, 0x11)]
    assert data(client.pop(queue, batch=1000)) == payloads


def test_never(start_daemon: Callable[..., Daemon], queue: str, payloads: list[dict]) -> None:
    daemon = start_daemon(QUEEND_COMPRESS_FROM=0)
    with daemon.client() as client:
        client.push(queue, *payloads)
        assert codecs(daemon, queue) == [(100, 0x10)]
        assert data(client.pop(queue, batch=1000)) == payloads
    with psycopg.connect(daemon.conninfo) as db:
        assert [json.loads(r[0])
                for r in db.execute("SELECT r.payload FROM queend.partitions p CROSS JOIN LATERAL queend.records(p.id,"
                                    " 0, 1000) AS r ORDER BY r.record_offset")] == payloads
