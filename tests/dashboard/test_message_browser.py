"""Messages in the browser: payloads in the list, filters as chips, live tail, and the command that pushes one again."""
from __future__ import annotations

import subprocess
from collections.abc import Callable

from playwright.sync_api import expect
from support.daemon import Daemon
from support.wait import until

from .conftest import Seen, findings

ODD = "it's $(touch /tmp/never) `x` \"q\" \\ ümläut\u202e"


def test_payloads_and_chips(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.push("browsed", {"big": 12345678901234567890, "long": "x" * 1000}, partition="a")
        client.push("browsed", {"small": 1}, partition="b")
        page = visit(daemon).go("messages?queue=browsed&partition=a")
        row = page.locator("tbody tr")
        expect(row).to_have_count(1)
        expect(row.locator("code")).to_contain_text('12345678901234567890')
        assert len(row.locator("code").inner_text()) < 400
        assert not findings(page)
        row.get_by_role("button", name="View").click()
        expect(page.get_by_role("dialog").get_by_label("Payload")).to_contain_text("x" * 1000)
        assert not findings(page)
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Remove filter Partition").click()
        expect(row).to_have_count(2)
        expect(page.get_by_label("Partition", exact=True)).to_have_value("")
        expect(page.get_by_role("button", name="Remove filter Partition")).to_have_count(0)


def test_the_command_pushes_the_item_again(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    payload = {"text": ODD, "big": 12345678901234567890}
    with daemon.client() as client:
        (one,) = client.push(ODD, payload, partition=ODD, transactionId="first")
        page = visit(daemon, permissions=["clipboard-read", "clipboard-write"]).go(
            f"messages/{one['partition_id']}/first")
        page.get_by_role("button", name="Copy as curl").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        copied = page.evaluate("navigator.clipboard.readText()")
        shown = page.get_by_label("curl command").inner_text()
        for command in (copied, shown):
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and '"queued"' in done.stdout, (command, done.stdout, done.stderr)
        found = client.pop(ODD, ODD, batch=9)
        assert [message["data"] for message in found] == [payload] * 3
        assert {message["partition"] for message in found} == {ODD}


def test_a_large_item_goes_through_standard_input(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    payload = ["it's large " * 100] * 200
    with daemon.client() as client:
        (one,) = client.push("large item", payload)
        page = visit(daemon, permissions=["clipboard-read", "clipboard-write"]).go(
            f"messages/{one['partition_id']}/{one['transaction_id']}")
        page.get_by_role("button", name="Copy as curl").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        command = page.evaluate("navigator.clipboard.readText()")
        done = subprocess.run(["sh"], input=command, capture_output=True, text=True, timeout=60)
        assert '"queued"' in done.stdout, done.stderr
        assert [message["data"] for message in client.pop("large item", batch=9)] == [payload] * 2


def test_live_tail(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.push("tailed", "first")
        page = visit(daemon).page
        page.add_init_script("""Object.defineProperty(document, "hidden", {
            get: () => window.away === true, configurable: true})""")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/api/v1/messages?" in request.url else None)
        page.goto(f"{daemon.url}/#/messages?queue=tailed")
        page.get_by_role("button", name="Live tail").click()
        expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(1)
        client.push("tailed", "second")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text('"second"')
        assert not findings(page)
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status").filter(has_text="paused")).to_be_visible()
        before = len(asked)
        client.push("tailed", "third")
        page.wait_for_timeout(2500)
        assert len(asked) == before and rows.count() == 2
        page.get_by_role("button", name="Resume").click()
        expect(rows.first).to_contain_text('"third"')
        page.evaluate("() => { window.away = true; document.dispatchEvent(new Event('visibilitychange')); }")
        page.wait_for_timeout(500)
        before = len(asked)
        client.push("tailed", "fourth")
        page.wait_for_timeout(2500)
        assert len(asked) == before, "a hidden page asks nothing"
        page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
        until(lambda: page.wait_for_timeout(50) or rows.count() == 4, "it goes on")


def test_names_complete_themselves(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        for queue in ("complete.one", "complete.two", "another"):
            client.push(queue, 1, partition="part-1")
        page = visit(daemon).go("messages")
        page.get_by_label("Queue", exact=True).fill("complete")
        names = page.locator("label", has_text="Queue").locator("datalist option")
        expect(names).to_have_count(2)
        assert {one.get_attribute("value") for one in names.all()} == {"complete.one", "complete.two"}
        page.get_by_label("Queue", exact=True).fill("complete.one")
        page.get_by_label("Partition", exact=True).fill("pa")
        expect(page.locator("label", has_text="Partition").locator("datalist option")).to_have_attribute(
            "value", "part-1")
