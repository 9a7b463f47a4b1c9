"""A queue or a group that is paused: its pops find nothing, those that may wait do, all else goes on."""
from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.parked import all_wait, first_served, waiting
from support.wait import until


def switched(client: Client, what: str, queue: str, group: str | None = None, changed: bool = True) -> None:
    path = f"/api/v1/queues/{queue}" if group is None else f"/api/v1/consumer-groups/{group}/queues/{queue}"
    answer = client.post(f"{path}/{what}")
    assert (answer.status, answer.json["changed"]) == (200, changed), answer.body
    assert answer.json["paused"] is (what == "pause") and answer.json["queue"] == queue


@pytest.mark.parametrize("group", [None, "workers"])
def test_pops_find_nothing_and_all_else_goes_on(client: Client, queue: str, group: str | None) -> None:
    of = {"consumerGroup": group} if group else {}
    client.push(queue, 1, 2)
    (held,) = client.pop(queue, batch=1, **of)
    switched(client, "pause", queue, group)
    switched(client, "pause", queue, group, changed=False)
    assert client.ack(held, group=group)["success"]
    client.push(queue, 3, partition="new")
    for target in (pop_target(queue, **of), pop_target(queue, "Default", **of), pop_target(queue, "new", **of),
                   pop_target(queue, wait=True, timeout=1, **of)):
        answer = client.get(target)
        assert (answer.status, answer.json["messages"], answer.json["reason"]) == (200, [], "paused")
    switched(client, "resume", queue, group)
    switched(client, "resume", queue, group, changed=False)
    found = client.pop(queue, batch=10, partitions=5, **of) + client.pop(queue, batch=10, partitions=5, **of)
    assert sorted(data(found)) == [2, 3]


def test_other_groups_go_on(client: Client, queue: str) -> None:
    client.push(queue, 1)
    for group in ("one", "other"):
        client.pop(queue, consumerGroup=group, autoAck="true")
    switched(client, "pause", queue, "one")
    client.push(queue, 2)
    assert data(client.pop(queue, consumerGroup="other", autoAck="true")) == [2]
    assert client.pop(queue, consumerGroup="one") == []
    switched(client, "pause", queue)
    client.push(queue, 3)
    assert client.pop(queue, consumerGroup="other") == client.pop(queue, consumerGroup="a.new.one") == []
    switched(client, "resume", queue, "one")
    assert client.pop(queue, consumerGroup="one") == [], "all of the queue is paused still"
    switched(client, "resume", queue)
    assert data(client.pop(queue, consumerGroup="one", batch=9)) == [2, 3]


@pytest.mark.parametrize("specific", [False, True])
def test_those_that_wait_go_on_waiting_until_it_is_resumed(daemon: Daemon, client: Client, queue: str,
                                                           specific: bool) -> None:
    """What is pushed meanwhile is handed to nobody, and wakes nobody; the end of the pause does."""
    client.push(queue, 0)
    client.pop(queue, autoAck="true")
    query = {"partition": "Default"} if specific else {}
    with waiting(daemon, client, queue, beside=0, **query) as (before,):
        switched(client, "pause", queue)
        with waiting(daemon, client, queue, beside=1, **query) as (later,):
            client.push(queue, 1)
            client.push(queue, 2)
            assert client.get(pop_target(queue)).json["reason"] == "paused"
            until(lambda: all_wait([before, later], client), "both wait")
            switched(client, "resume", queue)
            client.push(queue, 3)
            first = first_served([before, later])
            for one, expected in ((first, 1), (later if first is before else before, 2)):
                (message,) = one.receive().json["messages"]
                assert message["data"] == expected
                client.ack(message)


def test_a_pop_of_a_namespace_passes_it_over(client: Client, queue: str) -> None:
    for name in ("paused", "free"):
        client.configure(f"{name}.{queue}", namespace=queue)
        client.push(f"{name}.{queue}", name)
        client.pop(f"{name}.{queue}", autoAck="true")
        client.push(f"{name}.{queue}", name)
    switched(client, "pause", f"paused.{queue}")
    found = [client.get(f"/api/v1/pop?namespace={queue}&autoAck=true").json["messages"] for _ in range(3)]
    assert [data(one) for one in found] == [["free"], [], []]
    switched(client, "resume", f"paused.{queue}")
    assert data(client.get(f"/api/v1/pop?namespace={queue}&autoAck=true").json["messages"]) == ["paused"]


def test_every_daemon_obeys_and_a_restart_changes_nothing(start_daemon: Callable[..., Daemon]) -> None:
    one = start_daemon()
    two = start_daemon(one.conninfo)
    with one.client() as here, two.client() as there:
        here.push("q", 1, 2)
        assert data(there.pop("q", batch=1, consumerGroup="g", autoAck="true", wait=True, timeout=100_000)) == [1]
        there.send("GET", pop_target("q", "other", wait=True, timeout=110_000, consumerGroup="g"))
        switched(here, "pause", "q", "g")
        with two.client() as third:
            assert third.get(pop_target("q", consumerGroup="g")).json["reason"] == "paused", "from the answer on"
        here.push("q", 3, partition="other")
        one.stop()
        three = start_daemon(one.conninfo)
        with three.client() as anew:
            assert anew.get(pop_target("q", consumerGroup="g")).json["reason"] == "paused"
            switched(anew, "resume", "q", "g")
        assert data(there.receive().json["messages"]) == [3], "the other daemon hears of it"


