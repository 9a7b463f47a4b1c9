"""Record ids, bodies and metas as the daemon lays them out; and one session that calls the functions by name."""
from __future__ import annotations

import hashlib
import os
import random
import struct
import time
import uuid
from collections import namedtuple

import psycopg
from psycopg.rows import namedtuple_row

from queend._core import probe_zip

NOTHING = "00000000-0000-0000-0000-000000000000"
HOUR = 3_600_000_000      # µs
_last = 0


def id7(at_us: int | None = None) -> bytes:
    """A version-7 id of a moment. Those of now grow strictly, as the ids of one producer do."""
    global _last
    if at_us is None:
        _last = tick = max(_last + 1, time.time_ns() // 1000000 << 12)
    else:
        tick = at_us // 1000 << 12 | random.getrandbits(12)
    return struct.pack(">Q", tick >> 12 << 16 | 0x7000 | tick
                       & 0xFFF) + bytes([0x80 | os.urandom(1)[0] & 0x3F]) + os.urandom(7)


def id4() -> bytes:
    return uuid.uuid4().bytes


def new_lease() -> str:
    """A lease id that does not name its partition: it is remembered (queend.leases)."""
    return "0" + str(uuid.uuid4())[1:]


def id_text(text: str) -> bytes:
    """The record id of a transaction id that is no UUID."""
    raw = bytearray(hashlib.sha256(text.encode()).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def body(payloads: list[bytes]) -> bytes:
    return b"\x10" + inner(payloads)


def inner(payloads: list[bytes]) -> bytes:
    """What codecs 0 and 1 hold after their heads."""
    return b"".join(varint(len(p)) for p in payloads) + b"".join(payloads)


def packed(data: bytes, level: int = 1) -> bytes:
    """A body of codec 1."""
    return b"\x11" + varint(len(data)) + probe_zip(data, level)


def framed(data: bytes) -> bytes:
    """A body of codec 2."""
    return b"\x12" + probe_zip(data)


def meta(records: dict[int, tuple]) -> bytes | None:
    """records: place in the row → (trace id or None, subject or None, original id or None)."""
    if not records:
        return None
    out = b"\x10"
    for place, (trace, subject, text) in sorted(records.items()):
        out += varint(place) + bytes([(trace is not None) | (subject is not None) << 1 | (text is not None) << 2])
        out += trace or b""
        for part in (subject, text):
            if part is not None:
                raw = part.encode()
                out += varint(len(raw)) + raw
    return out


def as_uuid(raw: bytes | None) -> uuid.UUID | None:
    return None if raw is None else uuid.UUID(bytes=raw)


def kind_of(ids: list[bytes]) -> tuple[int, bytes | None, bytes | None]:
    """kind, lo, hi as the daemon computes them for ids that come from a client."""
    seven = sorted(i for i in ids if i[6] >> 4 == 7)
    kind = 1 if len(seven) == len(ids) else 2 if not seven else 3
    return kind, seven[0] if seven else None, seven[-1] if seven else None


Batch = namedtuple("Batch", "part skip n kind lo hi ids body meta")


def batch(part: int, ids: list[bytes], payloads: list[bytes] | None = None, metas: dict | None = None,
          kind: int | None = None, skip: int = 0, of: list[bytes] | None = None) -> Batch:
    """One batch row. of: all ids of the partition in this call where it has several rows."""
    own, lo, hi = kind_of(of or ids)
    payloads = payloads or [b'{"id":"%s"}' % i.hex().encode() for i in ids]
    return Batch(part, skip, len(ids), own if kind is None else kind, as_uuid(lo), as_uuid(hi), b"".join(ids),
                 body(payloads), meta(metas or {}))


def timed(part, ids, moments, payloads=None):
    """One batch row; moments: µs or None, one per record."""
    row = batch(part, ids, payloads)
    out = b"\x10"
    for place, due in enumerate(moments):
        if due is not None:
            out += varint(place) + b"\x08" + varint(8) + struct.pack(">q", due)
    return row._replace(meta=out if len(out) > 1 else None)


COMPARE = 4      # status of a row of the log that may hold records of a partition
PUSH = "%s::int[], %s::int[], %s::int[], %s::smallint[], %s::uuid[], %s::uuid[], %s::bytea[], %s::bytea[], %s::bytea[]"


def push_arrays(batches: list[Batch]) -> list[list]:
    return [list(column) for column in zip(*batches)] if batches else [[] for _ in Batch._fields]


class Session:
    """One connection in autocommit; each method is one call of the function of its name."""

    def __init__(self, conninfo: str):
        self.connection = psycopg.connect(conninfo, autocommit=True, row_factory=namedtuple_row)

    def close(self) -> None:
        self.connection.close()

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def rows(self, query: str, *values) -> list:
        cursor = self.connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values):
        return self.rows(query, *values)[0][0]

    def push(self, *batches: Batch, version: int = 0, compares: bool = False) -> list:
        lanes = sorted({b.part & 63 for b in batches})
        return sorted(self.rows(f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, p_compares => %s)", version, lanes,
                                *push_arrays(list(batches)), compares))

    def push_comparing(self, one: Batch):
        """A push as a daemon makes it, which compares ids by itself where it gets rows of the log. The answer of its
        second statement, if there is one."""
        rows = self.push(one, compares=True)
        if {row.status for row in rows} != {COMPARE}:
            return rows[0]
        stored = {row.seen[16 * i:16 * i + 16]: (row.base + i, row.dup_at[i] if row.dup_at else row.created_at)
                  for row in rows[::-1] for i in range(len(row.seen) // 16)}
        found = [stored.get(one.ids[i:i + 16]) for i in range(0, len(one.ids), 16)]
        if None in found:
            return self.push(one)[0]
        return rows[0]._replace(status=1, base=-1, dup_offset=[at for at, _ in found], dup_at=[at for _, at in found],
                                seen=None)

    def pop(self, parts: list[int], group: int, budget: int = 100, partitions: int = 100, auto: bool = False,
            lease: str | None = None,
            lease_us: int = 60_000_000, delay_us: int = 0, window_us: int = 0, fresh: bool = True,
            version: int = 0) -> list:
        """One request with these candidates."""
        return self.pop_many([(parts, group, budget, partitions, auto, lease, lease_us, delay_us, window_us)], fresh,
                             version)

    def pop_many(self, requests: list[tuple], fresh: bool = True, version: int = 0) -> list:
        """requests: (parts, group, budget, partitions, auto, lease, lease_us, delay_us, window_us)."""
        candidates = [(number, part, request[1]) for number, request in enumerate(requests, 1) for part in request[0]]
        reqs, parts, groups = ([c[i] for c in candidates] for i in range(3))
        columns = [[r[i] for r in requests] for i in range(2, 9)]
        columns[3] = [lease or str(uuid.uuid4()) for lease in columns[3]]
        return self.rows("SELECT * FROM queend.pop(%s, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::int[],"
                         " %s::int[], %s::boolean[],"
                         " %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])",
                         version, reqs, parts, groups, [fresh] * len(parts), *columns)

    def ack(self, part: int, group: int | None, lease: str | None, ids: list[bytes], status: bytes | None = None,
            retry_limit: int = 3, retry_delay_us: int = 0, errors: dict[int, str] | None = None):
        """One element; returns its result row."""
        errors = errors or {}
        return self.rows(ACK, 0, [part], [group], [lease], [len(ids)], [b"".join(ids)],
                         [status or bytes(len(ids))], [retry_limit],
                         [retry_delay_us], [0] * len(errors), list(errors), list(errors.values()))[0]

    def messages(self, rows: list) -> list[tuple[int, bytes]]:
        """(offset, record id) of all claimed records, in order."""
        return [(row.first + i, row.ids[16 * (row.first - row.base + i):][:16]) for row in rows if row.status == 1
                for i in range(row.take)]


ACK = ("SELECT * FROM queend.ack(%s, %s::int[], %s::int[], %s::uuid[], %s::int[], %s::bytea[], %s::bytea[],"
       " %s::int[], %s::bigint[],"
       " %s::int[], %s::int[], %s::text[])")


def payloads(db, row) -> list[str]:
    """Of a row of the log that is not compressed."""
    (sizes, starts), = db.rows("SELECT * FROM queend.body_open(%s, %s)", row.body, row.n)
    return [row.body[start:start + size].decode() for size, start in zip(sizes, starts, strict=True)]


def stored(db, part, count: int, rows: int = 1) -> list[bytes]:
    """Ids of count records in so many rows."""
    ids = [id7() for _ in range(count)]
    for at in range(0, count, count // rows):
        db.push(batch(part, ids[at:at + count // rows]))
    return ids


def addressed(db, part: int, count: int, name: str) -> list[bytes]:
    """As a redrive stores them: with their address, in one transaction."""
    ids = [id7() for _ in range(count)]
    with db.connection.transaction():
        (row,) = db.push(batch(part, ids))
        db.rows("SELECT queend.address_add(%s, %s, %s, %s)", part, row.base, row.base + count - 1, name)
    return ids


def delete(db, part, *ids: bytes) -> None:
    for one in ids:
        assert db.value("SELECT queend.message_delete(%s, %s)", part, one) is True


def consume(db, part, group, budget: int, auto: bool) -> list[int]:
    """Offsets in order until nothing is left. Every delivery is without gaps, and no lease is left behind."""
    seen = []
    for _ in range(1000):
        lease = str(uuid.uuid4())
        rows = db.pop([part], group, budget=budget, auto=auto, lease=lease,
                      version=db.value("SELECT version FROM queend.catalog"))
        got = db.messages(rows)
        if got:
            assert [at for at, _ in got] == list(range(got[0][0], got[0][0] + len(got)))
            seen += [at for at, _ in got]
            if not auto:
                assert db.ack(part, group, lease, [one for _, one in got]).released is True
        elif rows[0].status == 0:
            assert db.rows("SELECT committed + 1 - queend.head(partition_id), lease_until FROM queend.cursors"
                           " WHERE partition_id = %s AND group_id = %s", part, group) in (
                [(0, 0)], [])
            return seen
        else:
            assert rows[0].status == 4      # it has passed deleted records
    raise AssertionError("it never ends")
