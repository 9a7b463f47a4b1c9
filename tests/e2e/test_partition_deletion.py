"""A deleted partition is gone with everything in it, and made again from nothing, also for daemons that knew it."""
from __future__ import annotations

import threading
from contextlib import ExitStack

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import until


@pytest.fixture(scope="module")
def daemon(start_daemon) -> Daemon:
    return start_daemon(STATS_INTERVAL_MS=200)


def delete(client: Client, queue: str, partition: str):
    return client.request("DELETE", f"/api/v1/queues/{queue}/partitions/{partition}")


def rows_of(db: psycopg.Connection, part: int) -> dict[str, int]:
    """How many rows each table has of a partition."""
    found = {}
    for table, in db.execute("SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
                             " WHERE c.relnamespace = 'queend'::regnamespace AND a.attname = 'partition_id'"
                             " AND c.relkind = 'r'").fetchall():
        count, = db.execute(f"SELECT count(*) FROM queend.{table} WHERE partition_id = %s", (part,)).fetchone()
        if count:
            found[table] = count
    return found


def number(db: psycopg.Connection, queue: str, partition: str) -> int | None:
    row = db.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                     " WHERE q.name = %s AND p.name = %s", (queue, partition)).fetchone()
    return row and row[0]


@pytest.mark.parametrize("how", ["http", "sql"])
def test_all_of_it_goes_and_the_others_stay(daemon, client, queue, how) -> None:
    with psycopg.connect(daemon.conninfo, autocommit=True) as db:
        for name in ("a", "b"):
            client.push_items([{"queue": queue, "partition": name, "transactionId": f"m{n}", "payload": [name, n]}
                               for n in range(6)])
        letter, held = client.pop(queue, "a", consumerGroup="g", batch=2)
        assert client.ack(letter, "dlq", "g", lease=False)["dlq"] is True
        assert client.post("/api/v1/traces", {"partitionId": held["partitionId"], "transactionId": "m3",
                                              "traceNames": ["t"], "data": 1}).status == 201
        client.request("DELETE", f"/api/v1/messages/{held['partitionId']}/m4")
        client.push(queue, "later", partition="a", delayMs=3_600_000)
        part = number(db, queue, "a")
        if how == "http":
            answer = delete(client, queue, "a")
            assert answer.status == 200 and answer.json == {"deleted": True, "queue": queue, "partition": "a"}
        else:
            assert db.execute("SELECT queen.delete_partition_v1(%s, 'a')", (queue,)).fetchone()[0] == {
                "deleted": True, "existed": True, "queue": queue, "partition": "a"}
        shown = client.show(queue).json
        assert [one["name"] for one in shown["partitions"]] == ["b"]
        assert (shown["totals"]["total"], shown["totals"]["deadLetter"]) == (6, 0)
        found = f"/api/v1/resources/queues?search={queue}"
        listed = until(lambda: next((one for one in client.get(found).json["queues"]
                                     if one["name"] == queue and one["messages"]["total"] == 6), None),
                       "kept figures follow")
        assert listed["messages"]["pending"] == 6
        assert client.ack(held, group="g")["success"] is True      # of a message that is gone, as of a deleted queue
        assert client.get(f"/api/v1/messages/{held['partitionId']}/m1").status == 404
        stored = client.push_items([{"queue": queue, "partition": "a", "transactionId": "m0", "payload": "again"}])
        assert stored[0]["status"] == "queued" and number(db, queue, "a") != part
        assert data(client.pop(queue, "a", consumerGroup="g", batch=10)) == ["again"]
        read = client.post("/api/v1/fetch", {"entries": [{"queue": queue, "partition": "a", "offset": 0}]}).json
        assert [one["offset"] for one in read["entries"][0]["records"]] == [0]
        assert data(client.pop(queue, "b", consumerGroup="g", batch=10)) == [["b", n] for n in range(6)]
        if how == "sql":      # nobody told the daemon, whose sweeper looks once a minute
            db.execute("SELECT * FROM queend.sweep(1000)")
        until(lambda: rows_of(db, part) == {}, "what was left of it is swept")


def test_unknown_names_are_404(client, queue) -> None:
    client.push(queue, 1, partition="a")
    assert delete(client, queue, "none").status == 404 and delete(client, f"{queue}-none", "a").status == 404
    assert delete(client, queue, "a").status == 200 and delete(client, queue, "a").status == 404


def test_daemons_that_knew_it_store_in_a_new_one(start_daemon, queue) -> None:
    first = start_daemon()
    second = start_daemon(first.conninfo)
    with ExitStack() as stack:
        here, there, waiter = (stack.enter_context(one.client()) for one in (first, second, second))
        for client in (here, there):
            client.push(queue, 1, partition="a")
            assert data(client.pop(queue, "a", autoAck=True)) == [1]
        waiter.send("GET", pop_target(queue, "a", wait=True, timeout=60_000, autoAck=True))
        until(lambda: there.parked() == 1, "it waits for the partition that goes")
        assert delete(here, queue, "a").status == 200
        assert here.push(queue, "again", partition="a")[0]["status"] == "queued"
        assert data(waiter.receive().json["messages"]) == ["again"]
        assert there.push(queue, "more", partition="a")[0]["status"] == "queued"
        assert data(here.pop(queue, "a", autoAck=True)) == ["more"]


def test_beside_pushes_and_pops(daemon, queue) -> None:
    """What is pushed after the last deletion is delivered once, in order."""
    ended = threading.Event()

    def work(number: int) -> None:
        with daemon.client() as own:
            while not ended.is_set():
                own.push(queue, number, partition="a")
                for one in own.pop(queue, "a", consumerGroup="g", batch=5):
                    own.ack(one, group="g")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for one in threads:
        one.start()
    with daemon.client() as client:
        for _ in range(30):
            assert delete(client, queue, "a").status in (200, 404)
        ended.set()
        for one in threads:
            one.join()
        delete(client, queue, "a")
        client.push_items([{"queue": queue, "partition": "a", "payload": n} for n in range(20)])
        got = data(until(lambda: client.pop(queue, "a", consumerGroup="g", batch=100), "they come"))
        assert got == list(range(20))
