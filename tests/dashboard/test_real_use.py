"""Every page with the data of a busy installation and names of 200 characters: nothing is beyond the screen, and axe
finds nothing, on a wide light screen and a narrow dark one."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from support.daemon import Daemon

from .conftest import Seen, findings
from .scene import LONG_NAME, WIDE_NAME, fill

LONG, WIDE = quote(LONG_NAME), quote(WIDE_NAME)
PAGES = ("overview", "queues", "queues/orders", "queues/orders/groups", "queues/shipping-labels", f"queues/{LONG}",
         f"queues/{WIDE}", f"queues/{WIDE}/messages", f"queues/{LONG}/options", f"queues/{WIDE}/charts",
         "partitions?queue=orders", "groups", "groups/billing", f"groups/{WIDE}", "leases", "messages",
         f"messages?queue={LONG}&text=WW", "dead", f"dead?queue={LONG}&group={WIDE}&error=Trace", "scheduled", "traces",
         f"traces/{WIDE}", "streams", "daemons", "doctor", "maintenance", "settings")
# What reaches beyond the screen, and tables that scroll sideways on a narrow one.
BEYOND = """() => [...document.querySelectorAll("main, main *")].filter((one) => {
    const box = one.getBoundingClientRect();
    if (one.matches(".wide")) return innerWidth < 700 && one.scrollWidth > one.clientWidth + 1;
    return box.width && box.right > document.documentElement.clientWidth + 1
        && !one.closest(".unseen, .middle, .u-wrap") && (innerWidth < 700 || !one.closest(".wide"));
}).map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def used(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    daemon = start_daemon()
    fill(daemon)
    yield daemon


@pytest.mark.parametrize("where", PAGES, ids=lambda where: where.replace(LONG, "LONG").replace(WIDE, "WIDE"))
def test_nothing_is_cut_off(used: Daemon, visit: Callable[..., Seen], where: str) -> None:
    for scheme, width in (("light", 1400), ("dark", 400)):
        page = visit(used, color_scheme=scheme, viewport={"width": width, "height": 900}).go(where)
        expect(page.get_by_text("Loading…")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(BEYOND) == []
        assert not findings(page)
