"""A PostgreSQL all of whose processes stand still: it answers neither a statement nor the wish to cancel one."""
from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import psycopg
import pytest
from support.client import data, pop_target
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.wait import until


@pytest.fixture(scope="module")
def cluster(request) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


def test_a_daemon_stops(cluster):
    """Statements of its services are under way and are cancelled: it does not wait for the server to take note."""
    with Daemon(cluster.database(), STATS_INTERVAL_MS=100, QUEEND_SHUTDOWN_GRACE_MS=1000) as daemon:
        with daemon.client() as client, daemon.client() as waiting:
            client.push("q", 1)
            waiting.send("GET", pop_target("nothing", wait=True, timeout=60_000))
            with cluster.frozen():
                with daemon.client() as page:
                    page.send("GET", "/api/v1/resources/queues")
                    until(lambda: daemon.request("GET", "/health")[0] == 503, "it is seen that the database is silent")
                    daemon.process.send_signal(signal.SIGTERM)
                    until(lambda: daemon.process.poll() is not None, "the daemon has ended", 90)


def test_the_control_plane_goes_on(cluster):
    """A page that nobody waits for any more is cancelled; others, which need no database, are answered."""
    daemon = Daemon(cluster.database(), DB_STATEMENT_TIMEOUT=2000, STATS_INTERVAL_MS=100)
    try:
        with daemon.client() as client:
            client.push("q", 1)
            with cluster.frozen():
                for _ in range(3):
                    with daemon.client() as page:
                        page.send("GET", "/api/v1/resources/queues")
                        assert page.receive().status == 503
                    assert daemon.request("GET", "/openapi.json")[0] == 200
            until(lambda: daemon.request("GET", "/api/v1/resources/queues")[0] == 200, "all is well again")
    finally:
        daemon.end()


def test_a_statement_of_a_page_ends_with_its_connection(cluster):
    """The control plane's sessions look whether somebody is there: no lock is waited for in vain."""
    conninfo = cluster.database()
    with Daemon(conninfo, DB_STATEMENT_TIMEOUT=0, DB_LOCK_TIMEOUT=0) as daemon, daemon.client() as client:
        client.push("q", 1)
        with psycopg.connect(conninfo) as holder, psycopg.connect(conninfo, autocommit=True) as look:
            holder.execute("LOCK TABLE queend.queues IN ACCESS EXCLUSIVE MODE")
            waits = ("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'queend control' AND "
                     "wait_event_type = 'Lock' AND datname = current_database()")
            with daemon.client() as page:
                page.send("GET", "/api/v1/resources/queues")
                until(lambda: look.execute(waits).fetchone()[0] > 0, "the page waits for the lock")
            daemon.process.kill()
            until(lambda: look.execute(waits).fetchone()[0] == 0, "nobody waits for it any more")
            holder.rollback()


def test_each_push_is_stored_once(cluster, tmp_path):
    """The server stands still for longer than a push waits for its answer, again and again, while four clients push."""
    ends, counts = threading.Event(), [{"queued": 0, "buffered": 0} for _ in range(4)]

    def produce(partition: int) -> None:
        told = counts[partition]
        with daemon.client() as client:
            while not ends.is_set():
                n = sum(told.values())
                told[client.push("q", n, partition=str(partition), transactionId=str(n))[0]["status"]] += 1

    def more(status: str) -> None:
        before = [told[status] for told in counts]
        until(lambda: all(told[status] > seen for told, seen in zip(counts, before, strict=True)), status)

    with Daemon(cluster.database(), QUEEND_BUFFER_BYTES=64 << 20, FILE_BUFFER_DIR=tmp_path) as daemon:
        producers = [threading.Thread(target=produce, args=(partition,)) for partition in range(4)]
        for one in producers:
            one.start()
        try:
            for _ in range(3):
                more("queued")
                with cluster.frozen():
                    more("buffered")
        finally:
            ends.set()
        for one in producers:
            one.join()
        with daemon.client() as client:
            until(lambda: client.get("/api/v1/status/buffers").json["pending"] == 0, "the buffer is empty")
            for partition, told in enumerate(counts):
                stored: list[int] = []
                while messages := client.pop("q", str(partition), batch=1000, autoAck=True):
                    stored += data(messages)
                assert stored == list(range(sum(told.values()))), told
