"""Stopping with requests in the hands of a database that does not answer."""
import json
import re
import socket
import threading

import psycopg
import pytest
from support.client import ack_of, pop_target
from support.daemon import HARDER, Daemon
from support.parked import claims_wait, settle
from support.postgres import running
from support.proxy import Proxy
from support.wait import PATIENCE, until


@pytest.fixture
def stuck(start_daemon):
    """A function: starts a daemon with these settings and a push that waits for a lock; (daemon, client, what frees the
    lock)."""
    locks = []

    def start(**settings):
        daemon = start_daemon(**settings)
        client = daemon.client()
        client.push("q", 1)
        lock = psycopg.connect(daemon.conninfo)
        locks.append((lock, client))
        lock.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
        client.send("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":2}]}')
        with psycopg.connect(daemon.conninfo, autocommit=True) as look:
            until(lambda: waiting_for_locks(look), "the push waits")
        return daemon, client, lock

    yield start
    for lock, client in locks:
        lock.close()
        client.close()


def waiting_for_locks(look) -> int:
    return look.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND database ="
                        " (SELECT oid FROM pg_database WHERE datname = current_database())").fetchone()[0]


def deaf(daemon) -> bool:
    """Nobody listens any more."""
    try:
        socket.create_connection(daemon.address).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_a_request_in_flight_is_answered_before_the_end(stuck):
    daemon, client, lock = stuck(NUM_WORKERS=1)      # its only worker is deaf: that has heard of the stop
    daemon.terminate()
    until(lambda: deaf(daemon), "the stop has reached the workers")
    lock.rollback()
    answer = client.receive()
    assert answer.status == 201 and answer.headers["connection"] == "close"
    daemon.ended()


def test_when_the_grace_is_over_the_client_is_told(stuck):
    daemon, client, lock = stuck(QUEEND_SHUTDOWN_GRACE_MS=0)
    daemon.terminate()
    answer = client.receive()
    assert answer.status == 503 and answer.headers["connection"] == "close" and "outcome" in answer.json["error"]
    assert daemon.process.wait(PATIENCE) == 1       # not clean, and it says so
    until(lambda: daemon.line("stopped"), "the last line")
    assert not daemon.line("stopped")["drained"]


def heard(client) -> None:
    """What the worker (there is one) had received before this is done with."""
    for _ in range(2):
        assert client.get("/livez").status == 200


def test_what_is_cut_off_is_told(start_daemon):
    """A line for each request: what it is, where it waits, how old it is and whether its client is there."""
    daemon = start_daemon(NUM_WORKERS=1, QUEEND_CACHE_BYTES=0, QUEEND_SHUTDOWN_GRACE_MS=0)
    clients = {name: daemon.client() for name in ("push", "pop", "gone", "ack", "page", "half")}
    with daemon.client() as client, psycopg.connect(daemon.conninfo) as lock, psycopg.connect(
            daemon.conninfo, autocommit=True) as look:
        client.push("q", 0, partition="o")
        client.push("q", 1, 2, partition="p")
        (message,) = client.pop("q", "p", consumerGroup="g")
        assert client.pop("q", consumerGroup="h", autoAck=True)       # what there is for it is known
        lock.execute("LOCK TABLE queend.cursors, queend.log IN ACCESS EXCLUSIVE MODE")
        for n, (name, method, target, body) in enumerate((
                ("push", "POST", "/api/v1/push", b'{"items":[{"queue":"q","partition":"p","payload":3}]}'),
                ("pop", "GET", pop_target("q", consumerGroup="h", wait=True, timeout=100_000), None),
                ("ack", "POST", "/api/v1/ack", json.dumps({**ack_of(message), "consumerGroup": "g"}).encode()),
                ("page", "GET", "/api/v1/messages?queue=q", None))):
            clients[name].send(method, target, body)
            until(lambda: waiting_for_locks(look) > n, f"{name} waits")
        clients["half"].get("/livez")
        clients["half"].wire.send(b"POST /api/v1/push HTTP/1.1\r\nHost: q\r\nContent-Length: 5\r\n\r\n")
        clients["gone"].send("POST", "/api/v1/push", b'{"items":[{"queue":"q","partition":"o","payload":4}]}')
        heard(client)
        until(lambda: daemon.holds(daemon.socket_to(clients["gone"])), "the daemon has accepted it")
        inode = daemon.socket_to(clients["gone"])
        clients.pop("gone").wire.abort()
        until(lambda: not daemon.holds(inode), "the daemon knows that its client is gone")
        daemon.terminate()
        assert daemon.wait() == 1
    for one in clients.values():
        one.close()
    told = [line for line in daemon.log if line["event"] == "left_undone"]
    assert not daemon.line("stopped")["drained"] and {line["level"] for line in told} == {"warn"}
    assert sorted(re.sub(r"\d+ ms", "# ms", line["detail"]) for line in told) == [
        "ack, queue q, partition p, group g; in the statement ack_leased, sent # ms ago; # ms old; client connected",
        "an incomplete request",
        "pop, fetching, queue q, group h, candidates: 1, waits for # ms; in the statement pop, sent # ms ago; # ms old;"
        " client connected",
        "push, queue q, partition o, parts in flight: 1; in a push stream; # ms old; client gone",
        "push, queue q, partition p, parts in flight: 1; in a push stream; # ms old; client connected",
        "with the control plane: /api/v1/messages; # ms old; client connected"]


