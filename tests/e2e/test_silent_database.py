"""A database that accepts and never answers: every place that tells how the daemon is says so, on every connection."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from support.cli import Cli
from support.client import Client
from support.daemon import Daemon
from support.postgres import Postgres, running
from support.proxy import MUTE, Proxy, pass_on
from support.wait import until

WORKERS, CONNECTIONS = 4, 16


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True) as server:
        yield server


@pytest.fixture
def proxy(cluster: Postgres) -> Iterator[Proxy]:
    made = Proxy(cluster.port)
    yield made
    made.close()


@contextlib.contextmanager
def mute(proxy: Proxy) -> Iterator[None]:
    """Nothing passes any more, neither on the connections there are nor on new ones, which are still accepted."""
    proxy.rule = lambda to_server, data: [MUTE]
    try:
        yield
    finally:
        proxy.rule = pass_on
        proxy.cut()


def answers(clients: list[Client], path: str) -> set[tuple[int, str]]:
    """Of all connections, asked at the same time."""
    for one in clients:
        one.send("GET", path)
    return {(answer.status, answer.body.decode()) for answer in [one.receive() for one in clients]}


@pytest.mark.parametrize("how", ["frozen", "mute"])
def test_it_is_told_everywhere(cluster: Postgres, proxy: Proxy, how: str, tmp_path: Path) -> None:
    conninfo = cluster.database()
    if how == "mute":
        conninfo = cluster.dsn(port=proxy.port, dbname=psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"])
    with (Daemon(conninfo, NUM_WORKERS=WORKERS) as daemon, daemon.client() as client,
          contextlib.ExitStack() as stack):
        clients = [stack.enter_context(daemon.client()) for _ in range(CONNECTIONS)]
        queend = Cli(daemon.url, tmp_path)
        client.push("q", 1)
        until(lambda: answers(clients, "/readyz") == {(200, '{"status":"ready"}')}, "ready on every connection")
        with cluster.frozen() if how == "frozen" else mute(proxy):
            until(lambda: client.get("/health").status == 503, "/health says so")
            until(lambda: {status for status, _ in answers(clients, "/readyz")} == {503}, "/readyz says so")
            assert len(answers(clients, "/readyz")) == 1, "in the same words"
            assert daemon.request("GET", "/api/v1/status")[0] == 503
            live = until(lambda: (told := client.get("/api/v1/system/live").json) and not told["ready"] and told,
                         "the dashboard's figures say so")
            assert live["doubts"] and live["backlog"] is None and not live["buffer"]["dbHealthy"]
            assert client.metric("queend_database_doubts") > 0 and client.metric("queen_file_buffer_db_healthy") == 0
            told = client.get("/api/v1/system/doctor").json
            assert told["status"] == "critical" and told["findings"][0]["check"] == "daemon", told
            for command in ("doctor", "status"):
                done = queend(command)
                assert done.status == 1 and "silent" in done.out + done.err or "away" in done.out, (command, done)
            assert client.get("/health").status == 503, "and goes on saying so"
        until(lambda: client.get("/health").status == 200, "/health is well again")
        until(lambda: answers(clients, "/readyz") == {(200, '{"status":"ready"}')}, "ready on every connection")
        until(lambda: client.get("/api/v1/resources/queues").status == 200, "pages are shown")
        until(lambda: client.get("/api/v1/system/live").json["ready"], "the dashboard's figures are well again")


def test_a_page_asks_whether_somebody_is_there(cluster: Postgres, proxy: Proxy) -> None:
    """Its statement is lost, and the data plane has answers. Nothing but silence ends the statement."""
    database = psycopg.conninfo.conninfo_to_dict(cluster.database())["dbname"]
    with Daemon(cluster.dsn(port=proxy.port, dbname=database), DB_STATEMENT_TIMEOUT=0) as daemon:
        with daemon.client() as client:
            client.push("q", 1)
            assert client.get("/api/v1/resources/queues").status == 200
            lost = (b"queend control", b"queend.queues q")      # new sessions of pages, and what the page asks
            proxy.rule = lambda to_server, data: [MUTE] if to_server and any(one in data for one in lost) else [data]
            assert client.get("/api/v1/status").status == 503
            client.push("q", 2)
            proxy.rule = pass_on
            until(lambda: client.get("/api/v1/status").status == 200, "pages are shown")


def test_pages_are_shown_while_a_statement_waits(cluster: Postgres) -> None:
    """The data plane hears nothing for the lock that it waits for. Pages that need no such lock are shown."""
    conninfo = cluster.database()
    with Daemon(conninfo, DB_STATEMENT_TIMEOUT=0, DB_LOCK_TIMEOUT=0, LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000) as daemon:
        with daemon.client() as client, psycopg.connect(conninfo) as holder:
            client.push("q", 1)
            holder.execute("LOCK TABLE queend.log IN ACCESS EXCLUSIVE MODE")
            with daemon.client() as pushing:
                pushing.send("POST", "/api/v1/push", b'{"items": [{"queue": "q", "payload": 2}]}')
                until(lambda: "silent" in client.get("/health").json["doubts"], "the data plane hears nothing")
                assert client.get("/api/v1/traces/names").status == 200
                holder.rollback()
                assert pushing.receive().status == 201
