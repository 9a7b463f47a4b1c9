"""Transaction ids that follow from where a row stands: a task that runs again, or a speculative one, makes the same."""
from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

BLOCK = 1 << 16    # rows whose ids differ in the last four digits alone
_last: pa.Array | None = None


def _tails() -> pa.Array:
    global _last
    if _last is None:
        _last = pa.array([f"{n:04x}" for n in range(BLOCK)])
    return _last


class RowIds:
    """UUIDs of version 8: 74 bits of SHA-256(query, epoch, Spark partition), 48 bits of the row's number."""

    def __init__(self, query: str, epoch: int, part: int):
        digits = hashlib.sha256(f"{query}\0{epoch}\0{part}".encode()).hexdigest()
        self.head = f"{digits[:8]}-{digits[8:12]}-8{digits[12:15]}-{'89ab'[int(digits[15], 16) & 3]}{digits[16:19]}-"

    def texts(self, first: int, n: int) -> pa.Array:
        """Those of n rows from number `first` on."""
        pieces = []
        while n > 0:
            at = first % BLOCK
            piece = _tails().slice(at, min(n, BLOCK - at))
            pieces.append(pc.binary_join_element_wise(pa.scalar(f"{self.head}{first // BLOCK:08x}"), piece, ""))
            first += len(piece)
            n -= len(piece)
        return pa.concat_arrays(pieces) if pieces else pa.array([], pa.string())
