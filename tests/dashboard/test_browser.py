"""Every page with real traffic: no finding of axe in dark and light, no script of a stranger, no error; and what people
do there."""
from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from playwright.sync_api import Page, Route, expect
from support.daemon import ROOT, Daemon
from support.ports import free_port
from support.tokens import SECRET, token
from support.wait import until

from .conftest import Seen, findings

PICTURES = ROOT / "docs/pictures"
# Queues as a push makes them.
MANY = """SELECT count(*) FROM queend.resolve(
    ARRAY(SELECT 'q' || to_char(n, 'FM000000') FROM generate_series(0, 99999) n),
    array_fill('Default'::text, ARRAY[100000]))"""
BAD = "<script>alert(1)</script>\u202egnp.exe"
PAGES = {
    "overview": "Overview", "queues": "Queues", "queues/orders": "orders", "queues/orders/options": "orders",
    "queues/orders/messages": "orders", "queues/orders/groups": "orders", "queues/live": "live",
    "partitions?queue=orders": "Partitions",
    "groups": "Consumer groups", "leases": "Consumers and leases", "groups/billing": "billing", "messages": "Messages",
    "messages?queue=orders&text=customer": "Messages", "messages?queue=orders&text=long": "Messages",
    "dead?queue=orders": "Dead letters",
    "scheduled": "Scheduled messages", "traces": "Traces", "traces/order-1": "order-1", "streams": "Streams",
    "daemons": "Daemons", "doctor": "Doctor",
    "maintenance": "Maintenance", "settings": "Settings"}
ADDRESS = ("transactionId", "partitionId", "leaseId")
SHOWN = {"overview", "queues", "queues/orders", "queues/live", "dead?queue=orders"}


