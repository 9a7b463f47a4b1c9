"""Reads by offset: against a daemon, and the requests that follow answers that are rare."""
from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.both import Lossy
from support.client import Client as Plain

from queend.client import NotFound, Push, Record, Refused, fetch
from queend.client.call import Reply
from queend.client.fetch import Reading

SPAN = timedelta(minutes=1)


def data(records: Any) -> list[Any]:
    return [one.data for one in records]


def test_a_partition_is_read_without_a_group(q: Any, queue: str) -> None:
    q.push_many(Push(queue, n, "p", f"id-{n}") for n in range(5))
    (message,) = q.pop(queue, group="billing", partition="p")
    records = list(q.fetch(queue, partition="p"))
    assert data(records) == [0, 1, 2, 3, 4] and [one.offset for one in records] == [0, 1, 2, 3, 4]
    first = records[0]
    assert (first.queue, first.partition, first.id, first.key, first.origin) == (queue, "p", "id-0", "id-0", None)
    assert abs(first.created_at - message.created_at) < timedelta(milliseconds=2) and first.created_at.tzinfo
    assert data(q.fetch(queue, partition="p", offset=3)) == [3, 4]
    assert data(q.fetch(queue, partition="p", offset=1, limit=2)) == [1, 2]
    assert data(q.fetch(queue, partition="p", limit=0)) == data(q.fetch(queue, partition="p", offset=5)) == []
    assert [one.data for one in q.pop(queue, group="other", batch=9)] == [0, 1, 2, 3, 4], "no cursor was moved"
    q.ack(message)


def test_all_partitions_of_a_queue_are_read(q: Any, queue: str) -> None:
    q.push_many(Push(queue, n, f"p{n % 3}") for n in range(9))
    found = list(q.fetch(queue))
    for name in ("p0", "p1", "p2"):
        assert data(one for one in found if one.partition == name) == [int(name[1]) + 3 * n for n in range(3)]
    assert len(found) == 9 and len(list(q.fetch(queue, limit=4))) == 4


def test_a_read_from_a_moment(q: Any, queue: str) -> None:
    q.push(queue, 1, partition="a")
    q.push(queue, 2, partition="b")
    q.push(queue, 3, partition="a")
    stored = {one.data: one.created_at for one in q.fetch(queue)}
    for partition, some in (("a", [3]), (None, [3]), ("b", [])):
        assert data(q.fetch(queue, partition=partition, since=stored[3])) == some
    assert sorted(data(q.fetch(queue, since=stored[2]))) == [2, 3]
    assert data(q.fetch(queue, since=datetime.now(UTC) + SPAN)) == []


def test_a_read_ends_where_the_queue_ended_when_it_began(q: Any, queue: str) -> None:
    q.push(queue, 1)
    records = q.fetch(queue)
    assert next(records).data == 1
    q.push(queue, 2)
    assert data(records) == []


def test_messages_that_are_gone_are_left_out(q: Any, client: Plain, queue: str) -> None:
    q.push_many(Push(queue, n, "p", f"id-{n}") for n in range(4))
    assert client.request("DELETE", f"/api/v1/queues/{queue}/partitions/p/messages/id-1").status == 200
    assert data(q.fetch(queue, partition="p")) == data(q.fetch(queue)) == [0, 2, 3]
    assert data(q.fetch(queue, partition="p", limit=2)) == [0, 2]
    assert client.request("DELETE", f"/api/v1/queues/{queue}/clear").status == 200
    q.push(queue, 4, partition="p")
    assert data(q.fetch(queue, partition="p", offset=0)) == data(q.fetch(queue)) == [4]


def test_a_redriven_message_names_its_origin(q: Any, client: Plain, queue: str) -> None:
    q.push(queue, 1, id="first")
    q.dead(q.pop(queue))
    assert client.post("/api/v1/dlq/redrive", {"queue": queue}).status == 200
    *_, again = q.fetch(queue)
    assert again.id != again.key == "first" and again.origin is not None and again.origin.queue == queue


def test_bytes_of_a_cloud_event_are_text(q: Any, client: Plain, queue: str) -> None:
    event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data_base64": "AAEC"}
    headers = {"Content-Type": "application/cloudevents+json"}
    assert client.request("POST", f"/api/v1/events/{queue}", event, headers).status == 201
    (record,) = q.fetch(queue)
    (message,) = q.pop(queue)
    assert (message.data, record.data) == (b"\0\1\2", "AAEC")


