"""A seek moves a group in all partitions: those it has read, those it has not, and those to come."""
from __future__ import annotations

from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from support.cli import Cli
from support.client import QUEUE_MODE, Client, data
from support.wait import until

PAST, FUTURE = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
ALL = ("read", "unread")


def target(group: str, queue: str, partition: str | None = None) -> str:
    where = "" if partition is None else f"/partitions/{quote(partition, safe='')}"
    return f"/api/v1/consumer-groups/{group}/queues/{quote(queue, safe='')}{where}/seek"


def seek(client: Client, queue: str, partition: str | None = None, group: str = "g", **to: Any) -> dict:
    answer = client.post(target(group, queue, partition), to)
    assert answer.status == 200, answer.body
    return answer.json


def take(client: Client, queue: str, group: str = "g", least: int = 0, **query: Any) -> list:
    """All that the group is given, sorted; waits for `least` messages."""
    name = {} if group == QUEUE_MODE else {"consumerGroup": group}
    got: list = []
    until(lambda: got.extend(data(client.pop(queue, batch=100, partitions=10, autoAck=True, **name, **query)))
          or len(got) >= least, f"{least} messages")
    while some := client.pop(queue, batch=100, partitions=10, autoAck=True, **name, **query):
        got += data(some)
    return sorted(got)


def begin(client: Client, queue: str, start: str, group: str = "g") -> None:
    """A group that has read one of two partitions. start: its subscription."""
    if start == "new":
        client.push(queue, "old", partition="unread")
        assert take(client, queue, group, subscriptionMode="new") == []
        client.push(queue, "old", partition="read")
        assert take(client, queue, group) == ["old"]
        return
    client.push(queue, "old", partition="read")
    name = {} if group == QUEUE_MODE else {"consumerGroup": group}
    assert data(client.pop(queue, "read", autoAck=True, **name)) == ["old"]
    client.push(queue, "old", partition="unread")


@pytest.mark.parametrize("reader", ["client", "other"])
@pytest.mark.parametrize("start", ["all", "new"])
@pytest.mark.parametrize("group", ["g", QUEUE_MODE])
def test_to_the_end(request, client: Client, queue: str, start: str, group: str, reader: str) -> None:
    at: Client = request.getfixturevalue(reader)
    begin(client, queue, "all" if group == QUEUE_MODE else start, group)
    assert seek(at, queue, group=group, toEnd=True)["partitionsUpdated"] == 2
    for partition in (*ALL, "later"):
        client.push(queue, f"new-{partition}", partition=partition)
    assert take(client, queue, group, least=3) == ["new-later", "new-read", "new-unread"]


@pytest.mark.parametrize("reader", ["client", "other"])
@pytest.mark.parametrize("start", ["all", "new"])
def test_to_a_time(request, client: Client, queue: str, start: str, reader: str) -> None:
    """Back to everything; then to what was stored since a moment, in partitions that were never read, too."""
    at: Client = request.getfixturevalue(reader)
    begin(client, queue, start)
    assert seek(at, queue, timestamp=PAST)["partitionsUpdated"] == 2
    client.push(queue, "later", partition="later")
    assert take(client, queue, least=3) == ["later", "old", "old"]
    client.push(queue, "mark", partition="mark")
    (mark,) = client.pop(queue, "mark", consumerGroup="marker")
    seek(at, queue, timestamp=mark["createdAt"])
    for partition in ALL:
        client.push(queue, "after", partition=partition)
    assert take(client, queue, least=2) == ["after", "after"]


@pytest.mark.parametrize("start", ["all", "new"])
def test_to_an_offset(client: Client, queue: str, start: str) -> None:
    begin(client, queue, start)
    for partition in ALL:
        client.push(queue, "second", partition=partition)
    assert seek(client, queue, offset=1)["partitionsUpdated"] == 2
    client.push(queue, "later", partition="later")
    assert take(client, queue, least=3) == ["later", "second", "second"]
    seek(client, queue, offset=0)
    assert take(client, queue, least=5) == ["later", "old", "old", "second", "second"]