def test_from_sql_it_is_paused_too(daemon: Daemon, client: Client, queue: str) -> None:
    request = psycopg.types.json.Jsonb([{"idx": 0, "queue_name": queue, "batch_size": 10, "worker_id": "w"}])
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        def popped() -> dict:
            return connection.execute("SELECT queen.pop_unified_batch_v4(%s)", (request,)).fetchone()[0][0]["result"]

        client.push(queue, 1)
        switched(client, "pause", queue)
        assert (popped()["messages"], popped()["error"]) == ([], "paused")
        assert connection.execute("SELECT * FROM queen.pop_sm_resolve(%s)", (queue,)).fetchall() == []
        assert connection.execute("SELECT * FROM queen.pop_sm_lease(%s, 'Default', '__QUEUE_MODE__', 60, 'w', 1)",
                                  (queue,)).fetchall() == []
        switched(client, "resume", queue)
        assert len(popped()["messages"]) == 1


def test_it_is_shown_and_goes_with_its_queue(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, 1)
    client.pop(queue, consumerGroup="g", autoAck="true")

    def group() -> dict:
        return next(one for one in client.get(f"/api/v1/consumer-groups?queue={queue}").json if one["name"] == "g")

    assert "paused" not in client.get(f"/api/v1/resources/queues/{queue}").json and "paused" not in group()
    switched(client, "pause", queue, "g")
    assert group()["paused"] is True and "paused" not in client.get(f"/api/v1/resources/queues/{queue}").json
    assert group()["pausedBy"] == "group"
    switched(client, "pause", queue)
    assert group()["pausedBy"] == "group", "also by itself"
    switched(client, "resume", queue, "g")
    assert (group()["paused"], group()["pausedBy"]) == (True, "queue")
    switched(client, "pause", queue, "g")
    assert client.get(f"/api/v1/resources/queues/{queue}").json["paused"] is True
    assert [one["paused"] for one in client.get(f"/api/v1/resources/queues?search={queue}").json["queues"]
            if one["name"] == queue] == [True]
    for path in ("/api/v1/consumer-groups/g?deleteMetadata=false", "/api/v1/consumer-groups/g"):
        assert client.request("DELETE", path).status == 200
        with psycopg.connect(daemon.conninfo) as connection:
            count = connection.execute("SELECT count(*) FROM queend.paused p JOIN queend.queues q ON q.id = p.queue_id"
                                       " JOIN queend.consumer_groups g ON g.id = p.group_id WHERE q.name = %s",
                                       (queue,)).fetchone()
        assert count == (int("?" in path),), "one that keeps its subscription stays paused"
    client.delete(queue)
    client.push(queue, 2)
    assert data(client.pop(queue)) == [2], "a new queue of the name is not"
    with psycopg.connect(daemon.conninfo) as connection:
        assert connection.execute("SELECT count(*) FROM queend.paused p WHERE NOT EXISTS (SELECT FROM queend.queues q"
                                  " WHERE q.id = p.queue_id)").fetchone() == (0,)


def test_what_is_not_there_cannot_be_paused(client: Client, queue: str) -> None:
    for target, code in ((f"queues/{queue}/pause", "queue_not_found"), (f"queues/{queue}/resume", "queue_not_found"),
                         (f"consumer-groups/g/queues/{queue}/pause", "queue_not_found")):
        answer = client.post(f"/api/v1/{target}")
        assert (answer.status, answer.json["code"]) == (404, code)
    client.push(queue, 1)
    answer = client.post(f"/api/v1/consumer-groups/g/queues/{queue}/pause")
    assert (answer.status, answer.json["code"]) == (404, "group_not_found")


def test_a_storm_of_pauses_loses_and_doubles_nothing(daemon: Daemon, client: Client, queue: str) -> None:
    """Producers and consumers go on while the queue is paused and resumed thirty times."""
    number, found, over = 300, [], threading.Event()
    client.push(queue, -1)
    client.pop(queue, autoAck="true")

    def produce() -> None:
        with daemon.client() as mine:
            for one in range(number):
                mine.push(queue, one, partition=f"p{one % 7}")

    def consume() -> None:
        with daemon.client() as mine:
            while not over.is_set():
                for message in mine.pop(queue, wait=True, timeout=300, batch=5):
                    assert mine.ack(message)["success"]
                    found.append(message["data"])

    threads = [threading.Thread(target=work) for work in (produce, consume, consume, consume)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        switched(client, "pause", queue)
        switched(client, "resume", queue)
    until(lambda: len(found) >= number, "all are consumed")
    over.set()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(number))


def test_groups_that_are_paused_by_themselves_or_with_their_queue(client: Client, queue: str) -> None:
    client.push(queue, 1)
    for group in ("one", "other"):
        client.pop(queue, consumerGroup=group, autoAck="true")

    def listed(by: str) -> list[tuple[str, str]]:
        answer = client.get(f"/api/v1/consumer-groups?queue={queue}&pausedBy={by}")
        assert answer.status == 200, answer.body
        return [(row["name"], row["pausedBy"]) for row in answer.json]

    assert listed("group") == listed("queue") == []
    switched(client, "pause", queue, "one")
    assert listed("group") == [("one", "group")] and listed("queue") == []
    switched(client, "pause", queue)
    assert listed("group") == [("one", "group")] and listed("queue") == [("other", "queue")]
    everything = f"/api/v1/consumer-groups?queue={queue}"
    assert len(client.get(everything).json) == 2
    assert client.get(f"{everything}&minLagSeconds=3600").json == [], "nothing has waited for an hour"
    answer = client.get(f"{everything}&pausedBy=other")
    assert (answer.status, answer.json["error"]) == (400, "pausedBy must be group or queue")
