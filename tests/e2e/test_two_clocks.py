"""Pages and figures of a daemon whose clock is wrong: moments of messages are compared with the database's clock."""
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from support.client import Client, data
from support.clock import clock_of, other_clock
from support.daemon import Daemon
from support.wait import until

MINUTE_MS, HOUR_S = 60_000, 3600


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


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


def test_what_was_done_is_told_at_the_time_of_the_database(right: Daemon, wrong: Daemon, queue: str) -> None:
    """Both daemons tell the same of what both did, and of nothing that is to come."""
    with right.client() as one, wrong.client() as other:
        for client, count in ((one, 3), (other, 4)):
            client.push(queue, *range(count), partition="a")

        def ingested(client: Client) -> int:
            """Asks for it, and so has the daemon write what it counted, unless it has just done so."""
            page = client.get(f"/api/v1/status?queue={quote(queue)}").json
            return sum(point["ingested"] for point in page["throughput"])

        until(lambda: [ingested(client) for client in (one, other)] == [7, 7], "both have written what they did")
        for client in (one, other):
            series = client.get(f"/api/v1/analytics/queue-ops?queue={quote(queue)}").json["series"]
            assert sum(row["pushMessages"] for row in series) == 7
            assert all(row["pushPerSecond"] <= row["pushMessages"] for row in series)
            assert len(client.get("/api/v1/status").json["workers"]) >= 2
            points = client.get("/api/v1/status/analytics?interval=minute").json["dataPoints"]
            assert sum(point["messages"] for point in points) >= 7


def test_a_clock_that_jumps_changes_no_uptime(right: Daemon, start_daemon: Callable[..., Daemon], tmp_path: Path
                                              ) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    with start_daemon(right.conninfo, **clock_of(clock)).client() as client:
        for offset in ("+7200", "-7200"):
            was = client.get("/api/v1/system/live").json["at"]
            clock.write_text(offset)
            until(lambda was=was: abs(moment(client.get("/api/v1/system/live").json["at"]) - moment(was)) > HOUR_S,
                  "the clock has jumped")
            assert 0 <= client.get("/metrics").json["uptime"] < HOUR_S
            (uptime,) = (line for line in client.figures() if line.startswith("queen_uptime_seconds "))
            assert 0 <= float(uptime.split()[1]) < HOUR_S


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
