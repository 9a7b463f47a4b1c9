"""Spans of pushes, deliveries, acknowledgments, transactions and cycles, as a collector of OpenTelemetry gets them."""
from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator

import pytest
from support.client import Client, ack_of
from support.daemon import Daemon
from support.streams import Stream
from support.wait import until

from queend.settings.load import load
from queend.settings.messages import ConfigError

PARENT = "b7ad6b7169203331"


def trace(number: int, sampled: bool = True, parent: str = PARENT) -> tuple[str, str]:
    """A trace, and the traceparent of somebody in it."""
    made = f"0af7651916cd43dd8448eb21{number:08x}"
    return made, f"00-{made}-{parent}-{'01' if sampled else '00'}"


class Collector:
    """A server that takes what is exported; `status` is what it answers."""

    def __init__(self) -> None:
        self.spans: list[dict] = []
        self.requests: list[tuple[str, str, str | None]] = []
        self.status = 200
        self.go_on = threading.Event()
        self.go_on.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.go_on.wait()
                outer.requests.append((self.path, self.headers["content-type"], self.headers.get("x-key")))
                if outer.status < 300:
                    for resource in body["resourceSpans"]:
                        outer.resource = {one["key"]: one["value"] for one in resource["resource"]["attributes"]}
                        outer.spans += [one for scope in resource["scopeSpans"] for one in scope["spans"]]
                self.send_response(outer.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def of(self, made: str) -> list[dict]:
        return [one for one in self.spans if one["traceId"] == made]

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.close()


@pytest.fixture(scope="module")
def daemon(start_daemon, collector) -> Daemon:
    return start_daemon(QUEEND_OTLP_ENDPOINT=collector.url, QUEEND_OTLP_HEADERS="x-key=a-secret")


def of(span: dict) -> dict:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def push(client: Client, body: dict, parent: str) -> None:
    assert client.request("POST", "/api/v1/push", body, {"traceparent": parent}).status == 201


def test_a_message_from_its_push_to_its_acknowledgment(client, collector, queue):
    made, parent = trace(1)
    push(client, {"items": [{"queue": queue, "partition": "p", "payload": "a-secret-payload"}]}, parent)
    (message,) = client.pop(queue, consumerGroup="g")
    assert client.request("POST", "/api/v1/ack", {**ack_of(message), "consumerGroup": "g"},
                          {"traceparent": trace(1, parent="00f067aa0ba902b7")[1]}).status == 200
    until(lambda: len(collector.of(made)) == 3, "all are sent")
    send, deliver, settle = sorted(collector.of(made), key=lambda one: int(one["endTimeUnixNano"]))
    assert (send["name"], send["kind"], send["parentSpanId"]) == (f"send {queue}", 4, PARENT)
    assert (deliver["name"], deliver["kind"], deliver["parentSpanId"]) == (f"deliver {queue}", 5, PARENT)
    assert (settle["name"], settle["kind"], settle["parentSpanId"]) == (f"settle {queue}", 3, "00f067aa0ba902b7")
    assert of(send) == {"messaging.system": "queend", "messaging.operation.name": "send",
                        "messaging.operation.type": "send", "messaging.destination.name": queue,
                        "messaging.destination.partition.id": "p", "messaging.queend.message.offset": "0"}
    assert of(deliver)["messaging.operation.type"] == "receive" and of(deliver)["messaging.consumer.group.name"] == "g"
    assert of(settle)["messaging.operation.type"] == "settle"
    for one in (send, deliver, settle):
        assert int(one["startTimeUnixNano"]) <= int(one["endTimeUnixNano"]) and one["status"] == {"code": 1}
        assert re.fullmatch("[0-9a-f]{16}", one["spanId"]) and one["spanId"] != PARENT
    assert len({one["spanId"] for one in (send, deliver, settle)}) == 3
    assert collector.requests[-1] == ("/v1/traces", "application/json", "a-secret")
    assert collector.resource["service.name"] == {"stringValue": "queend"}
    assert "a-secret-payload" not in json.dumps(collector.spans)


def test_a_batch_is_one_span_and_items_of_other_traces_have_their_own(client, collector, queue):
    made, parent = trace(2)
    other, of_other = trace(3)
    push(client, {"items": [{"queue": queue, "payload": n} for n in range(3)]
                  + [{"queue": queue, "payload": 3, "traceparent": of_other}]}, parent)
    until(lambda: len(collector.of(made)) == 1 and len(collector.of(other)) == 1, "both are sent")
    assert of(collector.of(made)[0])["messaging.batch.message_count"] == "3"
    assert "messaging.batch.message_count" not in of(collector.of(other)[0])
    assert len(client.pop(queue, batch=10)) == 4
    until(lambda: len(collector.of(made)) == 4 and len(collector.of(other)) == 2, "a delivery each")


def test_long_polls_that_the_push_answers_have_spans_too(client, daemon, collector, queue):
    made, parent = trace(4)
    client.push(queue, 0)
    client.pop(queue, autoAck="true")
    with daemon.client() as waiting:
        parked = client.parked()
        waiting.send("GET", f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000&autoAck=true")
        until(lambda: client.parked() > parked, "it waits")
        push(client, {"items": [{"queue": queue, "payload": 1}]}, parent)
        assert len(waiting.receive().json["messages"]) == 1
    until(lambda: {one["name"] for one in collector.of(made)} == {f"send {queue}", f"deliver {queue}"}, "both are sent")


def test_a_transaction_tells_what_it_stored_and_settled(client, collector, queue):
    made, parent = trace(10)
    other, of_other = trace(11)
    client.push(queue, *range(3))
    acks = [{"type": "ack", "consumerGroup": "g", **ack_of(one)}
            for one in client.pop(queue, batch=9, consumerGroup="g", subscriptionMode="all")]
    assert len(acks) == 3
    pushes = [{"type": "push", "queue": f"{queue}-{name}", "partition": "p", "payload": 1} for name in "aab"]
    pushes += [{"type": "push", "queue": f"{queue}-b", "payload": 1, "traceparent": of_other},
               {"type": "push", "items": [{"queue": f"{queue}-c", "payload": 1, "traceparent": of_other}]}]
    done = client.request("POST", "/api/v1/transaction", {"operations": [*acks, *pushes]}, {"traceparent": parent})
    assert done.json["success"], done.body
    until(lambda: len(collector.of(made)) == 3 and len(collector.of(other)) == 2, "all are sent")
    settle, first, second = sorted(collector.of(made), key=lambda one: (one["kind"] == 4, one["name"]))
    assert (settle["name"], settle["kind"], of(settle)["messaging.batch.message_count"]) == (f"settle {queue}", 3, "3")
    assert of(settle)["messaging.consumer.group.name"] == "g"
    assert [one["name"] for one in (first, second)] == [f"send {queue}-a", f"send {queue}-b"]
    assert of(first)["messaging.batch.message_count"] == "2" and of(second)["messaging.queend.message.offset"] == "0"
    assert {one["parentSpanId"] for one in (settle, first, second)} == {PARENT}
    assert {one["status"]["code"] for one in (settle, first, second)} == {1}
    assert {one["name"] for one in collector.of(other)} == {f"send {queue}-b", f"send {queue}-c"}
    client.pop(f"{queue}-a", batch=9)
    until(lambda: len(collector.of(made)) == 5, "what it stored goes on with the trace")


def test_a_transaction_that_is_refused_has_spans_that_failed(client, collector, queue):
    made, parent = trace(12)
    client.push(queue, 1)
    (message,) = client.pop(queue)
    assert client.ack(message)["success"]
    refused = client.request("POST", "/api/v1/transaction", {"operations": [
        {"type": "push", "queue": f"{queue}-a", "payload": 1}, {"type": "ack", **ack_of(message)}]},
        {"traceparent": parent})
    assert not refused.json["success"]
    until(lambda: len(collector.of(made)) == 2, "both are sent")
    assert {one["status"]["code"] for one in collector.of(made)} == {2}


def test_a_cycle_of_a_stream_and_what_it_stored(client, collector, queue):
    made, parent = trace(13)
    client.push(queue, 1, 2)
    stream = Stream(client, queue, queue, f"{queue}-sink")
    messages = stream.pop()
    body = stream.body(messages, {"k": 1}, [{"queue": f"{queue}-sink", "payload": n} for n in range(3)])
    done = client.request("POST", "/streams/v1/cycle", body, {"traceparent": parent})
    assert done.json["success"], done.body
    until(lambda: len(collector.of(made)) == 2, "both are sent")
    cycle, send = sorted(collector.of(made), key=lambda one: one["name"])
    assert (cycle["name"], cycle["kind"], cycle["parentSpanId"]) == (f"cycle {queue}", 5, PARENT)
    assert of(cycle)["messaging.operation.type"] == "process" and of(cycle)["messaging.batch.message_count"] == "2"
    assert of(cycle)["messaging.consumer.group.name"] == stream.group
    assert (send["name"], of(send)["messaging.batch.message_count"]) == (f"send {queue}-sink", "3")
    (first, *_) = client.pop(f"{queue}-sink", batch=9)
    assert first["traceparent"] == parent
    until(lambda: len(collector.of(made)) == 5, "what it stored goes on with the trace")
    late, parent = trace(14)
    again = client.request("POST", "/streams/v1/cycle", body, {"traceparent": parent})
    assert not again.json["success"], "its lease is over"
    until(lambda: collector.of(late), "one that failed is told, too")
    assert {one["status"]["code"] for one in collector.of(late)} == {2}


def test_what_is_not_sampled_has_none(client, collector, queue):
    unsampled, parent = trace(5, sampled=False)
    push(client, {"items": [{"queue": queue, "payload": 1}]}, parent)
    client.push(queue, 2)
    client.pop(queue, batch=10)
    made, parent = trace(6)
    push(client, {"items": [{"queue": queue, "payload": 3}]}, parent)
    until(lambda: collector.of(made), "what came later is there")
    assert not collector.of(unsampled)


def test_one_in_so_many_traces(start_daemon, collector):
    daemon = start_daemon(QUEEND_OTLP_ENDPOINT=collector.url + "/", QUEEND_OTLP_SHARE=10)
    with daemon.client() as client:
        for number in range(1000, 1100):
            push(client, {"items": [{"queue": "q", "payload": 1}]}, trace(number)[1])
        client.pop("q", batch=100)
    daemon.stop()      # the last are sent
    found = {number for number in range(1000, 1100) if collector.of(trace(number)[0])}
    assert len(found) == 10
    assert all(len(collector.of(trace(number)[0])) == 2 for number in found), "a trace is taken whole"


def test_a_collector_that_refuses_or_hangs_stops_nobody(start_daemon):
    collector = Collector()
    try:
        daemon = start_daemon(QUEEND_OTLP_ENDPOINT=collector.url, NUM_WORKERS=1)
        with daemon.client() as client:
            collector.status = 500
            push(client, {"items": [{"queue": "q", "payload": 1}]}, trace(7)[1])
            until(lambda: client.metric("queend_spans_failed_total") == 1, "it is counted")
            assert daemon.await_event("traces_not_sent")["detail"].endswith("500")
            collector.status = 200
            collector.go_on.clear()
            parent = trace(8)[1]

            def dropped() -> float:
                items = [{"queue": "q", "payload": n, "traceparent": trace(100 + n)[1]} for n in range(1000)]
                push(client, {"items": items}, parent)
                return client.metric("queend_worker_spans_dropped_total")

            until(dropped, "there is no room")
            collector.go_on.set()
            until(lambda: client.metric("queend_spans_sent_total") > 0, "it goes on")
        daemon.stop()
    finally:
        collector.close()


@pytest.mark.parametrize("address", ["collector:4318", "ftp://collector", "http://", "http://user@collector",
                                     "http://collector:port", "http://collector:65536", "http://collector:0",
                                     "http://collector/?a=b"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ConfigError, match="QUEEND_OTLP_ENDPOINT is not the URL of a collector"):
        load(queend_otlp_endpoint=address)


def test_off_by_default(start_daemon):
    daemon = start_daemon()
    with daemon.client() as client:
        push(client, {"items": [{"queue": "q", "payload": 1}]}, trace(9)[1])
        client.pop("q")
        assert client.metric("queend_worker_spans_total") == 0
        assert "queend_spans_sent" not in client.get("/metrics/prometheus").body.decode()
