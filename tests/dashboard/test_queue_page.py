"""The page of a queue: topology, order by backlog, options in force, and the daemon's clock."""
from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import expect
from support.daemon import Daemon
from support.wait import until

from .conftest import Seen, findings

# The clock of this browser is three days ahead.
WRONG = "const real = Date.now.bind(Date); Date.now = () => real() + 3 * 86400e3;"


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Daemon:
    return start_daemon()


def test_topology(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        page = visit(daemon).go("queues")
        client.push("flow", 0, partition="p0")
        page.goto(f"{daemon.url}/#/queues/flow")
        strip = page.get_by_role("region", name="Topology")
        expect(strip).to_contain_text("No group has consumed messages of this queue.")
        for n in range(6):
            client.push("flow", *range(n + 1), partition=f"p{n}")
        for group, batch in (("ahead", 100), ("behind", 1)):
            client.get(f"/api/v1/pop/queue/flow?consumerGroup={group}&batch={batch}&partitions=10&autoAck=true"
                       "&subscriptionMode=all")
        expect(strip).to_contain_text("messages per second")
        boxes = strip.locator("> div")
        expect(boxes.nth(2).locator("li").nth(0)).to_contain_text("behind")
        expect(boxes.nth(2).locator("li").nth(0)).to_contain_text("lag 21")
        expect(boxes.nth(2).locator("li").nth(1)).to_have_text(re.compile("ahead.*no lag"))
        expect(boxes.nth(1).locator("li")).to_have_count(4)
        expect(boxes.nth(1).locator("li").nth(0)).to_have_text(re.compile("^p5.*lag 6$"))
        expect(boxes.nth(1)).to_contain_text("and 2 more partitions")
        assert not findings(page)
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        boxes.nth(2).get_by_role("link", name="behind").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("behind")
        page.go_back()
        name = boxes.nth(1).get_by_role("link").first.inner_text()
        boxes.nth(1).get_by_role("link").first.click()
        expect(page.get_by_label("Queue sections").get_by_role("link", name="Messages")).to_have_attribute(
            "aria-current", "page")
        assert f"partition={name}" in page.url


# Lets half an hour pass in the history. Two steps: no row may take the place of another meanwhile.
HALF_AN_HOUR = ("UPDATE queend.{0} SET bucket = -bucket", "UPDATE queend.{0} SET bucket = -bucket - 1800000000")


def test_the_charts_have_the_last_hour_at_once(start_daemon: Callable[..., Daemon],
                                               visit: Callable[..., Seen]) -> None:
    """On the page that opens first, small, with the values under the pointer and by keys."""
    daemon = start_daemon(STATS_INTERVAL_MS=100)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        client.push("drawn", *range(120))
        client.pop("drawn", batch=30, autoAck="true")

        def recorded() -> bool:
            backlog = client.get("/api/v1/analytics/queue-backlog?queue=drawn").json["series"]
            if not backlog or backlog[-1]["pending"] != 90:
                session.execute("DELETE FROM queend.metric_backlogs")      # the next look records again
                return False
            return any(one["popMessages"] == 30 for one in
                       client.get("/api/v1/analytics/queue-ops?queue=drawn").json["series"])

        until(recorded, "the minute is recorded")
        with session.transaction():
            for table in ("metric_backlogs", "metric_queues"):
                for statement in HALF_AN_HOUR:
                    session.execute(statement.format(table))
        client.pop("drawn", batch=50, autoAck="true")
    seen = visit(daemon, viewport={"width": 1400, "height": 900})
    page = seen.go("queues/drawn")
    charts = page.get_by_role("region", name="Charts")
    expect(charts.locator("figure")).to_have_count(3)
    expect(page.get_by_role("region", name="Topology")).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)
    tops = page.evaluate("[...document.querySelectorAll('figure')].map((one) => one.getBoundingClientRect().bottom)")
    assert len(set(tops)) == 1 and max(tops) < 900
    for chart, then in (("Messages per second", "pushed 2, "),
                        ("Backlog in messages", "pending 90, in flight 0"), ("Age at delivery", "mean ")):
        slider = page.get_by_role("slider", name=f"{chart}, by time")
        slider.focus()
        page.keyboard.press("End")
        for _ in range(35):
            page.keyboard.press("ArrowLeft")
            if then in (slider.get_attribute("aria-valuetext") or "") and "mean –" not in (
                    slider.get_attribute("aria-valuetext") or ""):
                break
        else:
            pytest.fail(f"{chart} has no {then}")
    expect(charts.locator("figure").nth(1).locator("b").first).to_have_text("40")
    assert not findings(page)
    page.get_by_label("Time range").select_option("Last day")
    expect(page.get_by_text("Of all daemons, by 15 minutes.")).to_be_visible()
    page.get_by_label("Queue sections").get_by_role("link", name="Groups").click()
    expect(charts.locator("figure")).to_have_count(3)


