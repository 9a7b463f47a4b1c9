"""The overview: a health line that tells the truth, a list of problems, the last hour, and the values of a chart."""
from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from playwright.sync_api import Page, Route, expect
from support.daemon import Daemon
from support.parked import waiting
from support.postgres import Postgres, running
from support.standbys import name_standbys
from support.wait import until

from .conftest import Seen, findings

OLD = """UPDATE queend.log SET created_at = created_at - 400000000 WHERE partition_id IN
         (SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s)"""


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with running(request.config.getoption("--postgres"), tcp=True, synchronous_commit="on") as server:
        yield server


def green(page: Page) -> None:
    expect(page.locator(".health.good")).to_contain_text("The database answers and commits.")


def figure(page: Page, name: str) -> str:
    return page.locator(f"dt:text-is('{name}') + dd").inner_text()


def test_the_figures_are_those_of_the_database(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """With their units. In each partition, the group with most messages counts."""
    daemon = start_daemon()
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        for part in range(3):
            client.push("a", *range(10), partition=f"p{part}")
        client.push("b", *range(4))
        session.execute(OLD, ("b",))
        client.push("b", 4)
        for message in client.pop("a", consumerGroup="fast", subscriptionMode="all", batch=30, partitions=3)[:26]:
            client.ack(message, group="fast")
        (taken, *_) = client.pop("a", consumerGroup="slow", subscriptionMode="all", batch=8)
        client.ack(taken, "dlq", "slow", error="no such customer")

        # In flight are 7 of slow in p0 and 4 of fast in p2. No group has read b.
        def asked(query: str) -> int:
            (row,) = session.execute(query)
            return row[0]

        (slow,) = session.execute("""
            SELECT sum(h.head - coalesce(c.committed + 1, 0)) FROM (
                SELECT partition_id, max(base + n) AS head FROM queend.log GROUP BY 1) AS h
              JOIN queend.partitions p ON p.id = h.partition_id JOIN queend.queues q ON q.id = p.queue_id
              JOIN queend.consumer_groups g ON g.queue_id = q.id AND g.name = 'slow'
              LEFT JOIN queend.cursors c ON c.partition_id = p.id AND c.group_id = g.id WHERE q.name = 'a'""")
        assert slow[0] == 29
        page = visit(daemon).go("overview")
        expect(page.locator("dt:text-is('In flight') + dd")).to_have_text("11 messages")
        assert figure(page, "Backlog") == f"{slow[0] - 7 + 5} messages" == "27 messages"
        assert figure(page, "Dead letters") == "1 message" and asked("SELECT count(*) FROM queend.dead_letters") == 1
        assert figure(page, "Queues") == str(asked("SELECT count(*) FROM queend.queues")) == "2"
        assert figure(page, "Partitions") == str(asked("SELECT count(*) FROM queend.partitions")) == "4"
        assert figure(page, "Failover buffer") == "0 messages"
        expect(page.locator("dt:text-is('Oldest pending message') + dd")).to_have_text(re.compile(r"^6 min \d+ s$"))
        with waiting(daemon, client, "empty", 3):
            expect(page.locator("dt:text-is('Waiting long polls') + dd")).to_have_text("3")
            assert int(figure(page, "Client connections")) >= 4


def test_rates_are_those_of_the_counters(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    """What was pushed between two answers, per second."""
    seen = visit(daemon)
    numbers = iter((0, 995))
    start = {}

    def answer(route: Route) -> None:
        found = route.fetch().json()
        start.setdefault("at", found["at"])
        pushed = next(numbers, 995)
        at = datetime.fromisoformat(start["at"]) + timedelta(seconds=10 if pushed else 0)
        found["jobs"]["push"]["items"] = pushed
        route.fulfill(json={**found, "at": at.strftime("%Y-%m-%dT%H:%M:%S.000Z")})

    seen.page.route("**/api/v1/system/live", answer)
    page = seen.go("overview")
    expect(page.locator("figure", has_text="pushed").locator("b").first).to_have_text("99.5")


def never_green(page: Page, text: str) -> None:
    expect(page.locator(".health.bad")).to_contain_text(text)
    expect(page.locator(".health .tag.good")).to_have_count(0)
    assert not findings(page)


def test_a_database_that_is_silent(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen],
                                   cluster: Postgres) -> None:
    daemon = start_daemon(cluster.database())
    page = visit(daemon).go("overview")
    green(page)
    with cluster.frozen():
        expect(page.locator(".health.bad")).to_be_visible()
        expect(page.get_by_role("region", name="Problems")).to_contain_text(
            "Database: silent. The database has answered no statement for 5 seconds.")
        never_green(page, "serving")
        expect(page.locator("dt:text-is('Backlog') + dd")).to_have_text("–")
    green(page)


def test_commits_that_hang(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen], cluster: Postgres) -> None:
    daemon = start_daemon(cluster.database(), LIBQUEEN_INFLIGHT_DEADLINE_MS=600_000)
    page = visit(daemon).go("overview")
    green(page)
    with daemon.client() as pushing:
        pushing.push("q", 0)
        name_standbys(cluster, "missing")
        pushing.send("POST", "/api/v1/push", b'{"items": [{"queue": "q", "payload": 1}]}')
        never_green(page, "no commit has completed for 5 seconds")
        name_standbys(cluster, "")
        assert pushing.receive().status == 201
    green(page)


