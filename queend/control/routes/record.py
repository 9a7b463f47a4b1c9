"""Names and payloads of log records for the control plane; the formats are in docs/inside/storage.md."""
from __future__ import annotations

import uuid
from typing import Any

import orjson

from ..._core import read_partition_number, record_read

PARTITION_MOST = 2**31 - 1


def partition_number(seed: bytes, text: str) -> int | None:
    """Returns the number of a partition given in its wire spelling or in decimals; None for any other text."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 10 and int(text) <= PARTITION_MOST else None
    return read_partition_number(seed, text.encode())


def opened(row: Any) -> tuple[bytes, str, str]:
    """Returns (payload as JSON, transactionId, message id) of a row with payload or body, n, place, and transaction_id
    and id as far as the database knows them."""
    if row.body is None:
        return row.payload.encode(), row.transaction_id, row.id
    payload, text, message = record_read(row.body, row.n, row.place)
    id = str(uuid.UUID(bytes=message)) if message else row.id
    return payload or b"null", row.transaction_id if text is None else text, id


def embedded(payload: bytes) -> orjson.Fragment:
    """Embeds a payload in an answer, unchanged."""
    return orjson.Fragment(payload)
