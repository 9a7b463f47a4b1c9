"""Messages with a delivery moment over HTTP: none goes early, order is kept, others are not held up, who waits is
woken."""
from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import psycopg
import pytest
from support.client import Client, ack_of, data, pop_target
from support.clock import other_clock
from support.daemon import Daemon
from support.wait import until

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def in_ms(ms: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(milliseconds=ms)).isoformat()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def delivered_at(daemon: Daemon, message: dict) -> datetime:
    """When the lease that the message came with was given, by the database's clock."""
    with psycopg.connect(daemon.conninfo, autocommit=True) as connection:
        (at,) = connection.execute("SELECT queend.moment(consumed_at) FROM queend.cursors WHERE lease_id = %s",
                                   (message["leaseId"],)).fetchone()
    return at


def not_early(daemon: Daemon, messages: list[dict]) -> None:
    at = delivered_at(daemon, messages[0])
    assert all(at >= moment(message["deliverAt"]) for message in messages if "deliverAt" in message)


@pytest.fixture
def waiting(daemon: Daemon) -> Iterator[Client]:
    with daemon.client() as one:
        yield one


def test_it_holds_back_what_follows_in_its_partition_and_nothing_else(client: Client, queue: str) -> None:
    client.push_items([{"queue": queue, "partition": "a", "payload": 1},
                       {"queue": queue, "partition": "a", "payload": 2, "deliverAt": in_ms(HOUR_MS)},
                       {"queue": queue, "partition": "a", "payload": 3},
                       {"queue": queue, "partition": "b", "payload": 4}])
    got = client.pop(queue, batch=10, partitions=10, autoAck=True)
    assert sorted(data(got)) == [1, 4] and not any("deliverAt" in one for one in got)
    assert client.pop(queue, "a") == [] and client.pop(queue) == []


@pytest.mark.parametrize("auto", [False, True], ids=["lease", "auto"])
@pytest.mark.parametrize("specific", [False, True], ids=["queue", "partition"])
def test_a_parked_pop_is_served_when_the_moment_comes(client: Client, daemon: Daemon, waiting: Client, queue: str,
                                                      auto: bool, specific: bool) -> None:
    client.push(queue, "first", partition="p")
    assert data(client.pop(queue, autoAck=True)) == [
        "first"], "the partition and the cursor are known: a push could deliver by itself"
    waiting.send("GET", pop_target(queue, "p" if specific else None, wait=True, timeout=100_000, batch=10,
                                   autoAck=auto))
    until(lambda: client.parked(), "the pop is parked")
    client.push_items([{"queue": queue, "partition": "p", "payload": "timed", "delayMs": 400},
                       {"queue": queue, "partition": "p", "payload": "after"}])
    got = waiting.receive().json["messages"]
    assert data(got) == ["timed", "after"] and "deliverAt" in got[0] and "deliverAt" not in got[1]
    assert moment(got[0]["deliverAt"]) > moment(got[0]["createdAt"])
    if not auto:
        not_early(daemon, got)
        assert client.ack_batch([ack_of(one) for one in got])[1]["leaseReleased"] is True


def test_a_consumer_that_keeps_up_does_not_get_it_from_memory(client: Client, queue: str) -> None:
    client.push(queue, 0)
    client.pop(queue, autoAck=True)
    for round_ in range(3):
        client.push(queue, f"now {round_}")
        client.push(queue, f"later {round_}", delayMs=HOUR_MS if round_ == 2 else 1)
        client.push(queue, f"behind {round_}")
        got: list = []
        while round_ < 2 and len(got) < 3:
            got += data(client.pop(queue, batch=10, autoAck=True, wait=True, timeout=100_000))
        assert got in ([], [f"now {round_}", f"later {round_}", f"behind {round_}"])
    assert data(client.pop(queue, batch=10, autoAck=True)) == ["now 2"] and client.pop(queue) == []


def test_the_moment_as_text_and_as_number(client: Client, daemon: Daemon, queue: str) -> None:
    ahead = int(time.time() * 1000) + 3000     # still to come when it is stored
    east = datetime.fromtimestamp(ahead / 1000, timezone(timedelta(hours=5, minutes=30))).isoformat()
    client.push_items([{"queue": queue, "partition": p, "payload": p, "deliverAt": at}
                       for p, at in (("number", ahead), ("text", east))])
    got: list[dict] = []
    while len(got) < 2:
        some = client.pop(queue, batch=10, partitions=10, wait=True, timeout=100_000)
        not_early(daemon, some)
        got += some
    assert {one["deliverAt"]
            for one in got} == {f"{datetime.fromtimestamp(ahead / 1000, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"}


@pytest.mark.parametrize("past", [{"delayMs": 0}, {"delayMs": None}, {"deliverAt": None}, {"deliverAt": 0},
                                  {"deliverAt": "2020-02-29T10:00:00Z"}], ids=str)
