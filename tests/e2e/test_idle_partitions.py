"""Partitions that were left alone are removed while daemons know them: what comes for them afterwards is stored and
delivered."""
from __future__ import annotations

from contextlib import ExitStack

import psycopg
from support.client import data, pop_target
from support.wait import until


def test_daemons_that_knew_an_idle_partition_store_in_a_new_one(start_daemon, queue: str) -> None:
    often = {"RETENTION_INTERVAL": 100, "EVICTION_INTERVAL": 100}
    first = start_daemon(PARTITION_CLEANUP_DAYS=1, **often)
    second = start_daemon(first.conninfo, PARTITION_CLEANUP_DAYS=0, **often)
    with ExitStack() as stack:
        db = stack.enter_context(psycopg.connect(first.conninfo, autocommit=True))
        here, there, waiter = (stack.enter_context(one.client()) for one in (first, second, second))

        def names() -> set[str]:
            db.execute("UPDATE queend.floors SET raised_at = 0")      # the removal of messages is long ago, too
            return {name for name, in db.execute("SELECT p.name FROM queend.partitions p JOIN queend.queues q"
                                                 " ON q.id = p.queue_id WHERE q.name = %s", (queue,))}
        here.configure(queue, ttl=600)
        for client in (here, there):
            for name in ("idle", "other", "kept", "Default"):
                client.push(queue, 1, partition=name)
                assert data(client.pop(queue, name, autoAck=True)) == [1]
        # a long time ago
        db.execute("UPDATE queend.partitions SET created_at = created_at - interval '3 days'")
        db.execute("UPDATE queend.cursors SET consumed_at = 0 WHERE partition_id NOT IN (SELECT id"
                   " FROM queend.partitions WHERE name = 'kept')")
        db.execute("UPDATE queend.log SET created_at = created_at - 3600000000")
        waiter.send("GET", pop_target(queue, "idle", wait=True, timeout=60_000, autoAck=True))
        until(lambda: there.parked() == 1, "it waits for the partition that goes")
        until(lambda: names() == {"Default", "kept"}, "the idle ones are gone")
        until(lambda: here.metric("queend_retention_removed_partitions_total") == 2, "they are counted")
        assert here.push(queue, "again", partition="idle")[0]["status"] == "queued"
        assert data(waiter.receive().json["messages"]) == ["again"]
        for number, client in enumerate((there, here)):
            assert [one["status"] for one in client.push_items([{"queue": queue, "partition": name, "payload": [
                name, number]} for name in ("other", "idle", "kept")])] == ["queued"] * 3
        got = [tuple(one) for _ in range(6) for one in data(here.pop(queue, autoAck=True, batch=10, partitions=5))]
        assert sorted(got) == sorted((name, number) for name in ("other", "idle", "kept") for number in (0, 1))
        assert names() == {"Default", "kept", "idle", "other"}
