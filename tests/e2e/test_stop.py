"""Stopping with requests in the hands of a database that does not answer."""
import socket
import threading

import psycopg
import pytest
from support.client import pop_target
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
            until(lambda: look.execute("SELECT count(*) FROM pg_locks WHERE NOT granted AND database ="
                                       " (SELECT oid FROM pg_database WHERE datname = current_database())")
                  .fetchone()[0], "the push waits")
        return daemon, client, lock

    yield start
    for lock, client in locks:
        lock.close()
        client.close()


def deaf(daemon) -> bool:
    """Nobody listens any more."""
    try:
        socket.create_connection(daemon.address).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def test_a_request_in_flight_is_answered_before_the_end(stuck):
    daemon, client, lock = stuck()
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
