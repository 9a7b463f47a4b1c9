"""How the client reads server-sent events, however they are cut into pieces. Without network."""
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queend.client.errors import BadAnswer, Refused
from queend.client.events import Ended, Events
from queend.client.message import Message

# What Unicode calls line ends, too; JSON lets all but the control characters stand in a text as they are.
ODD = "a\u2028b\u2029c\x85d"


def item(data: object = 1, **more: object) -> dict[str, object]:
    return {"id": "01a2087e-099d-7000-8000-000000000001", "transactionId": "t", "data": data, "leaseId": "l",
            "partitionId": "p", "deliveryAttempt": 1, "offset": 0, "createdAt": "2026-01-02T03:04:05.678901Z", **more}


def event(said: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}id: p:1\ndata: {json.dumps(said, ensure_ascii=False)}\n\n".encode()


def read(events: Events, *pieces: bytes) -> list[Message]:
    return [message for piece in pieces for message in events.feed(piece)]


STREAM = b"retry: 3500\n\n" + event(item(ODD)) + b": a sign of life\n\n" + event(item({"n": 2}))


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_pieces_may_be_cut_anywhere(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    events = Events()
    got = read(events, *(STREAM[a:b] for a, b in zip(places, places[1:])))
    assert [message.data for message in got] == [ODD, {"n": 2}] and events.retry == 3.5


def test_line_ends_of_both_kinds() -> None:
    assert [one.data for one in read(Events(), event(item(7)).replace(b"\n", b"\r\n"))] == [7]


def test_an_event_that_has_not_ended_is_no_message() -> None:
    assert read(Events(), event(item())[:-1]) == []


def test_the_end_says_why() -> None:
    with pytest.raises(Ended, match="shutdown"):
        read(Events(), event({"reason": "shutdown"}, "end"))
    with pytest.raises(Refused, match="no right"):
        read(Events(), event({"reason": "refused", "error": "no right"}, "end"))


def test_events_of_other_names_are_passed_over() -> None:
    assert [one.data for one in read(Events(), event({"n": 1}, "news"), b"event: \xff\ndata: {}\n\n",
                                        event(item(2), "message"))] == [2]


def test_what_is_no_json_is_told() -> None:
    with pytest.raises(BadAnswer):
        read(Events(), b"data: {oops\n\n")


@pytest.mark.parametrize("said", [b'data: {"news":1}', b"data: [1]", b"event: end\ndata: 7"],
                         ids=["no message", "list", "number"])
def test_what_is_no_event_of_queend_is_told(said: bytes) -> None:
    with pytest.raises(BadAnswer):
        read(Events(), said + b"\n\n")


def test_a_message_has_what_the_server_said() -> None:
    said = item("x", consumerGroup="g", queue="q", partition="part", producerSub="me", deliverAt="2026-02-03T00:00:00Z",
                originTransactionId="first", originQueue="o", originPartition="op", originOffset=4)
    (one,) = read(Events(), event(said))
    assert (one.queue, one.partition, one.group, one.producer, one.key) == ("q", "part", "g", "me", "first")
    assert one.origin is not None and one.origin.offset == 4
    assert one.deliver_at is not None and one.deliver_at.tzinfo is not None and one.created_at.microsecond == 678901
    (plain,) = read(Events(), event(item(consumerGroup="__QUEUE_MODE__")))
    assert (plain.group, plain.key, plain.origin) == (None, "t", None)
    (binary,) = read(Events(), event(item("AP8=", dataEncoding="base64")))
    assert binary.data == b"\0\xff"
