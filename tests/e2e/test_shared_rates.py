"""Rates over all partitions, of a group and of a whole queue: never more than the bucket has, whoever asks, and nobody
waits for what is there."""
from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from select import select
from threading import Lock

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import PATIENCE, until

HOUR = 3600


def fill(client: Client, queue: str, partitions: int, each: int) -> None:
    for part in range(partitions):
        client.push(queue, *range(each), partition=f"p{part}")


def many(client: Client, queue: str, group: str = "g", partition: str | None = None, **options: object) -> list:
    return client.pop(queue, partition, consumerGroup=group, subscriptionMode="all", autoAck=True, **options)


def test_a_group_gets_so_many_of_all_partitions(client: Client, other: Client, queue: str) -> None:
    client.configure(queue, groupRateLimit=7, ratePeriod=7 * HOUR)
    fill(client, queue, 4, 5)
    assert len(many(client, queue, batch=3, partitions=4)) == 3
    got = [many(one, queue, batch=10, partitions=8) for one in (other, client, other)]
    assert sum(map(len, got)) == 4 and many(client, queue, batch=10) == []
    assert many(client, queue, partition="p1", batch=10) == []
    assert len(many(client, queue, "another", batch=20, partitions=4)) == 7


def test_all_groups_together_get_so_many_of_a_queue(client: Client, queue: str) -> None:
    client.configure(queue, queueRateLimit=6, ratePeriod=6 * HOUR, groupRateLimit=4)
    fill(client, queue, 3, 5)
    assert len(many(client, queue, "one", batch=10, partitions=3)) == 4
    assert len(many(client, queue, "two", batch=10, partitions=3)) == 2
    assert many(client, queue, "three", batch=10) == []


def test_a_burst_goes_at_once_and_a_waiting_pop_at_the_rate(client: Client, daemon: Daemon, queue: str) -> None:
    """Forty a second, ten at once: the last of thirty comes no sooner than half a second after the first request."""
    client.configure(queue, groupRateLimit=40, groupRateBurst=10)
    fill(client, queue, 3, 10)
    got: list = []
    with daemon.client() as waiting:
        began = time.monotonic()
        while len(got) < 30:
            waiting.send("GET", pop_target(queue, wait=True, timeout=30000, batch=50, partitions=3, autoAck=True))
            got += waiting.receive().json["messages"]
    assert time.monotonic() - began >= 0.45


def test_pops_of_one_partition_and_of_a_namespace_wait_for_tokens(client: Client, daemon: Daemon, queue: str) -> None:
    client.post("/api/v1/configure", {"queue": queue, "namespace": f"ns-{queue}",
                                      "options": {"groupRateLimit": 1, "ratePeriod": HOUR}})
    fill(client, queue, 2, 3)
    assert len(many(client, queue, "__QUEUE_MODE__")) == 1
    with daemon.client() as one, daemon.client() as two, daemon.client() as three:
        one.send("GET", pop_target(queue, "p1", wait=True, timeout=30000, autoAck=True))
        two.send("GET", f"/api/v1/pop?namespace=ns-{queue}&wait=true&timeout=30000&autoAck=true")
        three.send("GET", pop_target(queue, wait=True, timeout=30000, autoAck=True))
        until(lambda: client.parked() >= 3, "they wait")
        client.configure(queue, groupRateLimit=100, ratePeriod=1)
        assert [len(waiting.receive().json["messages"]) for waiting in (one, two, three)] == [1, 1, 1]


def test_a_pop_of_a_namespace_takes_other_queues(client: Client, queue: str) -> None:
    """One whose tokens are used up is passed over, whatever its priority."""
    for name, options in ((queue, {"groupRateLimit": 1, "ratePeriod": HOUR, "priority": 9}), (f"{queue}-b", {})):
        client.post("/api/v1/configure", {"queue": name, "namespace": f"ns-{queue}", "options": options})
        client.push(name, 1, 2)
    def popped() -> list:
        messages = client.get(f"/api/v1/pop?namespace=ns-{queue}&autoAck=true&batch=2&wait=true&timeout=100000").json
        return data(messages["messages"])
    assert popped() == [1]
    assert popped() == [1, 2]


@pytest.mark.parametrize("named", ["queue", "partition", "namespace"])
def test_one_that_waits_alone_is_woken_for_each(client: Client, queue: str, named: str) -> None:
    """Nobody else asks for tokens: each pop waits for its own, and none waits to its end."""
    client.post("/api/v1/configure", {"queue": queue, "namespace": f"ns-{queue}",
                                      "options": {"groupRateLimit": 20, "groupRateBurst": 1}})
    fill(client, queue, 1, 30)
    target = {"queue": f"/api/v1/pop/queue/{queue}?", "partition": f"/api/v1/pop/queue/{queue}/partition/p0?",
              "namespace": f"/api/v1/pop?namespace=ns-{queue}&"}[named]
    for n in range(30):
        assert data(client.get(f"{target}wait=true&timeout=60000&autoAck=true").json["messages"]) == [n]


def test_what_is_not_used_is_given_back(client: Client, daemon: Daemon, start_daemon: Callable[..., Daemon],
                                        queue: str) -> None:
    """A daemon asks for ten, finds one message, and another daemon gets the other nine."""
    client.configure(queue, groupRateLimit=10, ratePeriod=10 * HOUR)
    client.push(queue, 0)
    assert len(many(client, queue, batch=10)) == 1
    fill(client, queue, 2, 10)
    second = start_daemon(daemon.conninfo)
    with second.client() as away:
        got: list = []
        until(lambda: got.extend(many(away, queue, batch=10, partitions=2)) or len(got) == 9, "the others")
        assert many(away, queue, batch=10) == [] == many(client, queue, batch=10)


