"""Daemons of one database that tell each other (docs/peers.md). Here they look for themselves only every 30 s: what is
delivered before a poll of 20 s ends was told. Between the two of most tests stands somebody who may do anything with
the packets."""
from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.client import Client, data, pop_target
from support.crowd import Crowd
from support.daemon import Daemon
from support.datagrams import Between
from support.http import Wire
from support.parked import claims_wait
from support.ports import free_port
from support.tokens import SECRET as TOKENS
from support.wait import until

from queend._core import probe_packet

SECRET = "0123456789abcdef" * 4
SELDOM = 30_000
SHORTER = 20_000
STATS = "/internal/api/inter-instance/stats"


class Two:
    """Daemons `a` and `b`, and who stands before each: `to_a`, `to_b`."""

    def __init__(self, start: Callable[..., Daemon], conninfo: str | None = None, **settings: Any):
        ports = free_port(), free_port()
        self.to_a, self.to_b = Between(ports[0]), Between(ports[1])
        common = {"QUEEN_SYNC_SECRET": SECRET, "POP_WAIT_MAX_INTERVAL_MS": SELDOM, **settings}
        self.a = start(conninfo, QUEEN_UDP_NOTIFY_PORT=ports[0], QUEEN_UDP_PEERS=f"localhost:{self.to_b.port}",
                       **common)
        self.b = start(self.a.conninfo, QUEEN_UDP_NOTIFY_PORT=ports[1], QUEEN_UDP_PEERS=f"127.0.0.1:{self.to_a.port}",
                       **common)
        for one in (self.a, self.b):
            until(lambda one=one: alive(one) == 1, "they hear each other")

    def close(self) -> None:
        for one in (self.to_a, self.to_b):
            one.close()


def stats(daemon: Daemon) -> dict[str, Any]:
    with daemon.client() as client:
        return client.get(STATS).json


def alive(daemon: Daemon) -> int:
    return stats(daemon)["server_health"]["servers_alive"]


def refused(daemon: Daemon, why: str) -> int:
    return stats(daemon)["transport"]["refused"][why]


@pytest.fixture(scope="module")
def two(start_daemon: Callable[..., Daemon]) -> Iterator[Two]:
    pair = Two(start_daemon, QUEEN_SYNC_HEARTBEAT_MS=100)
    yield pair
    pair.close()


@pytest.fixture
def pair(two: Two) -> Iterator[Two]:
    """The same for a test that has a rule of its own: others find everything as it was."""
    yield two
    two.to_a.passes()
    two.to_b.passes()


@pytest.fixture
def a(two: Two) -> Iterator[Client]:
    with two.a.client() as one:
        yield one


@pytest.fixture
def b(two: Two) -> Iterator[Client]:
    with two.b.client() as one:
        yield one


@contextmanager
def parked(daemon: Daemon, queue: str, partition: str | None = None, **query: Any) -> Iterator[Callable[[], list]]:
    """A pop that waits there; what it gets."""
    with daemon.client() as client, daemon.client() as beside:
        before = beside.parked()
        client.send("GET", pop_target(queue, partition, wait=True, timeout=SHORTER, **query))
        until(lambda: beside.parked() > before, "it waits")
        yield lambda: data(client.receive().json["messages"])


def known_at(*clients: Client, queue: str, **query: Any) -> None:
    """Both know the queue, its partition `p` and the group."""
    clients[0].push(queue, "first", partition="p")
    assert data(clients[0].pop(queue, autoAck=True, **query)) == ["first"]
    for one in clients[1:]:
        assert one.pop(queue, "p", **query) == []


# ---- messages --------------------------------------------------------------------------------------------------------

