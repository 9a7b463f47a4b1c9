"""Queues and groups that are commanded about while everybody is at work: configured, filed anew, paused, sought,
emptied, deleted. Each command is answered, nobody waits for ever, and nothing is leaked."""
from __future__ import annotations

import random
import threading

import pytest
from support.client import Client, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon

COMMANDS = 150
QUEUES, GROUPS, SPACES = ("a", "b"), ("__QUEUE_MODE__", "g0", "g1"), ("left", "right")


def options(chance: random.Random) -> dict:
    """Some of them with bounds that hold deliveries back, all so that something goes on."""
    return {"queueRateLimit": chance.choice([0, 0, 100, 2000]), "queueRateBurst": chance.choice([1, 50]),
            "groupRateLimit": chance.choice([0, 0, 300]), "groupRateBurst": chance.choice([1, 10]),
            "rateLimit": chance.choice([0, 0, 50]), "priority": chance.choice([0, 5]),
            "delayedProcessing": chance.choice([0, 0, 1]), "windowBuffer": chance.choice([0, 0, 1]),
            "retryLimit": chance.choice([1, 3]), "retryDelay": chance.choice([0, 100]), "leaseTime": 2,
            "maxSize": chance.choice([0, 10_000]), "ttl": chance.choice([0, 3600])}


def command(own: Client, chance: random.Random) -> None:
    """One of them, answered in whole."""
    queue, group, space = (chance.choice(names) for names in (QUEUES, GROUPS, SPACES))
    of_group = f"/api/v1/consumer-groups/{group}/queues/{queue}"
    part = f"p{chance.randrange(6)}"
    method, target, body = chance.choice([
        ("POST", "/api/v1/configure", {"queue": queue, "namespace": space, "options": options(chance)}),
        ("POST", "/api/v1/configure", {"queue": queue, "namespace": space, "options": options(chance)}),
        ("POST", f"/api/v1/queues/{queue}/pause", {}),
        ("POST", f"/api/v1/queues/{queue}/resume", {}),
        ("POST", f"{of_group}/pause", {}),
        ("POST", f"{of_group}/resume", {}),
        ("POST", f"{of_group}/seek", {"toEnd": True}),
        ("POST", f"{of_group}/partitions/{part}/seek", {"timestamp": "2020-01-01T00:00:00Z"}),
        ("DELETE", of_group, None),
        ("DELETE", f"/api/v1/queues/{queue}/clear", None),
        ("DELETE", f"/api/v1/resources/queues/{queue}", None),
        ("POST", "/api/v1/dlq/redrive", {"queue": queue}),
        ("DELETE", f"/api/v1/dlq?queue={queue}", None),
        ("GET", f"/api/v1/resources/queues/{queue}", None),
        ("GET", "/api/v1/consumer-groups", None),
        ("GET", "/metrics/prometheus", None)])
    answer = own.request(method, target, body)
    assert answer.status in (200, 201, 400, 404, 409), (method, target, answer.status, answer.body)


def produce(own: Client, chance: random.Random) -> None:
    items = [{"queue": chance.choice(QUEUES), "partition": f"p{chance.randrange(6)}", "payload": n} for n in range(20)]
    answer = own.post("/api/v1/push", {"items": items})
    assert answer.status in (201, 503, 507, 429), (answer.status, answer.body)      # those of a full queue


def consume(own: Client, chance: random.Random) -> None:
    """A pop of any kind, or a stream; what comes is acknowledged or refused, or its client leaves."""
    group, queue = chance.choice(GROUPS), chance.choice(QUEUES)
    how = chance.random()
    if how < 0.15:
        own.send("GET", f"/api/v1/stream/{queue}?consumerGroup={group}&subscriptionMode=all",
                 headers={"Accept": "text/event-stream"})
        if chance.random() < 0.5:
            own.receive(head_only=True)
        own.close()
        return
    if how < 0.4:
        target = (f"/api/v1/pop?namespace={chance.choice(SPACES)}&consumerGroup={group}&wait=true&timeout=300&batch=5"
                  "&subscriptionMode=all")
    else:
        target = pop_target(queue, f"p{chance.randrange(6)}" if how < 0.6 else None, consumerGroup=group,
                            subscriptionMode="all", wait=chance.random() < 0.8, timeout=300,
                            batch=chance.choice([1, 4, 30]), partitions=chance.choice([1, 8]),
                            autoAck=chance.random() < 0.3)
    own.send("GET", target)
    if chance.random() < 0.15:
        own.close()
        return
    answer = own.receive()
    assert answer.status in (200, 204, 503), (target, answer.status, answer.body)
    for message in answer.json["messages"] if answer.status == 200 and answer.body else []:
        status = chance.choice(["completed", "completed", "failed", "retry"])
        if message.get("leaseId"):
            own.ack(message, status, group)


@pytest.mark.parametrize("seed", range(2))
def test_commands_among_those_who_work(start_daemon, seed: int) -> None:
    daemon: Daemon = start_daemon(NUM_WORKERS=3)
    done = threading.Event()

    def work(what, number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        with daemon.client() as own:
            while not done.is_set():
                what(own, chance)

    def commands() -> None:
        chance = random.Random(seed)
        with daemon.client() as own:
            for _ in range(COMMANDS):
                command(own, chance)

    with Crowd() as crowd:
        for number in range(2):
            crowd.go(work, produce, number)
        for number in range(10):
            crowd.go(work, consume, 10 + number)
        try:
            commands()
        finally:
            done.set()
    with daemon.client() as own:
        for queue in QUEUES:
            own.delete(queue)
            own.push(queue, 1, 2, 3)
            for group in GROUPS:
                assert data(own.pop(queue, consumerGroup=group, subscriptionMode="all", batch=3, wait=True,
                                    timeout=60000)) == [1, 2, 3]
    daemon.stop()
