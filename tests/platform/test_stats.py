"""Kept figures: whatever happened to a queue, the sums are those of its partitions."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import psycopg
import pytest
from support.client import Client, ack_of
from support.clock import set_back
from support.daemon import Daemon
from support.http import Wire, request
from support.wait import until

from queend.services.stats import LOCK

# What the sums should be, from cursors, floors and log, without anything kept.
LIVE_QUEUES = """
SELECT p.queue_id, count(*)::bigint, sum(f.head), sum(f.total), sum(f.pending), sum(f.processing),
       sum(f.completed)
  FROM queend.partitions p
  JOIN queend.partition_figures(ARRAY(SELECT id FROM queend.partitions)) f ON f.partition_id = p.id
 GROUP BY p.queue_id ORDER BY 1"""
KEPT_QUEUES = ("SELECT queue_id, partitions, pushed, total, pending, processing, completed FROM queend.stat_queues"
               " WHERE partitions > 0 ORDER BY 1")
LIVE_GROUPS = """
SELECT group_id, count(*) FILTER (WHERE has_cursor), count(*) FILTER (WHERE lag > 0), sum(lag)::bigint,
       sum(leased)::bigint
  FROM queend.cursor_figures(ARRAY(SELECT id FROM queend.partitions), NULL) WHERE group_id IS NOT NULL
 GROUP BY group_id ORDER BY 1"""
KEPT_GROUPS = "SELECT group_id, members, lagging, lag, leased FROM queend.stat_groups ORDER BY 1"


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
    assert listed(client, queue)["messages"] == {"total": 20, "pending": 20, "processing": 0}, (
        "of p1 everything waits for the queue mode, of the others for the group that never came to them")
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


COUNTED = """CREATE TABLE public.refreshes (full_at bigint);
CREATE FUNCTION public.note_refresh() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.refreshes VALUES (new.full_at); RETURN new; END $$;
CREATE TRIGGER refreshed AFTER UPDATE ON queend.stats FOR EACH ROW WHEN (old.full_at IS DISTINCT FROM new.full_at)
EXECUTE FUNCTION public.note_refresh()"""


def test_refreshes_that_wait_are_one(start_daemon: Callable[..., Daemon]) -> None:
    """Twenty connections ask for a refresh while one is running. It is run once more, not twenty times."""
    daemon = start_daemon(STATS_RECONCILE_INTERVAL_MS=3_600_000)
    with (daemon.client() as client, ExitStack() as opened,
          psycopg.connect(daemon.conninfo, autocommit=True) as database, psycopg.connect(daemon.conninfo) as holder):
        client.push("refreshed", 1)
        refresh(client)
        database.execute(COUNTED)
        holder.execute("SELECT FROM queend.stats FOR UPDATE")      # metrics are answered meanwhile
        wires = [opened.enter_context(Wire(daemon.address)) for _ in range(20)]
        for wire in wires:
            wire.send(request("POST", "/api/v1/stats/refresh"))
        until(lambda: client.metric("queend_worker_requests") > 20, "all have arrived")
        until(lambda: database.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                                       " AND query LIKE '%queend.stat%'").rowcount, "a refresh waits for the lock")
        holder.rollback()
        answers = [wire.receive() for wire in wires]
        assert not [answer.body for answer in answers if answer.status != 200]
        assert 1 <= database.execute("SELECT count(*) FROM public.refreshes").fetchone()[0] <= 2


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


def test_depth_of_a_group_that_is_created_after_the_look(daemon: Daemon, client: Client, queue: str) -> None:
    """The route looks, and reads then: a group may come in between. Here it comes without a look."""
    client.push(queue, 1, 2, 3)
    client.get(f"/api/v1/resources/queues/{queue}/depth")
    with psycopg.connect(daemon.conninfo) as session:
        for name, start, pending in (("all", None, 3), ("new", 1 << 60, 0)):
            session.execute("INSERT INTO queend.consumer_groups (queue_id, name, mode, start_at) "
                            "SELECT q.id, %s, %s, %s FROM queend.queues q WHERE q.name = %s",
                            (name, name, start, queue))
            found = session.execute("SELECT d.pending, d.name FROM queend.queues q CROSS JOIN LATERAL "
                                    "queend.group_depth(q.id, %s, 9) AS d WHERE q.name = %s", (name, queue)).fetchall()
            assert found[0][0] == pending
            assert session.execute("SELECT g.lag FROM queend.group_list() AS g WHERE g.name = %s AND g.queue = %s",
                                   (name, queue)).fetchone() == (pending,)
        session.rollback()


def test_what_one_group_holds_and_another_waits_for_is_counted_once(client: Client, queue: str) -> None:
    """The backlog is that of the group that is furthest behind: it is never more than what is stored."""
    client.push(queue, *range(10), partition="one")
    client.push(queue, *range(5), partition="two")
    assert len(client.pop(queue, "one", batch=10, consumerGroup="a")) == 10
    done = client.pop(queue, "one", batch=4, consumerGroup="b")
    client.ack_batch([ack_of(one) for one in done], "b")
    assert len(client.pop(queue, "two", batch=3, consumerGroup="b")) == 3
    assert listed(client, queue)["messages"] == {"total": 15, "pending": 6 + 5, "processing": 10 + 3}
    depth = client.get(f"/api/v1/resources/queues/{queue}/depth").json
    assert (depth["pending"], depth["partitionsPending"]) == (10 + 5, 2)
    (shown,) = [one for one in client.get("/api/v1/status/queues?limit=1000").json["queues"] if one["name"] == queue]
    assert shown["messages"] == {"total": 15, "pending": 15, "processing": 13}
    client.request("DELETE", f"/api/v1/queues/{queue}/partitions/one")
    assert client.get(f"/api/v1/resources/queues/{queue}/depth").json["pending"] == 5


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


@pytest.mark.parametrize("by", ["the service", "a page"])
def test_figures_follow_a_clock_that_was_set_back(start_daemon: Callable[..., Daemon], by: str) -> None:
    """The database's clock is set back by ten minutes. What is written before the next look counts in that look."""
    daemon = start_daemon(STATS_INTERVAL_MS=500 if by == "the service" else 600_000)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.push("q", 1, partition="before")
        client.pop("q", "before", consumerGroup="g")
        assert listed(client, "q")["messages"]["total"] == 1
        database.execute("SELECT pg_advisory_lock(%s)", (LOCK,))      # no look runs meanwhile
        set_back(database, 600)
        client.push("q", 2, 3, partition="after")
        client.pop("q", "after", batch=1, consumerGroup="g", autoAck="true")
        database.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
        if by == "the service":
            until(lambda: database.execute(KEPT_QUEUES).fetchall() == database.execute(LIVE_QUEUES).fetchall(),
                  "a look counts both messages")
        else:
            assert listed(client, "q")["messages"]["total"] == 3
        same(database)


