"""Pages without data, without a daemon, without a token, at unknown addresses, and on narrow screens."""
from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect
from support.daemon import Daemon
from support.ports import free_port
from support.tokens import SECRET, token
from support.wait import until

from .conftest import Seen, findings

ANSWERS = re.compile(r"/api/v1/(?!system/session)|/streams/")
LISTS = {"queues": "No queues. The first push creates one.", "groups": "No consumer groups. A group exists from its",
         "leases": "No leases. No consumer has messages", "messages": "No messages in this time range.",
         "dead": "No dead letters. A message becomes one", "scheduled": "No scheduled messages.",
         "traces": "No traces.", "streams": "No streams. A stream processor registers its query",
         "doctor": "checks ran at", "daemons": "The database answers and commits.", "overview": "No queues.",
         "maintenance": "Buffer all pushes", "settings": "Secrets are masked."}


@pytest.fixture(scope="module")
def bare(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    """A daemon without any queue."""
    yield start_daemon()


def hold(page: Page) -> list[Route]:
    """Keeps the requests of a page from the daemon, in the list that it returns."""
    held: list[Route] = []
    page.route(ANSWERS, lambda route: held.append(route))
    return held


@pytest.mark.parametrize("where", LISTS)
def test_empty_and_while_it_loads(bare: Daemon, visit: Callable[..., Seen], where: str) -> None:
    for scheme, width in (("light", 1400), ("dark", 400)):
        seen = visit(bare, color_scheme=scheme, viewport={"width": width, "height": 900})
        held = hold(seen.page)
        page = seen.go(where)
        expect(page.get_by_text("Loading…").first).to_be_visible()
        assert not findings(page)
        for route in held:
            route.continue_()
        page.unroute(ANSWERS)
        expect(page.get_by_text(LISTS[where]).first).to_be_visible()
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not findings(page)


@pytest.mark.parametrize("where, seldom", [("queues/kept", False), ("groups/g", False), ("doctor", True)])
def test_one_line_says_that_the_daemon_has_gone(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen],
                                                where: str, seldom: bool) -> None:
    """Also on a page that asks once a minute. The last answer stays, and the line goes with the next answer."""
    daemon = start_daemon(PORT=free_port())
    with daemon.client() as client:
        client.push("kept", 1)
        client.pop("kept", consumerGroup="g", subscriptionMode="all")
    page = visit(daemon).go(where)
    there = page.get_by_text("checks ran at") if seldom else page.locator("tbody tr")
    expect(there.first).to_be_visible()
    daemon.stop()
    expect(page.get_by_role("alert")).to_have_count(1)
    expect(page.get_by_role("alert")).to_contain_text(re.compile(
        r"^The daemon does not answer\. What is shown is from \d\d:\d\d:\d\d or before\. The page asks again"))
    expect(there.first).to_be_visible()
    assert not findings(page)
    start_daemon(daemon.conninfo, PORT=daemon.port)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_daemon_that_hangs(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    page = visit(daemon).go("doctor")
    expect(page.get_by_text("checks ran at")).to_be_visible()
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        expect(page.get_by_role("alert")).to_contain_text("The daemon does not answer.")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_what_does_not_exist(bare: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(bare).go("queue/orders", "Page not found")
    expect(page.get_by_text("The dashboard has no page queue.")).to_be_visible()
    assert not findings(page)
    page.get_by_role("main").get_by_role("link", name="Overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto(f"{bare.url}/#/queues/none")
    expect(page.get_by_text("The queue does not exist.")).to_be_visible()
    for name in ("Push", "Clear", "Delete"):
        assert page.get_by_role("button", name=name).count() == 0
    assert not findings(page)
    page.goto(f"{bare.url}/#/groups/none")
    expect(page.get_by_text("The group does not exist. It is created by its first pop.")).to_be_visible()
    page.goto(f"{bare.url}/#/messages/00000000-0000-4000-8000-000000000000/none")
    expect(page.get_by_text("The message does not exist.")).to_be_visible()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)


@pytest.mark.parametrize("width", [1400, 400])
def test_the_token_page(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen], width: int) -> None:
    """In the middle and readable; it says which token, and where one comes from."""
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    for scheme in ("light", "dark"):
        page = visit(daemon, color_scheme=scheme, viewport={"width": width, "height": 900}).go("queues", "queend")
        box = page.locator("form").bounding_box()
        assert box and abs(box["x"] + box["width"] / 2 - width / 2) <= 2
        assert box["width"] >= min(450, width - 80)
        expect(page.get_by_label("Token")).to_be_focused()
        expect(page.locator("form")).to_contain_text("queend token mint")
        expect(page.locator("form")).to_contain_text(f"is sent to 127.0.0.1:{daemon.port} only")
        assert not findings(page)
        page.keyboard.type(token(role="read-only"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Queues", level=1)).to_be_visible()


# Whether each row of tiles reaches the end of its box.
WHOLE_ROWS = """() => [...document.querySelectorAll(".facts")].map((facts) => {
    const ends = new Map();
    for (const tile of facts.children) {
        const box = tile.getBoundingClientRect();
        ends.set(Math.round(box.top), Math.max(ends.get(Math.round(box.top)) ?? 0, box.right));
    }
    const end = facts.getBoundingClientRect().right;
    return [...ends.values()].every((right) => Math.abs(right - end) <= 1);
})"""


def test_rows_of_tiles_have_no_hole(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push_items([{"queue": "tiled", "payload": 1, "delayMs": 1}])
        (message,) = until(lambda: client.pop("tiled"), "it is due")
    for where in ("overview", "daemons", "maintenance", "queues/tiled",
                  f"messages/{message['partitionId']}/{message['transactionId']}"):
        page = visit(daemon).go(where)
        expect(page.locator(".facts")).to_have_count(1)
        for width in (1400, 1100, 900, 700, 400, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(WHOLE_ROWS) == [True], (where, width)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def hidden_cells(page: Page) -> int:
    """Number of cells with content that reach beyond the screen."""
    return page.evaluate("""() => [...document.querySelectorAll("td")].filter((cell) => cell.textContent &&
                                   cell.getBoundingClientRect().right > innerWidth).length""")


def test_rows_are_cards_on_a_narrow_screen(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("orders-of-a-department-with-a-long-name", *range(3))
        for message in client.pop("orders-of-a-department-with-a-long-name", consumerGroup="billing",
                                  subscriptionMode="all", batch=3):
            client.ack(message, "dlq", "billing", error="no such customer, whatever was tried " * 5)
        client.push("orders-of-a-department-with-a-long-name", *range(3))
        client.pop("orders-of-a-department-with-a-long-name", consumerGroup="billing", batch=2)
    seen = visit(daemon, viewport={"width": 400, "height": 900})
    for where in ("overview", "queues", "groups", "groups/billing", "leases", "messages", "dead", "settings", "daemons",
                  "queues/orders-of-a-department-with-a-long-name/options"):
        page = seen.go(where)
        row = page.locator("tbody tr").first
        expect(row).to_be_visible()
        assert hidden_cells(page) == 0, where
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert not findings(page)
    page = seen.go("leases")
    cell = page.get_by_role("row").filter(has_text="billing").get_by_role("cell").nth(3)
    expect(cell).to_have_text("2")
    assert page.evaluate("cell => getComputedStyle(cell, '::before').content", cell.element_handle()) == '"Messages"'
    page = seen.go("dead")
    page.get_by_label("Select all on this page").check()
    expect(page.get_by_role("group", name="Selection")).to_contain_text("3 selected")
    page.set_viewport_size({"width": 1400, "height": 900})
    expect(page.get_by_role("columnheader", name="Error").first).to_be_visible()
