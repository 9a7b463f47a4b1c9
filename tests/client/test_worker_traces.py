"""The middleware for traces, with the SDK of OpenTelemetry: spans of handlers, and traces that pushes carry on."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.client import Client as Plain
from support.daemon import Daemon
from support.workers import KINDS, LONG, consumed, handler_of

from queend.client import App, Client, Context, Dead, Later, Message, Push, Skip
from queend.client.opentelemetry import traced

TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def provider() -> None:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(made)     # once in a process


@pytest.fixture
def q(daemon: Daemon, app: App) -> Iterator[Client]:
    """A client of the daemon; the app has the middleware."""
    EXPORTER.clear()
    app.middleware(traced)
    with Client(daemon.url, deadline=LONG, timeout=LONG) as client:
        yield client


def spans(name: str) -> list[ReadableSpan]:
    """Returns the spans of a name, in the order of their ends."""
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def parent_of(message: Message) -> tuple[str, str]:
    """Returns the ids of the trace and of the span that a message names."""
    assert message.traceparent is not None
    _, trace_id, span_id, _ = message.traceparent.split("-")
    return trace_id, span_id


def ids(span: ReadableSpan) -> tuple[str, str]:
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


@KINDS
def test_a_span_continues_the_trace_of_its_message(app: App, client: Plain, q: Client, queue: str, form: str) -> None:
    def body(message: Message, context: Context) -> None:
        context.push(f"{queue}-out", 1)
        with trace.get_tracer("test").start_as_current_span(f"inside {queue}"):
            q.push(f"{queue}-out", 2)
        context.push(f"{queue}-out", 3, traceparent=PARENT)

    app.worker(queue, group="g", poll=0.1, name="w")(handler_of(form, body))
    q.push_many([Push(queue, 7, "p", "seven", traceparent=PARENT, tracestate="a=b")])
    with app.running():
        consumed(client, queue, "g")
    (span,), (inside,) = spans(f"process {queue}"), spans(f"inside {queue}")
    assert span.kind is SpanKind.CONSUMER and span.parent is not None and span.status.status_code is StatusCode.UNSET
    assert ids(span)[0] == TRACE_ID and f"{span.parent.span_id:016x}" == SPAN_ID
    assert dict(span.attributes or {}) == {
        "messaging.system": "queend", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": queue, "messaging.destination.partition.id": "p",
        "messaging.consumer.group.name": "g", "messaging.message.id": "seven", "messaging.queend.message.offset": 0}
    got = {one.data: one for one in q.pop(f"{queue}-out", batch=9)}
    assert parent_of(got[1]) == ids(span) and parent_of(got[2]) == ids(inside) and got[3].traceparent == PARENT
    assert [got[n].tracestate for n in (1, 2, 3)] == ["a=b", "a=b", None]


def test_a_message_without_a_trace_begins_one(app: App, client: Plain, q: Client, queue: str) -> None:
    app.worker(queue, poll=0.1, name="w")(lambda message, context: context.push(f"{queue}-out", 1))
    q.push(queue, 1)
    with app.running():
        consumed(client, queue)
    (span,) = spans(f"process {queue}")
    (message,) = q.pop(f"{queue}-out")
    assert span.parent is None and parent_of(message) == ids(span)
    assert Push(queue, 1).traceparent is None, "outside a handler"


def test_a_batch_is_linked_to_its_messages(app: App, client: Plain, q: Client, queue: str) -> None:
    app.worker(queue, batch=10, poll=0.1, name="w")(lambda messages: None)
    q.push_many([Push(queue, 1, traceparent=PARENT), Push(queue, 2), Push(queue, 3, traceparent=PARENT)])
    with app.running():
        consumed(client, queue)
    (span,) = spans(f"process {queue}")
    assert span.parent is None and ids(span)[0] != TRACE_ID
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE_ID] * 2
    assert dict(span.attributes or {})["messaging.batch.message_count"] == 3


def test_what_handlers_raise(app: App, client: Plain, q: Client, queue: str) -> None:
    errors: list[Any] = [Skip(), Later(0.05), Dead("no customer"), LookupError("gone")]
    app.worker(queue, poll=0.1, name="w")(handler_of("coroutine", lambda message, context: raised(errors.pop(0))))
    client.configure(queue, retryLimit=0)
    client.push(queue, 0, 1, 2)
    with app.running():
        consumed(client, queue)
    found = spans(f"process {queue}")
    assert [span.status.status_code for span in found] == [StatusCode.UNSET] * 2 + [StatusCode.ERROR] * 2
    assert [(span.attributes or {}).get("error.type") for span in found] == [None, None, "Dead", "LookupError"]
    assert [[event.name for event in span.events] for span in found] == [[], [], ["exception"], ["exception"]]
    assert found[2].status.description == "no customer"


def raised(error: Exception) -> None:
    raise error
