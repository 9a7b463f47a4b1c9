"""Dead letters by error and group, chosen ones, and an edited one with its differences."""
from __future__ import annotations

from collections.abc import Callable

import psycopg
from playwright.sync_api import expect
from support.client import Client
from support.daemon import Daemon

from .conftest import Seen, findings


def fail(client: Client, queue: str, group: str, errors: list[str]) -> None:
    """Makes a dead letter of each error; message n has the payload {"n": n, "big": …} and the id QUEUE-n."""
    client.push_items([{"queue": queue, "transactionId": f"{queue}-{n}", "payload": {"n": n, "keep": ["a", "b"]}}
                       for n in range(len(errors))])
    taken = client.pop(queue, consumerGroup=group, subscriptionMode="all", batch=len(errors))
    for message, error in zip(taken, errors, strict=True):
        client.ack(message, "dlq", group, error=error)


def test_errors_are_grouped_and_a_group_is_redriven(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client, psycopg.connect(daemon.conninfo, autocommit=True) as session:
        fail(client, "triage", "billing", ["no customer", "timeout", "no customer", "no customer"])
        session.execute("UPDATE queend.dead_letters SET failed_at = failed_at - 60000000"
                        " WHERE transaction_id = 'triage-0'")
        page = visit(daemon).go("dead?queue=triage")
        errors = page.get_by_role("region", name="Errors")
        expect(errors.locator("tbody tr")).to_have_count(2)
        first = errors.locator("tbody tr").first
        expect(first).to_contain_text("no customer")
        assert first.locator("td").nth(3).inner_text() == "3"
        assert first.locator("time").count() == 2
        assert not findings(page)
        first.get_by_role("button", name="Show").click()
        expect(page.get_by_text("3 dead letters match.")).to_be_visible()
        expect(page.get_by_role("list", name="Filters").get_by_role("listitem")).to_have_count(4)
        page.get_by_role("button", name="Remove filter Error").click()
        expect(page.get_by_text("4 dead letters match.")).to_be_visible()
        errors.locator("tbody tr").first.get_by_role("button", name="Redrive").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Pushes 3 dead letters again")
        expect(dialog).to_contain_text("group billing, error “no customer”")
        assert not findings(page)
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("3 dead letters were redriven.")
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_text("1 dead letter matches.")).to_be_visible()
        expect(errors.locator("tbody tr")).to_have_count(1)
        assert [one["data"]["n"] for one in client.pop("triage", consumerGroup="billing", batch=9)] == [0, 2, 3]


def test_chosen_ones_and_the_error_of_each(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        fail(client, "chosen", "billing", ["a", "b", "c", "d"])
        page = visit(daemon).go("dead?queue=chosen")
        letters = page.get_by_role("region", name="Dead letters")
        page.get_by_label("Select chosen-0 of billing").check()
        page.get_by_label("Select chosen-1 of billing").check()
        expect(page.get_by_role("group", name="Selection")).to_contain_text("2 selected")
        assert not findings(page)
        page.get_by_role("button", name="Redrive selected").click()
        dialog = page.get_by_role("dialog")
        client.post("/api/v1/dlq/redrive", {"queue": "chosen", "error": "b"})      # by another client meanwhile
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("1 of 2 dead letters was redriven.")
        expect(dialog.locator("tbody tr")).to_have_count(1)
        expect(dialog.locator("tbody tr")).to_contain_text("chosen-1")
        expect(dialog.locator("tbody tr")).to_contain_text(
            "This message is no longer a dead letter. Nothing was redriven.")
        assert not findings(page)
        dialog.get_by_role("button", name="Close").click()
        expect(letters.locator("tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Clear selection").click()
        page.get_by_label("Select all on this page").check()
        expect(page.get_by_role("group", name="Selection")).to_contain_text("2 selected")
        page.get_by_label("Select chosen-3 of billing").uncheck()
        page.get_by_role("button", name="Delete selected").click()
        expect(dialog).to_contain_text("Deletes it permanently.")
        dialog.get_by_role("button", name="Cancel").click()
        assert client.dead("chosen") == 2, "nothing was deleted yet"
        page.get_by_role("button", name="Delete selected").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("1 of 1 dead letter was deleted.")
        dialog.get_by_role("button", name="Close").click()
        expect(letters.locator("tbody tr")).to_have_count(1)
        expect(letters.locator("tbody tr")).to_contain_text("chosen-3")
        expect(page.get_by_role("group", name="Selection")).to_have_count(0)
        assert sorted(one["data"]["n"] for one in client.pop("chosen", consumerGroup="billing", batch=9)) == [0, 1]


def test_an_edit_is_shown_as_a_difference_before_it_is_sent(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        fail(client, "edited", "billing", ["a"])
        page = visit(daemon).go("dead?queue=edited")
        page.get_by_role("button", name="Edit and redrive").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Payload").fill('{"n": 12345678901234567890, "keep": ["a", "b"]')
        dialog.get_by_role("button", name="Review changes").click()
        expect(dialog.get_by_role("alert")).to_have_text("The payload is not valid JSON.")
        dialog.get_by_label("Payload").fill('{"n": 12345678901234567890, "keep": ["a", "b"]}')
        dialog.get_by_role("button", name="Review changes").click()
        expect(dialog.get_by_role("status")).to_have_text("1 line removed, 1 line added.")
        expect(dialog.locator("del")).to_have_text('-   "n": 0,')
        expect(dialog.locator("ins")).to_have_text('+   "n": 12345678901234567890,')
        assert not findings(page)
        assert client.dead("edited") == 1, "nothing was sent yet"
        dialog.get_by_role("button", name="Edit again").click()
        expect(dialog.get_by_label("Payload")).to_have_value('{"n": 12345678901234567890, "keep": ["a", "b"]}')
        dialog.get_by_role("button", name="Review changes").click()
        dialog.get_by_role("button", name="Redrive with this payload").click()
        expect(page.get_by_text("No matching dead letters.")).to_be_visible()
        answer = client.pop_answer("edited", consumerGroup="billing")
        assert b"12345678901234567890" in answer.body and client.dead("edited") == 0