def test_a_push_elsewhere_wakes_who_waits(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    for n in range(20):
        with parked(two.b, queue, autoAck=True) as got:
            a.push(queue, n, partition="p")
            assert got() == [n]


def test_who_waits_for_one_partition(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    with parked(two.b, queue, "p", autoAck=True) as got:
        a.push(queue, "not this one", partition="other")
        a.push(queue, "this one", partition="p")
        assert got() == ["this one"]


def test_a_partition_that_was_unknown(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    with parked(two.b, queue, autoAck=True) as got:
        a.push(queue, "new", partition="new")
        assert got() == ["new"]


def test_a_queue_that_was_unknown(two: Two, a: Client, queue: str) -> None:
    with parked(two.b, queue, autoAck=True) as got:
        a.push(queue, "new")
        assert got() == ["new"]


def test_what_was_told_while_nobody_waited_is_found_by_who_comes(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    a.push(queue, 1, partition="p")
    a.push(queue, 2, partition="unknown here")
    got: list[Any] = []

    def take() -> bool:
        got.extend(data(b.pop(queue, autoAck=True)))
        return len(got) == 2

    until(take, "both are found", SHORTER / 1000)
    assert sorted(got) == [1, 2]


def test_a_transaction_and_a_taken_back_delivery(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    with parked(two.b, queue, autoAck=True) as got:
        a.transaction({"type": "push", "items": [{"queue": queue, "partition": "p", "payload": "of a transaction"}]})
        assert got() == ["of a transaction"]


# ---- leases ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", ["completed", "retry"])
def test_a_lease_that_ends_there_is_taken_here(two: Two, a: Client, b: Client, queue: str, status: str) -> None:
    known_at(a, b, queue=queue)
    for n in range(10):
        a.push(queue, n, n, partition="p")
        (message,) = a.pop(queue, "p")
        assert b.pop(queue, "p") == [], "it is leased, which this daemon hears of here"
        with parked(two.b, queue, autoAck=True, batch=2) as got:
            assert a.ack(message, status)["leaseReleased"] is True
            assert got() == ([n] if status == "completed" else [n, n])


def test_what_a_client_that_left_had_claimed(two: Two, a: Client, b: Client, queue: str) -> None:
    """Given back there: taken here."""
    known_at(a, b, queue=queue)
    for n in range(20):
        a.push(queue, n, partition="p")
        with claims_wait(two.a) as claimed, two.a.client() as leaving:
            leaving.send("GET", pop_target(queue, "p"))
            until(claimed, "the claim waits in the database")
            assert leaving.wire
            leaving.wire.abort()
            leaving.wire = None
        assert data(b.pop(queue, wait=True, timeout=SHORTER, autoAck=True)) == [n]


# ---- the catalogue ---------------------------------------------------------------------------------------------------

def test_a_group_that_was_moved(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue, consumerGroup="g")
    with parked(two.b, queue, consumerGroup="g", autoAck=True) as got:
        assert a.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek",
                      {"timestamp": "2020-01-01T00:00:00Z"}).status == 200
        assert got() == ["first"]


def test_a_queue_that_goes_on(two: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    assert a.post(f"/api/v1/queues/{queue}/pause").json["changed"]
    until(lambda: b.pop_answer(queue).json.get("reason") == "paused", "it is paused")
    with parked(two.b, queue, autoAck=True) as got:
        a.push(queue, "held", partition="p")
        assert a.post(f"/api/v1/queues/{queue}/resume").json["changed"]
        assert got() == ["held"]


def test_options(two: Two, a: Client, b: Client, queue: str) -> None:
    """What is delayed no more is delivered at once."""
    a.configure(queue, delayedProcessing=3600)
    known = {"queue": queue, "partition": "p", "payload": "late"}
    a.push_items([known])
    with parked(two.b, queue, autoAck=True) as got:
        a.configure(queue, delayedProcessing=0)
        a.push(queue, "later", partition="q")
        assert got() in (["late"], ["later"])


def test_maintenance(two: Two, a: Client, b: Client) -> None:
    for enabled in (True, False):
        before = stats(two.b)["transport"]["entriesHeard"]
        assert a.post("/api/v1/system/maintenance/pop", {"enabled": enabled}).status == 200
        until(lambda enabled=enabled: b.get("/health").json["shared_state"]["pop_maintenance_mode"] is enabled,
              "it obeys")
        assert stats(two.b)["transport"]["entriesHeard"] > before


def test_who_is_told_from_outside_tells_the_others(two: Two, a: Client, b: Client, queue: str) -> None:
    heard = stats(two.b)["transport"]["looks"]
    assert a.post("/internal/api/notify", {"queue": queue}).status == 200
    until(lambda: stats(two.b)["transport"]["looks"] > heard, "it looks")


# ---- packets that do not come as they were sent ----------------------------------------------------------------------

def test_a_packet_that_is_lost_is_missed_with_the_next(pair: Two, a: Client, b: Client, queue: str) -> None:
    """What it said is found as soon as another one comes, a heartbeat at the latest."""
    known_at(a, b, queue=queue)
    with parked(pair.b, queue, autoAck=True) as got:
        before = stats(pair.b)["servers"][0]["lost"]
        seen = len(pair.to_b.seen)
        pair.to_b.lose()
        a.push(queue, "lost", partition="p")
        until(lambda: any(len(packet) > 108 for packet in pair.to_b.seen[seen:]), "it was told")
        pair.to_b.passes()
        assert got() == ["lost"]      # the look of each second may have found it before
        until(lambda: stats(pair.b)["servers"][0]["lost"] > before, "the next packet shows that one is missing")


def test_packets_come_twice_and_in_any_order(pair: Two, a: Client, b: Client, queue: str) -> None:
    known_at(a, b, queue=queue)
    held: list[bytes] = []

    def turned(packet: bytes) -> list[bytes]:
        held.append(packet)
        if len(held) < 4:
            return []
        now, held[:] = [*reversed(held), *held], []
        return now

    again = refused(pair.b, "again")
    pair.to_b.passes(turned)
    for n in range(10):
        with parked(pair.b, queue, autoAck=True) as got:
            a.push(queue, n, partition="p")
            assert got() == [n]
    until(lambda: refused(pair.b, "again") > again, "what comes twice is heeded once")


def test_packets_of_others_are_not_heeded(pair: Two, a: Client, b: Client, queue: str) -> None:
    """Changed on the way, recorded, without the secret, or made up: nothing happens, each is counted, the daemon
    serves on."""
    known_at(a, b, queue=queue)
    counts = stats(pair.b)["transport"]["refused"]
    good = until(lambda: pair.to_b.seen[-1], "a packet")
    now = int(time.time() * 1e6)
    mine = probe_packet(SECRET.encode()[::-1], [(1, 0)], 3, b"evil:1", now, 1, 1, now)
    early = probe_packet(SECRET.encode(), [(1, 0)], 3, b"recorded:1", now, 1, 1, now - 3_600_000_000,
                         0)
    elsewhere = probe_packet(SECRET.encode(), [(1, 0)], 3, b"elsewhere:1", now, 1, 1, now, 12345)
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    for packet in (mine, early, elsewhere, flipped, good, b"", b"\2", bytes(1401), b"\1" + good[1:], good[:50]):
        pair.to_b.send(packet)
    expected = {"forged": 2, "stale": 1, "other_database": 1, "again": 1, "broken": 2, "other_version": 2}

    def counted() -> bool:
        told = stats(pair.b)["transport"]["refused"]
        return all(told[why] - counts[why] >= number for why, number in expected.items())

    until(counted, "each is counted")
    assert [one["server"] for one in stats(pair.b)["servers"]] == [stats(pair.a)["server_id"]]
    assert pair.b.told("peer_refused")["detail"].startswith("packets from 127.0.0.1 are not taken")
    with parked(pair.b, queue, autoAck=True) as got:
        a.push(queue, "still served", partition="p")
        assert got() == ["still served"]


def test_a_liar_costs_questions_only(pair: Two, a: Client, b: Client, queue: str) -> None:
    """Somebody with the secret names partitions and groups that are not there, or have nothing."""
    known_at(a, b, queue=queue)
    began = int(time.time() * 1e6)
    for n in range(1, 51):
        pair.to_b.send(probe_packet(SECRET.encode(), [(i * n, g) for i in range(1, 81) for g in (0, n)], n % 4,
                                    b"liar:1", began, 1, n, int(time.time() * 1e6), 0))
    until(lambda: any(one["server"] == "liar:1" and one["packets"] == 50 for one in stats(pair.b)["servers"]),
          "all are heeded")
    assert b.pop(queue, autoAck=True) == []
    with parked(pair.b, queue, autoAck=True) as got:
        a.push(queue, "true", partition="p")
        assert got() == ["true"]


def test_nothing_is_lost_when_every_packet_is(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """The look at the database finds it: as without peers."""
    apart = Two(start_daemon, POP_WAIT_MAX_INTERVAL_MS=1000)
    apart.to_a.lose()
    apart.to_b.lose()
    with apart.a.client() as a, apart.b.client() as b:
        known_at(a, b, queue=queue)
        for n in range(3):
            with parked(apart.b, queue, autoAck=True) as got:
                a.push(queue, n, partition="p")
                assert got() == [n]
        a.push(queue, "x", "y", partition="p")
        (message,) = a.pop(queue, "p")
        with parked(apart.b, queue, autoAck=True) as got:
            assert a.ack(message)["leaseReleased"] is True
            assert got() == ["y"]
    apart.a.stop()
    apart.b.stop()
    apart.close()


def test_a_burst_sends_packets_by_time(pair: Two, a: Client, queue: str) -> None:
    """One every two milliseconds, with all that came meanwhile, however much that is."""
    before, began = stats(pair.a)["transport"]["sent"], time.monotonic()

    def push(number: int) -> None:
        with pair.a.client() as own:
            for n in range(250):
                own.push(queue, n, partition=f"{number}.{n % 10}")

    with Crowd() as crowd:
        crowd.all(push, range(8))
    passed = (time.monotonic() - began) * 1000
    assert stats(pair.a)["transport"]["sent"] - before <= passed / 2 + 5
    with pair.b.client() as b:
        got = 0
        while got < 2000:
            got += len(b.pop(queue, autoAck=True, wait=True, timeout=SHORTER, batch=1000, partitions=64))


def test_heartbeats_beside_what_is_told(start_daemon: Callable[..., Daemon], queue: str) -> None:
    """A heartbeat falls between two of them; then the first worker goes on, and so does everybody."""
    pair = Two(start_daemon, QUEEN_SYNC_HEARTBEAT_MS=10, QUEEN_SYNC_DEAD_THRESHOLD_MS=5000, NUM_WORKERS=3)

    def push(number: int) -> None:
        with pair.a.client() as own:
            for n in range(600):
                own.push(queue, n, partition=f"{number}.{n % 10}")
                time.sleep((n * 7 + number) % 23 / 1000)    # heartbeats are due in pauses of some 9 ms

    with Crowd() as crowd:
        crowd.all(push, range(4))
    with pair.b.client() as b:
        assert sum(len(b.pop(queue, autoAck=True, batch=1000, partitions=64)) for _ in range(4)) == 2400
    pair.a.stop()
    pair.b.stop()
    pair.close()


# ---- how they are ----------------------------------------------------------------------------------------------------

def test_a_daemon_that_ends_and_comes_again(start_daemon: Callable[..., Daemon]) -> None:
    pair = Two(start_daemon, QUEEN_SYNC_HEARTBEAT_MS=50, QUEEN_SYNC_DEAD_THRESHOLD_MS=500)
    (one,) = stats(pair.a)["servers"]
    assert one["alive"] and one["restarts"] == 0
    pair.b.kill()
    until(lambda: stats(pair.a)["server_health"]["servers_dead"] == 1, "it is dead")
    assert pair.a.told("peer_silent")["detail"] == one["server"]
    with pair.a.client() as client:
        assert client.metric("queen_servers") == 1 and client.metric("queen_shared_state_enabled") == 1
    again = start_daemon(pair.b.conninfo, **pair.b.settings)
    until(lambda: stats(pair.a)["server_health"]["servers_alive"] == 1, "it is back")
    (back,) = stats(pair.a)["servers"]
    assert back["server"] == one["server"] and back["session"] != one["session"] and back["restarts"] == 1
    health = pair.a.request("GET", "/health")[2]["shared_state"]
    assert health["enabled"] and health["server_health"]["restarts_detected"] == 1
    again.stop()
    pair.a.stop()
    pair.close()


def test_who_counts_as_dead_is_a_setting(start_daemon: Callable[..., Daemon]) -> None:
    """Silent for longer than the default allows, 5 s, and alive by this one."""
    pair = Two(start_daemon, QUEEN_SYNC_HEARTBEAT_MS=50, QUEEN_SYNC_DEAD_THRESHOLD_MS=3_600_000)
    pair.b.kill()
    until(lambda: stats(pair.a)["servers"][0]["silentMs"] > 5_000, "it is silent for long")
    assert alive(pair.a) == 1
    pair.a.stop()
    pair.close()


def test_how_often_a_daemon_says_that_it_lives_is_a_setting(start_daemon: Callable[..., Daemon]) -> None:
    """Where nothing is committed, one says so fifty times while the other, which has been there longer, hardly does."""
    seldom, often = (start_daemon(QUEEN_UDP_NOTIFY_PORT=free_port(), QUEEN_UDP_PEERS="127.0.0.1:9",
                                  QUEEN_SYNC_HEARTBEAT_MS=beat, QUEEN_SYNC_DEAD_THRESHOLD_MS=3_600_000)
                     for beat in (60_000, 20))
    until(lambda: stats(often)["transport"]["sent"] + stats(often)["transport"]["unsent"] >= 50, "fifty times")
    assert stats(seldom)["transport"]["sent"] + stats(seldom)["transport"]["unsent"] < 25
    seldom.stop()
    often.stop()


@pytest.mark.parametrize("way", ["UDP", "HTTP"])
def test_a_peer_that_is_frozen_keeps_nobody_waiting(start_daemon: Callable[..., Daemon], daemon: Daemon, queue: str,
                                                    way: str) -> None:
    """It is told all the same, more than it has room for; when it goes on, it serves as before."""
    settings: dict[str, Any] = {"QUEEN_SYNC_SECRET": SECRET, "POP_WAIT_MAX_INTERVAL_MS": SELDOM,
                                "QUEEN_SYNC_HEARTBEAT_MS": 50, "QUEEN_SYNC_DEAD_THRESHOLD_MS": 500,
                                "QUEEN_SYNC_RECV_BUFFER_MB": 1}
    ports = free_port(), free_port()
    if way == "UDP":
        frozen = start_daemon(daemon.conninfo, QUEEN_UDP_NOTIFY_PORT=ports[0], **settings,
                              QUEEN_UDP_PEERS=f"127.0.0.1:{ports[1]}")
        there = start_daemon(daemon.conninfo, QUEEN_UDP_NOTIFY_PORT=ports[1], **settings,
                             QUEEN_UDP_PEERS=f"127.0.0.1:{ports[0]}")
    else:
        frozen = start_daemon(daemon.conninfo, QUEEN_PEERS=f"127.0.0.1:{ports[0]}", **settings)
        there = start_daemon(daemon.conninfo, PORT=ports[0], QUEEN_PEERS=frozen.url, **settings)
    until(lambda: alive(there) == alive(frozen) == 1, "they hear each other")
    with there.client() as client, frozen.client() as other:
        known_at(client, other, queue=queue)
        with parked(frozen, queue, autoAck=True) as got:
            frozen.process.send_signal(signal.SIGSTOP)
            try:
                until(lambda: alive(there) == 0, "it is silent")
                for n in range(300):
                    client.push(queue, n, partition="p" if n == 0 else f"p{n % 100}")
            finally:
                frozen.process.send_signal(signal.SIGCONT)
            assert got()
        until(lambda: alive(there) == 1, "it is heard again")
        with parked(frozen, queue, "p", autoAck=True) as got:
            client.push(queue, "after", partition="p")
            assert got()
    if way == "HTTP":
        frozen.process.send_signal(signal.SIGSTOP)
        there.stop()
        frozen.process.send_signal(signal.SIGCONT)
    for one in (there, frozen):
        one.stop()


def test_who_is_in_its_own_list_hears_itself_and_does_nothing(start_daemon: Callable[..., Daemon]) -> None:
    port = free_port()
    daemon = start_daemon(QUEEN_UDP_NOTIFY_PORT=port, QUEEN_UDP_PEERS="localhost,[::1]:1,no.such.host.invalid",
                          QUEEN_SYNC_HEARTBEAT_MS=20)
    until(lambda: refused(daemon, "own"), "it hears itself")
    told = stats(daemon)
    assert told["servers"] == [] and told["transport"]["dropped"] == 0 and told["transport"]["looks"] == 0
    assert daemon.told("peer_unknown")["detail"].startswith("no.such.host.invalid")
    assert daemon.told("peers_without_secret")["level"] == "warn"
    daemon.stop()


def test_without_a_secret_only_addresses_of_peers_are_heard(start_daemon: Callable[..., Daemon]) -> None:
    port = free_port()
    daemon = start_daemon(QUEEN_UDP_NOTIFY_PORT=port, QUEEN_UDP_PEERS="[::1]:9")
    now = int(time.time() * 1e6)
    with Between(port) as somebody:
        somebody.send(probe_packet(b"", [(1, 0)], 1, b"somebody:1", now, 1, 1, now, 0))
        until(lambda: refused(daemon, "stranger"), "it is not heard")
    assert stats(daemon)["servers"] == []
    daemon.stop()


def test_it_can_be_switched_off(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon(QUEEN_UDP_PEERS="localhost", QUEEN_SYNC_ENABLED="false")
    told = stats(daemon)
    assert told["enabled"] is False and "transport" not in told
    daemon.stop()


# ---- over HTTP -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("guarded", [False, True], ids=["open", "with tokens"])
def test_over_http(start_daemon: Callable[..., Daemon], queue: str, guarded: bool) -> None:
    """The same packets, for networks without UDP. The secret is enough where tokens are asked for."""
    settings = {"QUEEN_SYNC_SECRET": SECRET, "POP_WAIT_MAX_INTERVAL_MS": SELDOM, "PEER_NOTIFY_BATCH_MS": 5}
    if guarded:
        settings |= {"JWT_ENABLED": "true", "JWT_SECRET": TOKENS, "JWT_SKIP_PATHS": "/api/,/metrics/,/internal/api/i"}
    here = start_daemon(QUEEN_PEERS="http://127.0.0.1:1", **settings)
    there = start_daemon(here.conninfo, QUEEN_PEERS=f"127.0.0.1:1,http://127.0.0.1:{here.port}", **settings)
    until(lambda: there.line("peer_not_told"), "one cannot be told")
    with here.client() as client, there.client() as producer:
        known_at(producer, client, queue=queue)
        for n in range(5):
            with parked(here, queue, autoAck=True) as got:
                producer.push(queue, n, partition="p")
                assert got() == [n]
        told = producer.get("/api/v1/system/shared-state").json["links"]
        assert told[0]["failing"] and not told[0]["posts"] and told[1]["posts"] and not told[1]["failing"]
        kind = {"Content-Type": "application/x-queend-notices"}
        now = int(time.time() * 1e6)
        for packet, status in ((probe_packet(SECRET.encode(), [], 1, b"x:1", now, 1, 1, now, 0), 200),
                               (probe_packet(b"", [], 1, b"x:1", now, 1, 2, now, 0), 403), (b"nonsense", 403),
                               (bytes(5000), 403)):
            client.send("POST", "/internal/api/notify", packet, kind)
            assert client.receive().status == status
        # the guard and the route must not look at two different lines
        for types in (("application/json", kind["Content-Type"]), (kind["Content-Type"], "application/json")):
            with Wire(here.address) as wire:
                wire.send("\r\n".join(["POST /internal/api/notify HTTP/1.1", "Host: localhost", "Content-Length: 15",
                                       *(f"Content-Type: {one}" for one in types), "", '{"queue":"any"}']).encode())
                assert wire.receive().status == 400
    there.stop()
    here.stop()


def test_requests_to_a_peer_have_a_pause(start_daemon: Callable[..., Daemon], daemon: Daemon) -> None:
    here = start_daemon(daemon.conninfo, QUEEN_PEERS="http://127.0.0.1:1", QUEEN_SYNC_SECRET=SECRET)
    there = start_daemon(daemon.conninfo, QUEEN_PEERS=here.url, QUEEN_SYNC_SECRET=SECRET,
                         QUEEN_SYNC_HEARTBEAT_MS=10, PEER_NOTIFY_BATCH_MS=60_000)
    until(lambda: stats(there)["transport"]["posted"] > 20, "there is something to post")
    assert stats(there)["links"][0]["posts"] <= 1
    there.stop()
    here.stop()


def test_two_cannot_be_heard_on_one_port(start_daemon: Callable[..., Daemon], daemon: Daemon) -> None:
    port = free_port()
    settings = {"QUEEN_UDP_PEERS": "localhost", "QUEEN_UDP_NOTIFY_PORT": port}
    one = start_daemon(daemon.conninfo, **settings)
    with pytest.raises(AssertionError, match=f"cannot receive notices on UDP port {port}: Address already in use"):
        Daemon(daemon.conninfo, **settings)
    one.stop()


def test_a_daemon_without_peers_takes_no_packets(daemon: Daemon) -> None:
    with daemon.client() as client:
        client.send("POST", "/internal/api/notify", probe_packet(SECRET.encode(), []),
                    {"Content-Type": "application/x-queend-notices"})
        assert client.receive().status == 409
