"""Streams of messages as server-sent events: order, credit, leases, and what becomes of them when somebody leaves."""
from __future__ import annotations

import json
import socket
from collections.abc import Callable

import psycopg
import pytest
from support.client import Client, data, pop_target
from support.daemon import Daemon
from support.feed import Feed, stream_target
from support.http import Wire, request
from support.postgres import running
from support.wait import until


def parked(client: Client) -> float:
    return client.parked()


def streams(client: Client) -> float:
    return client.metric("queend_worker_streams")


@pytest.fixture
def feed(daemon: Daemon, queue: str):
    """Opens streams of the test's queue, and closes them."""
    opened = []

    def open_(*where: str, **query: object) -> Feed:
        opened.append(Feed(daemon.address, *(where or (queue,)), **query))
        return opened[-1]
    yield open_
    for one in opened:
        one.close()


# -- messages ----------------------------------------------------------------------------------------------------------

def test_what_is_there_and_what_comes(client: Client, queue: str, feed) -> None:
    client.push(queue, "first", {"n": [1, 2]})
    stream = feed()
    assert stream.headers["cache-control"] == "no-store"
    first, second = stream.messages(2)
    assert data([first, second]) == ["first", {"n": [1, 2]}]
    assert stream.retry == 2000
    assert client.ack(first)["success"] and client.ack(second)["leaseReleased"]
    client.push(queue, "later")
    later = stream.message()
    assert later["data"] == "later" and later["deliveryAttempt"] == 1
    assert set(later) == set(first) == set(client.pop(queue, consumerGroup="pops", subscriptionMode="all")[0])


def test_partitions_in_order(client: Client, queue: str, feed) -> None:
    sent = {f"p{p}": [f"{p}-{n}" for n in range(100)] for p in range(4)}
    stream = feed(consumerGroup="readers", subscriptionMode="all", credit=20, batch=7, partitions=2)
    for n in range(0, 100, 20):
        client.push_items([{"queue": queue, "partition": p, "payload": one}
                           for p, all_ in sent.items() for one in all_[n:n + 20]])
    got: dict[str, list] = {p: [] for p in sent}
    for _ in range(400):
        message = stream.message()
        got[message["partition"]].append(message["data"])
        assert client.ack(message, group="readers")["success"]
    assert got == sent


def test_one_partition(client: Client, queue: str, feed) -> None:
    stream = feed(queue, "a", autoAck=True)
    client.push(queue, "other", partition="b")
    client.push(queue, "own", partition="a")
    message = stream.message()
    assert message["data"] == "own" and message["leaseId"] == ""
    client.push(queue, "more", partition="a")
    assert stream.message()["data"] == "more"
    assert data(client.pop(queue, batch=9)) == ["other"]


@pytest.mark.parametrize("name", ["a/b c?d#e", "ü%20&=+", "\t'\"\\", "日本"], ids=range(4))
def test_odd_names(client: Client, feed, name: str) -> None:
    stream = feed(name, name, consumerGroup=name, subscriptionMode="all")
    client.push(name, "here", partition=name)
    message = stream.message()
    assert (message["queue"], message["partition"], message["consumerGroup"]) == (name, name, name)
    assert client.ack(message, group=name)["success"]


def test_a_payload_of_many_lines(client: Client, queue: str, feed) -> None:
    body = b'{"items":[{"queue":"%s","payload":{\r\n "a":\r[1,\n2],"text":"x\\ny"}}]}' % queue.encode()
    assert client.post("/api/v1/push", body).status == 201
    assert feed().message()["data"] == {"a": [1, 2], "text": "x\ny"}


@pytest.mark.parametrize("size", [0, 70_000, 3_000_000])
def test_sizes(client: Client, queue: str, feed, size: int) -> None:
    stream = feed(autoAck=True)
    client.push(queue, "x" * size, "after")
    assert data(stream.messages(2)) == ["x" * size, "after"]


def test_cloud_events(client: Client, queue: str, feed) -> None:
    event = {"specversion": "1.0", "id": "17", "source": "/shop", "type": "order.placed", "data": {"n": 1}}
    client.request("POST", f"/api/v1/events/{queue}", event, {"Content-Type": "application/cloudevents+json"})
    got = feed(format="cloudevents").event().json
    assert {name: got[name] for name in event} == event and got["queendleaseid"]


