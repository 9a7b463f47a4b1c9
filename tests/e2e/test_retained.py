"""Consumers at work while everything they have completed is removed behind them: nothing is lost, nothing comes
twice."""
from __future__ import annotations

import random
import threading

import psycopg
from support.client import ack_of
from support.crowd import Crowd
from support.wait import until

PARTITIONS, PUSHES, PRODUCERS = 12, 120, 3
GROUPS = ("red", "blue")


def test_what_is_completed_goes_and_nothing_else(start_daemon, queue) -> None:
    daemon = start_daemon(RETENTION_INTERVAL=100, RETENTION_BATCH_SIZE=20)
    taken: dict[str, dict[str, list]] = {group: {f"p{i}": [] for i in range(PARTITIONS)} for group in GROUPS}
    turn = threading.Lock()
    total = [0]
    pushed = threading.Event()

    def produce(number: int) -> None:
        chance = random.Random(number)
        with daemon.client() as own:
            for n in range(PUSHES):
                results = own.push_items([{"queue": queue, "partition": f"p{chance.randrange(PARTITIONS)}",
                                           "payload": [number, n, i]} for i in range(chance.randint(1, 5))])
                assert {one["status"] for one in results} == {"queued"}
                with turn:
                    total[0] += len(results)

    def count(group: str) -> int:
        return sum(map(len, taken[group].values()))

    def consume(group: str, number: int) -> None:
        chance = random.Random(f"{group} {number}")
        with daemon.client() as own:
            while not (pushed.is_set() and count(group) >= total[0]):
                messages = own.pop(queue, consumerGroup=group, batch=chance.randint(1, 40),
                                   partitions=chance.randint(1, 4), wait=True, timeout=500)
                with turn:
                    for one in messages:
                        taken[group][one["partition"]].append((one["offset"], one["data"]))
                if messages:
                    assert all(one["success"] for one in own.ack_batch([ack_of(m) for m in messages], group))

    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as db:
        client.configure(queue, retentionEnabled=True, completedRetentionSeconds=1)
        with Crowd() as consumers:
            for group in GROUPS:
                # Both have come before anything is completed: a group is counted from its first pop on.
                assert client.pop(queue, consumerGroup=group) == []
            for group in GROUPS:
                for number in range(2):
                    consumers.go(consume, group, number)
            with Crowd() as producers:
                producers.all(produce, range(PRODUCERS))
            pushed.set()
        for group in GROUPS:
            for name, messages in taken[group].items():
                assert [offset for offset, _ in messages] == list(range(len(messages))), (group, name)
        assert count("red") == count("blue") == total[0]
        assert taken["red"] == taken["blue"]
        until(lambda: db.execute("SELECT count(*) FROM queend.log").fetchone() == (0,),
              "all was consumed by both, all is gone")
        for name, messages in taken["red"].items():
            (again,) = client.push(queue, "next", partition=name)
            (message,) = client.pop(queue, name, consumerGroup="red", autoAck=True)
            assert message["data"] == "next" and message["offset"] == len(messages) and again["status"] == "queued"
