"""Records of the log as the control plane names, reads and writes them; the formats are in docs/storage.md."""
from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from typing import Any

import orjson

from .._core import read_partition_number, record_read

CANONICAL = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
PARTITION_MOST = 2**31 - 1


def record_id(transaction_id: str) -> bytes:
    """The 16 bytes a transaction id is stored as."""
    if CANONICAL.fullmatch(transaction_id):
        return uuid.UUID(transaction_id).bytes
    raw = bytearray(hashlib.sha256(transaction_id.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def partition_number(seed: bytes, text: str) -> int | None:
    """The number of a partition that is named as on the wire, or in decimals; None for what cannot be one."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 10 and int(text) <= PARTITION_MOST else None
    return read_partition_number(seed, text.encode())


def opened(row: Any) -> tuple[bytes, str, str]:
    """(payload as JSON, transactionId, message id) of a row with payload or body, n, place, and transaction_id and id as far as
    the database knows them."""
    if row.body is None:
        return row.payload.encode(), row.transaction_id, row.id
    payload, text, message = record_read(row.body, row.n, row.place)
    return payload or b"null", text if text is not None else row.transaction_id, str(uuid.UUID(bytes=message)) if message else row.id


def embedded(payload: bytes) -> orjson.Fragment:
    """A payload in an answer, as it is."""
    return orjson.Fragment(payload)


_last = 0


def id7() -> uuid.UUID:
    """A version-7 id of now; each one that this process makes is larger than the one before."""
    global _last
    _last = tick = max(_last + 1, time.time_ns() // 1_000_000 << 12)
    return uuid.UUID(bytes=(tick >> 12 << 16 | 0x7000 | tick & 0xFFF).to_bytes(8) + bytes([0x80 | os.urandom(1)[0] & 0x3F]) + os.urandom(7))


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def body_of(payloads: list[bytes]) -> bytes:
    return b"\x10" + b"".join(varint(len(one)) for one in payloads) + b"".join(payloads)


def meta_of(extras: list[tuple[uuid.UUID | None, str | None]]) -> bytes:
    """extras: per record its trace id and its producer's subject."""
    out = b""
    for place, (trace, subject) in enumerate(extras):
        if trace is not None or subject is not None:
            out += varint(place) + bytes([(trace is not None) | (subject is not None) << 1]) + (trace.bytes if trace else b"")
            if subject is not None:
                out += varint(len(subject.encode())) + subject.encode()
    return b"\x10" + out if out else b""
