"""A client of a stream: server-sent events as they come, each part of the chunked answer checked."""
from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .http import Closing, Gone, Wire, request, target_of


@dataclass
class Event:
    name: str
    id: str
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def stream_target(queue: str, partition: str | None = None, **query: Any) -> str:
    return target_of(f"/api/v1/stream/{quote(queue, safe='')}", partition, query)


class Feed(Closing):
    """One stream, begun when this returns."""

    def __init__(self, address: tuple[str, int], queue: str, partition: str | None = None, *, timeout: float = 60.0,
                 headers: dict[str, str] | None = None, **query: Any):
        self.wire = Wire(address, timeout)
        self.wire.send(request("GET", stream_target(queue, partition, **query), headers=headers))
        self.text = ""
        self.ended = False
        self.retry = 0
        self.comments = 0
        head = self.wire._until(b"\r\n\r\n").decode("latin-1")
        self.status = int(head.split(" ", 2)[1])
        lines = [line.partition(":") for line in head.split("\r\n")[1:] if line]
        self.headers = {name.lower(): value.strip() for name, _, value in lines}
        if self.status != 200:
            length = int(self.headers.get("content-length", 0))
            while len(self.wire.rest) < length:
                self.wire._more()
            self.text = self.wire.rest.decode()
            return
        assert self.headers["content-type"] == "text/event-stream"
        assert self.headers["transfer-encoding"] == "chunked"

    def close(self) -> None:
        self.wire.close()

    def abort(self) -> None:
        self.wire.abort()

    def _chunk(self) -> None:
        size = int(self.wire._until(b"\r\n"), 16)
        while len(self.wire.rest) < size + 2:
            self.wire._more()
        part, end, self.wire.rest = self.wire.rest[:size], self.wire.rest[size:size + 2], self.wire.rest[size + 2:]
        assert end == b"\r\n"
        self.ended = self.ended or size == 0
        self.text += part.decode()

    def event(self) -> Event | None:
        """The next event; None at the end of the stream."""
        while True:
            while "\n\n" in self.text:
                block, _, self.text = self.text.partition("\n\n")
                if event := self._read(block):
                    return event
            if self.ended:
                assert not self.text
                return None
            self._chunk()

    def _read(self, block: str) -> Event | None:
        name, mark, data = "message", "", []
        for line in block.split("\n"):
            assert "\r" not in line
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "":
                self.comments += 1
            elif field == "data":
                data.append(value)
            elif field == "id":
                mark = value
            elif field == "event":
                name = value
            elif field == "retry":
                self.retry = int(value)
            else:
                raise AssertionError(line)
        return Event(name, mark, "\n".join(data)) if data else None

    def heartbeat(self) -> None:
        """Waits for a comment."""
        before = self.comments
        while self.comments == before:
            if "\n\n" not in self.text:
                self._chunk()
                continue
            block, _, self.text = self.text.partition("\n\n")
            assert self._read(block) is None, block

    def expected(self, name: str) -> Event:
        """The next one, of this name. Gone: the stream has ended."""
        event = self.event()
        if event is None or event.name == "end":
            raise Gone("the stream ended" if event is None else event.data)
        assert event.name == name, event
        return event

    def message(self) -> dict:
        event = self.expected("message")
        message = event.json
        assert event.id == f"{message['partitionId']}:{message['offset']}"
        return message

    def messages(self, number: int) -> list[dict]:
        return [self.message() for _ in range(number)]

    def window(self) -> dict:
        event = self.expected("window")
        window = event.json
        last = window["messages"][-1]
        assert event.id == f"{last['partitionId']}:{last['offset']}"
        return window

    def silent(self, seconds: float = 0.3) -> bool:
        """Nothing but signs of life came for so long: only for what has happened already by all that can be seen."""
        self.wire.socket.settimeout(seconds)
        try:
            self._chunk()
            return "data" not in self.text
        except TimeoutError:
            return True
        finally:
            self.wire.socket.settimeout(60)

    def over(self) -> bool:
        """The other side has closed it, once all that is left was read."""
        try:
            while True:
                self.wire._more()
        except Gone:
            return True
