"""A token's expiry is a moment of the wall clock, also when that clock jumps."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.callers import Caller
from support.client import pop_target
from support.clock import clock_of
from support.daemon import Daemon
from support.tokens import SECRET, bearer, token, writer
from support.wait import until

HOUR_S = 3600


def test_a_pop_takes_nothing_once_its_token_has_expired(start_daemon: Callable[..., Daemon], queue: str,
                                                        tmp_path: Path) -> None:
    """It waits, and the clock is set forth: its deadline was an hour away."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW="0", **clock_of(clock))
    with Caller(daemon, token(sub="keeper", role="admin")) as other, daemon.client() as waiter:
        waiter.send("GET", pop_target(queue, wait=True, timeout=100_000), headers=bearer(writer(exp=HOUR_S)))
        until(lambda: other.metric("queend_worker_parked") == 1, "it waits")
        clock.write_text("+2h")
        answer = waiter.receive()
        assert answer.status == 401, answer
        other.push(queue, "after")
        assert [one["data"] for one in other.pop(queue)] == ["after"]
