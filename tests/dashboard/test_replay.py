"""Replay: a moment on the time line of a group's queue, the number of messages that come again, and the seek."""
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from playwright.sync_api import Route, expect
from support.client import Client
from support.daemon import Daemon

from .conftest import Seen, findings


def stored(client: Client, queue: str) -> list[datetime]:
    """Returns when the messages of both partitions were stored, earliest first."""
    entries = client.post("/api/v1/fetch", {"entries": [
        {"queue": queue, "partition": name, "offset": 0} for name in ("a", "b")]}).json["entries"]
    return sorted(datetime.fromisoformat(one["ts"]) for entry in entries for one in entry["records"])


def whole_ms(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def two_times(client: Client, queue: str) -> datetime:
    """Pushes 5 messages, then 7 in a later millisecond, and group billing consumes all. Returns a time between them, in
    whole milliseconds."""
    client.push(queue, 0, 1, 2, partition="a")
    client.push(queue, 3, 4, partition="b")
    last = stored(client, queue)[-1]
    while whole_ms(datetime.now(last.tzinfo)) <= last:
        pass
    client.push(queue, 5, 6, 7, 8, partition="a")
    client.push(queue, 9, 10, 11, partition="b")
    client.get(f"/api/v1/pop/queue/{queue}?consumerGroup=billing&batch=100&partitions=10&autoAck=true"
               "&subscriptionMode=all")
    between = whole_ms(stored(client, queue)[5])
    assert between > last
    return between


def popped(client: Client, queue: str) -> list[int]:
    answer = client.get(f"/api/v1/pop/queue/{queue}?consumerGroup=billing&batch=100&partitions=10&autoAck=true")
    return sorted(one["data"] for one in answer.json["messages"]) if answer.status == 200 else []


def test_the_number_is_what_the_group_gets_again(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        between = two_times(client, "replayed")
        page = visit(daemon).go("groups/billing", "billing")
        page.get_by_role("button", name="Replay in replayed").click()
        panel = page.get_by_role("group", name="Replay of replayed")
        expect(panel).to_contain_text("billing would get no messages again.")
        field = panel.get_by_label("Deliver messages stored from this time on")
        field.fill(between.strftime("%Y-%m-%dT%H:%M:%S.") + f"{between.microsecond // 1000:03}")
        expect(panel).to_contain_text("billing would get up to 7 messages again.")
        assert not findings(page)
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert popped(client, "replayed") == [], "nothing was moved yet"
        panel.get_by_role("button", name="Seek to this time").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("billing would get up to 7 messages again.")
        assert not findings(page)
        dialog.get_by_role("button", name="Seek").click()
        expect(dialog).to_contain_text("Moved the cursors of 2 partitions.")
        dialog.get_by_role("button", name="Close").click()
        expect(panel).to_contain_text("billing would get no messages again.")
        assert popped(client, "replayed") == list(range(5, 12))
        panel.get_by_label("Moment").focus()
        page.keyboard.press("Home")
        expect(panel).to_contain_text("billing would get up to 12 messages again.")
        page.keyboard.press("End")
        expect(panel).to_contain_text("billing would get no messages again.")


def test_more_partitions_than_are_counted(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        two_times(client, "more")
        seen = visit(daemon)

        def as_if_there_were_more(route: Route) -> None:
            found = route.fetch().json()
            route.fulfill(json={**found, "next": found["partitions"][-1]["id"]})

        seen.page.route("**/api/v1/offsets", as_if_there_were_more)
        page = seen.go("groups/billing", "billing")
        page.get_by_role("button", name="Replay in more").click()
        page.get_by_label("Moment").focus()
        page.keyboard.press("Home")
        panel = page.get_by_role("group", name="Replay of more")
        expect(panel).to_contain_text("billing would get up to 12 messages again in the first 10,000 partitions.")
        panel.get_by_role("button", name="Seek to this time").click()
        expect(page.get_by_role("dialog")).to_contain_text("again in the first 10,000 partitions.")


def test_a_later_moment_skips(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        between = two_times(client, "skipped")
        client.post("/api/v1/consumer-groups/billing/queues/skipped/seek", {"offset": 0})
        page = visit(daemon).go("groups/billing", "billing")
        page.get_by_role("button", name="Replay in skipped").click()
        panel = page.get_by_role("group", name="Replay of skipped")
        panel.get_by_label("Deliver messages stored from this time on").fill(
            between.strftime("%Y-%m-%dT%H:%M:%S.") + f"{between.microsecond // 1000:03}")
        expect(panel).to_contain_text("billing would skip up to 5 messages.")
        expect(panel).to_contain_text("billing would get no messages again.")
        assert popped(client, "skipped") == list(range(12)), "nothing was moved"


def test_a_seek_to_1_us_before_begins_with_the_message(daemon: Daemon) -> None:
    """The page sends the time before the chosen one: a seek goes past its time, an offset at a time includes it."""
    with daemon.client() as client:
        two_times(client, "exact")
        at = stored(client, "exact")[5]
        for sent, included in ((at, False), (at - timedelta(microseconds=1), True)):
            answer = client.post("/api/v1/consumer-groups/billing/queues/exact/seek", {"timestamp": sent.isoformat()})
            assert answer.status == 200
            assert (5 in popped(client, "exact")) == included


def test_messages_acknowledged_beyond_a_gap_count(daemon: Daemon, visit: Callable[..., Seen]) -> None:
    with daemon.client() as client:
        client.push("gap", 0, 1, 2, 3)
        taken = client.pop("gap", consumerGroup="gaps", subscriptionMode="all", batch=4)
        for message in taken[1:3]:
            client.ack(message, group="gaps")
        page = visit(daemon).go("groups/gaps", "gaps")
        page.get_by_role("button", name="Replay in gap").click()
        page.get_by_label("Moment").focus()
        page.keyboard.press("Home")
        panel = page.get_by_role("group", name="Replay of gap")
        expect(panel).to_contain_text("gaps would get up to 2 messages again.")
