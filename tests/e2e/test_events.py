"""CloudEvents in and out, told by the published package; and the trace context of messages."""
import base64
import json
from datetime import UTC, datetime

import pytest
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent, from_http, from_json
from support.client import pop_target

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"
BATCH = "application/cloudevents-batch+json"


def send(client, queue, headers, body, query=""):
    return client.request("POST", f"/api/v1/events/{queue}{query}", body, {"Content-Type": "", **{
        "Content-Type" if name == "content-type" else name: value for name, value in headers.items()}})


def taken(client, queue, **query):
    """The events of a pop, and their lease and address apart from what they came with."""
    answer = client.get(pop_target(queue, format="cloudevents", batch=100, partitions=20, **query))
    assert answer.status == 200 and answer.headers["content-type"] == BATCH
    return [from_json(json.dumps(one)) for one in answer.json]


def own(event):
    return {name: value for name, value in event.get_attributes().items() if not name.startswith("queend")}


EVENTS = [
    CloudEvent({"source": "/sensors/7", "type": "temperature", "id": "a-1", "time": "2026-01-02T03:04:05.678Z",
                "subject": "k\u00fcche", "partitionkey": "7"}, {"c": 21.5}),
    CloudEvent({"source": "urn:x:y", "type": "t", "id": "1", "datacontenttype": "text/plain"}, "gr\u00fc\u00dfe"),
    CloudEvent({"source": "https://example.com/a?b#c", "type": "t", "id": "1", "dataschema": "https://example.com/s",
                "comexampleextension1": "value", "datacontenttype": "application/octet-stream"}, b"\0\xff\1"),
    CloudEvent({"source": "x", "type": "t", "id": "no data"}),
    CloudEvent({"source": "x", "type": "t", "id": "array"}, [1, None, {"a": "\u2028"}]),
]
NAMES = ["object", "text", "bytes", "nothing", "array"]


@pytest.mark.parametrize("event", EVENTS, ids=NAMES)
@pytest.mark.parametrize("convert", [to_structured, to_binary], ids=["structured", "binary"])
def test_an_event_comes_out_as_it_went_in(client, queue, event, convert):
    text = isinstance(event.get_data(), str) and convert is to_binary
    headers, body = convert(event, data_marshaller=str.encode) if text else convert(event)
    answer = send(client, queue, headers, body or b"")
    assert answer.status == 201, answer
    (got,) = taken(client, queue)
    assert own(got) == event.get_attributes()
    assert got.get_data() == event.get_data()


def test_the_package_reads_a_single_event_over_http(client, queue):
    send(client, queue, *to_structured(EVENTS[0]))
    answer = client.get(pop_target(queue, format="cloudevents"))
    read = from_http({"content-type": "application/cloudevents+json"}, json.dumps(answer.json[0]))
    assert read["subject"] == "k\u00fcche" and read.get_data() == {"c": 21.5}


def test_a_batch_keeps_its_order_and_its_keys(client, queue):
    events = [{"specversion": "1.0", "id": str(i), "source": "s", "type": "t", "partitionkey": f"k{i % 2}",
               "data": i} for i in range(20)]
    answer = send(client, queue, {"Content-Type": BATCH + "; charset=utf-8"}, events)
    assert answer.status == 201 and [one["status"] for one in answer.json] == ["queued"] * 20
    got = taken(client, queue)
    for key in ("k0", "k1"):
        assert [one.get_data() for one in got if one["partitionkey"] == key] == [
            i for i in range(20) if f"k{i % 2}" == key]
    assert {one["queendpartition"] for one in got} == {"k0", "k1"}
    assert send(client, queue, {"Content-Type": BATCH}, []).json == []


def test_source_and_id_make_the_transaction_id(client, queue):
    one = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": 1}
    for event, status in ((one, "queued"), (one, "duplicate"), ({**one, "source": "other"}, "queued"),
                          ({**one, "id": "1s"}, "queued")):
        assert send(client, queue, {"Content-Type": "application/cloudevents+json"}, event).json[0]["status"] == status
    assert len(client.pop(queue, batch=10)) == 3


