"""Pages and figures of a daemon whose clock is wrong: moments of messages are compared with the database's clock."""
from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from support.client import Client, data
from support.clock import other_clock
from support.daemon import Daemon
from support.wait import until

MINUTE_MS, HOUR_S = 60_000, 3600


@pytest.fixture(scope="module")
def right(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(METRICS_AGGREGATE_INTERVAL_S=1)


@pytest.fixture(scope="module", params=["+2h", "-2h"])
def wrong(request: pytest.FixtureRequest, right: Daemon, start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon(right.conninfo, **other_clock(request.param))


def test_lists_of_messages_are_those_of_the_other_daemon(right: Daemon, wrong: Daemon, queue: str) -> None:
    with right.client() as one, wrong.client() as other:
        one.push(queue, "due", partition="a", delayMs=1)
        one.push(queue, "scheduled", partition="b", delayMs=10 * MINUTE_MS)
        assert data(one.pop(queue, "a", wait=True, timeout=100_000)) == ["due"]
        for target, name in ((f"/api/v1/messages/scheduled?queue={quote(queue)}", "scheduled"),
                             (f"/api/v1/messages?queue={quote(queue)}", "messages")):
            told = one.get(target).json[name]
            assert len(told) == (1 if name == "scheduled" else 2)
            assert other.get(target).json[name] == told


def test_ages_are_those_of_the_database(right: Daemon, wrong: Daemon, queue: str) -> None:
    def ages(client: Client) -> list[float]:
        return [float(line.rsplit(" ", 1)[1]) for line in client.figures()
                if line.startswith(("queend_standing_seconds{", "queen_worker_metrics_age_seconds{"))]

    with right.client() as one, wrong.client() as other:
        one.configure(queue, leaseTime=1)
        one.push(queue, 1)
        for _ in range(3):
            assert data(one.pop(queue, wait=True, timeout=100_000)) == [1]
        assert "standsSince" in one.get("/api/v1/consumer-groups/__QUEUE_MODE__").json[queue]["partitions"][0]
        for client in (one, other):
            told = until(lambda: found if len(found := ages(client)) >= 2 else None, "both figures are there")
            assert all(0 <= age < HOUR_S for age in told), told