@pytest.mark.parametrize("start", ["all", "new"])
@pytest.mark.parametrize("to, got", [({"timestamp": PAST}, ["old"]), ({"offset": 0}, ["old"]), ({"toEnd": True}, []),
                                     ({}, [])], ids=["time", "offset", "end", "nothing"])
def test_one_partition_that_was_not_read(client: Client, queue: str, start: str, to: dict, got: list) -> None:
    begin(client, queue, start)
    assert seek(client, queue, "unread", **to)["updated"] is True
    assert take(client, queue, least=len(got)) == got
    shown = client.get("/api/v1/consumer-groups/g").json[queue]["partitions"]
    assert next(one for one in shown if one["partition"] == "unread")["totalConsumed"] == len(got)


def test_a_time_in_the_future_is_now(client: Client, queue: str) -> None:
    begin(client, queue, "all")
    seek(client, queue, timestamp=FUTURE)
    for partition in (*ALL, "later"):
        client.push(queue, partition, partition=partition)
    assert take(client, queue, least=3) == ["later", "read", "unread"]


def test_a_seek_makes_no_cursors(daemon, client: Client, queue: str) -> None:
    """Not even of many partitions: the start of the group moves."""
    client.push_items([{"queue": queue, "partition": str(n), "payload": n} for n in range(2500)])
    assert take(client, queue, subscriptionMode="new") == []
    assert seek(client, queue, toEnd=True)["partitionsUpdated"] == 2500
    assert seek(client, queue, timestamp=PAST)["partitionsUpdated"] == 2500
    with psycopg.connect(daemon.conninfo) as connection:
        (count,) = connection.execute("SELECT count(*) FROM queend.cursors k JOIN queend.consumer_groups g "
                                      "ON g.id = k.group_id JOIN queend.queues q ON q.id = g.queue_id "
                                      "WHERE q.name = %s", (queue,)).fetchone()
    assert count == 0
    assert len(client.pop(queue, consumerGroup="g", batch=100, partitions=64)) == 64


@pytest.mark.parametrize("partition", [None, "read"])
@pytest.mark.parametrize("body, error", [
    ({"toEnd": False}, "toEnd is false"), ({"toEnd": True, "timestamp": PAST}, "toEnd and timestamp cannot"),
    ({"toEnd": True, "offset": 0}, "toEnd and offset cannot"), ({"toEnd": 1}, "toEnd must be true or false"),
    ({"timestamp": PAST, "offset": 1}, "timestamp and offset cannot"), ({"offset": None}, "offset is null"),
    ({"end": True}, "end is no key"), ({"toEnd": True, "partition": "read"}, "partition is no key"),
    ({"timestamp": ""}, "timestamp is empty"), ([], "request body must be"), ("end", "request body must be"),
], ids=str)
def test_what_cannot_be_meant(client: Client, queue: str, partition: str | None, body: Any, error: str) -> None:
    begin(client, queue, "all")
    answer = client.post(target("g", queue, partition), body)
    assert answer.status == 400 and answer.json["error"].startswith(error), answer.body
    assert take(client, queue, least=1) == ["old"]


def test_what_does_not_exist(daemon, client: Client, queue: str, tmp_path) -> None:
    begin(client, queue, "all")
    for group, of, partition, what in (("nobody", queue, None, "Consumer group"), ("g", "nowhere", None, "Queue"),
                                       ("nobody", queue, "read", "Consumer group"), ("g", queue, "none", "Partition"),
                                       ("g", "nowhere", "read", "Partition")):
        answer = client.post(target(group, of, partition), {"toEnd": True})
        assert answer.status == 404 and answer.json["error"] == f"{what} not found", answer.body
        assert answer.json["success"] is False
    cli = Cli(daemon.url, tmp_path)
    assert cli("group", "seek", "nobody", queue, "--end", "--yes").status == 4
    assert cli("group", "seek", "g", "nowhere", "--end", "--yes").status == 4
    assert cli("group", "seek", "g", queue, "--end", "--yes", "--partition", "none").status == 4
    assert take(client, queue, least=1) == ["old"]