def test_a_delivered_event_can_be_acknowledged_and_sent_on(client, queue):
    send(client, queue, *to_structured(EVENTS[0]), "?partition=unused&format=counts")
    (event,) = taken(client, queue, consumerGroup="g")
    ack = {"transactionId": event["queendtransactionid"], "partitionId": event["queendpartitionid"],
           "leaseId": event["queendleaseid"], "consumerGroup": event["queendgroup"]}
    assert client.post("/api/v1/ack", ack).json[0]["success"]
    assert send(client, queue + "-next", *to_structured(event)).status == 201
    (again,) = taken(client, queue + "-next")
    assert own(again) == own(event) and again["queendqueue"] == queue + "-next" and again["queendgroup"] != "g"


def test_messages_that_were_no_events(client, queue):
    (stored,) = client.push(queue, {"a": 1}, partition="p", transactionId=f"{queue}-1")
    (event,) = taken(client, queue)
    assert own(event) == {"specversion": "1.0", "id": f"{queue}-1",
                          "source": f"/api/v1/resources/queues/{queue}/partitions/p", "type": "queend.message",
                          "time": event["queendtime"], "datacontenttype": "application/json", "partitionkey": "p"}
    assert event.get_data() == {"a": 1} and event["queendtransactionid"] == f"{queue}-1"
    assert event["queendoffset"] == "0" and event["queendattempt"] == 1
    assert datetime.fromisoformat(event["time"]).tzinfo == UTC


def test_as_plain_messages_events_carry_their_attributes(client, queue):
    for event in EVENTS[:4]:
        send(client, queue, *to_structured(event), "?partition=p")
    messages = {one["cloudEvent"]["id"] + one["cloudEvent"]["source"]: one
                for one in client.pop(queue, batch=10, partitions=5)}
    assert messages["a-1/sensors/7"]["data"] == {"c": 21.5} and messages["a-1/sensors/7"]["partition"] == "7"
    assert "dataEncoding" not in messages["a-1/sensors/7"]
    binary = messages["1https://example.com/a?b#c"]
    assert base64.b64decode(binary["data"]) == b"\0\xff\1" and binary["dataEncoding"] == "base64"
    assert binary["partition"] == "p"
    assert messages["no datax"]["data"] is None and messages["no datax"]["dataEncoding"] == "none"


@pytest.mark.parametrize("accept, events", [
    (BATCH, True), ("application/json;q=0.5, application/cloudevents-batch+json", True),
    ("application/json, application/cloudevents-batch+json", False),
    ("application/json, application/cloudevents-batch+json;q=0.5", False),
    ("application/cloudevents-batch+json;q=0, application/json;q=0", False), ("*/*", False)])
def test_accept_asks_for_events_as_well(client, queue, accept, events):
    client.push(queue, 1)
    # one message, then none
    for target in (pop_target(queue), pop_target(queue), pop_target(queue, wait=True, timeout=1)):
        answer = client.request("GET", target, None, {"Accept": accept})
        assert isinstance(answer.json, list) == events and (answer.headers["content-type"] == BATCH) == events


def test_reads_by_offset_give_the_same_events(client, queue):
    for event in EVENTS:
        send(client, queue, *to_structured(event), "?partition=7")
    client.push(queue, {"plain": 1}, partition="7", transactionId="t-1", traceparent=TRACE)
    asked = {"entries": [{"queue": queue, "partition": "7", "offset": 0},
                         {"queue": queue, "partition": "none", "offset": 0}]}
    by_query, by_accept = client.post("/api/v1/fetch?format=cloudevents",
                                      asked), client.request("POST", "/api/v1/fetch", asked, {"Accept": BATCH})
    assert by_query.headers["content-type"] == by_accept.headers["content-type"] == BATCH
    assert by_query.json == by_accept.json
    read, popped = [from_json(json.dumps(one)) for one in by_query.json], taken(client, queue)
    assert [own(one) for one in read] == [own(one) for one in popped]
    assert [one.get_data() for one in read] == [one.get_data() for one in popped] and len(read) == 6
    assert [one["queendoffset"] for one in read] == list("012345")
    assert not {"queendleaseid", "queendmessageid"} & {name for one in read for name in one.get_attributes()}


def test_a_waiting_pop_is_answered_with_events(daemon, client, queue):
    with daemon.client() as waiting:
        waiting.send("GET", pop_target(queue, wait=True, timeout=30000, format="cloudevents"))
        client.pop(queue + "-other")
        client.push(queue, "woken")
        assert [one["data"] for one in waiting.receive().json] == ["woken"]


