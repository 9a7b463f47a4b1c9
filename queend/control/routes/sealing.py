"""Payloads of encrypted queues, read and written by the control plane (docs/encryption.md)."""
from __future__ import annotations

from typing import Any

from ..._core import seal_envelope, seal_opened, seal_payload
from ..http.answer import Refusal


def revealed(row: Any, payload: bytes) -> tuple[bytes, bool]:
    """Returns (the payload as it was pushed, whether it is stored sealed) of a row with queue, encrypted (the queue's
    option) and seal (the id of its key). A payload that cannot be opened stays as it is stored, and a log line says
    so."""
    if row.seal is None and not row.encrypted:
        return payload, False
    plain = seal_opened(row.queue, row.seal, payload)
    return (payload, row.seal is not None) if plain is None else (plain, True)


def sealed(queue: str, payload: bytes) -> tuple[bytes, str]:
    """Returns the sealed payload for an encrypted queue, and the id of its key. Refusal(500) without a key: a payload
    is never stored in clear instead."""
    try:
        return seal_payload(queue, payload)
    except LookupError:
        raise Refusal(500, "The queue is encrypted and this server has no key", "key_missing") from None


def moved(row: Any, payload: bytes, queue: str, encrypted: bool) -> tuple[bytes, str | None]:
    """Returns what to store when a stored record (a row as in `revealed`) moves into a queue: the payload and the id of
    its key. A sealed payload stays sealed: unchanged in its own queue, sealed again for any other, encrypted or not.
    Refusal(500) if that needs a missing key."""
    shaped = row.seal is not None or row.encrypted and seal_envelope(payload)
    if shaped and queue == row.queue:
        return payload, row.seal
    if shaped:
        plain = seal_opened(row.queue, row.seal, payload)
        if plain is None:
            raise Refusal(500, f"A message of queue {row.queue} is sealed with a key that this server does not have",
                          "key_missing")
        return sealed(queue, plain)
    return sealed(queue, payload) if encrypted else (payload, None)