def test_an_idle_daemon_stops_clean_without_any_grace(start_daemon):
    """Nobody is owed an answer: neither who asked before nor who has come and has not asked yet."""
    daemon = start_daemon(QUEEND_SHUTDOWN_GRACE_MS=0)
    with daemon.client() as client, socket.create_connection(daemon.address):
        client.push("q", 1)
        until(lambda: client.metric("queend_worker_connections") == 2, "both are there")
        daemon.terminate()
        daemon.ended()


@pytest.mark.parametrize("what", ["PUSH", "POP", "RENEW_LEASE"])
def test_who_waits_for_company_is_done_at_once(start_daemon, what):
    """A hold that the operator asked for ends with the daemon."""
    daemon = start_daemon(**{f"QUEEN_{what}_MAX_HOLD_MS": 600_000, f"QUEEN_{what}_PREFERRED_BATCH_SIZE": 2,
                             "QUEEN_POP_MAX_BATCH_SIZE": 2})
    with daemon.client() as client, daemon.client() as eyes:
        if what != "PUSH":
            client.push("q", 1)
        requests = {"PUSH": ("POST", "/api/v1/push", b'{"items":[{"queue":"q","payload":2}]}'),
                    "POP": ("GET", pop_target("q"), None),
                    "RENEW_LEASE": ("POST", "/api/v1/lease/00000000-0000-7000-8000-000000000000/extend", b"{}")}
        client.send(*requests[what])
        until(lambda: eyes.metric("queend_worker_jobs") == 1, "it waits")
        daemon.terminate()
        assert client.receive().status in (200, 201, 404)
    daemon.ended()


def test_a_parked_pop_is_answered(start_daemon):
    daemon = start_daemon()
    with daemon.client() as other, daemon.client() as client:
        other.push("empty", 1)
        other.request("GET", "/api/v1/pop/queue/empty?autoAck=true")
        client.send("GET", "/api/v1/pop/queue/empty?wait=true&timeout=60000")
        until(lambda: daemon_parked(other) == 1, "the pop is parked")
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(client.receive()))
        waiting.start()
        daemon.terminate()
        waiting.join(PATIENCE)
        assert [answer.status // 100 for answer in answers] == [2] and answers[0].headers["connection"] == "close"
    daemon.ended()


def test_a_pop_whose_statement_is_under_way_does_not_wait_after_it(start_daemon):
    """It finds nothing, and nobody would wake it any more."""
    daemon = start_daemon()
    with daemon.client() as client:
        settle(client, "q", "p")
        with claims_wait(daemon) as claimed:
            client.send("GET", pop_target("q", "p", wait=True, timeout=100_000))
            until(claimed, "it waits in the database")
            daemon.terminate()
            until(lambda: deaf(daemon), "the stop has reached the workers")
        assert client.receive().json["messages"] == []
    daemon.ended()


@pytest.mark.parametrize("queue", ["q", "nobody-knows"])
def test_pops_do_not_wait_for_a_database_that_is_away(request, start_daemon, queue):
    with running(request.config.getoption("--postgres"), tcp=True) as cluster:
        proxy = Proxy(cluster.port)
        daemon = start_daemon(cluster.dsn(port=proxy.port, sslmode="disable", gssencmode="disable"), NUM_WORKERS=1)
        ends_without_its_database(daemon, proxy, queue)


def ends_without_its_database(daemon, proxy, queue):
    with daemon.client() as client, daemon.client() as other:
        settle(other, "q", "p")
        proxy.close()
        until(lambda: other.get("/readyz").status == 503, "the database is away")
        client.send("GET", pop_target(queue, "p", wait=True, timeout=100_000))
        until(lambda: other.metric("queend_worker_jobs") == 1, "it waits")
        daemon.terminate()
        assert client.receive().status // 100 == 2
    daemon.ended()


def daemon_parked(client):
    text = client.get("/metrics/prometheus").body.decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if "parked" in line and not line.startswith("#"))


class Unread(Daemon):
    """Started with its standard input closed."""

    def __init__(self, conninfo: str):
        self.conninfo, self.settings = conninfo, {}
        self._begin({"QUEEND_DSN": conninfo, **HARDER}, before=("sh", "-c", 'exec "$@" <&-', "-"))
        self.await_ready()


def test_a_daemon_without_standard_input_stops_as_any(postgres):
    """Descriptor 0 is something else then, which nobody closes who has not opened it."""
    Unread(postgres.database()).stop()
