"""Kept figures: whatever happened to a queue, the sums are those of its partitions."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import psycopg
import pytest
from support.client import Client, ack_of
from support.daemon import Daemon
from support.wait import until

# What the sums should be, from cursors, floors and log, without anything kept.
LIVE_QUEUES = """
SELECT p.queue_id, count(*)::bigint, sum(f.head), sum(f.head - f.floor), sum(f.pending), sum(f.processing),
       sum(f.completed)
  FROM queend.partitions p
  JOIN queend.partition_figures(ARRAY(SELECT id FROM queend.partitions)) f ON f.partition_id = p.id
 GROUP BY p.queue_id ORDER BY 1"""
KEPT_QUEUES = ("SELECT queue_id, partitions, pushed, total, pending, processing, completed FROM queend.stat_queues"
               " WHERE partitions > 0 ORDER BY 1")
LIVE_GROUPS = """
SELECT group_id, count(*), count(*) FILTER (WHERE head > next), sum(head - next)::bigint, sum(leased)::bigint
  FROM queend.partition_cursors(ARRAY(SELECT id FROM queend.partitions)) WHERE group_id IS NOT NULL
 GROUP BY group_id ORDER BY 1"""
KEPT_GROUPS = "SELECT group_id, members, lagging, lag, leased FROM queend.stat_groups WHERE members > 0 ORDER BY 1"


@pytest.fixture
def database(daemon: Daemon) -> Iterator[psycopg.Connection]:
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        yield connection


def same(database: psycopg.Connection) -> None:
    assert database.execute(KEPT_QUEUES).fetchall() == database.execute(LIVE_QUEUES).fetchall()
    assert database.execute(KEPT_GROUPS).fetchall() == database.execute(LIVE_GROUPS).fetchall()


def listed(client: Client, queue: str) -> dict | None:
    return next((one for one in client.get("/api/v1/resources/queues").json["queues"] if one["name"] == queue), None)


def refresh(client: Client) -> dict:
    answer = client.request("POST", "/api/v1/stats/refresh")
    assert answer.status == 200
    return answer.json


def test_a_look_follows_what_happens(client: Client, database: psycopg.Connection, queue: str) -> None:
    for i in range(5):
        client.push(queue, *range(4), partition=f"p{i}")
    assert listed(client, queue)["messages"] == {"total": 20, "pending": 20, "processing": 0}
    same(database)
    messages = client.pop(queue, "p0", batch=3)
    assert listed(client, queue)["messages"] == {"total": 20, "pending": 17, "processing": 3}
    client.ack_batch([ack_of(one) for one in messages])
    client.pop(queue, "p1", batch=10, consumerGroup="other", autoAck="true")
    assert listed(client, queue)["messages"] == {"total": 20, "pending": 13,
                                                 "processing": 0}, "the largest over the groups"
    same(database)
    client.push(queue, 1, partition="new")
    assert listed(client, queue)["partitions"] == 6
    client.post(f"/api/v1/consumer-groups/__QUEUE_MODE__/queues/{queue}/seek", {"toEnd": True})
    listed(client, queue)
    same(database)
    client.request("DELETE", f"/api/v1/consumer-groups/other/queues/{queue}")
    listed(client, queue)
    same(database)
    client.request("DELETE", f"/api/v1/resources/queues/{queue}")
    assert listed(client, queue) is None
    same(database)


def test_a_lease_that_runs_out_is_pending_again(client: Client, queue: str) -> None:
    client.post("/api/v1/configure", {"queue": queue, "options": {"leaseTime": 5}})
    client.push(queue, 1, 2)
    client.pop(queue, batch=2)
    assert listed(client, queue)["messages"]["processing"] == 2
    until(lambda: listed(client, queue)["messages"] == {"total": 2, "pending": 2, "processing": 0},
          "the lease runs out")


def test_clearing_removes_messages_and_nothing_else(client: Client, database: psycopg.Connection, queue: str) -> None:
    client.push(queue, 1, 2, partition="a")
    client.push(queue, 3, partition="b")
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear?partition=a").json == {
        "cleared": True, "queue": queue, "partition": "a", "count": 2}
    assert client.pop(queue, "a") == [] and client.show(queue).json["totals"]["total"] == 1
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear").json == {
        "cleared": True, "queue": queue, "partition": None, "count": 1}
    assert listed(client, queue)["messages"] == {"total": 0, "pending": 0, "processing": 0}
    client.push(queue, 4, partition="a")
    assert [one["data"] for one in client.pop(queue, batch=10)] == [4]
    refresh(client)
    same(database)
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear?partition=none").status == 404
    assert client.request("DELETE", "/api/v1/queues/no-such/clear").status == 404


def test_a_refresh_repairs_what_is_wrong(client: Client, database: psycopg.Connection, queue: str) -> None:
    client.push(queue, *range(10))
    assert listed(client, queue)["messages"]["total"] == 10
    # as after a crash
    database.execute("TRUNCATE queend.stat_partitions, queend.stat_cursors, queend.stat_queues,"
                     " queend.stat_groups, queend.stats")
    told = refresh(client)
    assert told["partition"]["partitionsUpdated"] >= 1 and told["queue"]["queuesUpdated"] >= 1
    assert listed(client, queue)["messages"]["total"] == 10
    same(database)


def test_pages_of_partitions(client: Client, queue: str) -> None:
    for name in "edcba":
        client.push(queue, 1, partition=name)
    answer = client.get(f"/api/v1/resources/queues/{queue}?limit=2&offset=1").json
    assert [one["name"] for one in answer["partitions"]] == ["b", "c"] and answer["totals"]["total"] == 5
    shown = client.get(f"/api/v1/status/queues/{queue}?limit=2").json
    assert [one["name"] for one in shown["partitions"]] == ["a", "b"] and shown["totals"]["messages"]["pending"] == 5
    shown = client.get(f"/api/v1/resources/partitions?queue={queue}&limit=3").json
    assert [(one["name"], one["queue"], one["stats"]["pending"])
            for one in shown["partitions"]] == [("a", queue, 1), ("b", queue, 1), ("c", queue, 1)]
    assert client.get("/api/v1/resources/partitions?queue=no-such").status == 404
    assert len(client.get("/api/v1/resources/partitions").json["partitions"]) >= 5


def test_depth_of_a_group(client: Client, queue: str) -> None:
    for name in "ab":
        client.push(queue, 1, 2, 3, partition=name)
    client.ack_batch([ack_of(one) for one in client.pop(queue, "a", batch=2, consumerGroup="g")], "g")
    target = f"/api/v1/resources/queues/{queue}/depth"
    assert client.get(f"{target}?group=g").json == {
        "queue": queue, "group": "g", "pending": 4, "partitionsPending": 2, "conflation": False, "effectivePending": 4,
        "partitions": [{"partition": "a", "pending": 1}, {"partition": "b", "pending": 3}]}
    assert client.get(f"{target}?group=nobody").json["pending"] == 6
    whole = client.get(target).json
    assert (whole["group"], whole["pending"], whole["partitionsPending"], whole["partitions"]) == (None, 4, 2, [])
    assert client.get("/api/v1/resources/queues/no-such/depth").status == 404


@pytest.mark.parametrize(("column", "default_s"), [("looked_at", 10), ("full_at", 120)])
def test_looks_and_walks_come_as_often_as_they_are_asked_for(start_daemon: Callable[..., Daemon], column: str,
                                                             default_s: int) -> None:
    """Of four two were closer to each other than half of the default."""
    daemon = start_daemon(STATS_INTERVAL_MS=100, STATS_RECONCILE_INTERVAL_MS=1000)
    with psycopg.connect(daemon.conninfo, autocommit=True) as database:
        seen: dict[int, None] = {}

        def four() -> bool:
            seen.update(dict.fromkeys(at for at, in database.execute(f"SELECT {column} FROM queend.stats")))
            return len(seen) > 3
        until(four, "four of them")
        assert min(after - before for before, after in pairwise(seen)) < default_s * 500_000


def test_two_daemons_keep_one_set_of_figures(start_daemon: Callable[..., Daemon]) -> None:
    one = start_daemon(STATS_INTERVAL_MS=100)
    two = start_daemon(one.conninfo, STATS_INTERVAL_MS=100)
    with one.client() as here, two.client() as there:
        for i in range(20):
            (here, there)[i % 2].push("q", i, partition=f"p{i % 7}")
        until(lambda: all(listed(client, "q")["messages"]["pending"] == 20 for client in (here, there)),
              "both show what both stored")
        with psycopg.connect(one.conninfo, autocommit=True) as database:
            same(database)
