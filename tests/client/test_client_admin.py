"""What operators and tests do by the client: lag, seeks, pauses, options, deletions."""
from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain
from support.tokens import SECRET, token

from queend.client import QUEUE_MODE, Backoff, Forbidden, NotFound, Push, QueueOptions, Refused, Unavailable, admin
from queend.client.call import Reply
from queend.control.options import OPTIONS


def taken(q: Any, queue: str, group: str) -> list[Any]:
    return [one.data for one in q.pop(queue, group=group, batch=100, partitions=100, auto_ack=True)]


def test_the_depth_of_a_queue_and_the_lag_of_its_groups(q: Any, queue: str) -> None:
    q.push_many(Push(queue, n, f"p{n % 2}") for n in range(6))
    assert q.depth(queue) == q.depth(queue, "never seen") == 6
    (one,) = q.pop(queue, group="billing")
    assert q.depth(queue, "billing") == 6, "on lease"
    q.ack(one)
    assert sorted(taken(q, queue, "statistics")) == list(range(6))
    assert (q.depth(queue, "billing"), q.depth(queue, "statistics"), q.depth(queue)) == (5, 0, 5)
    q.pop(queue)
    billing, statistics, mode = sorted(q.groups(queue), key=lambda group: (group.name == QUEUE_MODE, group.name))
    assert (billing.queue, billing.name, billing.lag, billing.partitions, billing.paused) == (
        queue, "billing", 5, 2, False)
    assert (statistics.lag, statistics.partitions, statistics.oldest) == (0, 0, 0.0)
    assert mode.name == QUEUE_MODE and mode.lag == q.depth(queue, QUEUE_MODE) == 6
    assert q.groups(f"{queue}-none") == []


def test_seeks(q: Any, queue: str) -> None:
    q.push_many(Push(queue, n, "p") for n in range(3))
    q.push(queue, 3, partition="other")
    moments = {record.data: record.created_at for record in q.fetch(queue)}
    assert sorted(taken(q, queue, "g")) == [0, 1, 2, 3]
    assert q.seek(queue, "g", "beginning") == 2 and sorted(taken(q, queue, "g")) == [0, 1, 2, 3]
    assert q.seek(queue, "g", 2, partition="p") == 1 and taken(q, queue, "g") == [2]
    assert q.seek(queue, "g", "beginning") == 2 and q.seek(queue, "g", "end") == 2 and taken(q, queue, "g") == []
    assert q.seek(queue, "g", "end", partition="p") == 0
    q.seek(queue, "g", moments[2])
    assert sorted(taken(q, queue, "g")) == ([3] if moments[3] > moments[2] else [])
    q.seek(queue, "g", 0)
    assert q.depth(queue, "g") == 4


def test_a_seek_ends_leases(q: Any, queue: str) -> None:
    q.push(queue, 1)
    (one,) = q.pop(queue, lease=600)
    q.seek(queue, QUEUE_MODE, "beginning")
    (again,) = q.pop(queue)
    assert again.id == one.id


@pytest.mark.parametrize("wrong", [-1, "start", True, 1.5, None, datetime(2027, 1, 1)])
def test_another_position_is_refused_before_any_request(q: Any, wrong: Any) -> None:
    with pytest.raises(ValueError):
        q.seek("orders", "billing", wrong)


def test_pauses(q: Any, queue: str) -> None:
    q.push(queue, 1)
    assert taken(q, queue, "g") == [1]
    q.push(queue, 2)
    assert q.pause(queue, "g") is True and q.pause(queue, "g") is False
    (group,) = q.groups(queue)
    assert group.paused and taken(q, queue, "g") == []
    assert taken(q, queue, "other") == [1, 2]
    assert q.resume(queue, "g") is True and q.resume(queue, "g") is False
    assert taken(q, queue, "g") == [2]
    assert q.pause(queue) is True and taken(q, queue, "third") == []
    assert q.resume(queue) is True and taken(q, queue, "third") == [1, 2]


def test_what_does_not_exist_is_named(q: Any, queue: str) -> None:
    q.push(queue, 1)
    taken(q, queue, "g")
    none, group = f"there is no queue '{queue}-none'", f"there is no group 'none' of queue '{queue}'"
    for asked, error in (
            (lambda: q.depth(f"{queue}-none"), none), (lambda: q.seek(f"{queue}-none", "g", "end"), none),
            (lambda: q.pause(f"{queue}-none"), none), (lambda: q.resume(f"{queue}-none", "g"), none),
            (lambda: q.seek(queue, "none", "end"), group), (lambda: q.pause(queue, "none"), group),
            (lambda: q.seek(queue, "g", "end", partition="p"), f"there is no partition 'p' of queue '{queue}'")):
        with pytest.raises(NotFound) as raised:
            asked()
        assert (raised.value.error, raised.value.status) == (error, 404)