def test_a_page_shows_new_figures_although_the_session_of_looks_was_ended(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon(STATS_INTERVAL_MS=600_000)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        client.push("q", 1)
        assert listed(client, "q")["messages"]["total"] == 1
        client.push("q", 2, 3)
        ended = database.execute("""SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'SELECT pg_advisory_unlock%%'""").fetchall()
        assert ended == [(True,)]
        assert listed(client, "q")["messages"]["total"] == 3


def group_of(client: Client, queue: str, name: str = "g") -> dict:
    return next(one for one in client.get(f"/api/v1/consumer-groups?queue={queue}").json if one["name"] == name)


def sample(client: Client, name: str, queue: str) -> list[float]:
    return [float(line.rsplit(" ", 1)[1]) for line in client.scrape()
            if line.startswith(name + "{") and f'queue="{queue}"' in line]


def test_a_group_lags_in_partitions_it_never_came_to(client: Client, queue: str) -> None:
    client.push(queue, 1, partition="first")
    client.pop(queue, consumerGroup="g", autoAck="true")
    client.push_items([{"queue": queue, "partition": f"p{i}", "payload": i} for i in range(1200)])
    told = group_of(client, queue)
    assert (told["totalLag"], told["partitionsWithLag"], told["members"]) == (1200, 1200, 1)
    depth = client.get(f"/api/v1/resources/queues/{queue}/depth?group=g&limit=2").json
    assert (depth["pending"], depth["partitionsPending"], len(depth["partitions"])) == (1200, 1200, 2)
    assert sample(client, "queend_group_lag_messages", queue) == [1200]
    assert len(client.get("/api/v1/consumer-groups/lagging?minLagSeconds=0&limit=10000").json) >= 1200
    assert len(client.get("/api/v1/consumer-groups/g?limit=5000").json[queue]["partitions"]) == 1201


def test_what_a_group_that_began_new_is_not_given_waits_for_nobody(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    assert client.pop(queue, consumerGroup="g", subscriptionMode="new") == []
    assert listed(client, queue)["messages"] == {"total": 5, "pending": 0, "processing": 0}
    client.push(queue, *range(3))
    assert group_of(client, queue)["totalLag"] == listed(client, queue)["messages"]["pending"] == 3
    assert client.get(f"/api/v1/resources/queues/{queue}/depth?group=g").json["pending"] == 3


def test_a_queue_that_nobody_reads_is_old(client: Client, queue: str) -> None:
    client.push(queue, 1)
    until(lambda: sample(client, "queend_queue_oldest_seconds", queue) > [0.1], "its message waits")
    assert client.get("/api/v1/system/live").json["backlog"]["oldestSeconds"] is not None


def test_a_message_that_is_not_due_is_not_late(client: Client, queue: str) -> None:
    client.configure(queue + "-delayed", delayedProcessing=3600)
    client.push(queue + "-delayed", 1)
    client.push(queue, 1, delayMs=3_600_000)
    client.push(queue, 2)
    for name in (queue, queue + "-delayed"):
        assert client.pop(name, consumerGroup="g") == []
        told = group_of(client, name)
        assert (told["totalLag"], told["maxTimeLag"], told["state"]) == (2 if name == queue else 1, 0, "Stable")
        assert sample(client, "queend_queue_oldest_seconds", name) == [0]
    assert not [one for one in client.get("/api/v1/consumer-groups/lagging?minLagSeconds=0").json
                if one["queue_name"].startswith(queue)]
    client.configure(queue + "-delayed", delayedProcessing=0)
    until(lambda: sample(client, "queend_group_oldest_seconds", queue + "-delayed") > [0], "it is late from now on")


def test_a_group_that_falls_behind_is_lagging_whatever_is_new(client: Client, database: psycopg.Connection,
                                                              queue: str) -> None:
    client.push(queue, 1)
    client.pop(queue, consumerGroup="g")
    database.execute("UPDATE queend.log SET created_at = created_at - 301000000 WHERE partition_id ="
                     " (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                     " WHERE q.name = %s)", (queue,))
    client.push(queue, 2)
    told = group_of(client, queue)
    assert (told["state"], told["totalLag"]) == ("Lagging", 2) and told["maxTimeLag"] >= 301


def test_a_deleted_message_counts_nowhere(client: Client, queue: str) -> None:
    client.push(queue, 1, 2)
    client.pop(queue, consumerGroup="g", batch=1, autoAck="true")
    assert group_of(client, queue)["totalLag"] == 1
    newest = client.get(f"/api/v1/messages?queue={queue}").json["messages"][0]
    assert client.request("DELETE", f"/api/v1/messages/{newest['partitionId']}/{newest['transactionId']}").status == 200
    assert group_of(client, queue)["totalLag"] == 0
    assert listed(client, queue)["messages"] == {"total": 1, "pending": 0, "processing": 0}


def test_offsets_that_are_committed_change_the_lag(client: Client, queue: str) -> None:
    client.push(queue, *range(5))
    assert listed(client, queue)["messages"]["pending"] == 5
    for offset in (2, 4):
        client.post("/api/v1/consumer-groups/g/offsets", {"entries": [
            {"queue": queue, "partition": "Default", "offset": offset}]})
        assert group_of(client, queue)["totalLag"] == 5 - offset
