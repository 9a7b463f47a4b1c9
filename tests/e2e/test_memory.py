"""What was just committed is delivered from memory; PostgreSQL is asked for the claim alone. Every answer is the one
the log would give."""
from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.parked import settle
from support.frames import KIND, form_b, framed_group, read_pop
from support.wait import PATIENCE, until



def remembered(client: Client) -> float:
    return client.metric("queend_worker_from_memory_total")


def test_a_pop_right_after_the_push(client: Client, queue: str) -> None:
    settle(client, queue, "p")
    before = remembered(client)
    client.push(queue, 1, 2, partition="p")
    client.push(queue, 3, partition="p")
    first = client.pop(queue, batch=2)
    assert data(first) == [1, 2] and remembered(client) == before + 2
    assert client.pop(queue, batch=5) == [] and client.extend(first[0]["leaseId"])["renewed"] == 1
    for message in first:
        client.ack(message)
    second = client.pop(queue, batch=5, autoAck=True)
    assert data(second) == [3] and second[0]["leaseId"] == "" and remembered(client) == before + 3
    assert client.pop(queue) == []


def test_the_answer_is_the_one_of_the_log(client: Client, queue: str) -> None:
    settle(client, queue, "p")
    settle(client, queue, "p", group="g")
    before = remembered(client)
    client.push_items([{"queue": queue, "partition": "p", "payload": {"a": [1, "\u00e9\n"]},
                        "transactionId": "not a uuid \u2603"},
                       {"queue": queue, "partition": "p", "payload": None,
                        "traceId": "018f0000-0000-7000-8000-000000000001"}])
    client.push(queue, "x" * 100_000, partition="p")
    client.push(queue, *range(50), partition="p")
    near = client.pop(queue, "p", consumerGroup="g", batch=100)
    assert remembered(client) == before + 53
    far = client.pop(queue, "p", consumerGroup="late", batch=100)[1:]
    assert remembered(client) == before + 53
    for message in (*near, *far):
        message["leaseId"] = message["consumerGroup"] = ""
    assert near == far


def test_batches_across_rows_and_partitions(client: Client, queue: str) -> None:
    settle(client, queue, *"abc")
    before = remembered(client)
    for n in range(4):
        client.push_items([{"queue": queue, "partition": p, "payload": f"{p}{n}{i}"} for p in "abc" for i in range(3)])
    seen: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    while messages := client.pop(queue, batch=7, partitions=3, autoAck=True):
        for message in messages:
            seen[message["partition"]].append(message["data"])
    assert seen == {p: [f"{p}{n}{i}" for n in range(4) for i in range(3)] for p in "abc"}
    assert remembered(client) == before + 36


def test_the_first_messages_of_a_partition(client: Client, queue: str) -> None:
    settle(client, queue, "old")
    before = remembered(client)
    client.push(queue, 1, 2, partition="new")
    assert data(client.pop(queue, batch=5)) == [1, 2] and remembered(client) == before + 2


def test_what_failed_comes_back_the_whole_way(client: Client, queue: str) -> None:
    settle(client, queue, "p")
    client.push(queue, 1, 2, partition="p")
    first, second = client.pop(queue, batch=2)
    client.ack(first)
    client.ack(second, "failed")
    client.push(queue, 3, partition="p")
    again = client.pop(queue, batch=5)
    assert data(again) == [2, 3] and {m["deliveryAttempt"] for m in again} == {2}


