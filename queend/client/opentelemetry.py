"""A middleware that continues the traces of messages: `app.middleware(traced)`. Requires opentelemetry-api."""
from __future__ import annotations

from typing import Union

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .handlers import CallNext
from .message import TRACE, Message
from .outcome import Later, Skip

TRACER = trace.get_tracer("queend.client")
W3C = TraceContextTextMapPropagator()


async def traced(argument: Union[Message, list[Message]], call_next: CallNext) -> None:
    """Runs a handler in a span `process QUEUE`, whose parent is the span of the message's `traceparent`; that of a
    batch has a link to each instead. What is pushed inside continues the trace. Errors of the handler, except `Skip`
    and `Later`, are those of the span."""
    messages = [argument] if isinstance(argument, Message) else argument
    parents = [_parent(one) for one in messages]
    links: list[Link] = []
    if isinstance(argument, Message):
        (parent,) = parents
    else:
        parent = Context()
        contexts = [trace.get_current_span(one).get_span_context() for one in parents]
        links = [Link(context) for context in contexts if context.is_valid]
    token = TRACE.set(_current)
    try:
        with TRACER.start_as_current_span(f"process {messages[0].queue}", parent, SpanKind.CONSUMER,
                                          _attributes(argument, messages[0]), links, record_exception=False,
                                          set_status_on_exception=False) as span:
            try:
                await call_next()
            except Exception as error:
                if not isinstance(error, (Skip, Later)):
                    span.record_exception(error)
                    span.set_attribute("error.type", type(error).__qualname__)
                    span.set_status(StatusCode.ERROR, str(error))
                raise
    finally:
        TRACE.reset(token)


def _parent(message: Message) -> Context:
    """Returns the trace context of a message, an empty one if it has none."""
    carrier = {"traceparent": message.traceparent or "", "tracestate": message.tracestate or ""}
    return W3C.extract(carrier, Context())


def _attributes(argument: Union[Message, list[Message]], first: Message) -> dict[str, Union[str, int]]:
    """Returns what the semantic conventions for messaging ask for."""
    found: dict[str, Union[str, int]] = {
        "messaging.system": "queend", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": first.queue}
    if first.group is not None:
        found["messaging.consumer.group.name"] = first.group
    if isinstance(argument, Message):
        found |= {"messaging.destination.partition.id": first.partition, "messaging.message.id": first.id,
                  "messaging.queend.message.offset": first.offset}
    else:
        found["messaging.batch.message_count"] = len(argument)
    return found


def _current() -> tuple[str | None, str | None]:
    """Returns traceparent and tracestate of the current span."""
    carrier: dict[str, str] = {}
    W3C.inject(carrier)
    return carrier.get("traceparent"), carrier.get("tracestate")
