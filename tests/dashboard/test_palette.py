"""The command palette opens pages, queues and groups."""
from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect
from support.daemon import Daemon

from .conftest import Seen, findings


def test_pages_queues_and_groups(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.push("palette.orders", 1)
        client.pop("palette.orders", consumerGroup="palette-billing")
    page = visit(daemon).go("overview", "Overview")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page, queue or group")
    expect(field).to_be_focused()
    field.fill("palette")
    options = page.get_by_role("listbox", name="Matches").get_by_role("option")
    expect(options).to_have_text(["palette.ordersQueue", "palette-billingGroup", "paletteOpen queue"])
    expect(options.first).to_have_attribute("aria-selected", "true")
    assert not findings(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Group palette-billing")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("h1").focus()
    page.keyboard.press(":")
    field.fill("dead")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Dead letters", level=1)).to_be_visible()
    page.get_by_label("Queue", exact=True).focus()
    page.keyboard.press(":")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    field.fill("palette.orders")
    expect(options).to_have_text(["palette.ordersQueue"])
    options.first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Queue palette.orders")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_filter_does_not_lead_back(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    """It takes effect between the click on a link and the event that tells the page of it."""
    with daemon.client() as client:
        client.push("left.for", 1)
    page = visit(daemon).go("leases", "Consumers and leases")
    page.evaluate("""() => {
        location.hash = "#/queues/left.for";
        const choice = document.querySelector("main select");
        choice.value = [...choice.options].find((one) => !one.selected).value;
        choice.dispatchEvent(new Event("change", {bubbles: true}));
    }""")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Queue left.for")