@pytest.mark.parametrize("change, expected", [
    ("UPDATE queend.cursors SET committed = -1, row_base = 0, lease_end = -1 WHERE partition_id = {}", ["first", 1, 2]),
    ("UPDATE queend.cursors SET committed = 1, lease_end = 1 WHERE partition_id = {}", [2]),
    ("INSERT INTO queend.floors VALUES ({}, 2)", [2]),
], ids=["moved back", "moved on", "fallen to retention"])
def test_what_another_program_changed(daemon: Daemon, client: Client, queue: str, change: str, expected: list) -> None:
    settle(client, queue, "p")
    client.push(queue, 1, partition="p")
    client.push(queue, 2, partition="p")
    with psycopg.connect(daemon.conninfo, autocommit=True) as other:
        (partition,) = other.execute("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                                     " WHERE q.name = %s", (queue,)).fetchone()
        other.execute(change.format(partition))
    assert data(client.pop(queue, "p", batch=5)) == expected


def test_another_daemon_writes_in_between(start_daemon: Callable[..., Daemon], daemon: Daemon, client: Client,
                                          queue: str) -> None:
    second = start_daemon(daemon.conninfo)
    settle(client, queue, "p")
    with second.client() as elsewhere:
        client.push(queue, 1, partition="p")
        elsewhere.push(queue, 2, partition="p")
        client.push(queue, 3, partition="p")
        assert data(client.pop(queue, "p", batch=5, autoAck=True)) == [1, 2, 3]
        client.push(queue, 4, partition="p")
        assert data(elsewhere.pop(queue, "p", batch=5, autoAck=True)) == [4]
        client.push(queue, 5, partition="p")
        assert data(client.pop(queue, "p", batch=5, autoAck=True)) == [5]


def test_a_deleted_queue_is_forgotten(client: Client, queue: str) -> None:
    settle(client, queue, "p")
    client.push(queue, 1, partition="p")
    client.delete(queue)
    assert client.pop(queue, "p") == []
    client.push(queue, 2, partition="p")
    assert data(client.pop(queue, "p", wait=True, timeout=100_000)) == [2]


def test_within_its_bound(start_daemon: Callable[..., Daemon]) -> None:
    with start_daemon(QUEEND_CACHE_BYTES=20_000).client() as client:
        settle(client, "q", "p")
        before = remembered(client)
        for n in range(100):
            client.push("q", str(n) + "x" * 1000, partition="p")
        assert [m["data"].rstrip("x") for m in client.pop("q", batch=1000)] == [str(n) for n in range(100)]
        assert remembered(client) == before
    with start_daemon(QUEEND_CACHE_BYTES=0).client() as client:
        settle(client, "q", "p")
        client.push("q", 1, partition="p")
        assert data(client.pop("q")) == [1] and remembered(client) == 0


@pytest.mark.parametrize("end, framed",
                         [("answered late", False), ("answered late", True), ("cancelled", False), ("given up", True)])
def test_rows_leave_the_memory_while_a_claim_reads_them(start_daemon: Callable[..., Daemon], end: str,
                                                        framed: bool) -> None:
    """What the claim looks at is its own; under AddressSanitizer anything else is seen."""
    daemon = start_daemon(QUEEND_CACHE_BYTES=200_000,
                          LIBQUEEN_INFLIGHT_DEADLINE_MS=2000 if end == "given up" else 60000)
    with daemon.client() as client, daemon.client() as pushing, psycopg.connect(daemon.conninfo) as other:
        settle(client, "q", "p", "other")
        before = remembered(client)
        for n in range(3):
            client.push("q", f"{n}" + "x" * 40_000, partition="p")
        other.execute("LOCK TABLE queend.cursors IN SHARE MODE")      # the claim waits here
        answers: list[dict] = []
        query = {"frames": True} if framed else {}

        def pop() -> None:
            while not answers:      # given up, it may be told to come again
                answer = client.pop_answer("q", "p", batch=2, wait=True, timeout=20000, **query)
                if answer.status == 200 and (not framed or answer.body.startswith(b"QPF1")):
                    answers.extend(read_pop(answer.body)["messages"] if framed else answer.json["messages"])

        popping = threading.Thread(target=pop)
        popping.start()
        claim = until(lambda: waiting_claims(daemon), "the claim waits in the database")
        for _ in range(6):
            pushing.push("q", "x" * 40_000, partition="other")      # those of the claim, and those behind it, make room
        if end == "given up":
            until(lambda: waiting_claims(daemon) != claim, "the claim was given up")
        if end != "answered late":
            with psycopg.connect(daemon.conninfo, autocommit=True) as one:
                one.execute(f"SELECT pg_{'cancel' if end == 'cancelled' else 'terminate'}_backend(pid)"
                            " FROM pg_stat_activity"
                            " WHERE datname = current_database() AND wait_event_type = 'Lock'")
        other.rollback()
        popping.join(PATIENCE)
        assert [one["data"][0] for one in answers] == ["0", "1"]
        assert end != "answered late" or remembered(client) == before + 2


def waiting_claims(daemon: Daemon) -> list[tuple]:
    """Claims of records in memory that wait for a lock."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as one:
        return one.execute("SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database()"
                           " AND wait_event_type = 'Lock'"
                           " AND query LIKE '%queend.claim(%'").fetchall()


def test_what_a_client_framed(client: Client, queue: str) -> None:
    settle(client, queue, "p")
    settle(client, queue, "p", group="g")
    before = remembered(client)
    texts = [str(uuid.uuid4()) for _ in range(40)]
    answer = client.request("POST", "/api/v1/push", form_b(framed_group(queue, "p", list(range(40)), texts)[0]), KIND)
    near = client.pop(queue, "p", batch=100)
    assert remembered(client) == before + 40
    assert [m["id"] for m in near] == [one["message_id"] for one in answer.json]
    assert [m["transactionId"] for m in near] == texts
    far = client.pop(queue, "p", consumerGroup="late", batch=100)[1:]
    assert [(m["id"], m["data"], m["createdAt"]) for m in near] == [(m["id"], m["data"], m["createdAt"]) for m in far]


@pytest.mark.parametrize("batch", [3, 30, 100], ids=["few of a frame", "most of a frame", "all"])
def test_framed_answers(client: Client, queue: str, batch: int) -> None:
    settle(client, queue, "p")
    settle(client, queue, "p", group="g")
    before = remembered(client)
    client.request("POST", "/api/v1/push",
                   form_b(framed_group(queue, "p", list(range(40)), [str(uuid.uuid4()) for _ in range(40)])[0]), KIND)
    client.push(queue, *range(40, 60), partition="p", traceId="018f0000-0000-7000-8000-000000000001")
    near = read_pop(client.pop_answer(queue, "p", batch=batch, frames=True).body)
    assert remembered(client) == before + min(batch, 60)
    far = client.pop(queue, "p", consumerGroup="g", batch=batch)
    assert [(m["id"], m["data"], m["offset"], m["transactionId"], m["traceId"]) for m in near["messages"]] == \
           [(m["id"], m["data"], m["offset"], m["transactionId"], m["traceId"]) for m in far]


def test_a_small_memory_under_load(start_daemon: Callable[..., Daemon]) -> None:
    """Rows come and go all the time while claims read them: everything is delivered, once and in order."""
    daemon = start_daemon(QUEEND_CACHE_BYTES=200_000)
    producers, pushes, each = 6, 60, 5
    seen: dict[str, list[int]] = {f"p{k}": [] for k in range(producers)}

    def produce(k: int) -> None:
        with daemon.client() as client:
            for n in range(pushes):
                client.push("q", *[{"n": n * each + i, "pad": "x" * 600} for i in range(each)], partition=f"p{k}")

    def consume() -> None:
        with daemon.client() as client:
            while sum(map(len, seen.values())) < producers * pushes * each:
                for message in client.pop("q", batch=3, wait=True, timeout=300):
                    seen[message["partition"]].append(message["data"]["n"])      # leased: nobody else has the partition
                    client.ack(message)

    threads = [threading.Thread(target=produce, args=(k,))
               for k in range(producers)] + [threading.Thread(target=consume) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {f"p{k}": list(range(pushes * each)) for k in range(producers)}
