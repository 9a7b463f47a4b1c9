"""Groups times partitions in memory: above a bound, groups that nobody asks for are given up, and lose nothing."""
from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import until

PARTITIONS, GROUPS, KEPT = 25_000, 12, 200_000


@pytest.fixture
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon()


def fill(client: Client, queue: str) -> None:
    for at in range(0, PARTITIONS, 2500):
        client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(at, at + 2500)])


def cursors(client: Client) -> int:
    return int(re.search(r'^queend_remembered{kind="cursors"} (\d+)', "\n".join(client.figures()), re.M)[1])


def pop(client: Client, queue: str, group: int, **more: object) -> list[dict]:
    return client.pop(queue, consumerGroup=f"g{group}", subscriptionMode="all", **more)


def test_groups_that_nobody_asks_for_are_given_up(daemon: Daemon) -> None:
    with daemon.client() as client:
        fill(client, "wide")
        leased = [pop(client, "wide", group, batch=1)[0] for group in range(GROUPS)]
        until(lambda: cursors(client) <= KEPT, "cursors are given up")
        for group, message in enumerate(leased):
            assert client.ack(message, group=f"g{group}")["success"], group
            seen = [message["data"]]
            while len(seen) < 1000:
                more = pop(client, "wide", group, batch=1000, partitions=1000, autoAck="true")
                assert more, group
                seen += data(more)
            assert len(set(seen)) == len(seen), group


def test_pops_that_wait_are_served_whatever_is_given_up(daemon: Daemon) -> None:
    with daemon.client() as client, daemon.client() as by_name, daemon.client() as by_namespace:
        fill(client, "old.wide")
        while pop(client, "old.wide", 99, batch=10_000, partitions=1000, autoAck="true"):
            pass

        def wait(ms: int) -> None:
            waits = dict(consumerGroup="g99", wait="true", timeout=ms, autoAck="true")
            by_name.send("GET", pop_target("old.wide", **waits))
            by_namespace.send("GET", pop_target(None, namespace="old", **waits))

        def nothing_comes_and_cursors_are_given_up() -> bool:
            wait(1000)
            for one in (by_name, by_namespace):
                assert not one.receive().json.get("messages")
            return cursors(client) <= KEPT

        for group in range(GROUPS):
            pop(client, "old.wide", group, batch=1)
        until(nothing_comes_and_cursors_are_given_up, "cursors are given up")
        wait(100_000)
        for partition in "78":
            client.push("old.wide", partition, partition=partition)
        assert sorted(data(by_name.receive().json["messages"]) + data(by_namespace.receive().json["messages"])) == [
            "7", "8"]