def test_a_queue_without_activity(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.configure("still")
    page = visit(daemon).go("queues/still")
    expect(page.locator("figure", has_text="longest")).to_contain_text("No messages were delivered.")
    expect(page.get_by_text("No values yet.")).to_have_count(0)
    assert not findings(page)


def test_partitions_and_groups_by_backlog(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        for n in range(60):
            client.push("sorted", *range(1 + (n == 57) * 3 + (n == 58)), partition=f"p{n:02}")
        for group in ("a", "b"):
            client.get(f"/api/v1/pop/queue/sorted?consumerGroup={group}&batch=5&partitions=10&autoAck=true"
                       "&subscriptionMode=all")
        client.get("/api/v1/pop/queue/sorted?consumerGroup=a&batch=50&partitions=50&autoAck=true")
    page = visit(daemon).go("queues/sorted")
    rows = page.locator("tbody tr")
    expect(rows.first).to_contain_text("p00")
    page.get_by_label("Sort by").select_option("Largest backlog first")
    expect(rows.nth(0)).to_contain_text("p57")
    expect(rows.nth(1)).to_contain_text("p58")
    expect(page.get_by_text("The 50 largest of 60 partitions.")).to_be_visible()
    assert not findings(page)
    page.goto(f"{daemon.url}/#/queues/sorted/groups")
    expect(rows.nth(0).locator("td").first).to_have_text("a")
    page.get_by_label("Sort by").select_option("Largest lag first")
    expect(rows.nth(0).locator("td").first).to_have_text("b")
    assert not findings(page)


def test_options_in_force(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.configure("chosen", leaseTime=45)
    page = visit(daemon).go("queues/chosen/options")
    table = page.get_by_role("region", name="Options")
    lease = table.locator("tr", has=page.get_by_role("rowheader", name="leaseTime", exact=True)).locator("td")
    expect(lease.nth(0)).to_have_text("45 s")
    expect(lease.nth(1)).to_have_text("set 45 s")
    retry = table.locator("tr", has=page.get_by_role("rowheader", name="retryLimit", exact=True)).locator("td")
    expect(retry.nth(0)).to_have_text("3 failures")
    expect(retry.nth(1)).to_have_text("–")
    ttl = table.locator("tr", has=page.get_by_role("rowheader", name="ttl", exact=True)).locator("td")
    expect(ttl.nth(0)).to_have_text("no effect")
    expect(table.get_by_text("set", exact=True)).to_have_count(1)


def test_a_browser_with_a_wrong_clock(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    """Its charts and lists ask for times of the daemon's clock."""
    with daemon.client() as client:
        client.push("timed", *range(120))
        client.push_items([{"queue": "timed", "payload": 1, "delayMs": 3_600_000}])
    seen = visit(daemon)
    seen.page.add_init_script(WRONG)
    page = seen.go("queues/timed")
    page.get_by_label("Time range").select_option("Last day")
    expect(page.locator("figure", has_text="pushed").locator("b").first).not_to_have_text(re.compile("^(0|–)$"))
    page.goto(f"{daemon.url}/#/scheduled?queue=timed")
    expect(page.locator("tbody tr").locator("td").nth(1)).to_have_text(re.compile(r"^(59 min \d+ s|1 h 0 min)$"))
    page.goto(f"{daemon.url}/#/messages?queue=timed&hours=1")
    expect(page.locator("tbody tr").first).to_be_visible()


def test_lists_without_the_daemon(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """Empty, then with an old answer, then without any."""
    daemon = start_daemon()
    page = visit(daemon).go("queues")
    expect(page.get_by_text("No queues. The first push creates one.")).to_be_visible()
    with daemon.client() as client:
        client.push("kept", 1)
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    daemon.stop()
    expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"^The daemon does not answer\. What is shown is from \d\d:\d\d:\d\d or before\."))
    expect(page.get_by_role("link", name="kept")).to_be_visible()
    assert not findings(page)
    page.get_by_label("Search names").fill("other")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.get_by_role("link", name="kept")).to_have_count(0)
    expect(page.get_by_text("No matching queues.")).to_have_count(0)
