"""Headers, trace context and delivery moments of messages that SQL pushes."""
from __future__ import annotations

from urllib.parse import quote

import psycopg
import pytest
from support.wait import until

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"


def test_a_message_of_a_transaction_has_them(beside, client, queue) -> None:
    with beside.transaction():
        beside.rows("SELECT queen.push(%s, 'p', '1'::json, headers => %s::jsonb)", queue, '{"x": "7", "ü": "\\""}')
        beside.rows("SELECT queen.push(%s, 'p', '2'::jsonb, traceparent => %s)", queue, TRACE)
        beside.rows("SELECT queen.push(%s, 'p', '3', headers => %s::jsonb)", queue,
                 f'{{"traceparent": "{TRACE}", "tracestate": "a=1", "b": "c"}}')
        beside.rows("SELECT queen.push(%s, 'p', '4', headers => '{}', deliver_at => now() - interval '1 day')", queue)
    got: list[dict] = []
    until(lambda: got.extend(client.pop(queue, "p", batch=9, autoAck=True)) or len(got) == 4, "four messages")
    assert [(one["data"], one.get("headers"), one.get("traceparent"), one.get("tracestate")) for one in got] == [
        (1, {"x": "7", "ü": '"'}, None, None), (2, None, TRACE, None), (3, {"b": "c"}, TRACE, "a=1"),
        (4, None, None, None)]
    assert not any("deliverAt" in one for one in got)


def test_a_moment_is_waited_for(beside, client, queue) -> None:
    beside.rows("SELECT queen.push(%s, 'p', '\"later\"', deliver_at => clock_timestamp() + interval '1 hour',"
             " headers => '{\"a\": \"b\"}')", queue)
    beside.rows("SELECT queen.push(%s, 'p', '\"soon\"', 'soon', deliver_at => clock_timestamp() + interval '9 s')",
                queue)
    beside.rows("SELECT queen.push(%s, 'q', '\"now\"')", queue)
    shown = until(lambda: len(found := client.get(f"/api/v1/messages?queue={quote(queue)}").json["messages"]) == 3
                  and found, "three messages of the log")
    assert sorted(("headers" in one, "deliverAt" in one) for one in shown) == [
        (False, False), (False, True), (True, True)]
    (now,) = until(lambda: client.pop(queue, "q"), "the message of another partition")
    assert now["data"] == "now" and client.pop(queue, "p", batch=9) == [], "the first one holds the partition back"


def test_at_once(beside, client, queue) -> None:
    answer = beside.value("SELECT queen.push_messages_v2(jsonb_build_array(jsonb_build_object('queue', %s::text,"
                       " 'payload', 1, 'headers', jsonb_build_object('a', 'b'), 'traceparent', %s::text),"
                       " jsonb_build_object('queue', %s::text, 'payload', 2)))", queue, TRACE, queue)
    assert [one["status"] for one in answer] == ["queued", "queued"]
    first, second = until(lambda: client.pop(queue, batch=9), "the messages")
    assert (first["headers"], first["traceparent"]) == ({"a": "b"}, TRACE) and "headers" not in second


@pytest.mark.parametrize("more, text", [
    ("headers => '[]'", "headers must be an object of strings"),
    ("headers => '{\"a\": 1}'", "header a must be a string"),
    ("headers => '{\"\": \"x\"}'", "the name of a header must have 1 to 256 bytes"),
    ("headers => jsonb_build_object('a', repeat('x', 16384))", "headers must have at most 16384 bytes as JSON"),
    ("headers => (SELECT jsonb_object_agg(i::text, '') FROM generate_series(1, 65) AS i)",
     "headers must have at most 64 names"),
    ("traceparent => 'x'", "traceparent must be one of W3C trace context"),
    ("traceparent => '00-00000000000000000000000000000000-b7ad6b7169203331-01'", "traceparent must be one of W3C trace"
     " context"),
    ("headers => '{\"tracestate\": \"a=1\"}'", "traceparent must be one of W3C trace context"),
    (f"traceparent => '{TRACE}', headers => '{{\"traceparent\": \"{OTHER}\"}}'",
     "traceparent and the one in headers differ"),
    ("deliver_at => 'infinity'", "deliver_at must be at most 366 days away")])
def test_what_is_refused(sql, queue, more: str, text: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
        sql.rows(f"SELECT queen.push(%s, 'p', '1'::json, {more})", queue)
    assert refused.value.diag.message_primary == text
