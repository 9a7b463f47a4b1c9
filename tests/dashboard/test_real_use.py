"""Every page with the data of a busy installation and names of 200 characters: nothing is beyond the screen, and axe
finds nothing, at 1400 and 400 px, light and dark."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from support.daemon import Daemon

from .conftest import Seen, findings
from .scene import LONG_NAME, WIDE_NAME, fill

LONG, WIDE = quote(LONG_NAME), quote(WIDE_NAME)
PAGES = ("overview", "queues", "queues/orders", "queues/orders/groups", "queues/shipping-labels", f"queues/{LONG}",
         "queues/orders/messages", f"queues/{WIDE}", f"queues/{WIDE}/messages", f"queues/{LONG}/options",
         "partitions", "partitions?queue=orders", "groups", "groups/billing",
         f"groups/{WIDE}", "leases", "messages", "messages?tail=1", f"messages?queue={LONG}&text=WW", "dead",
         f"dead?queue={LONG}&group={WIDE}&error=Trace", "scheduled", "traces", f"traces/{WIDE}", "streams", "daemons",
         "doctor", "maintenance", "settings")
FORMS = [(scheme, width) for width in (1400, 400) for scheme in ("light", "dark")]
# What reaches beyond the screen, and tables that scroll sideways.
BEYOND = """() => [...document.querySelectorAll("main, main *")].filter((one) => {
    const box = one.getBoundingClientRect();
    if (one.matches(".wide")) return one.scrollWidth > one.clientWidth + 1;
    return box.width && box.right > document.documentElement.clientWidth + 1
        && !one.closest(".unseen, .whole, .line, .u-wrap");
}).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def used(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    daemon = start_daemon()
    fill(daemon)
    yield daemon


def look(page: Page) -> None:
    """Checks a page in each form: the same page in two themes and two widths."""
    expect(page.get_by_text("Loading…")).to_have_count(0)
    for scheme, width in FORMS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (scheme, width)
        assert page.evaluate(BEYOND) == [], (scheme, width)
        assert not findings(page), (scheme, width)


@pytest.mark.parametrize("where", PAGES, ids=lambda where: where.replace(LONG, "LONG").replace(WIDE, "WIDE"))
def test_nothing_is_cut_off(used: Daemon, visit: Callable[..., Seen], where: str) -> None:
    look(visit(used, viewport={"width": 1400, "height": 900}).go(where))


def test_a_message_is_not_cut_off(used: Daemon, visit: Callable[..., Seen]) -> None:
    for queue in ("payments", WIDE):
        page = visit(used, viewport={"width": 1400, "height": 900}).go(f"dead?queue={queue}")
        page.get_by_role("region", name="Dead letters").get_by_role("link").first.click()
        page.get_by_role("heading", level=2, name="Payload").wait_for()
        look(page)


def test_all_pages_of_the_menu_are_looked_at(used: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(used, viewport={"width": 400, "height": 900}).go("queues")
    page.get_by_role("button", name="Menu").click()
    links = page.get_by_label("Main navigation").get_by_role("link")
    assert {link.get_attribute("href") for link in links.all()} == {f"#/{where.partition('/')[0]}" for where in PAGES
                                                                    if "?" not in where}
    assert page.get_by_label("Main navigation").locator("svg").count() == links.count()
    look(page)


def test_a_long_name_keeps_its_beginning_and_its_end(used: Daemon, visit: Callable[..., Seen]) -> None:
    """On one line, as the column allows. The whole name stays the name of the link."""
    page = visit(used, viewport={"width": 1400, "height": 900}).go("messages")
    cells = page.get_by_role("region", name="Messages").locator("td[data-title=Message]")
    link = cells.get_by_role("link", name=LONG_NAME, exact=True).first
    expect(link).to_be_visible()
    expect(link.locator(".name")).to_have_attribute("title", LONG_NAME)
    box, row = link.bounding_box(), link.locator("xpath=ancestor::tr").bounding_box()
    assert box and row and box["width"] < 160 and row["height"] < 60
    shown = link.locator(".cut").evaluate(
        "cut => ['::before', '::after'].map((part) => getComputedStyle(cut, part).content)")
    assert shown == [f'"{LONG_NAME[:-7]}"', f'"{LONG_NAME[-7:]}"']
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Message {LONG_NAME}")


def test_partitions_of_a_group_by_their_lag(used: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(used, viewport={"width": 1400, "height": 900}).go("groups/dashboards")
    rows = page.get_by_role("region", name="Partitions of telemetry").locator("tbody tr")
    expect(rows.first.locator("td[data-title=Lag]")).to_have_text("0")
    page.get_by_label("Sort by").select_option("Largest lag first")
    expect(rows.first.locator("td[data-title=Lag]")).to_have_text("10")
    expect(rows.last.locator("td[data-title=Lag]")).to_have_text("0")
    assert not findings(page)


def test_a_payload_takes_the_width_that_is_left(used: Daemon, visit: Callable[..., Seen]) -> None:
    seen = visit(used, viewport={"width": 1400, "height": 900})
    page = seen.go("messages?queue=audit")
    cell = page.get_by_role("region", name="Messages").locator("td[data-title=Payload]").first
    expect(cell).to_contain_text("leave it at the door")
    at_1400 = cell.bounding_box()
    page.set_viewport_size({"width": 1900, "height": 900})
    at_1900 = cell.bounding_box()
    assert at_1400 and at_1900 and at_1400["width"] > 200 and at_1900["width"] > at_1400["width"] + 400