def test_a_moment_that_has_passed_is_none(client: Client, queue: str, past: dict) -> None:
    client.push(queue, 1, **past)
    (message,) = client.pop(queue)
    assert message["data"] == 1 and "deliverAt" not in message


BAD = [{"deliverAt": "2999-01-01T00:00:00"}, {"deliverAt": "2026-01-01"}, {"deliverAt": "soon"}, {"deliverAt": ""},
       {"deliverAt": True}, {"deliverAt": []}, {"deliverAt": -1},
       {"deliverAt": 1.5}, {"deliverAt": "1700000000000"}, {"deliverAt": 10**17}, {"deliverAt": 10**40},
       {"deliverAt": "2999-01-01T00:00:00Z"}, {"delayMs": 366 * DAY_MS + 1},
       {"delayMs": -1}, {"delayMs": "5"}, {"delayMs": 0.5}, {"delayMs": {}}, {"delayMs": 10**30},
       {"delayMs": 5, "deliverAt": 5}, {"deliverAt": 1_800_000_000}, {"deliverAt": 99_999_999_999}]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_what_is_no_moment_is_refused_in_every_form(client: Client, queue: str, bad: dict) -> None:
    item = {"queue": queue, "payload": 1}
    for answer in (client.post("/api/v1/push", {"items": [item, {**item, **bad}]}),
                   client.request("POST", "/api/v1/push", b"%s\n%s\n" % (json.dumps(item).encode(), json.dumps({
                       **item, **bad}).encode()), {"Content-Type": "application/x-ndjson"}),
                   client.post("/api/v1/transaction", {"operations": [{"type": "push", **item, **bad}]}),
                   client.post("/api/v1/transaction",
                               {"operations": [{"type": "push", "items": [item, {**item, **bad}]}]})):
        assert answer.status == 400 and list(bad)[0] in answer.json["error"], answer.body
    assert client.show(queue).status == 404, "nothing was stored"


@pytest.mark.parametrize("query", ["delayMs=-1", "delayMs=x", "deliverAt=", "deliverAt=tomorrow",
                                   "delayMs=1&deliverAt=5", "deliverAt=99999999999999", "deliverAt=1800000000"])
def test_what_is_no_moment_is_refused_in_the_query(client: Client, queue: str, query: str) -> None:
    answer = client.post(f"/api/v1/push?{query}", {"items": [{"queue": queue, "payload": 1}]})
    assert answer.status == 400 and "query" in answer.json["error"]


def test_a_moment_for_all_items_of_a_request(client: Client, daemon: Daemon, queue: str) -> None:
    """Also for runs, which are stored as they came; an item's own word goes before it."""
    items = [{"queue": queue, "partition": "run", "payload": n} for n in range(200)]
    own = [{"queue": queue, "partition": "own", "payload": 1, "delayMs": 0},
           {"queue": queue, "partition": "late", "payload": 2, "delayMs": HOUR_MS}]
    assert client.post("/api/v1/push?delayMs=300", {"items": items + own}).status == 201
    lines = b"\n".join(b"%d" % n for n in range(200))
    assert client.request("POST", f"/api/v1/push?delayMs=300&payload=line&queue={queue}&partition=lines", lines,
                          {"Content-Type": "application/x-ndjson"}).status == 201
    with psycopg.connect(daemon.conninfo) as connection:
        stored = connection.execute("SELECT count(*), sum(s.last_offset - s.first_offset + 1) FROM queend.schedule s"
                                    " JOIN queend.partitions p ON p.id = s.partition_id"
                                    " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s", (queue,)).fetchone()
    assert stored[1] == 401 and stored[0] <= 10, "one moment is one run"
    got: dict[str, list] = {}
    while sum(map(len, got.values())) < 401:
        some = client.pop(queue, batch=1000, wait=True, timeout=100_000)
        not_early(daemon, some)
        assert client.ack_batch([ack_of(one) for one in some])[-1]["leaseReleased"]
        got.setdefault(some[0]["partition"], []).extend(some)
    assert data(got["run"]) == data(got["lines"]) == list(range(200))
    assert all("deliverAt" in one for one in got["run"] + got["lines"])
    assert "deliverAt" not in got["own"][0] and "late" not in got


def test_a_transaction_pushes_for_later(client: Client, daemon: Daemon, queue: str) -> None:
    client.push(queue, 1)
    (message,) = client.pop(queue)
    done = client.transaction({"type": "ack", **ack_of(message)},
                              {"type": "push", "queue": f"{queue}-out", "payload": "flat", "delayMs": 300},
                              {"type": "push", "items": [{"queue": f"{queue}-out", "partition": "p",
                                                          "payload": "listed", "deliverAt": in_ms(HOUR_MS)}]})
    assert done["success"] is True
    got = client.pop(f"{queue}-out", wait=True, timeout=100_000)
    not_early(daemon, got)
    assert data(got) == ["flat"] and client.pop(f"{queue}-out", "p") == []


