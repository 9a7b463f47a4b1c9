"""A log that nobody reads (a stopped pager, a frozen journal): lines are lost and counted, nothing waits for
a reader."""
from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from support.daemon import Unread
from support.wait import PATIENCE, until

LONG = "/none/" + '"' * 400      # three bytes of the log each


@pytest.fixture
def daemon(postgres) -> Iterator[Unread]:
    """Its log takes no line more."""
    one = Unread(postgres.database(), QUEEND_REQUEST_LOG="all", NUM_WORKERS=1)
    try:
        with one.client() as client:
            def full() -> float:
                for _ in range(200):
                    assert client.get(LONG).status == 404
                return client.metric("queend_worker_not_logged_total")
            until(full, "the log takes no more")
        yield one
    finally:
        one.reads.set()
        if one.process.poll() is None:
            one.stop()


def test_workers_and_the_control_plane_go_on(daemon: Unread) -> None:
    with psycopg.connect(daemon.conninfo, autocommit=True) as db, daemon.client() as client:
        assert client.push("q", 1)
        # each connection that is lost is a line, of a worker or of the control plane
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                   " AND pid <> pg_backend_pid()")
        until(lambda: client.push("q", 2)[0]["status"] == "queued", "a push is stored")
        until(lambda: client.pop("q", batch=10, wait="true", timeout=1000), "a message comes")
        until(lambda: client.get("/health").status == 200, "the control plane answers")
        daemon.reads.set()
        client.get("/none")
        until(lambda: any(line["event"] == "log_lines_dropped" and line["lines"] > 0 for line in daemon.log),
              "the log says that lines are missing")
    assert not daemon.other, "whole lines"


def test_what_there_is_no_room_for_is_counted_and_the_rest_is_written(daemon: Unread) -> None:
    with daemon.client() as client:
        logged = client.metric("queend_worker_logged_total")
    daemon.reads.set()
    daemon.stop()
    assert sum(line["event"] == "request" for line in daemon.log) >= logged


def test_a_stop_does_not_wait_for_a_reader(daemon: Unread) -> None:
    daemon.terminate()
    assert daemon.process.wait(PATIENCE) == 0
