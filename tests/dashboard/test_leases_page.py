"""The page of consumers and leases: who has messages, until when, extended and released; and who waits."""
from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from playwright.sync_api import Locator, Page, Route, expect
from support.client import Client
from support.daemon import Daemon
from support.parked import waiting
from support.tokens import SECRET, token

from .conftest import Seen, findings


def rows(page: Page) -> Locator:
    return page.get_by_role("region", name="Leases", exact=True).locator("tbody tr")


def lease_of(client: Client, queue: str) -> dict:
    (one,) = client.get(f"/api/v1/leases?queue={quote(queue)}").json["leases"]
    return one


def test_who_has_what_until_when(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        page = visit(daemon).go("leases", "Consumers and leases")
        expect(page.get_by_text("No leases. No consumer has messages that it has not acknowledged.")).to_be_visible()
        expect(page.get_by_text("No consumer waits in a long poll.")).to_be_visible()
        assert not findings(page)
        client.push("orders", *range(5), partition="p1")
        client.push("bills", 1)
        taken = client.pop("orders", consumerGroup="billing", subscriptionMode="all", batch=3, leaseSeconds=9000)
        client.pop("bills", leaseSeconds=600)
        # the page asks again by itself
        expect(rows(page)).to_have_count(2)
        expect(page.get_by_role("status").filter(has_text="2 leases.")).to_be_visible()
        row = rows(page).filter(has_text="billing")
        for n, text in enumerate(("billing", "orders", "p1", "3", re.compile(r"^\d+ s ago$"),
                                  re.compile(r"^in 2 h 29 min$"), "1")):
            expect(row.locator("td").nth(n)).to_have_text(text)
        expect(row.locator("td[data-title='Lease id']")).to_have_text(taken[0]["leaseId"])
        expect(rows(page).first).to_contain_text("(without a group)")
        assert not findings(page)
        page.get_by_label("Sort by").select_option("Silent for longest")
        expect(rows(page).first).to_contain_text("billing")
        page.get_by_label("Group").fill("billing")
        expect(rows(page)).to_have_count(1)
        page.get_by_label("Queue", exact=True).fill("bills")
        expect(page.get_by_text("No matching leases.")).to_be_visible()
        page.get_by_role("button", name="Remove all").click()
        expect(rows(page)).to_have_count(2)
        for message in taken:
            client.ack(message, group="billing")
        expect(rows(page)).to_have_count(1)
        # from the queue's page and the group's
        page.goto(f"{daemon.url}/#/queues/bills")
        page.get_by_role("definition").get_by_role("link", name="1", exact=True).click()
        expect(page.get_by_role("combobox", name="Queue")).to_have_value("bills")
        expect(rows(page)).to_have_count(1)
        page.goto(f"{daemon.url}/#/groups/__QUEUE_MODE__")
        page.get_by_role("link", name="active").click()
        expect(page.get_by_role("combobox", name="Group")).to_have_value("__QUEUE_MODE__")


def test_a_lease_is_extended_and_released(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("q", 1, 2)
        taken = client.pop("q", consumerGroup="g", subscriptionMode="all", batch=2, leaseSeconds=300)
        page = visit(daemon).go("leases")
        before = lease_of(client, "q")["expiresAt"]
        page.get_by_role("button", name="Extend the lease of Default").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(taken[0]["leaseId"])
        dialog.get_by_label("Seconds").fill("9000")
        assert not findings(page)
        dialog.get_by_role("button", name="Extend").click()
        expect(dialog.get_by_role("status")).to_contain_text("The lease ends at")
        assert lease_of(client, "q")["expiresAt"] > before
        dialog.get_by_role("button", name="Close").click()
        expect(rows(page).locator("td").nth(5)).to_have_text("in 2 h 29 min")
        page.get_by_role("button", name="Release the lease of Default").click()
        expect(dialog).to_contain_text("2 messages can be delivered to another consumer at once")
        assert not findings(page)
        dialog.get_by_role("button", name="Release").click()
        expect(dialog.get_by_role("status")).to_contain_text("The lease was released.")
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_text("No leases.")).to_be_visible()
        assert not client.ack(taken[0], group="g")["success"], "the former consumer"
        assert [one["data"] for one in client.pop("q", consumerGroup="g", batch=2)] == [1, 2]
        expect(rows(page).locator("td").nth(6)).to_have_text("2")
        # the lease ends while the dialog is open, and another consumer has the messages
        page.get_by_role("button", name="Release the lease of Default").click()
        expect(dialog).to_be_visible()
        stale = lease_of(client, "q")
        client.post("/api/v1/ack", {"windowId": f"{stale['partitionId']}:{stale['leaseId']}", "consumerGroup": "g",
                                    "status": "retry"})
        client.pop("q", consumerGroup="g", batch=2)
        dialog.get_by_role("button", name="Release").click()
        expect(dialog.get_by_role("alert")).to_have_text("The lease has ended. Nothing was released.")
        assert lease_of(client, "q")["leaseId"] != stale["leaseId"], "the new lease stays"


def test_who_waits(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    with daemon.client() as client:
        client.push("orders", 1)
        client.pop("orders", autoAck="true")
        with waiting(daemon, client, "orders", 2):
            page = visit(daemon).go("leases")
            row = page.get_by_role("region", name="Waiting consumers").locator("tbody tr")
            expect(row).to_have_count(1)
            expect(row).to_contain_text("orders")
            expect(row).to_contain_text(str(daemon.port))
            assert not findings(page)


def test_a_reader_changes_nothing(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """A token of one queue must name the queue; without the right to write there are no buttons."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    with daemon.client() as client:
        writer = {"Authorization": f"Bearer {token(role='read-write')}"}
        client.request("POST", "/api/v1/push", {"items": [{"queue": "a.b", "payload": 1}]}, writer)
        client.request("GET", "/api/v1/pop/queue/a.b", headers=writer)
    seen = visit(daemon)
    page = seen.page
    page.goto(f"{daemon.url}/#/leases")
    page.get_by_label("Token").fill(token(role="read-only", queues={"a.*": ["read"]}))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Enter a queue: this token is limited to some queues.")).to_be_visible()
    assert not findings(page)
    page.get_by_label("Queue", exact=True).fill("a.b")
    expect(rows(page)).to_have_count(1)
    assert page.get_by_role("button", name="Release").count() == 0
    assert not findings(page)


def test_a_token_of_some_queues(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """It sees the pages of its queues. Pages that show all queues ask for one, and name those that it may read."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    with daemon.client() as client:
        writer = {"Authorization": f"Bearer {token(role='read-write')}"}
        client.request("POST", "/api/v1/push", {"items": [{"queue": "a.b", "payload": 1}]}, writer)
        client.request("GET", "/api/v1/pop/queue/a.b?consumerGroup=g&subscriptionMode=all", headers=writer)
    page = visit(daemon).page
    page.goto(f"{daemon.url}/")
    page.get_by_label("Token").fill(token(role="read-only", queues={"a.b": ["read"], "c.*": ["read"]}))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()
    menu = page.get_by_label("Main navigation").get_by_role("link")
    expect(menu).to_have_text(["Queues", "Partitions", "Leases", "Messages", "Dead letters", "Scheduled"])
    expect(page.get_by_text("The token may read: a.b, c.*.")).to_be_visible()
    assert not findings(page)
    for where in ("overview", "groups", "traces", "streams", "daemons", "doctor"):
        page.goto(f"{daemon.url}/#/{where}")
        expect(page.get_by_text("This page shows all queues; this token is limited")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
    for where in ("leases", "messages", "messages?tail=1", "dead", "scheduled"):
        page.goto(f"{daemon.url}/#/{where}")
        expect(page.get_by_text("Enter a queue: this token is limited to some queues.")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert not findings(page)
    page.goto(f"{daemon.url}/#/queues")
    page.get_by_label("Queue", exact=True).fill("a.b")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queue a.b")
    for where, name in (("messages", "Messages"), ("dead", None), ("scheduled", None), ("leases", "Leases")):
        page.goto(f"{daemon.url}/#/{where}?queue=a.b")
        if name:
            expect(page.get_by_role("region", name=name, exact=True).locator("tbody tr")).to_have_count(1)
        expect(page.get_by_text("Loading…")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
    page.goto(f"{daemon.url}/#/groups/g")
    expect(page.get_by_role("region", name="Partitions of a.b").locator("tbody tr")).to_have_count(1)
    page.goto(f"{daemon.url}/#/queues/other")
    expect(page.get_by_role("alert").first).to_contain_text("Access denied")


def test_a_token_of_every_queue_is_not_limited(start_daemon: Callable[..., Daemon],
                                               visit: Callable[..., Seen]) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET, QUEEND_JWT_QUEUES_CLAIM="queues")
    page = visit(daemon).page
    page.goto(f"{daemon.url}/")
    page.get_by_label("Token").fill(token(role="read-only", queues={"*": ["read"], "c": ["push"]}))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    expect(page.locator(".health")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_without_an_answer(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """While the page loads, and when the daemon has gone: the last answer stays, and is said to be old."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("q", 1)
        client.pop("q")
    seen = visit(daemon)
    held: list[Route] = []
    seen.page.route("**/api/v1/leases*", lambda route: held.append(route))
    page = seen.go("leases")
    expect(page.get_by_role("status").filter(has_text="Loading…").first).to_be_visible()
    assert not findings(page)
    held[0].continue_()
    page.unroute("**/api/v1/leases*")
    expect(rows(page)).to_have_count(1)
    daemon.stop()
    expect(page.get_by_role("alert")).to_contain_text("The daemon does not answer.")
    expect(rows(page)).to_have_count(1)
    assert not findings(page)
