"""More than one request takes: redrives of thousands of dead letters, a replay over more partitions than are counted.
And buttons of a row that act on this row alone."""
from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, Route, expect
from support.client import Client
from support.daemon import Daemon

from .conftest import Seen, findings

MANY = 2500      # dead letters; a request of the page redrives 1000
PARTITIONS = 1100      # of which the page counts 1000


def fail_all(client: Client, queue: str, errors: list[str | None]) -> None:
    """Makes a dead letter of group billing of each error."""
    client.post("/api/v1/push?format=counts", {"items": [{"queue": queue, "payload": n} for n in range(len(errors))]})
    at = 0
    while at < len(errors):
        taken = client.pop(queue, consumerGroup="billing", subscriptionMode="all", batch=1000)
        client.ack_batch([{**{key: one[key] for key in ("transactionId", "partitionId", "leaseId")}, "status": "dlq",
                           **({} if error is None else {"error": error})}
                          for one, error in zip(taken, errors[at:], strict=False)], "billing")
        at += len(taken)


def redrives(page: Page) -> list[Route]:
    """Keeps the requests for a redrive from the daemon, in the list that it returns."""
    held: list[Route] = []
    page.route("**/api/v1/dlq/redrive", lambda route: held.append(route))
    return held


def test_all_of_more_than_one_request_takes(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        fail_all(client, "many", ["no customer"] * MANY)
        page = visit(daemon).go("dead?queue=many")
        expect(page.get_by_text("2,500 dead letters match.")).to_be_visible()
        page.get_by_role("button", name="Redrive all matches").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Pushes 2,500 dead letters again")
        held = redrives(page)
        dialog.get_by_role("button", name="Redrive").click()
        for done in ("1,000 of about 2,500 redriven.", "2,000 of about 2,500 redriven."):
            expect(dialog.get_by_role("button", name="Working…")).to_be_disabled()
            until_held(page, held, 1).pop().continue_()
            expect(dialog.get_by_role("status")).to_have_text(done)
        until_held(page, held, 1).pop().continue_()
        expect(dialog.get_by_role("status")).to_have_text("2,500 dead letters were redriven.")
        assert not findings(page)
        dialog.get_by_role("button", name="Close").click()
        expect(page.get_by_text("No matching dead letters.")).to_be_visible()
        assert client.dead("many") == 0
        taken = [one["data"] for _ in range(3) for one in client.pop("many", consumerGroup="billing", batch=1000,
                                                                     autoAck="true")]
        assert taken == list(range(MANY)), "in the order in which they failed"


def until_held(page: Page, held: list[Route], most: int) -> list[Route]:
    """Waits until the page has sent a request that is held. No more than `most` may be held."""
    while not held:
        page.wait_for_timeout(20)
    assert len(held) <= most
    return held


def test_a_dialog_that_is_closed_redrives_no_more(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        fail_all(client, "closed", ["no customer"] * MANY)
        page = visit(daemon).go("dead?queue=closed")
        page.get_by_role("button", name="Redrive all matches").click()
        held = redrives(page)
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        until_held(page, held, 1)
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        with page.expect_response("**/api/v1/dlq/redrive"):
            held.pop().continue_()
        expect(page.get_by_text("1,500 dead letters match.")).to_be_visible()
        assert not held and client.dead("closed") == 1500


def test_a_row_of_an_error_acts_on_this_error_alone(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    """“HTTP 503” is a part of other errors too."""
    long = "HTTP 503 " + "x" * 600
    with daemon.client() as client:
        fail_all(client, "exact", ["HTTP 503", "HTTP 503 from a", "HTTP 503", None, long, long + "y"])
        page = visit(daemon).go("dead?queue=exact&error=503")
        errors = page.get_by_role("region", name="Errors")
        expect(errors.locator("tbody tr")).to_have_count(4)
        page.get_by_role("button", name="Remove filter Error contains").click()
        expect(errors.locator("tbody tr")).to_have_count(5)

        def row_of(text: str):  # noqa: ANN202
            return errors.locator("tbody tr").filter(has=page.get_by_text(text, exact=True))

        row_of("HTTP 503").get_by_role("button", name="Show").click()
        expect(page.get_by_text("2 dead letters match.")).to_be_visible()
        expect(errors.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("list", name="Filters")).to_contain_text("Error:HTTP 503")
        page.reload()
        expect(page.get_by_text("2 dead letters match.")).to_be_visible()
        assert not findings(page)
        page.get_by_label("Error contains", exact=True).fill("HTTP")
        expect(page.get_by_text("5 dead letters match.")).to_be_visible()
        row_of("HTTP 503").get_by_role("button", name="Redrive").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Pushes 2 dead letters again")
        expect(dialog).to_contain_text("group billing, error “HTTP 503”")
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("2 dead letters were redriven.")
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Remove filter Error contains").click()
        expect(errors.locator("tbody tr")).to_have_count(4)
        row_of("Retries exhausted").get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("Deletes 1 dead letter permanently.")
        expect(dialog).to_contain_text("error “Retries exhausted”")
        dialog.get_by_label("To confirm").fill("exact")
        dialog.get_by_role("button", name="Delete").click()
        expect(dialog).to_contain_text("1 dead letter was deleted.")
        dialog.get_by_role("button", name="Close").click()
        expect(errors.locator("tbody tr")).to_have_count(3)
        errors.locator("tbody tr").filter(has_text="xxx").first.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("Pushes 1 dead letter again")
        dialog.get_by_role("button", name="Redrive").click()
        expect(dialog).to_contain_text("1 dead letter was redriven.")
        assert client.dead("exact") == 2


def test_a_replay_over_many_partitions(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    """All of them count, and the seek moves all."""
    with daemon.client() as client:
        client.post("/api/v1/push?format=counts", {"items": [
            {"queue": "wide", "partition": f"p{n}", "payload": n} for n in range(PARTITIONS)]})

        def take() -> int:
            total = 0
            while found := client.pop("wide", consumerGroup="readers", subscriptionMode="all", batch=1000,
                                      partitions=1000, autoAck="true"):
                total += len(found)
            return total

        assert take() == PARTITIONS
        page = visit(daemon).go("groups/readers", "readers")
        expect(page.get_by_text("Only the first 100 partitions are shown.")).to_be_visible()
        page.get_by_role("button", name="Replay in wide").click()
        page.get_by_label("Moment").focus()
        page.keyboard.press("Home")
        panel = page.get_by_role("group", name="Replay of wide")
        expect(panel).to_contain_text("readers would get up to 1,100 messages again.")
        assert not findings(page)
        panel.get_by_role("button", name="Seek to this time").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("readers would get up to 1,100 messages again.")
        dialog.get_by_role("button", name="Seek").click()
        expect(dialog).to_contain_text("Moved the cursors of 1,100 partitions.")
        assert take() == PARTITIONS


def test_paused_groups_are_problems(start_daemon: Callable[..., Daemon], visit: Callable[..., Seen]) -> None:
    """A group that is paused is not said to have slow consumers."""
    daemon = start_daemon()
    with daemon.client() as client:
        client.push("late", 1)
        for group in ("billing", "shipping"):
            client.pop("late", consumerGroup=group, subscriptionMode="all", autoAck="true")
        client.push("late", 2, 3)
        client.post("/api/v1/consumer-groups/billing/queues/late/pause", {})
        page = visit(daemon).go("overview")
        problems = page.get_by_role("region", name="Problems")
        expect(problems.get_by_role("listitem")).to_have_count(1)
        expect(problems).to_contain_text("Group billing is paused in late. It receives no messages until it is "
                                         "resumed; its lag is 2 messages.")
        expect(page.locator(".health.warn")).to_contain_text("serving, with 1 problem")
        assert not findings(page)
        problems.get_by_role("link").click()
        page.get_by_role("button", name="Resume in late").click()
        page.goto(f"{daemon.url}/#/overview")
        expect(page.locator(".health.good")).to_be_visible()
