"""A token's expiry is a moment of the wall clock, also when that clock jumps."""
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
from support.callers import Caller
from support.client import pop_target
from support.clock import clock_of
from support.daemon import Daemon
from support.tokens import SECRET, bearer, token, writer
from support.wait import until

HOUR_S = 3600
LOOKS = """SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE 'SELECT queend.heads(%'"""


def test_a_pop_takes_nothing_once_its_token_has_expired(start_daemon: Callable[..., Daemon], queue: str,
                                                        tmp_path: Path) -> None:
    """It waits, and the clock is set forth: its deadline was an hour away."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0", **clock_of(clock))
    with Caller(daemon, token(sub="keeper", role="admin")) as other, daemon.client() as waiter:
        waiter.send("GET", pop_target(queue, wait=True, timeout=100_000), headers=bearer(writer(exp=HOUR_S)))
        until(lambda: other.parked() == 1, "it waits")
        clock.write_text("+2h")
        answer = waiter.receive()
        assert answer.status == 401, answer
        other.push(queue, "after")
        assert [one["data"] for one in other.pop(queue)] == ["after"]


def test_a_read_of_the_log_returns_nothing_once_its_token_has_expired(start_daemon: Callable[..., Daemon], queue: str,
                                                                      tmp_path: Path) -> None:
    """The read waits at the head of a partition while the clock is set forward; a message is stored after the jump."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0", **clock_of(clock))
    old = writer(exp=HOUR_S)
    wanted = {"entries": [{"queue": queue, "offset": 1}], "maxWaitMs": 25_000}
    with Caller(daemon, token(sub="keeper", role="admin", exp=3 * HOUR_S)) as other, daemon.client() as waiter:
        other.push(queue, "before")
        waiter.send("POST", "/api/v1/fetch", json.dumps(wanted).encode(), headers=bearer(old))
        with psycopg.connect(daemon.conninfo, autocommit=True) as database:
            until(lambda: database.execute(LOOKS).fetchone()[0], "it waits")
        clock.write_text("+2h")
        until(lambda: other.request("GET", "/api/v1/resources/queues", headers=bearer(old)).status == 401, "the jump")
        other.push(queue, "after")
        answer = waiter.receive()
        assert (answer.status, answer.json) == (401, {"error": "Token verification failed: Token has expired"})
        assert answer.headers["www-authenticate"] == "Bearer"
