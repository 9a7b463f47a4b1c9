"""A pop that waits is answered by the push itself: claimed in the push's transaction, written from memory. Order,
leases and every other rule hold as if it had popped right after the commit."""
from __future__ import annotations

import json
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.daemon import Daemon
from support.parked import answer_of, first_served, settle, waiting
from support.postgres import Postgres
from support.wait import until


def handed(client: Client) -> float:
    return client.metric("queend_worker_handed_over_total")


@contextmanager
def waiting_settled(daemon: Daemon, client: Client, queue: str, names: str, **query: object) -> Iterator[list[Client]]:
    settle(client, queue, *names)
    with waiting(daemon, client, queue, **query) as clients:
        yield clients


def test_the_push_answers_a_waiting_pop(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    before = handed(client)
    with waiting(daemon, client, queue, batch=10) as (waiter,):
        results = client.push(queue, {"n": 1}, {"n": 2}, partition="p", traceId="018f0000-0000-7000-8000-000000000001")
        messages = answer_of(waiter)
        assert handed(client) == before + 2
        # the same as a pop would have told
        assert data(messages) == [{"n": 1}, {"n": 2}] and [m["offset"] for m in messages] == [1, 2]
        assert [m["id"] for m in messages] == [r["message_id"] for r in results]
        assert [m["transactionId"] for m in messages] == [r["transaction_id"] for r in results]
        assert {m["traceId"] for m in messages} == {"018f0000-0000-7000-8000-000000000001"}
        assert {(m["partition"], m["queue"], m["deliveryAttempt"]) for m in messages} == {("p", queue, 1)}
        # leased: nobody else gets them, an older batch goes first, and the lease is a true one
        assert client.pop(queue, batch=10) == []
        client.push(queue, {"n": 3}, partition="p")
        assert client.pop(queue, batch=10) == []
        assert client.extend(messages[0]["leaseId"])["renewed"] == 1
        client.ack(messages[0])
        client.ack(messages[1], "failed")
        again = client.pop(queue, batch=10)
        assert data(again) == [{"n": 2}, {"n": 3}] and again[0]["deliveryAttempt"] == 2


def test_the_answer_is_the_same_either_way(daemon: Daemon, client: Client, queue: str) -> None:
    """Group g is served by the push, group h reads the log."""
    settle(client, queue, "p")
    settle(client, queue, "p", group="g")
    with waiting(daemon, client, queue, consumerGroup="g", batch=3) as (waiter,):
        client.push_items([{"queue": queue, "partition": "p", "payload": {"a": [1, "\u00e9\n"]},
                            "transactionId": "not a uuid \u2603"},
                           {"queue": queue, "partition": "p", "payload": None},
                           {"queue": queue, "partition": "p", "payload": 7}])
        first = answer_of(waiter)
    second = client.pop(queue, "p", consumerGroup="h", batch=10)[1:]
    for message in (*first, *second):
        message["leaseId"] = message["consumerGroup"] = ""
    assert first == second


def test_part_of_a_push(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    with waiting(daemon, client, queue, batch=2, autoAck=True) as (waiter,):
        client.push(queue, *range(5), partition="p")
        assert data(answer_of(waiter)) == [0, 1]
    assert data(client.pop(queue, batch=10, autoAck=True)) == [2, 3, 4]
    with waiting(daemon, client, queue, number=2, batch=2) as waiters:
        client.push(queue, *range(5), partition="p")
        # one of them is served; the partition is leased to it until it is acknowledged
        first = first_served(waiters)
        messages = answer_of(first)
        assert data(messages) == [0, 1]
        for message in messages:
            client.ack(message)
        (other,) = (w for w in waiters if w is not first)
        assert data(answer_of(other)) == [2, 3]


def test_one_waiter_takes_several_partitions(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon(QUEEND_PUSH_STREAMS=1)          # with more the partitions may go with different batches
    with daemon.client() as client, waiting_settled(daemon, client, queue, "abc", batch=10, partitions=3) as (waiter,):
        before = handed(client)
        client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "cab"])
        messages = answer_of(waiter)
        assert sorted(data(messages)) == ["a", "b", "c"] and len({m["leaseId"] for m in messages}) == 1
        assert handed(client) == before + 3
        assert client.extend(messages[0]["leaseId"])["renewed"] == 3


def test_partitions_that_are_new(daemon: Daemon, client: Client, queue: str) -> None:
    """A chat's first message meets consumers that never saw the chat."""
    settle(client, queue, "old")
    client.pop(queue, "old", consumerGroup="late", subscriptionMode="new")
    before = handed(client)
    with waiting(daemon, client, queue) as (waiter,), waiting(daemon, client, queue, consumerGroup="late") as (late,):
        client.push(queue, "hello", partition="new")
        assert data(answer_of(waiter)) == data(answer_of(late)) == ["hello"]
        assert handed(client) == before + 2
    with waiting(daemon, client, queue, autoAck=True) as (waiter,):
        client.push(queue, 1, 2, partition="newer")
        assert data(answer_of(waiter)) == [1]
    assert data(client.pop(queue, "newer")) == [2]


def test_more_waiters_than_one_call_serves(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """The rest of the push is the next call, with claims of its own. Every other partition is new, so its cursor is."""
    daemon = start_daemon(QUEEND_PUSH_STREAMS=1)
    names = [f"p{i}" for i in range(300)]
    with daemon.client() as client, ExitStack() as stack:
        client.push_items([{"queue": queue, "partition": p, "payload": "first"} for p in names[::2]])
        while client.pop(queue, batch=1000, partitions=100, autoAck=True):
            pass
        before = handed(client)
        waiters = stack.enter_context(waiting(daemon, client, queue, number=len(names), batch=10))
        stored = client.push_items([{"queue": queue, "partition": p, "payload": p} for p in names])
        assert [s["status"] for s in stored] == ["queued"] * len(names)
        messages = [m for waiter in waiters for m in answer_of(waiter)]
        assert sorted(data(messages)) == sorted(names) and handed(client) == before + len(names)
        assert len({m["leaseId"] for m in messages}) == len(names)
        assert client.pop(queue, batch=10) == []
        for message in messages:
            client.ack(message)


def test_every_group_is_served(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    groups = [f"g{i}" for i in range(5)]
    with ExitStack() as stack:
        waiters = []
        for group in groups:
            settle(client, queue, "p", group=group)
            waiters += stack.enter_context(waiting(daemon, client, queue, consumerGroup=group))
        before = handed(client)
        client.push(queue, "x", partition="p")
        for waiter, group in zip(waiters, groups):
            (message,) = answer_of(waiter)
            assert (message["data"], message["consumerGroup"]) == ("x", group)
        assert handed(client) == before + 5


def test_a_waiter_of_one_partition_comes_first(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "a", "b")
    with waiting(daemon, client, queue) as (anyone,), daemon.client() as waiter:
        waiter.send("GET", pop_target(queue, "a", wait=True, timeout=100_000))
        until(lambda: client.parked() == 2, "both wait")
        client.push(queue, "for a", partition="a")
        assert data(answer_of(waiter)) == ["for a"]
        client.push(queue, "for b", partition="b")
        assert data(answer_of(anyone)) == ["for b"]


def test_a_cursor_in_use_elsewhere_is_left_alone(daemon: Daemon, client: Client, queue: str) -> None:
    """A session that holds the cursor's row makes neither the push wait nor the message vanish."""
    settle(client, queue, "p")
    before = handed(client)
    with psycopg.connect(daemon.conninfo) as other:
        other.execute("SELECT 1 FROM queend.cursors k JOIN queend.partitions p ON p.id = k.partition_id"
                      " JOIN queend.queues q ON q.id = p.queue_id"
                      " WHERE q.name = %s FOR UPDATE OF k", (queue,))
        with waiting(daemon, client, queue) as (waiter,):
            assert client.push(queue, "x", partition="p")[0]["status"] == "queued"
            assert handed(client) == before
            other.rollback()
            assert data(answer_of(waiter)) == ["x"]


def test_a_cursor_that_another_program_moved_back(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    with psycopg.connect(daemon.conninfo,
                         autocommit=True) as other, waiting(daemon, client, queue, batch=10) as (waiter,):
        other.execute("UPDATE queend.cursors SET committed = -1, row_base = 0, lease_end = -1 WHERE partition_id ="
                      " (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                      " WHERE q.name = %s)", (queue,))
        client.push(queue, "second", partition="p")
        assert data(answer_of(waiter)) == ["first", "second"]


def test_delay_and_window_are_not_passed_over(daemon: Daemon, client: Client, queue: str) -> None:
    client.configure(queue, delayedProcessing=1)
    before = handed(client)
    client.push(queue, 1, partition="p")
    (message,) = client.pop(queue, "p", wait=True, timeout=100_000)
    client.ack(message)
    with waiting(daemon, client, queue) as (waiter,):
        (stored,) = client.push(queue, 2, partition="p")
        (message,) = answer_of(waiter)
        assert message["data"] == 2 and handed(client) == before


def test_duplicates_are_not_delivered_again(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, 1, partition="p", transactionId="t-1")
    client.ack(client.pop(queue)[0])
    with waiting(daemon, client, queue, batch=10) as (waiter,):
        assert client.push(queue, 1, partition="p", transactionId="t-1")[0]["status"] == "duplicate"
        assert [r["status"]
                for r in client.push_items([{"queue": queue, "partition": "p", "payload": n, "transactionId": t}
                                           for n, t in ((1, "t-1"), (2, "t-2"), (2, "t-2"))])] == [
                                                   "duplicate", "queued", "duplicate"]
        assert data(answer_of(waiter)) == [2]


def test_random_ids_that_are_remembered(daemon: Daemon, client: Client, queue: str) -> None:
    """What the daemon vouches for is proved new at once, so a waiter is served with it; a duplicate is not
    delivered."""
    for _ in range(2):
        client.push_items([{"queue": queue, "partition": "p", "payload": 0, "transactionId": str(uuid.uuid4())}
                           for _ in range(100)])
    old = client.pop(queue, batch=1000)
    client.ack_batch([ack_of(message) for message in old])
    before = handed(client)
    with waiting(daemon, client, queue, batch=10) as (waiter,):
        assert client.push(queue, 1, partition="p", transactionId=old[7]["transactionId"])[0]["status"] == "duplicate"
        client.push(queue, 2, partition="p", transactionId=str(uuid.uuid4()))
        assert data(answer_of(waiter)) == [2]
    assert handed(client) == before + 1


def test_a_client_that_left_keeps_nothing(daemon: Daemon, client: Client, queue: str) -> None:
    settle(client, queue, "p")
    with waiting(daemon, client, queue) as (waiter,):
        before = client.parked()
        waiter.close()
        # an answer already written would keep its lease
        until(lambda: client.parked() == before - 1, "the daemon sees it leave")
        client.push(queue, "x", partition="p")
        assert data(client.pop(queue, wait=True, timeout=100_000)) == ["x"]


@pytest.mark.parametrize("settings", [{"NUM_WORKERS": 1}, {"NUM_WORKERS": 3, "QUEEND_PUSH_STREAMS": 4}],
                         ids=["one worker", "three"])
def test_storm(start_daemon: Callable[..., Daemon], settings: dict) -> None:
    """Producers that find consumers waiting, consumers that acknowledge, fail, leave: each group sees every message of
    a partition, in order."""
    daemon = start_daemon(**settings)
    partitions, each, groups, queue = 8, 150, ("g", "h"), "storm"
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    lock, faults = threading.Lock(), []

    def produce(number: int) -> None:
        with daemon.client() as client:
            for n in range(each):
                client.push_items([{"queue": queue, "partition": str(p), "payload": n} for p in range(partitions)
                                   if p % 4 == number])

    def consume(group: str, number: int) -> None:
        turn = 0
        with daemon.client() as client:
            while True:
                with lock:
                    if sum(len(v) for (g, _), v in seen.items() if g == group) == partitions * each:
                        return
                turn += 1
                messages = client.pop(queue, consumerGroup=group, batch=5, partitions=2, wait=True, timeout=300)
                good = [m for m in messages if (turn + m["offset"]) % 7]
                bad = {m["partitionId"]: m["offset"] for m in reversed(messages) if m not in good}
                take = [m for m in messages if m["offset"] < bad.get(m["partitionId"], 1 << 60)]
                with lock:
                    for m in take:
                        seen[group, m["partition"]].append(m["data"])
                for m in take:
                    if not client.ack(m, group=group)["success"]:
                        faults.append(m)
                for m in messages:
                    if m["offset"] == bad.get(m["partitionId"]):
                        client.ack(m, "retry", group=group)

    with daemon.client() as client:
        for p in range(partitions):
            client.push(queue, -1, partition=str(p))
        for group in groups:
            for p in range(partitions):
                client.ack(client.pop(queue, str(p), consumerGroup=group)[0], group=group)
        consumers = [threading.Thread(target=consume, args=(group, i)) for group in groups for i in range(6)]
        producers = [threading.Thread(target=produce, args=(i,)) for i in range(4)]
        for thread in consumers:
            thread.start()
        until(lambda: client.parked() > 6, "consumers of both groups wait")
        for thread in producers:
            thread.start()
        for thread in consumers + producers:
            thread.join()
        assert not faults
        assert {key: value for key, value in seen.items()} == {(g, str(p)): list(range(each)) for g in groups
                                                               for p in range(partitions)}
        assert handed(client) > 0


def test_no_part_of_a_push_waits_for_ever(start_daemon: Callable[..., Daemon], postgres: Postgres, queue: str) -> None:
    """More waiters than one call serves: the push is sent in two parts. The database goes away with the first of
    them: both are answered after the patience."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_PUSH_STREAMS=1, QUEEND_PATIENCE_MS=500)
    names = [f"p{i}" for i in range(300)]
    with daemon.client() as client, ExitStack() as stack:
        client.push_items([{"queue": queue, "partition": p, "payload": "first"} for p in names])
        while client.pop(queue, batch=1000, partitions=100, autoAck=True):
            pass
        stack.enter_context(waiting(daemon, client, queue, number=len(names), batch=10))
        pushing = stack.enter_context(daemon.client(20))
        with closing(psycopg.connect(daemon.conninfo)) as holder, closing(psycopg.connect(daemon.conninfo)) as eyes:
            eyes.autocommit = True
            holder.execute("SELECT pg_advisory_xact_lock(1903519076, lane) FROM generate_series(0, 63) AS lane")
            pushing.send("POST", "/api/v1/push", json.dumps(
                {"items": [{"queue": queue, "partition": p, "payload": p} for p in names]}).encode())
            until(lambda: eyes.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                                       " AND application_name = 'queend' AND wait_event_type = 'Lock'").fetchone()[0],
                  "the first part waits for its lanes")
            postgres.halt()
        try:
            assert pushing.receive().status == 503
        finally:
            postgres.resume()
        until(lambda: client.get("/readyz").status == 200, "the database is back")
    daemon.stop()