def test_a_daemon_that_hangs(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    page = visit(daemon).go("overview")
    green(page)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        never_green(page, "The daemon does not answer in time.")
        expect(page.get_by_role("alert")).to_contain_text("The figures below are old.")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    green(page)


def test_problems_with_a_link(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen],
                              tmp_path: Path) -> None:
    daemon = start_daemon(QUEEND_BUFFER_BYTES=1 << 24, FILE_BUFFER_DIR=tmp_path, METRICS_SAMPLE_INTERVAL_MS=100,
                          METRICS_AGGREGATE_INTERVAL_S=1)      # metrics are written each second
    page = visit(daemon).go("overview")
    green(page)
    expect(page.get_by_role("region", name="Problems")).to_have_count(0)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        client.push("late", 1, 2)
        client.pop("late", consumerGroup="billing", leaseSeconds=1)
        session.execute(OLD, ("late",))
        client.push("rejected", *range(3))
        for one in client.pop("rejected", batch=3):
            client.ack(one, "dlq")
        client.push("stopped", 1)
        client.post("/api/v1/queues/stopped/pause", {})
        client.post("/api/v1/system/maintenance/pop", {"enabled": True})
        page.reload()
        problems = page.get_by_role("region", name="Problems")
        for text in ("Group billing is behind in late. Messages in 1 partition wait, the oldest for 6 min",
                     "Dead letters are rising. 3 messages became dead letters in the last 10 minutes",
                     "Queue stopped is paused. No group receives its messages until it is resumed; 1 pending.",
                     "Delivery paused. No daemon delivers messages"):
            expect(problems).to_contain_text(text)
        expect(page.locator(".health.warn")).to_contain_text("serving, with 4 problems")
        assert not findings(page)
        client.post("/api/v1/system/maintenance", {"enabled": True})
        expect(problems).to_contain_text("Push maintenance. Every daemon stores pushes in its failover buffer")
        client.post("/api/v1/push", {"items": [{"queue": "kept", "payload": 1}]})
        expect(problems).to_contain_text("The failover buffer is filling. 1 message wait")
        for text, heading in (("Group billing", "billing"), ("Dead letters are", "Dead letters"),
                              ("Queue stopped", "stopped"), ("Delivery paused", "Maintenance")):
            page.goto(f"{daemon.url}/#/overview")
            problems.locator("li", has_text=text).get_by_role("link").click()
            expect(page.get_by_role("heading", level=1)).to_contain_text(heading)
        for which in ("maintenance", "maintenance/pop"):
            client.post(f"/api/v1/system/{which}", {"enabled": False})


def test_the_largest_backlogs(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        for n in range(7):
            client.push(f"q{n}", *range(10 * n + 1))
        client.pop("q6", batch=30, autoAck="true")
    page = visit(daemon).go("overview")
    rows = page.get_by_role("region", name="Largest backlogs").locator("tbody tr")
    expect(rows).to_have_count(5)
    for row, (name, pending) in enumerate((("q5", 51), ("q4", 41), ("q6", 31), ("q3", 31), ("q2", 21))):
        expect(rows.nth(row).locator("td").first).to_contain_text(name)
        expect(rows.nth(row).locator("td").nth(1)).to_have_text(str(pending))
    spark = rows.nth(2).get_by_role("img")
    expect(spark).to_have_attribute("aria-label", "61 pushed, 30 acknowledged in the last hour")
    rows.first.get_by_role("link", name="q5").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("q5")


def test_the_last_hour_is_there_at_once(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """What daemons wrote a while ago is drawn on opening, before the page has looked twice."""
    daemon = start_daemon()
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        client.push("q", *range(120))
        until(lambda: client.get("/api/v1/analytics/worker-metrics").json["summary"]["totalPushMessages"] == 120
              and client.get("/api/v1/analytics/system-metrics").json["pointCount"], "the minute is written")
        session.execute("UPDATE queend.metric_workers SET bucket = bucket - 1800000000")
        pushed = sum(point["metrics"]["shared_state"]["sidecar_ops"]["push"]["items"] for replica in
                     client.get("/api/v1/analytics/system-metrics").json["replicas"] for point in replica["timeSeries"])
        assert pushed == 120
        page = visit(daemon).go("overview")
        page.route("**/api/v1/system/live", lambda route: route.abort() if page.evaluate("window.looked")
                   else (page.evaluate("window.looked = true"), route.continue_()))
        page.reload()
        rates = page.get_by_role("slider", name="Messages per second, by time")
        expect(rates).to_have_attribute("aria-valuemax", re.compile("[1-9]"))
        rates.focus()
        page.keyboard.press("Home")
        expect(rates).to_have_attribute("aria-valuetext", re.compile("pushed 2, popped 0, acknowledged 0$"))


def test_the_values_of_a_moment(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """Under the pointer, and by keys; the text stands in the chart."""
    daemon = start_daemon()
    page = visit(daemon).go("overview")
    figure = page.locator("figure", has_text="pending")
    chart = figure.get_by_role("slider")
    until(lambda: page.wait_for_timeout(50) or int(chart.get_attribute("aria-valuemax") or 0) >= 2, "it has points")
    with daemon.client() as client:
        client.push("q", *range(7))
    expect(figure.locator("b").first).to_have_text("7")
    expect(figure.locator(".moment")).to_have_text("")
    chart.focus()
    page.keyboard.press("Home")
    expect(figure.locator("b").first).to_have_text("0")
    first = figure.locator(".moment").inner_text()
    expect(chart).to_have_attribute("aria-valuetext", f"{first}: pending 0, in flight 0")
    page.keyboard.press("ArrowRight")
    expect(figure.locator(".moment")).not_to_have_text(first)
    assert not findings(page)
    page.keyboard.press("Escape")
    expect(figure.locator(".moment")).to_have_text("")
    expect(figure.locator("b").first).to_have_text("7")
    box = figure.locator(".u-over").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 50)
    expect(figure.locator(".moment")).not_to_have_text("")
    expect(figure.locator("b").first).to_have_text("7")
    page.mouse.move(box["x"] - 200, box["y"] + 300)
    expect(figure.locator(".moment")).to_have_text("")