def test_the_lists_show_it_and_the_lag_counts_it(client: Client, queue: str) -> None:
    (stored,) = client.push(queue, 1, deliverAt=in_ms(HOUR_MS), transactionId="t")
    assert client.pop(queue) == []
    (listed,) = client.get(f"/api/v1/messages?queue={queue}").json["messages"]
    assert moment(listed["deliverAt"]) > moment(listed["createdAt"]) and listed["status"] == "pending"
    shown = client.get(
        f"/api/v1/messages/{stored['partitionId'] if 'partitionId' in stored else listed['partitionId']}/t").json
    assert shown["deliverAt"] == listed["deliverAt"]
    (group,) = [one for one in client.get("/api/v1/consumer-groups").json if queue in str(one)]
    assert group["totalLag"] == 1
    again = client.push(queue, 1, transactionId="t", delayMs=5)
    assert again[0]["status"] == "duplicate" and client.pop(queue) == [], "the first one counts"


def test_deleting_it_lets_the_others_go(client: Client, daemon: Daemon, waiting: Client, queue: str) -> None:
    client.push(queue, "late", deliverAt=in_ms(HOUR_MS), transactionId="t")
    client.push(queue, "behind")
    waiting.send("GET", pop_target(queue, wait=True, timeout=100_000))
    until(lambda: client.parked(), "the pop is parked")
    (one,) = [m for m in client.get(f"/api/v1/messages?queue={queue}").json["messages"] if "deliverAt" in m]
    assert client.request("DELETE", f"/api/v1/messages/{one['partitionId']}/t").json["success"] is True
    assert data(waiting.receive().json["messages"]) == ["behind"]


def test_failures_and_dead_letters_behind_a_moment(client: Client, daemon: Daemon, queue: str) -> None:
    client.configure(queue, retryLimit=1)
    client.push(queue, "timed", delayMs=300)
    for dlq in (False, True):
        (message,) = client.pop(queue, wait=True, timeout=100_000)
        not_early(daemon, [message])
        assert client.ack(message, "failed")["dlq"] is dlq
    answer = client.post("/api/v1/dlq/redrive", {"queue": queue})
    assert answer.status == 200
    (message,) = client.pop(queue, wait=True, timeout=100_000)
    assert message["data"] == "timed" and "deliverAt" not in message, "sent back, it goes at once"


def test_a_moment_outlives_the_daemon_and_reaches_the_others(start_daemon: Callable[..., Daemon], queue: str) -> None:
    first = start_daemon()
    with first.client() as client:
        client.configure(queue, leaseTime=3600)
        client.push(queue, "a", "b")
        client.push(queue, "timed", delayMs=2500)
        held = client.pop(queue, batch=2)
        second = start_daemon(first.conninfo)
        with second.client() as other:
            other.send("GET", pop_target(queue, wait=True, timeout=100_000))     # believes in a lease of an hour
            until(lambda: second.client().parked(), "the pop is parked")
            assert client.ack_batch([ack_of(one) for one in held])[-1]["leaseReleased"]
            first.kill()
            got = other.receive().json["messages"]
    assert data(got) == ["timed"]
    not_early(second, got)


def test_after_a_restart(start_daemon: Callable[..., Daemon], queue: str) -> None:
    first = start_daemon()
    with first.client() as client:
        client.push(queue, "timed", delayMs=1500)
    first.kill()
    second = start_daemon(first.conninfo)
    with second.client() as client:
        got = client.pop(queue, wait=True, timeout=100_000)
    assert data(got) == ["timed"]
    not_early(second, got)


@pytest.mark.parametrize("offset", ["+5m", "-5m"])
def test_the_clock_of_the_database_decides(start_daemon: Callable[..., Daemon], queue: str, offset: str) -> None:
    """The daemon's own clock is five minutes off: a delay counts from the push, a moment is that of the database."""
    daemon = start_daemon(**other_clock(offset))
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as db:
        client.push_items([{"queue": queue, "partition": "delay", "payload": 1, "delayMs": HOUR_MS},
                           {"queue": queue, "partition": "moment", "payload": 2, "deliverAt": in_ms(120_000)},
                           {"queue": queue, "partition": "past", "payload": 3, "deliverAt": in_ms(-120_000)}])
        assert data(client.pop(queue, batch=3, partitions=3)) == [3]
        waits = dict(db.execute("SELECT p.name, (s.due - l.created_at) / 1000000 FROM queend.schedule s"
                                " JOIN queend.partitions p ON p.id = s.partition_id"
                                " JOIN queend.log l ON l.partition_id = s.partition_id").fetchall())
        assert set(waits) == {"delay", "moment"} and abs(waits["delay"] - HOUR_MS / 1000) < 60