def test_what_does_not_exist(q: Any, queue: str) -> None:
    for partition in (None, "p"):
        with pytest.raises(NotFound, match="there is no queue '.*-none'"):
            list(q.fetch(f"{queue}-none", partition=partition))
    q.push(queue, 1)
    assert list(q.fetch(queue, partition="never written")) == []
    with pytest.raises(Refused, match="offset 7 is behind the end, which is 1") as raised:
        list(q.fetch(queue, partition="Default", offset=7))
    assert raised.value.code == "OFFSET_OUT_OF_RANGE"


def test_pages(q: Any, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that has no room for all messages, and a list of partitions that has several pages."""
    monkeypatch.setattr(fetch, "PAGE", 100)
    monkeypatch.setattr(fetch, "ENTRIES", 2)
    q.push_many(Push(queue, "x" * 60, f"p{n % 5}", f"{n}") for n in range(20))
    found = list(q.fetch(queue))
    assert sorted(int(one.id) for one in found) == list(range(20))
    assert [one.offset for one in found if one.partition == "p3"] == [0, 1, 2, 3]
    assert len(list(q.fetch(queue, limit=11))) == 11


def test_a_lost_answer_is_asked_for_again(lossy: Any, network: Lossy, queue: str) -> None:
    lossy.push(queue, 1)
    network.lose("POST /api/v1/fetch HTTP", answers=True)
    assert data(lossy.fetch(queue)) == [1] and network.lost == 1


@pytest.mark.parametrize("wrong", [
    {"offset": 1}, {"partition": "p", "offset": 1, "since": datetime.now(UTC)}, {"partition": "p", "offset": -1},
    {"limit": -1}, {"since": datetime(2027, 1, 1)}])
def test_arguments_that_do_not_fit_are_refused_before_any_request(q: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        q.fetch("orders", **wrong)


def read(reading: Reading, *answers: dict[str, Any] | Callable[[Any], dict[str, Any]]) -> list[Record]:
    """Returns what a read gives if the server answers so in turn."""
    left, found = list(answers), []
    while not reading.ended:
        steps = reading.page()
        try:
            call = next(steps)
            while True:
                answer = left.pop(0)
                said = answer(json.loads(call.body or b"")) if callable(answer) else answer
                call = steps.send(Reply(200, {}, json.dumps(said).encode()))
        except StopIteration as end:
            found += end.value
    assert not left, "a request is missing"
    return found


def partitions(*names: str, next: str | None = None) -> dict[str, Any]:
    return {"partitions": [{"name": name, "logStartOffset": 0, "highWatermark": 2} for name in names], "next": next}


def entries(*some: dict[str, Any]) -> dict[str, Any]:
    return {"entries": [{"logStartOffset": 0, "records": [], **one} for one in some]}


def stored(*offsets: int) -> list[dict[str, Any]]:
    return [{"offset": n, "transactionId": f"id-{n}", "payload": n, "ts": "2026-01-01T00:00:00Z"} for n in offsets]


def test_the_list_of_partitions_goes_on() -> None:
    asked: list[Any] = []

    def second(body: Any) -> dict[str, Any]:
        asked.append(body)
        return partitions("b")

    found = read(Reading("q", None, None, None, None), partitions("a", next="page"), entries({"records": stored(0, 1)}),
                 second, entries({"records": stored(0, 1)}))
    assert [(one.partition, one.data) for one in found] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert asked == [{"queue": "q", "after": "page"}]


def test_a_partition_without_room_is_asked_for_again() -> None:
    found = read(Reading("q", None, None, None, None), partitions("a", "b"),
                 entries({"records": stored(0, 1)}, {}), entries({"records": stored(0)}),
                 entries({"records": [], "erased": 1, "nextOffset": 2}))
    assert [(one.partition, one.data) for one in found] == [("a", 0), ("a", 1), ("b", 0)]


def test_what_is_removed_while_it_is_read_is_left_out() -> None:
    """By retention, and with its partition."""
    found = read(Reading("q", None, None, None, None), partitions("a", "b"),
                 entries({"error": "OFFSET_OUT_OF_RANGE", "logStartOffset": 1}, {"error": "OFFSET_OUT_OF_RANGE"}),
                 entries({"records": stored(1)}))
    assert data(found) == [1]


@pytest.mark.parametrize(("error", "kind"), [("UNKNOWN_TOPIC_OR_PARTITION", NotFound), ("UNREADABLE", Refused)])
def test_messages_before_an_error_are_given(error: str, kind: type[Exception]) -> None:
    reading = Reading("q", "p", None, None, None)
    begun = {"entries": [{"offset": 0, "highWatermark": 2, "logStartOffset": 0}]}
    with pytest.raises(kind) as raised:
        read(reading, begun, entries({"records": stored(0), "error": error}))
    assert type(raised.value) is kind and not reading.ended
    assert len(read(Reading("q", "p", None, None, 1), begun, entries({"records": stored(0), "error": error}))) == 1