GOOD = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}


@pytest.mark.parametrize("change", [
    {"specversion": "0.3"}, {"specversion": None}, {"id": ""}, {"id": None}, {"id": 7}, {"source": ""},
    {"source": None}, {"source": "a b"}, {"source": "a%zz"}, {"type": ""}, {"type": None},
    {"subject": ""}, {"time": "yesterday"}, {"time": "2026-01-02T03:04:05"}, {"time": "2026-13-02T03:04:05Z"},
    {"datacontenttype": "json"}, {"dataschema": "relative"},
    {"Upper": "x"}, {"with_line": "x"}, {"": "x"}, {"x" * 65: "x"}, {"ext": {"a": 1}}, {"ext": [1]}, {"ext": 1.5},
    {"ext": 2**31}, {"ext": 10**30}, {"ext": "a\nb"}, {"ext": "\x85"}, {"ext": "\ud800"},
    {"partitionkey": "x" * 256}, {"partitionkey": 7}, {"traceparent": "00-zz"},
    {"traceparent": TRACE, "tracestate": "?"}, {"tracestate": "a=b"},
    {"data": 1, "data_base64": "AAA="}, {"data_base64": "AAA"}, {"data_base64": "A==="}, {"data_base64": 1},
    {f"a{i}": "x" for i in range(65)}, {"ext": "x" * 33000},
], ids=lambda change: "-".join(f"{k}={v}" for k, v in change.items())[:40].encode("ascii", "replace").decode())
def test_events_that_are_none(client, queue, change):
    event = {key: value for key, value in {**GOOD, **change}.items()}
    for body, kind, place in ((event, "application/cloudevents+json", 0), ([GOOD, event], BATCH, 1)):
        answer = send(client, "refused", {"Content-Type": kind}, body)
        assert answer.status == 400 and f"event {place}" in answer.json["error"], answer
    assert client.pop("refused") == []


@pytest.mark.parametrize("body", [b"", b"[", b"7", b"[{]", b'{"id":"1","id":"2"}', b'{"specversion":"1.0","data":}',
                                  b"\xff", b"[7]", b"null"])
@pytest.mark.parametrize("kind", ["application/cloudevents+json", BATCH])
def test_bodies_that_are_none(client, kind, body):
    assert send(client, "refused", {"Content-Type": kind}, body).status == 400


def test_kinds_that_are_none(client):
    assert send(client, "refused", {"Content-Type": "application/cloudevents+avro"}, b"x").status == 415
    assert send(client, "refused", {"Content-Type": "application/json"}, {"items": []}).status == 400
    assert client.post("/api/v1/events/%FF", GOOD).status == 400
    assert client.post(f"/api/v1/events/{'x' * 256}", GOOD).status == 400
    assert client.get(pop_target("refused", format="xml")).status == 400


BINARY = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "s", "ce-type": "t"}


@pytest.mark.parametrize("headers", [{"ce-id": ""}, {"ce-time": "x"}, {"ce-a%": "x"}, {"ce-data": "x"}, {
    "ce-datacontenttype": "text/plain"}, {"ce-ext": "%zz"}, {"ce-ext": "%0a"}, {"ce-ext": "%FF"}, {"ce-A-B": "x"},
                                     {"Content-Type": "application/json"}])
def test_binary_events_that_are_none(client, headers):
    assert send(client, "refused", {"Content-Type": "text/plain", **BINARY, **headers}, b"{").status == 400


def test_binary_values_are_decoded(client, queue):
    assert send(client, queue, {**BINARY, "CE-Ext": "caf%C3%A9%20%22a%22", "ce-quoted": '"a \\"b\\""',
                                "Content-Type": "application/vnd.x+json;v=1"}, b' {"a": 1} ').status == 201
    (event,) = taken(client, queue)
    assert (event["ext"], event["quoted"], event["datacontenttype"],
            event.get_data()) == ('caf\u00e9 "a"', 'a "b"', "application/vnd.x+json;v=1", {"a": 1})


# -- trace context -----------------------------------------------------------------------------------------------------

def push(client, body, headers, target="/api/v1/push"):
    answer = client.request("POST", target, body, headers)
    assert answer.status == 201, answer
    return answer.json


