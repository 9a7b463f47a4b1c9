"""Pages with one of everything: no wrong plural, and no name that only the daemon uses."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import psycopg
import pytest
from playwright.sync_api import Page, expect
from support.daemon import Daemon

from .conftest import Seen, findings

QUEUE_MODE = "__QUEUE_MODE__"
PLURAL = re.compile(r"(?<![\d.,:])1 (?:(?:dead|failed|queue|unchanged) )?[a-z]{2,}[^s\W]s\b")
PAGES = ("overview", "queues", "queues/held", "queues/held/messages", "queues/held/groups", "queues/held/options",
         "partitions?queue=held", "groups", f"groups/{QUEUE_MODE}", f"leases?group={QUEUE_MODE}", "messages",
         "messages?tail=1", "messages?queue=held&text=1", "dead", f"dead?queue=failed&group={QUEUE_MODE}", "scheduled",
         "traces", "traces/only", "streams", "daemons", "doctor", "maintenance", "settings")
# What people read: the page without code, which names things as the daemon does, and the texts of tooltips and labels.
READ = """() => {
    for (const one of document.querySelectorAll("pre, code, select, .finding button")) one.hidden = true;
    return [document.title, document.body.innerText, ...[...document.querySelectorAll("[title], [aria-label]")].flatMap(
        (one) => [one.getAttribute("title"), one.getAttribute("aria-label")])].filter(Boolean).join("\\n");
}"""
LATER = "UPDATE queend.log SET created_at = created_at - 7200000000"


@pytest.fixture(scope="module")
def one(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    """One message is on lease, one is a dead letter with a trace, one waits for longer than an hour, one is due later.
    All consumers are without a group."""
    daemon = start_daemon(METRICS_SAMPLE_INTERVAL_MS=100, METRICS_AGGREGATE_INTERVAL_S=1)
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        client.configure("unread")
        client.pop("unread")
        client.push("unread", 1)
        session.execute(LATER)
        client.push("held", 1)
        assert client.pop("held", leaseSeconds=3000)
        client.push("failed", 1)
        (message,) = client.pop("failed")
        client.post("/api/v1/traces", {**{key: message[key] for key in ("transactionId", "partitionId")},
                                       "data": {"text": "seen"}, "traceNames": ["only"]})
        client.ack(message, "dlq", error="no such customer")
        client.push_items([{"queue": "later", "payload": 1, "delayMs": 3_600_000}])
        client.post("/streams/v1/queries", {"name": "totals", "source_queue": "held", "config_hash": "1"})
    yield daemon


def read(page: Page) -> str:
    expect(page.get_by_text("Loading…")).to_have_count(0)
    return page.evaluate(READ)


@pytest.mark.parametrize("where", PAGES)
def test_one_is_not_many(one: Daemon, visit: Callable[..., Seen], where: str) -> None:
    text = read(visit(one, viewport={"width": 1400, "height": 900}).go(where))
    assert not PLURAL.findall(text) and QUEUE_MODE not in text


def test_a_wrong_plural_is_seen() -> None:
    for text in ("1 partitions, since", "there is 1 messages", "1 dead letters", "(1 leases expired)"):
        assert PLURAL.search(text), text
    for text in ("1 partition", "21 partitions", "0.1 messages", "1 ms", "1 s", "1 message waits", "1 failed pass",
                 "1\tpartitions"):
        assert not PLURAL.search(text), text


def test_the_doctor_names_consumers_without_a_group(one: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(one).go("doctor")
    card = page.get_by_role("article").filter(has_text="no consumer without a group reads unread")
    expect(card).to_contain_text(re.compile("Evidence1 message waiting, the oldest since .*; none consumed yet"))
    expect(card.locator("pre")).to_have_text(f"queend group delete {QUEUE_MODE} --queue unread")
    page.goto(f"{one.url}/#/overview")
    expect(page.get_by_role("region", name="Problems")).to_contain_text(
        "Consumers without a group are behind in unread. Messages in 1 partition wait")


def test_a_message_and_a_dialog(one: Daemon, visit: Callable[..., Seen]) -> None:
    page = visit(one).go("dead")
    page.get_by_label(re.compile("^Select .* of .without a group.$")).check()
    page.get_by_role("button", name="Redrive selected").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Redrive 1 dead letter")
    expect(dialog).to_contain_text("Pushes it again. The message is delivered to the group that failed it.")
    assert not findings(page)
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("region", name="Dead letters").get_by_role("link").first.click()
    page.get_by_role("heading", level=2, name="Payload").wait_for()
    text = read(page)
    assert not PLURAL.findall(text) and QUEUE_MODE not in text


def test_the_group_of_consumers_without_a_group_is_deleted(start_daemon: Callable[..., Daemon],
                                                           visit: Callable[..., Seen]) -> None:
    """By the name that the page shows."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("q", 1)
        client.pop("q", autoAck="true")
    page = visit(daemon).go(f"groups/{QUEUE_MODE}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Group (without a group)")
    page.get_by_role("button", name="Delete in all queues").click()
    page.get_by_role("dialog").get_by_label("To confirm").fill("(without a group)")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No consumer groups.")).to_be_visible()