def test_by_command(daemon, client: Client, queue: str, tmp_path) -> None:
    begin(client, queue, "new")
    cli = Cli(daemon.url, tmp_path)
    cli.ok("group", "seek", "g", queue, "--beginning", "--yes")
    assert take(client, queue, least=2) == ["old", "old"]
    cli.ok("group", "seek", "g", queue, "--beginning", "--yes")
    cli.ok("group", "seek", "g", queue, "--end", "--yes")
    client.push(queue, "new", partition="later")
    assert take(client, queue, least=1) == ["new"]
    cli.ok("group", "seek", "g", queue, "--offset", "0", "--partition", "unread", "--yes")
    assert take(client, queue, least=1) == ["old"]


def test_by_function(daemon, client: Client, queue: str) -> None:
    begin(client, queue, "new")
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        def call(function: str, *values: Any) -> dict:
            marks = ", ".join(["%s"] * len(values))
            return connection.execute(f"SELECT queen.{function}({marks})", values).fetchone()[0]

        assert call("seek_consumer_group_v1", "g", queue, PAST, False)["success"] is True
        assert take(client, queue, least=2) == ["old", "old"]
        begin(client, queue, "all", "h")
        assert call("seek_consumer_group_v1", "h", queue, None, True)["partitionsUpdated"] == 2
        client.push(queue, "new", partition="later")
        assert take(client, queue, "h", least=1) == ["new"]
        assert call("seek_partition_v1", "i", queue, "unread") == {"success": False,
                                                                   "error": "Consumer group not found"}
        assert call("seek_consumer_group_v1", "i", queue, None, True)["error"] == "Consumer group not found"
        assert call("seek_consumer_group_v1", "g", "nowhere", None, True)["error"] == "Queue not found"
        assert call("seek_partition_v1", "g", queue, "none")["error"] == "Partition not found"


def test_while_leases_are_out(client: Client, other: Client, queue: str) -> None:
    """Leases of both daemons are void; what was leased comes again, and the rest with it."""
    for partition in "abcd":
        client.push(queue, partition, partition=partition)
    (mine,) = client.pop(queue, "a", consumerGroup="g")
    (theirs,) = until(lambda: other.pop(queue, "b", consumerGroup="g"), "the other daemon knows the partition")
    seek(client, queue, timestamp=PAST)
    assert client.ack(mine, group="g")["success"] is False
    assert other.ack(theirs, group="g")["success"] is False
    assert take(other, queue, least=4) == ["a", "b", "c", "d"]
    (mine,) = until(lambda: client.push(queue, "e", partition="a") and client.pop(queue, "a", consumerGroup="g"), "e")
    seek(other, queue, toEnd=True)
    assert client.ack(mine, group="g")["success"] is False and take(client, queue) == []


def test_pops_that_wait(client: Client, other: Client, peer, queue: str) -> None:
    """A seek back wakes them, at both daemons, for partitions that the group has not read."""
    client.push(queue, "old", partition="a")
    client.push(queue, "old", partition="b")
    assert take(client, queue, subscriptionMode="new") == []
    path = f"/api/v1/pop/queue/{quote(queue, safe='')}?consumerGroup=g&wait=true&timeout=100000&autoAck=true"
    with peer.client() as waiting:
        waiting.send("GET", path)
        until(lambda: other.parked() > 0, "the pop is parked")
        seek(client, queue, timestamp=PAST)
        assert data(waiting.receive().json["messages"]) == ["old"]
    assert take(client, queue, least=1) == ["old"]
