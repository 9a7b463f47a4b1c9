"""What an operator does with one message, a group, the switches and the settings: the rows of docs/inside/dashboards.md
that no other file here tries."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect
from support.client import Client
from support.daemon import Daemon

from .conftest import Seen, findings


@pytest.fixture(scope="module")
def daemon(start_daemon: Callable[..., Daemon]) -> Iterator[Daemon]:
    yield start_daemon()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with daemon.client() as one:
        yield one


def test_one_message_is_put_aside_sent_back_and_deleted(daemon: Daemon, client: Client,
                                                        visit: Callable[..., Seen]) -> None:
    client.push("parcels", {"n": 1}, transactionId="parcel-1")
    client.pop("parcels", consumerGroup="billing", subscriptionMode="all", leaseSeconds=1000)
    page = visit(daemon).go("queues/parcels/messages")
    expect(page.get_by_role("row", name="parcel-1")).to_contain_text("in flight")
    page.get_by_role("link", name="parcel-1").click()
    groups = page.get_by_role("region", name="Groups")
    expect(groups.get_by_role("link", name="billing")).to_be_visible()
    page.get_by_role("button", name="Move to dead letters").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Group").fill("billing")
    dialog.get_by_label("Reason").fill("no such customer")
    dialog.get_by_role("button", name="Move").click()
    expect(page.get_by_role("button", name="Redrive")).to_be_visible()
    assert client.dead("parcels") == 1
    assert not findings(page)
    page.get_by_role("button", name="Redrive").click()
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.get_by_role("button", name="Move to dead letters")).to_be_visible()
    assert client.dead("parcels") == 0
    (again,) = client.pop("parcels", consumerGroup="billing")
    expect(page.get_by_role("heading", level=1)).to_contain_text(again["transactionId"])
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    assert client.get(f"/api/v1/messages/{again['partitionId']}/{again['transactionId']}").status == 404


def test_a_group_is_moved_and_deleted(daemon: Daemon, client: Client, visit: Callable[..., Seen]) -> None:
    client.push("moved", *range(4))
    client.pop("moved", consumerGroup="mover", subscriptionMode="all", batch=4, autoAck="true")
    page = visit(daemon).go("groups/mover")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Seek", exact=True).click()
    dialog.get_by_label("Position").select_option("Offset")
    dialog.get_by_label("Offset", exact=True).fill("1")
    dialog.get_by_role("button", name="Seek").click()
    expect(dialog.get_by_role("status")).to_have_text("Moved the cursors of 1 partition.")
    dialog.get_by_role("button", name="Close").click()
    assert [one["data"] for one in client.pop("moved", consumerGroup="mover", batch=4)] == [1, 2, 3]
    page.get_by_role("link", name="moved").click()
    expect(page.get_by_text("Pending, in flight and consumed count, in each partition, those of the group that has")
           ).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Delete in this queue").click()
    dialog.get_by_role("textbox").fill("mover")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The group does not exist.")).to_be_visible()


def test_delivery_and_pushes_are_switched(daemon: Daemon, client: Client, visit: Callable[..., Seen]) -> None:
    client.push("switched", 1)
    page = visit(daemon).go("maintenance")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Pause all delivery").click()
    dialog.get_by_role("button", name="Switch on").click()
    expect(page.get_by_role("button", name="Resume all delivery")).to_be_visible()
    assert client.pop("switched") == []
    page.get_by_role("button", name="Resume all delivery").click()
    dialog.get_by_role("button", name="Switch off").click()
    expect(page.get_by_role("button", name="Pause all delivery")).to_be_visible()
    assert len(client.pop("switched")) == 1


def test_what_is_due_traced_registered_and_set(daemon: Daemon, client: Client, visit: Callable[..., Seen]) -> None:
    client.push("later", 1, delayMs=3_600_000, transactionId="later-1")
    client.push("noted", 1)
    (one,) = client.pop("noted")
    client.post("/api/v1/traces", {"transactionId": one["transactionId"], "partitionId": one["partitionId"],
                                   "data": {"text": "packed"}, "traceNames": ["order-1"]})
    client.post("/streams/v1/queries", {"name": "totals", "source_queue": "noted", "config_hash": "x"})
    page = visit(daemon).go("scheduled")
    expect(page.get_by_role("row", name="later-1")).to_contain_text("later")
    page.goto(f"{daemon.url}/#/traces")
    page.get_by_role("link", name="order-1").click()
    row = page.get_by_role("row", name="packed")
    expect(row).to_contain_text("(without a group)")
    row.get_by_role("link", name=one["transactionId"]).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(one["transactionId"])
    page.goto(f"{daemon.url}/#/streams")
    expect(page.get_by_role("row", name="totals")).to_contain_text("noted")
    page.goto(f"{daemon.url}/#/settings")
    page.get_by_label("Search").fill("dashboard")
    expect(page.get_by_role("row", name="QUEEND_DASHBOARD")).to_contain_text("true")
    page.get_by_label("Only changed settings").check()
    expect(page.get_by_text("No matching settings.")).to_be_visible()