@pytest.fixture(scope="module")
def busy(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    """A daemon with a little of everything, and traffic that goes on."""
    daemon = start_daemon()
    over = threading.Event()
    with daemon.client() as client:
        for queue in ("orders", "bills", "audit", BAD):
            client.post("/api/v1/push", {"items": [{
                "queue": queue, "partition": f"customer-{n % 7}", "payload": {"n": n, "text": BAD, "long": 1},
                "transactionId": f"order-{n}"} for n in range(40)]})
        found = client.get("/api/v1/pop/queue/orders?consumerGroup=billing&subscriptionMode=all&batch=20"
                           "&partitions=7").json
        for one in found["messages"][:6]:
            client.post("/api/v1/ack", {**{key: one[key] for key in ADDRESS}, "consumerGroup": "billing",
                                        "status": "dlq", "error": f"no such customer {BAD}"})
        one = found["messages"][0]
        client.post("/api/v1/traces", {"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                                       "data": {"text": BAD}, "traceNames": ["order-1", BAD]})
        client.post("/api/v1/push", {"items": [{"queue": "orders", "payload": 1, "delayMs": 3_600_000}]})
        client.post("/streams/v1/queries", {"name": "totals", "source_queue": "orders", "sink_queue": "bills",
                                            "config_hash": "x"})

    def traffic() -> None:
        with daemon.client() as client:
            n = 0
            while not over.wait(0.05):
                n += 1
                client.post("/api/v1/push", {"items": [{"queue": "live", "partition": f"p{i}", "payload": n}
                                                       for i in range(1 + n % 20)]})
                client.get("/api/v1/pop/queue/live?batch=30&partitions=10&autoAck=true")

    thread = threading.Thread(target=traffic)
    thread.start()
    yield daemon
    over.set()
    thread.join()


@pytest.mark.parametrize("where", PAGES)
def test_a_page_in_light_and_dark_and_narrow(busy: Daemon, visit: Callable[..., Seen], where: str) -> None:
    for scheme in ("light", "dark"):
        seen = visit(busy, color_scheme=scheme)
        page = seen.go(where)
        expect(page.get_by_role("heading", level=1)).to_contain_text(PAGES[where])
        expect(page.get_by_text("Loading…")).to_have_count(0)
        if where == "overview":
            until(lambda: page.wait_for_timeout(50) or len(seen.looks) >= 6, "the charts have points")
        if where == "queues/live":
            expect(page.locator("figure", has_text="pushed").locator("b").first).not_to_have_text("0")
        assert not findings(page)
        if where in SHOWN:
            page.screenshot(path=PICTURES / f"dashboard-{where.partition('?')[0].replace('/', '-')}-{scheme}.png")
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, "a narrow screen does not scroll sideways"
        assert not findings(page)


def test_names_of_strangers_are_text(busy: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(busy).go("queues")
    page.get_by_role("link", name="<script>").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>alert(1)</script>\\u202egnp.exe")
    page.get_by_label("Queue sections").get_by_role("link", name="Messages").click()
    page.get_by_role("link", name="order-3", exact=True).first.click()
    expect(page.locator("pre")).to_contain_text("<script>alert(1)</script>\\u202egnp.exe")
    assert page.locator("main script").count() == 0


def test_a_queue_is_made_filled_looked_at_and_deleted(busy: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(busy).go("queues")
    page.get_by_role("button", name="New queue").click()
    page.get_by_label("Name", exact=True).fill("made by hand")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("made by hand")
    page.get_by_role("button", name="Push").click()
    page.get_by_label("Payload").fill('{"big": 12345678901234567890, "zero": "a\\u0000b"}')
    page.get_by_label("Transaction id").fill("one")
    page.get_by_role("dialog").get_by_role("button", name="Push").click()
    expect(page.get_by_role("dialog")).to_contain_text("is queued")
    page.keyboard.press("Escape")
    page.get_by_label("Queue sections").get_by_role("link", name="Messages").click()
    page.get_by_role("link", name="one", exact=True).click()
    expect(page.locator("pre")).to_contain_text('"big": 12345678901234567890')
    page.go_back()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("with 1 message (1 pending), 0 dead letters")
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete")).to_be_disabled()
    page.get_by_label("To confirm").fill("made by hand")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()


def test_a_queue_over_time(busy: Daemon, visit: Callable[..., Seen]) -> None:
    with busy.client() as client:
        client.post("/api/v1/push", {"items": [{"queue": "drawn", "payload": n} for n in range(120)]})
        client.get("/api/v1/pop/queue/drawn?batch=30&autoAck=true")
    page = visit(busy).go("queues/drawn")
    rates = page.locator("figure", has_text="pushed")
    expect(rates.locator("canvas")).to_be_visible()
    # the last minute may be a new one, in which nothing was done: the day's bucket has it
    page.get_by_label("Time range").select_option("Last day")
    expect(rates.locator("b").first).not_to_have_text("0")
    expect(page.locator("figure", has_text="pending").locator("b").first).to_have_text("90")
    expect(page.get_by_text("Of all daemons, by 15 minutes.")).to_be_visible()
    expect(page.get_by_label("Queue sections").get_by_role("link", name="Partitions")).to_have_attribute(
        "aria-current", "page")
    age = page.locator("figure", has_text="longest").locator("b").first
    expect(age).to_have_text(re.compile(r"^[\d.]+ (µs|ms|s)$"))
    with busy.client() as client:
        client.get("/api/v1/pop/queue/drawn?batch=50&autoAck=true")
    expect(page.locator("figure", has_text="pending").locator("b").first).to_have_text("40")


def test_a_queue_and_a_group_are_paused_and_resumed(busy: Daemon, visit: Callable[..., Seen]) -> None:
    with busy.client() as client:
        client.post("/api/v1/push", {"items": [{"queue": "stopped", "payload": 1}]})
        for group in ("slow", "fast"):
            client.get(f"/api/v1/pop/queue/stopped?consumerGroup={group}&autoAck=true")
        client.post("/api/v1/push", {"items": [{"queue": "stopped", "payload": 2}]})

        def reason(group: str) -> str | None:
            return client.get(f"/api/v1/pop/queue/stopped?consumerGroup={group}&leaseSeconds=1").json.get("reason")

        page = visit(busy).go("groups/slow", "slow")
        page.get_by_role("button", name="Pause in stopped").click()
        expect(page.get_by_role("button", name="Resume in stopped")).to_be_visible()
        expect(page.locator("h2", has_text="stopped")).to_contain_text("paused")
        assert reason("slow") == "paused" and reason("fast") != "paused"
        assert not findings(page)
        page.goto(f"{busy.url}/#/queues/stopped/groups")
        expect(page.locator("tr", has_text="slow")).to_contain_text("paused")
        expect(page.locator("tr", has_text="fast")).not_to_contain_text("paused")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
        assert reason("fast") == "paused"
        assert not findings(page)
        expect(page.locator("tr", has_text="fast")).to_contain_text("queue paused")
        page.goto(f"{busy.url}/#/queues?search=stopped")
        expect(page.locator("tr", has_text="stopped")).to_contain_text("paused")
        page.goto(f"{busy.url}/#/groups/slow")
        page.get_by_role("button", name="Resume in stopped").click()
        expect(page.locator("h2", has_text="stopped")).to_contain_text("queue paused")
        page.goto(f"{busy.url}/#/queues/stopped")
        page.get_by_role("button", name="Resume", exact=True).click()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        assert reason("slow") != "paused"


def test_a_large_payload_is_shown_in_part(busy: Daemon, visit: Callable[..., Seen]) -> None:
    with busy.client() as client:
        (one,) = client.post("/api/v1/push", {"items": [{"queue": "large", "payload": ["x" * 100] * 10_000}]}).json
    page = visit(busy).go(f"messages/{one['partition_id']}/{one['transaction_id']}")
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    assert len(page.locator("pre").inner_text()) < 70_000


def test_payloads_are_searched_a_part_at_a_time(busy: Daemon, visit: Callable[..., Seen]) -> None:
    with busy.client() as client:
        for start in (0, 10_000):
            client.post("/api/v1/push?format=counts", {"items": [
                {"queue": "searched", "partition": f"p{n % 5}", "payload": {"order": n, "text": BAD}}
                for n in range(start, start + 10_000)]})
        client.post("/api/v1/push", {"items": [{"queue": "searched", "payload": {"order": 4711, "again": True}}]})
    page = visit(busy).go("messages")
    page.get_by_label("Payload contains").fill('"order": 4711,')
    expect(page.get_by_text("Enter a queue to search.")).to_be_visible()
    page.get_by_label("Queue", exact=True).fill("searched")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("status").last).to_contain_text("messages searched, back to")
    assert not findings(page)
    page.get_by_role("button", name="Load more").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").last).to_contain_text('{"order": 4711, "text": "<script>')
    expect(page.get_by_role("status").last).to_have_text("20,001 messages searched. The search is complete.")
    assert page.get_by_role("button", name="Load more").count() == 0
    page.locator("tbody tr").last.get_by_role("link").click()
    expect(page.locator("pre")).to_contain_text('"order": 4711')


def test_a_dead_letter_is_edited_and_all_are_retried(busy: Daemon, visit: Callable[..., Seen]) -> None:
    with busy.client() as client:
        client.post("/api/v1/push", {"items": [{"queue": "dying", "payload": n} for n in range(5)]})
        found = client.get("/api/v1/pop/queue/dying?batch=5").json["messages"]
        for one in found:
            client.post("/api/v1/ack", {**{key: one[key] for key in ADDRESS}, "status": "dlq"})
    page = visit(busy).go("dead?queue=dying")
    expect(page.get_by_text("5 dead letters match.")).to_be_visible()
    page.get_by_role("button", name="Edit and redrive").first.click()
    page.get_by_label("Payload").fill('{"edited": true}')
    page.get_by_role("button", name="Review changes").click()
    page.get_by_role("button", name="Redrive with this payload").click()
    expect(page.get_by_text("4 dead letters match.")).to_be_visible()
    page.get_by_role("button", name="Redrive all matches").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("dialog")).to_contain_text("4 dead letters were redriven.")
    with busy.client() as client:
        again = client.get("/api/v1/pop/queue/dying?batch=9").json["messages"]
    assert sorted(str(one["data"]) for one in again)[-1] == "{'edited': True}" and len(again) == 5


def overtaken(page: Page, change: Callable[[], object]) -> None:
    """Makes a change of another client arrive at the daemon before the next change of the page."""
    changes = [change]

    def go_on(route: Route) -> None:
        if changes and route.request.method in ("POST", "DELETE"):
            changes.pop()()
        route.continue_()

    page.route("**/api/v1/**", go_on)


def test_an_action_that_changed_nothing_says_so(busy: Daemon, visit: Callable[..., Seen]) -> None:
    """Another client changes the subject of a dialog after its button was pressed."""
    with busy.client() as client:
        client.push("stale", *range(4))
        for one in client.pop("stale", batch=4):
            client.ack(one, "dlq")
        page = visit(busy).go("dead?queue=stale")
        dialog = page.get_by_role("dialog")

        page.get_by_role("button", name="Redrive all matches").click()
        overtaken(page, lambda: client.post("/api/v1/dlq/redrive", {"queue": "stale", "limit": 1}))
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("3 of 4 dead letters were redriven.")
        dialog.get_by_role("button", name="Close").click()
        for one in client.pop("stale", batch=4):
            client.ack(one, "dlq")
        page.reload()
        expect(page.get_by_text("4 dead letters match.")).to_be_visible()

        page.get_by_role("button", name="View").first.click()
        overtaken(page, lambda: client.post("/api/v1/dlq/redrive", {"queue": "stale"}))
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("This message is no longer a dead letter. Nothing was redriven.")

        found = client.pop("stale", batch=4)
        client.ack(found[0], "dlq")
        page = visit(busy).go("dead?queue=stale")
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Delete all matches").click()
        overtaken(page, lambda: client.request("DELETE", "/api/v1/dlq?queue=stale"))
        dialog.get_by_role("textbox").fill("stale")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("No dead letter was deleted: none matches any longer.")

        message = f"messages/{found[1]['partitionId']}/{found[1]['transactionId']}"
        page = visit(busy).go(message)
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Move to dead letters").click()
        overtaken(page, lambda: client.post(f"/api/v1/{message}/dlq", {}))
        dialog.get_by_role("button", name="Move").click()
        expect(dialog).to_contain_text("The message is already a dead letter of this group. Nothing was moved.")
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Delete").click()
        overtaken(page, lambda: client.request("DELETE", f"/api/v1/{message}"))
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("The message no longer exists. Nothing was deleted.")

        client.pop("stale", consumerGroup="stale-group")
        page = visit(busy).go("groups/stale-group")
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Delete in all queues").click()
        overtaken(page, lambda: client.request("DELETE", "/api/v1/consumer-groups/stale-group"))
        dialog.get_by_role("textbox").fill("stale-group")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("The group no longer exists. Nothing was deleted.")

        page = visit(busy).go("queues/stale")
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Delete", exact=True).click()
        overtaken(page, lambda: client.delete("stale"))
        dialog.get_by_role("textbox").fill("stale")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("The queue no longer exists. Nothing was deleted.")


def test_the_level_decides_and_a_token_ends(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, JWT_CLOCK_SKEW=0)
    page = visit(daemon).page
    page.goto(daemon.url)
    page.get_by_label("token").fill("nonsense")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("decode")
    assert not findings(page)
    page.get_by_label("token").fill(token(role="read-only", sub="looker"))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    assert page.get_by_role("button", name="New queue").count() == 0
    with daemon.client() as client:
        client.request("POST", "/api/v1/push", {"items": [{"queue": "looked-at", "payload": 1}]},
                       {"Authorization": f"Bearer {token(role='admin')}"})
    page.get_by_role("link", name="looked-at").click()
    expect(page.get_by_role("link", name="Dead letters").last).to_be_visible()
    assert page.get_by_role("button", name="Pause").count() == 0
    page.get_by_role("link", name="Queues", exact=True).click()
    assert page.get_by_role("link", name="Settings").count() == 0
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("token").fill(token(role="admin", exp=6))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="New queue")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("expired")
    expect(page.get_by_label("token")).to_be_visible()


def test_a_daemon_that_restarts_comes_back_into_the_page(start_daemon: Callable[..., Daemon],
                                                         visit: Callable[..., Seen]) -> None:
    daemon = start_daemon(PORT=free_port())
    seen = visit(daemon)
    page = seen.go("overview")
    expect(page.get_by_text("serving", exact=True)).to_be_visible()
    daemon.stop()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    start_daemon(daemon.conninfo, PORT=daemon.port)
    expect(page.get_by_text("serving", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_hidden_page_asks_nothing(busy: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(busy).page
    page.add_init_script("""Object.defineProperty(document, "hidden", {
        get: () => window.away === true, configurable: true})""")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    page.goto(busy.url)
    until(lambda: page.wait_for_timeout(50) or len([one for one in asked if one.endswith("/live")]) > 1, "it polls")
    page.evaluate("""() => { window.away = true; document.dispatchEvent(new Event("visibilitychange")); }""")
    page.wait_for_timeout(500)
    before = len(asked)
    page.wait_for_timeout(5000)
    assert len(asked) == before
    page.evaluate("""() => { window.away = false; document.dispatchEvent(new Event("visibilitychange")); }""")
    until(lambda: page.wait_for_timeout(50) or len(asked) > before, "it polls again")


def test_keys(busy: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(busy).go("overview")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("aud")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Tab")
    page.locator("h1").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_100_000_partitions_and_queues(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        for start in range(0, 100_000, 5000):
            step = range(start, start + 5000)
            client.post("/api/v1/push?format=counts", {"items": [
                {"queue": "many", "partition": f"p{n:06}", "payload": n} for n in step]})
    with psycopg.connect(daemon.conninfo, autocommit=True) as session:
        session.execute("SET enable_seqscan = off")      # as in sessions of the daemon: names are counted by the index
        session.execute(MANY)
    page = visit(daemon).go("queues/many")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("tbody tr").first).to_contain_text("p000050")
    page.get_by_label("Name prefix").fill("p09999")
    expect(page.locator("tbody tr")).to_have_count(10)
    page.goto(f"{daemon.url}/#/queues")
    page.get_by_label("Search names").fill("q099999")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(f"{daemon.url}/#/overview")
    expect(page.get_by_text("100,001", exact=True)).to_be_visible()
