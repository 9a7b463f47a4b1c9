"""Bounds on queues, partitions of a queue and groups of a queue: the name that is one too many is refused, whoever asks
for it, and nothing else is."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pyarrow
import pyarrow.ipc
import pytest
from support.client import Client, data
from support.daemon import Daemon
from support.frames import KIND, form_a, group_a
from support.postgres import Postgres
from support.wait import until

QUEUES = "There are as many queues as QUEEND_MAX_QUEUES allows: {}"
PARTITIONS = "Queue {} has as many partitions as QUEEND_MAX_PARTITIONS allows: {}"
GROUPS = "Queue {} has as many consumer groups as QUEEND_MAX_GROUPS allows: {}"


@pytest.fixture
def bounded(postgres: Postgres) -> Iterator[Callable[..., Client]]:
    """Starts daemons with bounds, which end with the test; a client of each."""
    running: list[tuple[Daemon, Client]] = []

    def start(conninfo: str | None = None, queues: int = 0, partitions: int = 0, groups: int = 0, **more) -> Client:
        daemon = Daemon(conninfo or postgres.database(), QUEEND_MAX_QUEUES=queues, QUEEND_MAX_PARTITIONS=partitions,
                        QUEEND_MAX_GROUPS=groups, **more)
        running.append((daemon, daemon.client()))
        running[-1][1].conninfo = daemon.conninfo
        return running[-1][1]

    yield start
    for daemon, client in running:
        client.close()
        daemon.stop()


def refused(answer, text: str) -> None:
    assert (answer.status, answer.json["error"]) == (409, text), (answer.status, answer.body)


def names(client: Client, what: str) -> list[str]:
    with psycopg.connect(client.conninfo) as db:
        return [name for name, in db.execute(f"SELECT name FROM queend.{what} ORDER BY name")]


FORMS = {
    "json": lambda queue: ("/api/v1/push", json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode(), {}),
    "lines": lambda queue: ("/api/v1/push",
                            f'{{"queue":"{queue}","payload":1}}\n{{"queue":"{queue}","payload":2}}\n'.encode(),
                            {"Content-Type": "application/x-ndjson"}),
    "frames": lambda queue: ("/api/v1/push", form_a(group_a([b"1"], queue=queue), flags=0), KIND),
    "events": lambda queue: (f"/api/v1/events/{queue}", b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}',
                             {"Content-Type": "application/cloudevents+json"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_push_is_refused_whole(bounded, form: str) -> None:
    client = bounded(queues=1)
    target, body, headers = FORMS[form]("one")
    assert client.request("POST", target, body, headers).status == 201
    target, body, headers = FORMS[form]("two")
    refused(client.request("POST", target, body, headers), QUEUES.format(1))
    refused(client.post("/api/v1/push", {"items": [{"queue": name, "payload": 1} for name in ("one", "two")]}),
            QUEUES.format(1))
    assert names(client, "queues") == ["one"]
    assert len(client.pop("one", batch=10)) == (2 if form == "lines" else 1), "what was refused stored nothing"
    client.delete("one")
    client.push("two", "there is room again")


def test_an_arrow_push_is_refused(bounded) -> None:
    client = bounded(partitions=1)
    batch = pyarrow.record_batch({"queue": ["a", "a"], "partition": ["p", "q"], "payload": ["1", "2"]})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    refused(client.request("POST", "/api/v1/push", sink.getvalue().to_pybytes(),
                           {"Content-Type": "application/vnd.apache.arrow.stream"}), PARTITIONS.format("a", 1))


def test_partitions_of_a_queue(bounded) -> None:
    client = bounded(partitions=3)
    client.configure("q")
    for name in ("a", "b"):
        client.push("q", 1, partition=name)
    refused(client.post("/api/v1/push", {"items": [{"queue": "q", "partition": "c", "payload": 1}]}),
            PARTITIONS.format("q", 3))
    client.push("q", 2, partition="a")
    client.push("other", 1, partition="c")
    assert names(client, "partitions") == ["Default", "a", "b", "c"]


def test_groups_of_a_queue_are_made_by_their_first_pop(bounded) -> None:
    client = bounded(groups=2)
    client.push("q", 1)
    client.push("r", 1)
    for name in ("a", "b"):
        assert client.pop("q", consumerGroup=name)
    for more in ({}, {"wait": True, "timeout": 30000}, {"subscriptionMode": "new"}):
        refused(client.pop_answer("q", consumerGroup="c", **more), GROUPS.format("q", 2))
    assert client.pop("r", consumerGroup="c")
    assert client.pop("q"), "consumers that name no group have theirs in any case"
    assert client.pop("q", "Default", consumerGroup="a") == []
    assert client.request("DELETE", "/api/v1/consumer-groups/a").status == 200
    refused(client.pop_answer("q", consumerGroup="c"), GROUPS.format("q", 2))      # b, and those who name none
    assert client.request("DELETE", "/api/v1/consumer-groups/b").status == 200
    assert client.pop("q", consumerGroup="c")


def test_a_transaction(bounded) -> None:
    client = bounded(queues=1, partitions=1, groups=1)
    client.push("q", 1)
    message, = client.pop("q", consumerGroup="a")
    push = {"type": "push", "items": [{"queue": "q2", "payload": 1}]}
    refused(client.post("/api/v1/transaction", {"operations": [push]}), QUEUES.format(1))
    push["items"][0] |= {"queue": "q", "partition": "more"}
    refused(client.post("/api/v1/transaction", {"operations": [push]}), PARTITIONS.format("q", 1))
    ack = {"type": "ack", "transactionId": message["transactionId"], "partitionId": message["partitionId"],
           "status": "completed"}
    other = client.transaction({**ack, "consumerGroup": "b"})      # makes no group
    assert other["success"] is False and "holds none on this message" in other["error"]
    assert client.transaction({**ack, "consumerGroup": "a"})["success"] is True


def test_a_cycle_of_a_stream(bounded) -> None:
    client = bounded(queues=1, partitions=1)
    client.push("src", 1)
    message, = client.pop("src", consumerGroup="streams.q")
    query = client.post("/streams/v1/queries",
                        {"name": "q", "source_queue": "src", "config_hash": "1"}).json["query_id"]
    cycle = {"query_id": query, "partition_id": message["partitionId"], "consumer_group": "streams.q"}
    for text, item in ((QUEUES.format(1), {"queue": "sink"}),
                       (QUEUES.format(1), {"queue": "sink", "namespace": "other"}),
                       (PARTITIONS.format("src", 1), {"queue": "src", "partition": "more"})):
        answer = client.post("/streams/v1/cycle", {**cycle, "push_items": [{**item, "payload": 1}]})
        refused(answer, text)
        assert answer.json["code"] == "bound_reached"


def test_configure_and_what_else_the_control_plane_makes(bounded) -> None:
    client = bounded(queues=1, groups=1)
    assert client.post("/api/v1/configure", {"queue": "one"}).status == 200
    answer = client.post("/api/v1/configure", {"queue": "two"})
    refused(answer, QUEUES.format(1))
    assert answer.json["code"] == "bound_reached"
    assert client.configure("one", leaseTime=7)["options"]["leaseTime"] == 7
    client.push("one", 1)
    message, = client.pop("one", consumerGroup="a")
    assert client.ack(message, "failed", group="a", error="no")
    shown = client.get("/api/v1/messages?queue=one").json["messages"][0]
    bury = f"/api/v1/messages/{message['partitionId']}/{shown['transactionId']}/dlq"
    assert client.post(bury, {"consumerGroup": "b"}).status == 404      # it makes no group
    assert client.post(bury, {"consumerGroup": "a"}).json["moved"] is True


def test_whoever_shares_a_call_with_what_is_refused_is_served(bounded) -> None:
    client = bounded(queues=40, NUM_WORKERS=1)
    start = threading.Barrier(16)

    def push(number: int) -> list[int]:
        with Client(client.address) as one:
            start.wait()
            return [one.post("/api/v1/push", {"items": [{"queue": f"q{number}-{i}", "payload": i}, {
                "queue": "known", "partition": f"{number}-{i}", "payload": i}]}).status
                    for i in range(10)]

    def partitions(number: int) -> list[int]:
        with Client(client.address) as one:
            start.wait()
            return [one.post("/api/v1/push", {"items": [{"queue": "known", "partition": f"mine {number} {i}",
                                                         "payload": i}]}).status for i in range(10)]

    client.push("known", 0)
    with ThreadPoolExecutor(16) as pool:
        attack = [pool.submit(push, number) for number in range(8)]
        others = [pool.submit(partitions, number) for number in range(8)]
        answers = [status for one in attack for status in one.result()]
        assert {status for one in others for status in one.result()} == {201}
    assert sorted(set(answers)) == [201, 409] and answers.count(201) == 39
    assert len(names(client, "queues")) == 40


def test_two_daemons_do_not_pass_a_bound_together(bounded) -> None:
    one = bounded(queues=30, partitions=50, groups=5)
    two = bounded(one.conninfo, queues=30, partitions=50, groups=5)
    one.push("known", 0)

    def work(number: int) -> list[int]:
        with Client((one, two)[number % 2].address) as client:
            return [client.post("/api/v1/push", {"items": [{"queue": f"q{number}-{i}", "payload": i}]}).status
                    for i in range(12)] + \
                [client.post("/api/v1/push", {"items": [{"queue": "known", "partition": f"{number}-{i}",
                                                         "payload": i}]}).status for i in range(12)] + \
                [client.pop_answer("known", consumerGroup=f"g{number}-{i}").status for i in range(3)]
    with ThreadPoolExecutor(8) as pool:
        answers = [status for found in pool.map(work, range(8)) for status in found]
    assert set(answers) <= {200, 201, 204, 409}
    assert len(names(one, "queues")) == 30 and len(names(one, "consumer_groups")) == 5
    with psycopg.connect(one.conninfo) as db:
        assert db.execute("SELECT count(*) FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id"
                          " WHERE q.name = 'known'").fetchone() == (50,)


def test_what_the_failover_buffer_accepted_is_stored_whatever_the_bounds(bounded, tmp_path: Path) -> None:
    client = bounded(queues=1, partitions=1, QUEEND_BUFFER_BYTES=64 << 20, FILE_BUFFER_DIR=tmp_path / "buffer")
    client.push("one", 0)
    assert client.post("/api/v1/system/maintenance", {"enabled": True}).status == 200
    sent = client.push_items([{"queue": name, "partition": part, "payload": part} for name in ("one", "two")
                              for part in ("a", "b")])
    assert {one["status"] for one in sent} == {"buffered"}
    assert client.post("/api/v1/system/maintenance", {"enabled": False}).status == 200
    until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
    assert client.get("/api/v1/status/buffers").json["failed"] == 0
    assert sorted(data(client.pop("two", batch=10, partitions=10))) == ["a", "b"]
    refused(client.post("/api/v1/push", {"items": [{"queue": "three", "payload": 1}]}), QUEUES.format(1))


def test_what_a_program_committed_in_the_outbox_is_stored_whatever_the_bounds(bounded) -> None:
    client = bounded(queues=1)
    client.push("one", 0)
    with psycopg.connect(client.conninfo) as db:
        db.execute("SELECT queen.push('two', 'Default', '1')")
    until(lambda: client.pop("two"), "it is moved")


def test_a_bound_of_the_database_does_not_bind_the_daemon_twice(bounded) -> None:
    """Somebody bound SQL programs by ALTER DATABASE: the daemon's own settings count in its sessions."""
    client = bounded()
    with psycopg.connect(client.conninfo, autocommit=True) as db:
        db.execute(f"ALTER DATABASE \"{db.info.dbname}\" SET queend.max_queues = 1")
    again = bounded(client.conninfo, queues=3)
    for name in ("a", "b", "c"):
        again.push(name, 1)
    refused(again.post("/api/v1/configure", {"queue": "d"}), QUEUES.format(3))
    with psycopg.connect(client.conninfo,
                         autocommit=True) as db, pytest.raises(psycopg.Error, match="as QUEEND_MAX_QUEUES allows: 1"):
        db.execute("SELECT queen.configure_queue_v1('e', '{}')")
