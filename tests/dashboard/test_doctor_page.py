"""Findings of the doctor as cards with a command to copy, the state without findings, and the page of daemons."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect
from support.daemon import Daemon
from support.postgres import Postgres, running

from .conftest import Seen, findings

FIX = "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()"


@pytest.fixture(scope="module")
def sound(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server with nothing for the doctor to find: others of the tests have fsync off."""
    with running(request.config.getoption("--postgres"), fsync="on") as server:
        yield server


def test_a_finding_is_a_card_with_a_command(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    daemon = start_daemon()
    page = visit(daemon, permissions=["clipboard-read", "clipboard-write"]).go("doctor")
    card = page.get_by_role("article").filter(has_text="fsync is not on")
    expect(card).to_have_class("finding bad")
    expect(card.get_by_role("heading")).to_have_text(
        re.compile("^critical a crash may lose messages that were answered as queued$"))
    expect(card).to_contain_text("Set fsync to on")
    expect(card.locator("pre")).to_have_text(FIX)
    card.get_by_role("button", name="Copy").click()
    expect(card.get_by_role("status")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == FIX
    expect(page.get_by_role("article").first).to_contain_text("1 critical")
    assert page.get_by_text("No problems found.").count() == 0
    assert not findings(page)


def test_a_long_evidence_can_be_read_whole(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    evidence = " ".join(f"word{n}" for n in range(250))
    seen = visit(start_daemon())
    seen.page.route("**/api/v1/system/doctor", lambda route: route.fulfill(json={
        "status": "warning", "timestamp": "2026-01-01T00:00:00.000Z", "checks": ["services"], "findings": [
            {"check": "services", "level": "warning", "title": "a service fails", "evidence": evidence,
             "advice": "Correct the cause"}]}))
    page = seen.go("doctor")
    card = page.get_by_role("article").filter(has_text="a service fails")
    expect(card).to_contain_text("word20")
    expect(card).not_to_contain_text("word200")
    assert not findings(page)
    card.get_by_role("button", name=f"Show all {len(evidence):,} characters").click()
    expect(card).to_contain_text(evidence)
    assert not findings(page)


def test_without_a_clipboard_the_command_is_selected(start_daemon: Callable[..., Daemon],
                                                     visit: Callable[..., Seen]) -> None:
    """Browsers give no clipboard to pages of plain HTTP from another machine."""
    seen = visit(start_daemon())
    seen.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page = seen.go("doctor")
    page.get_by_role("button", name=f"Copy {FIX}").click()
    expect(page.get_by_text("selected: press Ctrl+C")).to_be_visible()
    assert page.evaluate("getSelection().toString()").strip() == FIX


def test_nothing_is_wrong(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen], sound: Postgres) -> None:
    daemon = start_daemon(sound.database())
    page = visit(daemon).go("doctor")
    only = page.get_by_role("article")
    expect(only).to_have_count(1)
    expect(only).to_have_class("finding good")
    expect(only).to_contain_text("No problems found.")
    expect(only).to_contain_text(re.compile(r"\d+ checks ran at .*horizon, "))
    assert not findings(page)


def test_daemons(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """Each daemon of the database is listed. A daemon that has ended no longer counts as serving."""
    one = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    other = start_daemon(one.conninfo, METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    page = visit(one).go("daemons")
    rows = page.get_by_role("region", name="Daemons").locator("tbody tr")
    expect(page.get_by_text("The database answers and commits.")).to_be_visible()
    expect(rows).to_have_count(2)
    for daemon in (one, other):
        row = rows.filter(has_text=str(daemon.port))
        expect(row).to_contain_text("reporting")
        expect(row.get_by_role("img", name="CPU by minute")).to_be_visible()
        expect(row.get_by_role("img", name="memory by minute")).to_be_visible()
    assert not findings(page)
    one.stop()
    expect(page.get_by_role("alert").first).to_contain_text("does not answer")
    expect(page.get_by_text("The database answers and commits.")).to_have_count(0)
