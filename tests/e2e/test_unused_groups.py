"""Groups times partitions in memory: above a bound, groups that nobody asks for are given up, and scans of groups that
are asked for once rest. Nothing is lost."""
from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable

import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.wait import until

PARTITIONS, GROUPS, KEPT, MOST = 25_000, 12, 200_000, 600_000


@pytest.fixture
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    """On a busy machine a scan of a group took longer than 10 s. Statistics of each partition in each group would take
    most of the processor, for figures that no test here reads."""
    return start_daemon(QUEEND_PATIENCE_MS=100_000, STATS_INTERVAL_MS=3_600_000)


def fill(client: Client, queue: str, partitions: int = PARTITIONS) -> None:
    for at in range(0, partitions, 2500):
        client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(at, at + 2500)])


def cursors(client: Client) -> int:
    return int(re.search(r'^queend_remembered{kind="cursors"} (\d+)', "\n".join(client.figures()), re.M)[1])


def pop(client: Client, queue: str, group: int, **more: object) -> list[dict]:
    return client.pop(queue, consumerGroup=f"g{group}", subscriptionMode="all", **more)


def pop_until_given_up(client: Client, queue: str) -> int:
    """Pops once in one new group after the other, until groups are given up. Returns the most cursors that were there
    at once, of at least GROUPS groups."""
    most = 0
    for group in itertools.count():
        pop(client, queue, group, batch=1)
        now = cursors(client)
        if group >= GROUPS and KEPT < most and now < most:
            return most
        most = max(most, now)


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


def test_pops_that_wait_neither_keep_what_is_given_up_nor_miss_anything(daemon: Daemon) -> None:
    """They wait on: what was deleted is freed, and what comes reaches each of them."""
    with daemon.client() as client, contextlib.ExitStack() as stack:
        fill(client, "old.wide")
        while pop(client, "old.wide", 99, batch=10_000, partitions=1000, autoAck="true"):
            pass
        client.push("other", 0, partition="known")
        assert pop(client, "other", 99, autoAck="true")

        def wait(queue: str | None, **more: object) -> Client:
            one = stack.enter_context(daemon.client())
            one.send("GET", pop_target(queue, consumerGroup="g99", wait="true", timeout=115_000, autoAck="true",
                                       **more))
            return one

        waiting = {"7": wait("old.wide"), "8": wait(None, namespace="old"), "group": wait("other"),
                   "known": wait("other", partition="known"), "new": wait("other", partition="new"),
                   "queue": wait("not made yet")}
        until(lambda: client.parked() == len(waiting), "they wait")
        pop_until_given_up(client, "old.wide")
        until(lambda: cursors(client) <= KEPT, "cursors are given up")
        for partition in "78":
            client.push("old.wide", partition, partition=partition)
        assert sorted(sum((data(waiting[n].receive().json["messages"]) for n in "78"), [])) == ["7", "8"]
        for partition in ("known", "group", "new"):
            client.push("other", partition, partition=partition)
            assert data(waiting[partition].receive().json["messages"]) == [partition]
        client.push("not made yet", "made")
        assert data(waiting["queue"].receive().json["messages"]) == ["made"]


def test_a_group_that_is_asked_for_once_is_not_read_to_its_end(daemon: Daemon) -> None:
    """Its next pops read on, and find every partition."""
    with daemon.client() as client:
        fill(client, "wide")
        assert pop_until_given_up(client, "wide") < KEPT + 2 * PARTITIONS
        before = cursors(client)
        for group in range(1000, 1100):
            assert len(pop(client, "wide", group, batch=1)) == 1
        assert cursors(client) < max(before, KEPT) + PARTITIONS
        seen = []
        while more := pop(client, "wide", 1050, batch=1000, partitions=1000, autoAck="true"):
            seen += data(more)
        assert len(seen) == len(set(seen)) == PARTITIONS - 1


def test_groups_that_are_asked_for_again_and_again_have_a_bound(daemon: Daemon) -> None:
    """Groups requested at every moment are read on only as their pops take partitions."""
    with daemon.client() as client, daemon.client() as figures:
        fill(client, "wide")
        for _ in range(40):
            for group in range(300):
                client.send("GET", pop_target("wide", consumerGroup=f"g{group}", subscriptionMode="all", batch=1))
            for _ in range(300):
                assert client.receive().json["messages"]
            assert cursors(figures) <= MOST


def test_news_for_more_groups_than_memory_has_cursors_for(daemon: Daemon) -> None:
    """Every group hears of every partition, also if nobody waits when the messages come."""
    partitions, groups = 7500, 100
    with daemon.client() as client:
        client.configure("wide")
        for group in range(groups):
            assert pop(client, "wide", group) == []
        waiting = daemon.client()
        waiting.send("GET", pop_target("wide", consumerGroup="waits", subscriptionMode="all", wait="true",
                                       timeout=115_000, batch=1000, partitions=1000, autoAck="true"))
        until(lambda: client.parked() == 1, "it waits")
        fill(client, "wide", partitions)
        # a group for which a pop waits takes one cursor for what its pop is given
        assert cursors(client) <= MOST + partitions
        seen: dict[object, list] = {"waits": data(waiting.receive().json["messages"])}
        waiting.close()
        assert seen["waits"]
        for group in (0, groups // 2, groups - 1):
            seen[group] = []
            while more := pop(client, "wide", group, batch=10_000, partitions=1000, autoAck="true"):
                seen[group] += data(more)
            assert sorted(seen[group]) == list(range(partitions)), group
        while more := client.pop("wide", consumerGroup="waits", batch=10_000, partitions=1000, autoAck="true"):
            seen["waits"] += data(more)
        assert sorted(seen["waits"]) == list(range(partitions))


def test_pushes_to_a_queue_of_many_groups_take_turns(daemon: Daemon) -> None:
    """Each group hears of each partition, so a statement takes fewer partitions of such a queue."""
    items = {queue: [{"queue": queue, "partition": str(n), "payload": n} for n in range(1000)]
             for queue in ("few", "many")}

    def statements(client: Client, queue: str) -> float:
        before = client.metric('queend_calls_total{type="push"}')
        assert len(client.push_items(items[queue])) == 1000
        return client.metric('queend_calls_total{type="push"}') - before

    with daemon.client() as client:
        client.configure("many")
        for group in range(400):
            client.send("GET", pop_target("many", consumerGroup=f"g{group}", subscriptionMode="new"))
        for _ in range(400):
            client.receive()
        few = statements(client, "few")
        assert statements(client, "many") >= few + 4
