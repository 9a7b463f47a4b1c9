"""Sends spans of traces to a collector, by OTLP over HTTP (JSON): spans that the data plane recorded of pushes,
deliveries, acknowledgments and cycles (core/net/spans). Nothing waits for it: the data plane keeps a limited number.
Spans beyond that, and those that the collector refuses, are dropped and counted."""
from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import secrets
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import orjson

from .. import __version__, log
from ..dial import connection
from ..settings.lists import listed
from ..settings.model import Settings
from .running import Running

EVERY_S = 1.0
BATCH = 512               # spans of one request
TIMEOUT_S = 5.0
PATH = "/v1/traces"
PRODUCER, CONSUMER, CLIENT = 4, 5, 3      # SpanKind
KINDS = (("send", "send", PRODUCER), ("deliver", "receive", CONSUMER), ("settle", "settle", CLIENT),
         ("cycle", "process", CONSUMER))
OK, FAILED = 1, 2


class Tracing(Running):
    """The background service. Requires `open` and `close` on the same running loop. Does nothing without
    QUEEND_OTLP_ENDPOINT."""

    def __init__(self, settings: Settings, core: Any):
        self.settings, self.core = settings, core
        self.sent = self.failed = 0
        self._told = False
        self.resource = {"attributes": list(attributes({
            "service.name": "queend", "service.version": __version__, "host.name": socket.gethostname(),
            "process.pid": os.getpid()}))}

    def open(self) -> None:
        if self.settings.queend_otlp_endpoint:
            super().open()

    async def close(self) -> None:
        """Sends the remaining spans, if the collector takes them."""
        if self._task is not None:
            await super().close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._send(), TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self._send()

    async def _send(self) -> None:
        found = self.core.spans()
        for i in range(0, len(found), BATCH):
            batch = found[i:i + BATCH]
            try:
                await asyncio.to_thread(self._post, self.body(batch))
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.failed += len(found) - i
                if not self._told:
                    log.line("warn", "traces_not_sent", f"{type(error).__name__}: {error}")
                self._told = True
                return
            self.sent += len(batch)
            self._told = False

    def _post(self, body: bytes) -> None:
        collector = connection(self.settings.queend_otlp_endpoint, TIMEOUT_S)
        try:
            path = urlsplit(self.settings.queend_otlp_endpoint).path.rstrip("/")
            collector.request("POST", path if path.endswith(PATH) else path + PATH, body,
                              {"Content-Type": "application/json", **dict(headers(self.settings.queend_otlp_headers))})
            answer = collector.getresponse()
            answer.read(1 << 16)
            if answer.status >= 300:
                raise http.client.HTTPException(f"the collector answered {answer.status}")
        finally:
            collector.close()

    def body(self, found: list[tuple[Any, ...]]) -> bytes:
        """Returns an ExportTraceServiceRequest."""
        return orjson.dumps({"resourceSpans": [{"resource": self.resource, "scopeSpans": [
            {"scope": {"name": "queend", "version": __version__}, "spans": [span(one) for one in found]}]}]})


def span(one: tuple[Any, ...]) -> dict[str, Any]:
    """Returns a span in the form of the messaging conventions."""
    kind, trace, parent, start, end, status, count, offset, queue, partition, group = one
    name, operation, role = KINDS[kind]
    return {"traceId": trace, "spanId": secrets.token_hex(8), "parentSpanId": parent, "flags": 0x101,
            "name": f"{name} {queue}" if queue else name, "kind": role,
            "startTimeUnixNano": str(start * 1000), "endTimeUnixNano": str(end * 1000),
            "status": {"code": OK if status < 400 else FAILED}, "attributes": list(attributes({
                "messaging.system": "queend", "messaging.operation.name": name, "messaging.operation.type": operation,
                "messaging.destination.name": queue, "messaging.destination.partition.id": partition,
                "messaging.consumer.group.name": group, "messaging.batch.message_count": count if count != 1 else None,
                "messaging.queend.message.offset": offset if offset >= 0 else None}))}


def attributes(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the attributes that have a value."""
    for name, value in values.items():
        if value not in (None, ""):
            yield {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def headers(text: str) -> Iterator[tuple[str, str]]:
    """Parses name=value pairs with commas."""
    for one in listed(text):
        name, _, value = one.partition("=")
        yield name.strip(), value.strip()
