"""Transaction ids computed from the content of a row. A repeated task makes the same ids, whatever the order of its
rows; a changed row gets another id."""
from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

BLOCK = 1 << 19    # rows whose contents are remembered, to count repeated contents


class RowIds:
    """Makes UUIDs of version 8: 120 bits of SHA-256 over query, epoch, Spark partition, block of BLOCK rows, and the
    stored columns. The second row of the same content in a block has a 1 hashed with it, the third a 2."""

    def __init__(self, query: str, epoch: int, part: int):
        self.place = f"{query}\0{epoch}\0{part}"
        self.rows = 0
        self.seen: dict[bytes, int] = {}

    def texts(self, columns: dict[str, pa.Array]) -> pa.Array:
        """Returns the ids of the next rows of the task. columns: the columns to be stored."""
        digests: list[bytes] = []
        count = len(next(iter(columns.values())))
        at = 0
        while at < count:
            n = min(count - at, BLOCK - self.rows % BLOCK)
            digests += self._digests({name: column.slice(at, n) for name, column in columns.items()})
            at += n
            self.rows += n
            if self.rows % BLOCK == 0:
                self.seen = {}
        return _spelled(digests)

    def _digests(self, columns: dict[str, pa.Array]) -> Iterator[bytes]:
        """Yields 16 bytes for each row; all rows are of one block."""
        key = hashlib.sha256(f"{self.place}\0{self.rows // BLOCK}".encode()).digest()[:16]
        data, ends = _contents(key, columns)
        seen, sha256 = self.seen, hashlib.sha256
        at = ends[0]
        for end in ends[1:]:
            digest = sha256(data[at:end]).digest()[:16]
            at = end
            before = seen.get(digest, 0)
            seen[digest] = before + 1
            yield sha256(digest + before.to_bytes(8, "big")).digest()[:16] if before else digest


def _contents(key: bytes, columns: dict[str, pa.Array]) -> tuple[memoryview, list[int]]:
    """Returns the rows as bytes, one after the other, and the places where they begin and end. Each value has its
    length before it, so two rows are equal only if all of their values are."""
    binary = pa.large_binary()
    pieces: list[pa.Array | pa.Scalar] = [pa.scalar(key, binary)]
    for name in sorted(columns):
        column = columns[name]
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            column = column.cast(pa.string())
        length = pc.binary_length(column).cast(pa.string()).cast(binary)
        pieces += [pc.fill_null(length, b"-"), pa.scalar(b":", binary), pc.fill_null(column.cast(binary), b"")]
    rows = pc.binary_join_element_wise(*pieces, pa.scalar(b"", binary))
    _, offsets, data = rows.buffers()
    return memoryview(data), memoryview(offsets).cast("q")[rows.offset:rows.offset + len(rows) + 1].tolist()


def _spelled(digests: list[bytes]) -> pa.Array:
    """Returns digests of 16 bytes as texts of UUIDs."""
    offsets = pa.array(range(0, 32 * len(digests) + 1, 32), pa.int32())
    hexes = pa.Array.from_buffers(pa.string(), len(digests),
                                  [None, offsets.buffers()[1], pa.py_buffer(b"".join(digests).hex().encode())])
    first, second, third, fourth, last = (pc.utf8_slice_codeunits(hexes, a, b)
                                          for a, b in ((0, 8), (8, 12), (13, 16), (17, 20), (20, 32)))
    dash = pa.scalar("-")
    return pc.binary_join_element_wise(first, dash, second, pa.scalar("-8"), third, pa.scalar("-a"), fourth, dash, last,
                                       "")