def test_it_is_served_by_the_push_itself(client: Client, queue: str, feed) -> None:
    client.push(queue, 0)
    stream = feed(autoAck=True)
    assert stream.message()["data"] == 0
    before = client.metric("queend_worker_handed_over_total")
    for n in range(1, 50):
        client.push(queue, n)
        assert stream.message()["data"] == n
    assert client.metric("queend_worker_handed_over_total") > before


def test_an_old_client(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, "plain")
    with Wire(daemon.address) as wire:
        wire.send(f"GET {stream_target(queue, autoAck=True)} HTTP/1.0\r\n\r\n".encode())
        head = wire._until(b"\r\n\r\n")
        assert b"chunked" not in head and b"close" in head
        assert wire._until(b"\n\n") == b"retry: 2000\n\n"
        assert b'"data":"plain"' in wire._until(b"\n\n")


# -- credit ------------------------------------------------------------------------------------------------------------

def test_no_more_than_the_credit(client: Client, queue: str, feed) -> None:
    client.push_items([{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(10)])
    stream = feed(credit=3, partitions=5)
    out = stream.messages(3)
    for _ in range(7):
        assert stream.silent(0.05)
        client.ack(out.pop(0))
        out.append(stream.message())
    assert len(out) == 3


def test_an_earlier_lease_that_is_given_back_returns_no_credit(daemon: Daemon, client: Client, queue: str,
                                                               feed) -> None:
    """A pop's answer waits behind a long poll until its lease ends. The stream has the message when that client leaves
    and its lease is given back."""
    client.push(queue, "one", partition="p")
    client.push(f"{queue}-idle", 1)
    assert client.pop(f"{queue}-idle", autoAck=True)
    with Wire(daemon.address) as waiter, psycopg.connect(daemon.conninfo, autocommit=True) as database:
        waiter.send(request("GET", pop_target(f"{queue}-idle", wait=True, timeout=60_000))
                    + request("GET", pop_target(queue, leaseSeconds=1)))
        until(lambda: database.execute("SELECT FROM queend.cursors k JOIN queend.partitions p ON p.id = k.partition_id"
                                       " JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s"
                                       " AND k.lease_until > 0", (queue,)).fetchone() is not None,
              "the pop has the message")
        stream = feed(credit=1, leaseSeconds=60)
        first = stream.message()
        assert (first["data"], first["deliveryAttempt"]) == ("one", 2)
        client.push(queue, "two", partition="other")
        assert stream.silent(0.1)
        waiter.abort()
    until(lambda: client.parked() == 0, "the client has left")
    for _ in range(3):        # statements after the one that gives the lease back
        client.push(f"{queue}-idle", 1)
        assert client.pop(f"{queue}-idle", autoAck=True)
    assert stream.silent()
    assert client.ack(first)["success"] and stream.message()["data"] == "two"


@pytest.mark.parametrize("status", ["failed", "retry", "dlq"])
def test_what_failed_returns_its_credit(client: Client, queue: str, feed, status: str) -> None:
    client.push(queue, "bad", "good")
    stream = feed(credit=1)
    first = stream.message()
    assert first["data"] == "bad"
    client.ack(first, status)
    again = stream.message()
    assert again["data"] == ("good" if status == "dlq" else "bad")
    client.ack(again)


def test_a_lease_that_ends_returns_its_credit_and_comes_again(client: Client, queue: str, feed) -> None:
    client.push(queue, "slow")
    stream = feed(credit=1, leaseSeconds=1)
    first, second = stream.messages(2)
    assert first["data"] == second["data"] == "slow"
    assert second["deliveryAttempt"] == 2 and second["leaseId"] != first["leaseId"]
    while not client.ack(second)["success"]:
        second = stream.message()         # this one had ended, too


def test_an_acknowledgment_elsewhere_returns_it(client: Client, other: Client, queue: str, feed) -> None:
    client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
    stream = feed(credit=1)
    first = stream.message()
    assert other.ack(first)["success"]
    second = stream.message()
    assert {first["data"], second["data"]} == {"a", "b"}


def test_with_auto_ack_there_is_no_bound_but_the_clients_own_pace(client: Client, queue: str, feed) -> None:
    client.push(queue, *range(500))
    assert data(feed(autoAck=True, credit=1).messages(500)) == list(range(500))


def test_a_slow_reader_holds_back_only_itself(start_daemon, queue: str) -> None:
    daemon = start_daemon(NUM_WORKERS=1)
    number, size = 400, 100_000
    with daemon.client() as client, Feed(daemon.address, queue, autoAck=True, batch=10) as stream:
        for n in range(0, number, 20):
            client.push(queue, *(str(k).ljust(size) for k in range(n, n + 20)))
        def given() -> float:
            return client.metric("queend_worker_streamed_total")
        until(lambda: given() > 0 and client.parked() == 0, "it is not asked for more")
        assert given() < number
        client.push("beside", 1)
        assert data(client.pop("beside")) == [1]
        assert [int(one["data"]) for one in stream.messages(number)] == list(range(number))


def test_what_a_client_does_not_read_stays_with_the_group(daemon: Daemon, client: Client, queue: str) -> None:
    number, size = 40, 100_000
    client.push(queue, *(str(n).ljust(size) for n in range(number)))
    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.connect(daemon.address)
        before = client.metric("queend_worker_streamed_total")
        unread.sendall(request("GET", stream_target(queue, consumerGroup="g", subscriptionMode="all", autoAck=True,
                                                     batch=1)))
        until(lambda: client.metric("queend_worker_streamed_total") > before, "it is served")
        rest = client.pop(queue, consumerGroup="g", batch=number, wait=True, timeout=100_000)
    assert number - 5 <= len(rest) < number, "the kernel takes no more than it can send"


# -- leaving -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_stream_that_waits_is_withdrawn(client: Client, queue: str, feed, how: str) -> None:
    client.push(queue, "known")
    client.ack(client.pop(queue)[0])
    before, open_ = parked(client), streams(client)
    stream = feed()
    until(lambda: parked(client) == before + 1, "it waits")
    assert streams(client) == open_ + 1
    getattr(stream, how)()
    until(lambda: parked(client) == before and streams(client) == open_, "it is withdrawn")
    client.push(queue, "for another")
    assert data(client.pop(queue)) == ["for another"]


def test_leases_outlive_the_stream(client: Client, queue: str, feed) -> None:
    client.push(queue, "held")
    open_ = streams(client)
    stream = feed()
    message = stream.message()
    stream.abort()
    until(lambda: streams(client) == open_, "it is noticed")
    assert client.pop(queue) == []
    assert client.ack(message)["success"]


def test_or_end_with_it(client: Client, queue: str, feed) -> None:
    client.push(queue, "held", "behind")
    stream = feed(release=True, credit=1)
    message = stream.message()
    stream.abort()
    again = until(lambda: client.pop(queue), "the lease is given back")
    assert data(again) == ["held"] and again[0]["leaseId"] != message["leaseId"]
    assert not client.ack(message)["success"], "its lease is gone"


def test_what_it_was_not_given_goes_to_others(start_daemon, queue: str) -> None:
    """The messages that are on their way when a client leaves."""
    daemon = start_daemon(NUM_WORKERS=1)
    with daemon.client() as client:
        for n in range(60):
            stream = Feed(daemon.address, queue, autoAck=True)
            client.push(queue, n)
            stream.abort() if n % 2 else stream.close()
        until(lambda: streams(client) == 0, "all are gone")
        client.push(queue, "last")
        rest = client.pop(queue, batch=1000)
        given = client.metric("queend_worker_streamed_total")
        assert data(rest)[-1] == "last" and len(rest) >= 61 - given


def test_reconnecting_a_hundred_times(client: Client, queue: str, daemon: Daemon) -> None:
    sent, done, mark = 0, [], ""
    for turn in range(100):
        headers = {"Last-Event-ID": mark} if mark else None
        with Feed(daemon.address, queue, consumerGroup="g", subscriptionMode="all", release=True, credit=4,
                  headers=headers) as stream:
            client.push(queue, *range(sent, sent + 5), partition=f"p{turn % 3}")
            sent += 5
            for _ in range(1 + turn % 4):
                message = stream.message()
                mark = f"{message['partitionId']}:{message['offset']}"
                assert client.ack(message, group="g")["success"]
                done.append(message["data"])
            if turn % 2:
                stream.abort()
    with Feed(daemon.address, queue, consumerGroup="g") as stream:
        while len(set(done)) < sent:
            message = stream.message()
            assert client.ack(message, group="g")["success"]
            done.append(message["data"])
    assert sorted(done) == list(range(sent)), "each once: who acknowledged what it has got is not given it again"


def test_a_client_that_sends_no_more(daemon: Daemon, client: Client, queue: str, feed) -> None:
    before = parked(client)
    stream = feed()
    until(lambda: parked(client) == before + 1, "it waits")
    stream.wire.socket.shutdown(socket.SHUT_WR)
    assert stream.event().json == {"reason": "closed"}
    assert stream.event() is None and stream.over()
    until(lambda: parked(client) == before, "it waits no more")


def test_signs_of_life(feed) -> None:
    stream = feed(heartbeat=1)
    stream.heartbeat()
    stream.heartbeat()


def test_a_stream_without_credit_lives_too(client: Client, queue: str, feed) -> None:
    client.push(queue, 1, 2)
    stream = feed(heartbeat=1, credit=1)
    message = stream.message()
    stream.heartbeat()
    client.ack(message)
    assert stream.message()["data"] == 2


# -- beside other requests ---------------------------------------------------------------------------------------------

def test_answers_before_it_come_first(daemon: Daemon, client: Client, queue: str) -> None:
    client.push(queue, "one")
    client.ack(client.pop(queue)[0])
    with Wire(daemon.address) as wire:
        wire.send(request("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=1000")
                  + request("GET", stream_target(queue)) + request("GET", "/livez"))
        first = wire.receive()
        assert first.status == 200 and first.json["messages"] == []
        assert b"text/event-stream" in wire._until(b"\r\n\r\n")
        client.push(queue, "two")
        assert b'"two"' in wire._until(b"\n\n\r\n") + wire._until(b"\n\n\r\n")
        wire.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire._more()


def test_head_takes_nothing(client: Client, queue: str) -> None:
    client.push(queue, 1)
    for method in ("HEAD", "POST"):
        answer = client.request(method, stream_target(queue))
        assert (answer.status, answer.headers["allow"]) == (405, "GET, OPTIONS")
    assert data(client.pop(queue)) == [1]


@pytest.mark.parametrize("query, said", [
    ({"credit": 0}, "credit"), ({"credit": "many"}, "credit"), ({"credit": 10001}, "credit"),
    ({"heartbeat": 0}, "heartbeat"), ({"heartbeat": 601}, "heartbeat"), ({"frames": True}, "frames"),
    ({"release": "maybe"}, "release"), ({"batch": 0}, "batch"), ({"Credit": 5}, "credit"),
    ({"leaseSeconds": 0}, "lease"), ({"conflation": True}, "conflation"), ({"format": "xml"}, "format"),
    ({"consumerGroup": "x" * 256}, "consumerGroup"),
], ids=str)
def test_nonsense(client: Client, queue: str, query: dict, said: str) -> None:
    answer = client.get(stream_target(queue, **query))
    assert answer.status == 400 and said in answer.json["error"]


@pytest.mark.parametrize("value", ["5m", "1e1", "5.0", " 5", "many"])
@pytest.mark.parametrize("name", ["credit", "heartbeat", "window", "leaseSeconds"])
def test_a_number_that_is_none_is_refused_by_a_lenient_daemon_too(lenient: Client, queue: str, name: str,
                                                                  value: str) -> None:
    answer = lenient.get(stream_target(queue, **{name: value}))
    assert answer.status == 400 and answer.json["error"].startswith(f"{name} must be a whole number from 1 to ")


@pytest.mark.parametrize("path", ["/api/v1/stream/", "/api/v1/stream//partition/p", "/api/v1/stream/q/partition/p/x",
                                  "/api/v1/stream/q/other/p", "/api/v1/stream"])
def test_other_paths(client: Client, path: str) -> None:
    assert client.get(path).status in (400, 404)


@pytest.mark.parametrize("path", ["/api/v1/stream/%ff", "/api/v1/stream/%00", "/api/v1/stream/" + "x" * 256])
def test_bad_names(client: Client, path: str) -> None:
    assert client.get(path).status == 400


def test_pages_of_other_sites(client: Client, queue: str) -> None:
    client.push(queue, 1)
    answer = client.request("GET", stream_target(queue), headers={"Origin": "https://evil.example"})
    assert answer.status == 403
    assert data(client.pop(queue)) == [1]


# -- what goes on around it --------------------------------------------------------------------------------------------

def test_news_of_another_daemon(other: Client, queue: str, feed) -> None:
    stream = feed(autoAck=True)
    other.push(queue, "from afar")
    assert stream.message()["data"] == "from afar"


def test_two_daemons_share_a_group(daemon: Daemon, peer: Daemon, client: Client, queue: str) -> None:
    with Feed(daemon.address, queue, credit=1, consumerGroup="g", subscriptionMode="all") as a, \
            Feed(peer.address, queue, credit=1, consumerGroup="g", subscriptionMode="all") as b:
        client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "ab"])
        got = {a.message()["data"], b.message()["data"]}
        assert got == {"a", "b"}


