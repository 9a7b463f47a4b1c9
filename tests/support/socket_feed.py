"""A client of a stream over a WebSocket, made by hand: it can say what no library would."""
from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import Any

from .feed import stream_target
from .http import Closing, Gone, Wire, request

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(op: int, payload: bytes = b"", *, last: bool = True, masked: bool = True, reserved: int = 0,
          wide: int = 0) -> bytes:
    """wide: bytes of the length, whatever it is."""
    size = len(payload)
    wide = wide or (0 if size < 126 else 2 if size < 65536 else 8)
    head = bytes([(0x80 if last else 0) | reserved | op,
                  (0x80 if masked else 0) | {0: size, 2: 126, 8: 127}[wide]]) + (size.to_bytes(wide) if wide else b"")
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i & 3] for i, byte in enumerate(payload))


def handshake(queue: str, partition: str | None = None, headers: dict[str, str | None] | None = None,
              **query: Any) -> tuple[bytes, str]:
    """The request, and what its answer must accept."""
    key = base64.b64encode(os.urandom(16)).decode()
    lines = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
             **(headers or {})}
    accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return (request("GET", stream_target(queue, partition, **query),
                    headers={name: value for name, value in lines.items() if value is not None}),
            base64.b64encode(accept).decode())


class SocketFeed(Closing):
    """One stream, begun when this returns. Raises ConnectionRefusedError if the answer is 503. first: a request that is
    answered before it; behind: frames. Both are sent in one write with the handshake. wire: a connection that is open
    already."""

    def __init__(self, address: tuple[str, int], queue: str, partition: str | None = None, *, timeout: float = 60.0,
                 headers: dict[str, str | None] | None = None, source: str = "", first: bytes = b"",
                 behind: bytes = b"", wire: Wire | None = None, **query: Any):
        asked, accept = handshake(queue, partition, headers, **query)
        self.wire = wire or Wire(address, timeout, source)
        self.wire.send(first + asked + behind)
        if first:
            self.wire.receive()
        answer = self.wire.receive(head_only=True)
        self.status = answer.status
        if answer.status == 503:
            self.wire.close()
            raise ConnectionRefusedError(self.wire.rest.decode())
        assert answer.status == 101, (answer.status, self.wire.rest)
        assert answer.headers["sec-websocket-accept"] == accept
        assert answer.headers["upgrade"] == "websocket"
        self.said: list[Any] = []        # answers that came while a message was waited for
        self.given: list[dict] = []      # and the other way round

    def close(self) -> None:
        self.wire.close()

    def frame(self) -> tuple[int, bytes]:
        """The next one: its operation and payload. The server's are whole and not masked, their lengths shortest."""
        wire = self.wire
        while len(wire.rest) < 2:
            wire._more()
        op, size = wire.rest[0] & 15, wire.rest[1]
        assert wire.rest[0] & 0xf0 == 0x80 and size < 128
        at = 2
        if size > 125:
            at = 4 if size == 126 else 10
            while len(wire.rest) < at:
                wire._more()
            least = 126 if size == 126 else 65536
            size = int.from_bytes(wire.rest[2:at])
            assert size >= least
        while len(wire.rest) < at + size:
            wire._more()
        payload, wire.rest = wire.rest[at:at + size], wire.rest[at + size:]
        return op, payload

    def _next(self) -> Any:
        while True:
            op, payload = self.frame()
            if op == PING:
                self.wire.send(frame(PONG, payload))
            elif op == CLOSE:
                raise Gone(payload)
            else:
                assert op == TEXT, (op, payload)
                return json.loads(payload)

    def _take(self) -> None:
        value = self._next()
        came = value.get("message") or value.get("window")
        (self.said if came is None else self.given).append(value if came is None else came)

    def message(self) -> dict:
        while not self.given:
            self._take()
        return self.given.pop(0)

    window = message

    def messages(self, number: int) -> list[dict]:
        return [self.message() for _ in range(number)]

    def answer(self) -> dict:
        while not self.said:
            self._take()
        return self.said.pop(0)

    def say(self, value: Any) -> None:
        self.wire.send(frame(TEXT, value if isinstance(value, bytes) else json.dumps(value).encode()))

    def ask(self, value: Any) -> dict:
        self.say(value)
        return self.answer()

    def ack(self, message: dict, status: str = "completed", **more: Any) -> dict:
        answer = self.ask({"ack": {"transactionId": message["transactionId"], "partitionId": message["partitionId"],
                                   "leaseId": message["leaseId"], "status": status, **more}})
        assert answer["status"] == 200, answer
        return answer["ack"][0]

    def closed(self) -> tuple[int, str]:
        """Code and reason of the last frame, after which the connection ends."""
        while True:
            op, payload = self.frame()
            if op == CLOSE:
                self.wire.send(frame(CLOSE, payload))
                assert self.wire.ended()
                return int.from_bytes(payload[:2]), payload[2:].decode()