def test_sql_takes_from_the_same_bucket(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, groupRateLimit=3, ratePeriod=3 * HOUR)
    fill(client, queue, 1, 5)
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        def popped(batch: int) -> int:
            ((one,),), = database.execute("SELECT queen.pop_unified_batch_v4(jsonb_build_array(jsonb_build_object("
                                          "'queue_name', %s::text, 'batch_size', %s::int, 'auto_ack', true)))",
                                          [queue, batch])
            return len(one["result"]["messages"])
        assert popped(2) == 2
        until(lambda: len(many(client, queue, "__QUEUE_MODE__", batch=5)) == 1, "the third")
        assert popped(9) == 0


def test_groups_that_wait_are_served_in_turn(client: Client, daemon: Daemon, queue: str) -> None:
    """Three groups wait, one of them with two pops, and pops of two of them come beside that do not wait: whoever was
    served is served again when the others were, whatever its batch."""
    client.configure(queue, queueRateLimit=30, queueRateBurst=1)
    fill(client, queue, 3, 100)
    groups = ["one", "two", "three", "one"]
    waiting = [daemon.client() for _ in groups]
    served = dict.fromkeys(groups, 0)

    def wait(n: int) -> None:
        waiting[n].send("GET", pop_target(queue, consumerGroup=groups[n], subscriptionMode="all", autoAck=True,
                                          wait=True, timeout=60000, batch=1 + 9 * n, partitions=3))

    for n in range(len(groups)):
        wait(n)
    turning = False
    while sum(served.values()) < 45 or not turning:
        came, _, _ = select([one.wire.socket for one in waiting], [], [], PATIENCE)
        assert came, "nobody is served"
        for n, one in enumerate(waiting):
            if one.wire.socket in came:
                served[groups[n]] += len(one.receive().json["messages"])
                wait(n)
        for group in ("one", "two"):
            served[group] += len(many(client, queue, group))
        if not turning and min(served.values()):
            turning = True        # all groups are made, and all wait
            served = dict.fromkeys(groups, 0)
        assert not turning or max(served.values()) - min(served.values()) <= 4, served
    for one in waiting:
        one.close()


@pytest.mark.parametrize("seed", range(2))
def test_histories_against_a_bucket(client: Client, daemon: Daemon, start_daemon: Callable[..., Daemon], queue: str,
                                    seed: int) -> None:
    """Consumers of two daemons, of all kinds, at their own pace. By the database's clock: what was delivered in any
    window is within rate, burst and the two slices; work goes on until so much was delivered; nobody starves."""
    dice = random.Random(seed)
    rate, burst, count = dice.choice([60, 150]), dice.choice([5, 20]), 6
    left = 4 * rate
    lock = Lock()
    client.configure(queue, queueRateLimit=rate, queueRateBurst=burst)
    fill(client, queue, 8, 400)
    second = start_daemon(daemon.conninfo)
    stop = time.monotonic() + PATIENCE

    def consume(number: int) -> list[tuple[float, float, int]]:
        nonlocal left
        own = random.Random(seed * 100 + number)
        got = []
        with (daemon, second)[number % 2].client() as one:
            while left > 0 and time.monotonic() < stop:
                began = time.monotonic()
                n = len(many(one, queue, f"g{number % 3}", batch=own.choice([1, 4, 30]), partitions=own.choice([1, 8]),
                             wait=own.random() < 0.8, timeout=1000))
                got.append((began, time.monotonic(), n))
                with lock:
                    left -= n
                if own.random() < 0.1:
                    time.sleep(own.random() * 0.1)
        return got

    with ThreadPoolExecutor(count) as pool:
        histories = list(pool.map(consume, range(count)))
    events = sorted(event for history in histories for event in history if event[2])
    held = 2 * min(burst, max(30, rate // 10))
    for i, (began, _, _) in enumerate(events):
        inside = 0
        for _, ended, n in sorted(events[i:], key=lambda event: event[1]):
            inside += n
            # all of them were claimed between `began` and `ended`
            assert inside <= rate * (ended - began) + burst + held + 1
    assert left <= 0, "work is conserved"
    for group in range(3):
        assert sum(n for number in range(count) if number % 3 == group for _, _, n in histories[number]) > rate


def test_others_flow_while_one_waits(client: Client, daemon: Daemon, queue: str) -> None:
    """Ten pops wait for tokens of one queue: another queue is pushed to and popped as ever."""
    client.configure(queue, queueRateLimit=1, ratePeriod=HOUR)
    fill(client, queue, 5, 3)
    assert len(many(client, queue, "__QUEUE_MODE__")) == 1
    waiting = [daemon.client() for _ in range(10)]
    for one in waiting:
        one.send("GET", pop_target(queue, wait=True, timeout=2000, autoAck=True))
    until(lambda: client.parked() >= 10, "they wait")
    for n in range(50):
        client.push(f"{queue}-free", n)
        assert data(client.pop(f"{queue}-free", autoAck=True)) == [n]
    assert [one.receive().json["messages"] for one in waiting] == [[]] * 10
    for one in waiting:
        one.close()


@pytest.mark.parametrize("bad", [{"groupRateLimit": -1}, {"queueRateLimit": 1_000_001}, {"groupRateBurst": 1.5},
                                 {"queueRateBurst": "many"}], ids=str)
def test_what_is_no_rate_is_refused(client: Client, queue: str, bad: dict) -> None:
    answer = client.post("/api/v1/configure", {"queue": queue, "options": bad})
    assert answer.status == 400 and next(iter(bad)) in answer.json["error"]