def test_a_queue_that_is_deleted_and_made_again(client: Client, queue: str, feed) -> None:
    client.push(queue, "before")
    stream = feed()
    assert stream.message()["data"] == "before"
    client.delete(queue)
    client.push(queue, "after")
    assert stream.message()["data"] == "after"


def test_maintenance(start_daemon, queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        assert client.post("/api/v1/system/maintenance/pop", {"enabled": True}).status == 200
        client.push(queue, "kept")
        with Feed(daemon.address, queue, heartbeat=1) as stream:
            stream.heartbeat()
            assert client.post("/api/v1/system/maintenance/pop", {"enabled": False}).status == 200
            assert stream.message()["data"] == "kept"


def test_the_database_away(request: pytest.FixtureRequest, start_daemon, queue: str) -> None:
    with running(request.config.getoption("--postgres")) as server:
        daemon = start_daemon(server.database())
        with daemon.client() as client, Feed(daemon.address, queue, heartbeat=1) as stream:
            client.push(queue, "before")
            client.ack(stream.message())
            with server.away():
                stream.heartbeat()
            until(lambda: client.get("/readyz").status == 200, "the database is back")
            client.push(queue, "after")
            assert stream.message()["data"] == "after"
        daemon.stop()


def test_stop(start_daemon: Callable[..., Daemon], queue: str) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push(queue, 1, 2)
        with Feed(daemon.address, queue, credit=1) as full, Feed(daemon.address, "nothing") as waits, \
                Feed(daemon.address, queue, consumerGroup="g", subscriptionMode="all", autoAck=True) as reads:
            assert full.message()["data"] == 1
            assert data(reads.messages(2)) == [1, 2]
            until(lambda: parked(client) == 2, "the others wait")
            daemon.terminate()
            for stream in (full, waits, reads):
                event = stream.event()
                assert (event.name, event.json) == ("end", {"reason": "shutdown"})
                assert stream.event() is None and stream.over()
    daemon.ended()


def test_as_many_as_may_wait(start_daemon, queue: str) -> None:
    daemon = start_daemon(QUEEND_MAX_PARKED=2)
    with daemon.client() as client, Feed(daemon.address, queue) as one, Feed(daemon.address, queue):
        until(lambda: parked(client) == 2, "two wait")
        third = Feed(daemon.address, queue)
        assert third.status == 503 and "waiting" in json.loads(third.text)["error"]
        one.close()
        until(lambda: parked(client) == 1, "one left")
        with Feed(daemon.address, queue, autoAck=True) as next_:
            until(lambda: parked(client) == 2, "another may")
            client.push_items([{"queue": queue, "partition": p, "payload": p} for p in "abcdef"])
            assert next_.message()


def test_a_group_that_may_not_be_made(start_daemon, queue: str) -> None:
    daemon = start_daemon(QUEEND_MAX_GROUPS=1)
    with daemon.client() as client:
        client.push(queue, 1)
        client.pop(queue, consumerGroup="one", subscriptionMode="all")
        with Feed(daemon.address, queue, consumerGroup="two", subscriptionMode="all") as stream:
            event = stream.event()
            assert event.name == "end" and event.json["reason"] == "refused"
            assert "QUEEND_MAX_GROUPS" in event.json["error"]
            assert stream.event() is None and stream.over()
