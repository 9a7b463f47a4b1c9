"""A headless Chromium (Debian's) on a real daemon."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from support.daemon import ROOT, Daemon

AXE = ROOT / "dashboard/node_modules/axe-core/axe.min.js"


expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        yield one
        one.close()


class Seen:
    """A page that remembers what went wrong in it."""

    def __init__(self, context: BrowserContext, url: str):
        self.page: Page = context.new_page()
        self.url, self.faults, self.looks = url, [], []
        self.page.set_default_timeout(60_000)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda line: self.faults.append(line.text)
                     if line.type == "error" and "Failed to load resource" not in line.text else None)
        self.page.on("response", lambda answer: self.looks.append(answer.status)
                     if answer.url.endswith("/live") else None)
        self.page.on("dialog", lambda dialog: (self.faults.append("a script of a stranger ran"), dialog.dismiss()))

    def go(self, where: str = "overview", heading: str | None = None) -> Page:
        self.page.goto(f"{self.url}/#/{where}")
        self.page.wait_for_selector("main h1")
        if heading:
            self.page.get_by_role("heading", name=heading, level=1).wait_for()
        return self.page


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Seen]]:
    """Opens pages of a daemon; at the end nothing may have gone wrong in any: no error, no violation of the policy."""
    opened: list[tuple[BrowserContext, Seen]] = []

    def one(daemon: Daemon, **options: Any) -> Seen:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-GB",
                                         "timezone_id": "UTC", "reduced_motion": "reduce", **options})
        opened.append((context, Seen(context, daemon.url)))
        return opened[-1][1]

    yield one
    faults = [fault for _, seen in opened for fault in seen.faults]
    for context, _ in opened:
        context.close()
    assert not faults


def findings(page: Page) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA. Its script goes in by the debugger: the page lets nothing in."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("""() => axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa",
                                                                 "best-practice"]})""")
    return [f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found["violations"] for node in one["nodes"]]
