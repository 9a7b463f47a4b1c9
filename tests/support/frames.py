"""The 2.x client's binary bodies, written and read by hand: docs/binary-formats.md."""
from __future__ import annotations

import json
import os
import struct
import time
import uuid
from typing import Any

from queend._core import probe_zip

KIND = {"Content-Type": "application/x-queen-push"}


def text16(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<H", len(raw)) + raw


def group_a(payloads: list[bytes], ids: list | None = None, queue: str | bytes = "q", partition: str | bytes = "p") -> bytes:
    """A group of form A; ids: a text each, "" for none."""
    out = text16(queue) + text16(partition) + struct.pack("<I", len(payloads))
    for place, payload in enumerate(payloads):
        out += (text16(ids[place]) if ids is not None else b"") + struct.pack("<I", len(payload)) + payload
    return out


def group_b(n: int, z: bytes, queue: str | bytes = "q", partition: str | bytes = "p") -> bytes:
    """A group of form B: n message frames in the zstd frame z."""
    return text16(queue) + text16(partition) + struct.pack("<II", n, len(z)) + z


def form_a(*groups: bytes, flags: int = 4) -> bytes:
    return b"QPB1" + bytes([flags]) + struct.pack("<I", len(groups)) + b"".join(groups)


def form_b(*groups: bytes, flags: int = 8) -> bytes:
    return form_a(*groups, flags=flags)


def transaction(head: bytes, *groups: bytes, flags: int = 0) -> bytes:
    return b"QTB1" + bytes([flags]) + struct.pack("<I", len(head)) + head + struct.pack("<I", len(groups)) + b"".join(groups)


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


def framed_group(queue: str, partition: str, values: list[Any], texts: list[str] | None = None) -> tuple[bytes, list[bytes], bytes]:
    """A group of form B with these payloads; texts: transactionIds, those of the message ids unless given. Also the message
    ids and the zstd frame."""
    ids = message_ids(len(values))
    texts = texts or [str(uuid.UUID(bytes=i)) for i in ids]
    z = probe_zip(frames([json.dumps(v).encode() for v in values], texts, ids))
    return group_b(len(values), z, queue, partition), ids, z