def traces(client, queue, **query):
    return {json.dumps(one["data"]): (one.get("traceparent"), one.get("tracestate"))
            for one in client.pop(queue, batch=1000, partitions=64, **query)}


def test_a_trace_goes_on_where_its_message_is_delivered(client, queue):
    items = [{"queue": queue, "payload": 1}, {"queue": queue, "payload": 2, "traceparent": OTHER},
             {"queue": queue, "payload": 3, "traceparent": OTHER, "tracestate": 'a="b",c@d=e'}]
    push(client, {"items": items}, {"traceparent": TRACE, "tracestate": "congo=t61rcWkgMzE"})
    assert traces(client, queue) == {"1": (TRACE, "congo=t61rcWkgMzE"), "2": (OTHER, None), "3": (OTHER, 'a="b",c@d=e')}
    push(client, {"items": [{"queue": queue, "payload": 4}]}, {})
    assert all("traceparent" not in one
               for one in client.pop(queue, consumerGroup="g", subscriptionMode="all", batch=100) if one["data"] == 4)


@pytest.mark.parametrize("form", ["json", "ndjson", "line"])
def test_every_form_of_a_push_has_a_trace(client, queue, form):
    n = 300
    if form == "json":
        push(client, {"items": [{"queue": queue, "payload": i} for i in range(n)]}, {"traceparent": TRACE})
    else:
        body = b"".join(b"%d\n" % i if form == "line" else b'{"payload":%d}\n' % i for i in range(n))
        push(client, body, {"traceparent": TRACE, "Content-Type": "application/x-ndjson"},
             f"/api/v1/push?queue={queue}&payload={'line' if form == 'line' else 'item'}")
    assert traces(client, queue) == {str(i): (TRACE, None) for i in range(n)}


def test_transactions_and_events_have_one_too(client, queue):
    client.request("POST", "/api/v1/transaction", {
        "operations": [{"type": "push", "items": [{"queue": queue, "payload": 1}]}]}, {"traceparent": TRACE})
    for i, parent in ((2, None), (3, OTHER)):
        event = {**GOOD, "id": str(i), "data": i, **({"traceparent": parent} if parent else {})}
        assert client.request("POST", f"/api/v1/events/{queue}", event,
                              {"Content-Type": "application/cloudevents+json", "traceparent": TRACE}).status == 201
    assert traces(client, queue) == {"1": (TRACE, None), "2": (TRACE, None), "3": (OTHER, None)}
    assert {one.get_data(): one["traceparent"] for one in taken(
        client, queue, consumerGroup="g", subscriptionMode="all")} == {1: TRACE, 2: TRACE, 3: OTHER}


MALFORMED = ["", "00", TRACE + "-x", TRACE[:-1], TRACE.upper(), "ff" + TRACE[2:], TRACE.replace(
    "0af7651916cd43dd8448eb211c80319c", "0" * 32), TRACE.replace("b7ad6b7169203331", "0" * 16), TRACE.replace("-", "_")]


@pytest.mark.parametrize("parent", MALFORMED)
def test_malformed_ones(client, queue, parent):
    push(client, {"items": [{"queue": queue, "payload": 1}]}, {"traceparent": parent, "tracestate": "a=b"})
    assert traces(client, queue) == {"1": (None, None)}, "ignored as a header"
    for item in ({"traceparent": parent}, {"traceparent": TRACE, "tracestate": "no"}, {"tracestate": "a=b"},
                 {"traceparent": 7}, {"traceparent": TRACE, "tracestate": None}):
        assert client.post("/api/v1/push",
                           {"items": [{"queue": queue, "payload": 1}, {"queue": queue, **item}]}).status == 400


def test_versions_to_come_and_states_that_are_none(client, queue):
    for i, (parent, state) in enumerate([("cc" + TRACE[2:] + "-what-the-future-holds", "a=b"), (TRACE, "a=b=c"),
                                         (TRACE, "A=b"), (TRACE, "x=" + "y" * 600)]):
        push(client, {"items": [{"queue": queue, "payload": i}]}, {"traceparent": parent, "tracestate": state})
    assert traces(client, queue) == {"0": ("cc" + TRACE[2:] + "-what-the-future-holds", "a=b"), "1": (TRACE, None),
                                     "2": (TRACE, None), "3": (TRACE, None)}