def test_deletions(q: Any, queue: str) -> None:
    q.push(queue, 1)
    taken(q, queue, "g")
    assert q.delete_group(queue, "g") is True and q.delete_group(queue, "g") is False and q.groups(queue) == []
    assert taken(q, queue, "g") == [1], "it begins anew"
    assert q.delete_queue(queue) is True and q.delete_queue(queue) is False
    with pytest.raises(NotFound):
        q.depth(queue)


def test_options(q: Any, client: Plain, queue: str) -> None:
    found: QueueOptions = q.configure(queue, namespace="shop", task="billing", lease_time=59.5, retry_delay=1.5,
                                      retry_backoff=[0.5, 2], delivery_limit=5)
    assert (found["lease_time"], found["retry_backoff"], found["delivery_limit"], found["retry_limit"]) == (
        60, [0.5, 2.0], 5, 3)
    shown = client.show(queue).json
    assert (shown["namespace"], shown["task"]) == ("shop", "billing")
    assert {name: one["value"] for name, one in shown["options"].items() if one["asked"]} == {
        "leaseTime": 60, "retryDelay": 1500, "retryBackoff": [500, 2000], "deliveryLimit": 5}
    rule = Backoff(initial=0.5, multiplier=3, max=60, jitter=0.25)
    assert q.configure(queue, retry_backoff=rule, lease_time=None)["retry_backoff"] == rule
    assert q.configure(queue)["lease_time"] == 300
    assert "retry_backoff" not in q.configure(queue, replace=True, retry_delay=0.25)
    assert client.show(queue).json["options"]["retryDelay"]["value"] == 250


def test_encryption_is_turned_on_and_off_by_name(queue: str) -> None:
    """The server that has a key is not needed for this: it ignores `encryptionEnabled: false`."""
    assert admin.sent("encryption_enabled", True) == ("encryption", "on")
    assert admin.sent("encryption_enabled", False) == ("encryption", "off")


def test_options_that_are_wrong(q: Any, queue: str) -> None:
    with pytest.raises(TypeError, match="no option 'lease' of a queue"):
        q.configure(queue, lease=60)
    with pytest.raises(Refused, match="options.leaseTime must be an integer"):
        q.configure(queue, lease_time=-1)


def test_every_option_that_has_an_effect_is_known() -> None:
    effective = {option.name for option in OPTIONS} - {"deadLetterQueue", "dlqAfterMaxRetries"}
    assert {admin.word(name) for name in QueueOptions.__annotations__} == effective


def test_what_is_not_safe_to_repeat_is_not_repeated(lossy: Any, network: Lossy, queue: str) -> None:
    lossy.push(queue, 1)
    taken(lossy, queue, "g")
    for path, asked in (("POST", lambda: lossy.seek(queue, "g", "end")),
                        ("DELETE", lambda: lossy.delete_group(queue, "g")),
                        ("DELETE", lambda: lossy.delete_queue(queue))):
        network.lose(path, answers=True)
        with pytest.raises(Unavailable) as raised:
            asked()
        assert raised.value.may_be_done
    network.lose("POST /api/v1/configure", answers=True)
    assert lossy.configure(queue, lease_time=7)["lease_time"] == 7


def test_a_right_that_is_missing(start_daemon, kind: type, queue: str) -> None:
    daemon = start_daemon(JWT_ENABLED="true", JWT_SECRET=SECRET)
    client = kind(daemon.url, token=token(role="read-write"))
    try:
        client.push(queue, 1)
        assert client.depth(queue) == 1
        with pytest.raises(Forbidden):
            client.delete_queue(queue)
    finally:
        client.close()


def test_groups_come_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "PAGE", 2)
    row = {"totalLag": 1, "partitionsWithLag": 1, "maxTimeLag": 5, "pausedBy": "queue", "paused": True}
    steps, found, pages = admin.groups("q"), [], [["a", "b"], ["c"]]
    try:
        call = next(steps)
        while True:
            found.append(call.query)
            rows = [{**row, "name": name} for name in pages.pop(0)]
            call = steps.send(Reply(200, {}, json.dumps(rows).encode()))
    except StopIteration as end:
        assert [group.name for group in end.value] == ["a", "b", "c"] and end.value[0].oldest == 5.0
    assert [query["offset"] for query in found] == [0, 2] and not pages
