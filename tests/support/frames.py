"""The 2.x client's binary bodies, written and read by hand: docs/binary-formats.md."""
from __future__ import annotations

import json
import os
import struct
import time
import uuid
from typing import Any

from queend._core import probe_unzip, probe_zip

KIND = {"Content-Type": "application/x-queen-push"}


def text16(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<H", len(raw)) + raw


def group_a(payloads: list[bytes], ids: list | None = None, queue: str | bytes = "q",
            partition: str | bytes = "p") -> bytes:
    """A group of form A; ids: a text each, "" for none."""
    return text16(queue) + text16(partition) + struct.pack("<I", len(payloads)) + b"".join(
        (text16(ids[place]) if ids is not None else b"") + struct.pack("<I", len(payload)) + payload
        for place, payload in enumerate(payloads))


def group_b(n: int, z: bytes, queue: str | bytes = "q", partition: str | bytes = "p") -> bytes:
    """A group of form B: n message frames in the zstd frame z."""
    return text16(queue) + text16(partition) + struct.pack("<II", n, len(z)) + z


def form_a(*groups: bytes, flags: int = 4) -> bytes:
    return b"QPB1" + bytes([flags]) + struct.pack("<I", len(groups)) + b"".join(groups)


def form_b(*groups: bytes, flags: int = 8) -> bytes:
    return form_a(*groups, flags=flags)


def transaction(head: bytes, *groups: bytes, flags: int = 0) -> bytes:
    return b"QTB1" + bytes([flags]) + struct.pack("<I",
                                                  len(head)) + head + struct.pack("<I", len(groups)) + b"".join(groups)


def message_ids(n: int) -> list[bytes]:
    """As the client mints them: one millisecond, then chance."""
    out = []
    for _ in range(n):
        tail = bytearray(os.urandom(10))
        tail[0], tail[2] = 0x70 | tail[0] & 15, 0x80 | tail[2] & 63
        out.append((time.time_ns() // 1000000).to_bytes(6, "big") + bytes(tail))
    return out


def frames(payloads: list[bytes], texts: list[str], ids: list[bytes]) -> bytes:
    """Message frames, back to back."""
    return b"".join(struct.pack("<IB16sH", 19 + len(t.encode()) + len(p), 0, i, len(t.encode())) + t.encode() + p
                    for p, t, i in zip(payloads, texts, ids))


def framed_group(queue: str, partition: str, values: list[Any],
                 texts: list[str] | None = None) -> tuple[bytes, list[bytes], bytes]:
    """A group of form B with these payloads; texts: transactionIds, those of the message ids unless given. Also the
    message ids and the zstd frame."""
    ids = message_ids(len(values))
    texts = texts or [str(uuid.UUID(bytes=i)) for i in ids]
    z = probe_zip(frames([json.dumps(v).encode() for v in values], texts, ids))
    return group_b(len(values), z, queue, partition), ids, z


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        assert self.at + n <= len(self.data), "cut off"
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form: str) -> int:
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        return self.take(self.number("H")).decode()


def read_pop(body: bytes) -> dict:
    """A framed answer as the JSON one would be; `codecs`: those of its records, in order. Strict: nothing may be left
    over."""
    r = Reader(body)
    assert r.take(5) == b"QPF1\x01"
    own = r.take(r.number("I"))
    queue, lease, group = r.text(), r.text(), r.text()
    messages, codecs = [], []
    for _ in range(r.number("I")):
        partition_id, partition, start, end = r.number("Q"), r.text(), r.number("Q"), r.number("Q")
        attempt = r.number("I")
        for _ in range(r.number("I")):
            base, created, count, codec = r.number("Q"), r.number("q"), r.number("I"), r.number("B")
            raw = r.take(r.number("I"))
            codecs.append(codec)
            inner = Reader(probe_unzip(raw) if codec == 1 else raw)
            for offset in range(base, base + count):
                frame = Reader(inner.take(inner.number("I")))
                flags, message_id = frame.number("B"), uuid.UUID(bytes=frame.take(16))
                trace = str(uuid.UUID(bytes=frame.take(16))) if flags & 1 else None
                text = frame.text()
                producer = frame.text() if flags & 2 else None
                if start <= offset <= end:
                    messages.append({"id": str(message_id), "transactionId": text, "traceId": trace,
                                     "data": json.loads(frame.data[frame.at:]),
                                     "producerSub": producer, "created_us": created, "partitionId": str(partition_id),
                                     "partition": partition,
                                     "leaseId": lease, "consumerGroup": group,
                                     "deliveryAttempt": attempt, "offset": offset})
            assert inner.at == len(inner.data)
    assert r.at == len(r.data)
    return {**(json.loads(own) if own else {}), "queue": queue, "leaseId": lease, "consumerGroup": group,
            "messages": messages, "codecs": codecs}
