"""Transaction ids computed from the content of a row. A repeated task makes the same ids, whatever the order of its
rows; a changed row gets another id."""
from __future__ import annotations

import hashlib

import pyarrow as pa

from ._digests import Digests, ends_of

BLOCK = 1 << 19    # rows whose contents are remembered, to count repeated contents
TEXT = 36    # bytes of a UUID


class RowIds:
    """Makes UUIDs of version 8: 120 bits of SHA-256 over query, epoch, Spark partition, block of BLOCK rows, and the
    stored columns. The second row of the same content in a block has a 1 hashed with it, the third a 2."""

    def __init__(self, query: str, epoch: int, part: int):
        self.place = f"{query}\0{epoch}\0{part}"
        self.rows = 0
        self.seen = Digests()

    def texts(self, columns: dict[str, pa.Array]) -> pa.Array:
        """Returns the ids of the next rows of the task. columns: the columns to be stored."""
        buffers = [_buffers(columns[name]) for name in sorted(columns)]
        count = len(next(iter(columns.values())))
        texts, ends = pa.allocate_buffer(TEXT * count), pa.allocate_buffer(4 * (count + 1))
        ends_of(count, ends)
        at = 0
        while at < count:
            n = min(count - at, BLOCK - self.rows % BLOCK)
            key = hashlib.sha256(f"{self.place}\0{self.rows // BLOCK}".encode()).digest()[:16]
            self.seen.spell(key, buffers, at, n, texts)
            at += n
            self.rows += n
            if self.rows % BLOCK == 0:
                self.seen.clear()
        return pa.Array.from_buffers(pa.string(), count, [None, ends, texts])


def _buffers(column: pa.Array) -> tuple[pa.Buffer | None, pa.Buffer, pa.Buffer | None, int, bool]:
    """Returns what `Digests.spell` takes of a column: values that are neither texts nor bytes are spelled as texts."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not (wide or pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        column = column.cast(pa.string())
    valid, ends, data = column.buffers()
    return valid, ends, data, column.offset, wide
