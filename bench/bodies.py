"""What a row's body should look like: layouts and codecs over payload sizes, in the processor and in PostgreSQL.

python bench/bodies.py codecs                     no database: bytes per message, microseconds per message to pack and to unpack
python bench/bodies.py storage [--postgres MAJOR] [--few]   the backend's microseconds per message of push and pop, WAL and disk
The cheapest of several calls is the figure: what else runs on the machine only adds.
"""
from __future__ import annotations

import argparse
import base64
import ctypes
import ctypes.util
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from sql.records import varint  # noqa: E402

SIZES = [20, 130, 1024, 8192, 65536]
RECORDS = [1, 10, 100, 1000]
ROW_BYTES = 65536
WORDS = ("gift no invoice inside express parcel standard return voucher customer service please call before delivery ring twice leave with "
         "neighbour fragile glass this side up cash card paid open pending shipped").split()


def like_json(size: int) -> bytes:
    """What programs send: the benchmark's order, with as many lines of text as the size asks for."""
    if size < 100:
        return (b'{"id":%d,"ok":1}' % random.randrange(10**7))[:size]
    head = (b'{"order":"%08x","customer":"c-%04d","items":%d,"amount":%d,"currency":"USD","at":%d,"note":"'
            % (random.getrandbits(32), random.randrange(10000), random.randrange(1, 10), random.randrange(100000), time.time_ns() // 1000))
    note = ""
    while len(head) + len(note) < size - 2:
        note += random.choice(WORDS) + " "
    return head + note[:max(0, size - 2 - len(head))].encode() + b'"}'


def noise(size: int) -> bytes:
    """Nothing to find but base64's own quarter."""
    inner = max(4, size - 8)
    return b'{"x":"' + base64.b64encode(random.randbytes(inner))[:inner] + b'"}'


KINDS: dict[str, Callable[[int], bytes]] = {"JSON": like_json, "noise": noise}


def cells() -> Iterator[tuple[str, int, int]]:
    """(kind, payload size, records per row); a row has at most ROW_BYTES of payload."""
    for kind in KINDS:
        for size in SIZES:
            for records in RECORDS:
                if records == 1 or size * records <= ROW_BYTES * 2:
                    yield kind, size, min(records, max(1, ROW_BYTES // size))


# ---- layouts and codecs ------------------------------------------------------------------------------------------------

def sizes_first(payloads: list[bytes]) -> bytes:
    return b"".join(varint(len(p)) for p in payloads) + b"".join(payloads)


def sizes_inline(payloads: list[bytes]) -> bytes:
    return b"".join(varint(len(p)) + p for p in payloads)


def json_array(payloads: list[bytes]) -> bytes:
    return b"[" + b",".join(payloads) + b"]"


LAYOUTS = {"sizes": sizes_first, "inline": sizes_inline, "array": json_array}


class Zstd:
    """libzstd with contexts that are used again, as the daemon has them."""

    def __init__(self, level: int):
        self.lib = ctypes.CDLL(ctypes.util.find_library("zstd"))
        for name in ("ZSTD_createCCtx", "ZSTD_createDCtx"):
            getattr(self.lib, name).restype = ctypes.c_void_p
        for name in ("ZSTD_compressCCtx", "ZSTD_decompressDCtx"):
            getattr(self.lib, name).restype = ctypes.c_size_t
        self.c, self.d = ctypes.c_void_p(self.lib.ZSTD_createCCtx()), ctypes.c_void_p(self.lib.ZSTD_createDCtx())
        self.level = level

    def pack(self, out: ctypes.Array, raw: bytes) -> int:
        return self.lib.ZSTD_compressCCtx(self.c, out, ctypes.c_size_t(len(out)), raw, ctypes.c_size_t(len(raw)), self.level)

    def unpack(self, out: ctypes.Array, packed: bytes) -> int:
        return self.lib.ZSTD_decompressDCtx(self.d, out, ctypes.c_size_t(len(out)), packed, ctypes.c_size_t(len(packed)))


class Lz4:
    def __init__(self) -> None:
        self.lib = ctypes.CDLL(ctypes.util.find_library("lz4"))

    def pack(self, out: ctypes.Array, raw: bytes) -> int:
        return self.lib.LZ4_compress_default(raw, out, len(raw), len(out))

    def unpack(self, out: ctypes.Array, packed: bytes) -> int:
        return self.lib.LZ4_decompress_safe(packed, out, len(packed), len(out))


CODECS = {"lz4": Lz4(), **{f"zstd {level}": Zstd(level) for level in (-5, -1, 1, 2, 3)}}


def least_us(call: Callable[[], object], messages: int) -> float:
    """Microseconds of this thread per message, the least of 15 rounds, the price of calling through ctypes (0.7 us) included."""
    best, rounds = 1e9, max(1, 40 // messages)
    for _ in range(15):
        began = time.thread_time_ns()
        for _ in range(rounds):
            call()
        best = min(best, (time.thread_time_ns() - began) / rounds / messages / 1000)
    return best


def codecs() -> None:
    print("| payload | records | layout | plain B | " + " | ".join(f"{name}: B, pack, unpack us" for name in CODECS) + " |")
    print("|---" * (4 + len(CODECS)) + "|")
    for kind, size, records in cells():
        payloads = [KINDS[kind](size) for _ in range(records)]
        for layout, lay in LAYOUTS.items():
            raw = lay(payloads)
            columns = []
            for codec in CODECS.values():
                out, back = ctypes.create_string_buffer(len(raw) + len(raw) // 100 + 600), ctypes.create_string_buffer(len(raw))
                n = codec.pack(out, raw)
                packed = out.raw[:n]
                assert codec.unpack(back, packed) == len(raw) and back.raw == raw
                cost = (f", {least_us(lambda: codec.pack(out, raw), records):.2f}, {least_us(lambda: codec.unpack(back, packed), records):.2f}"
                        if layout == "sizes" else "")
                columns.append(f"{len(packed) / records:.0f}{cost}")
            print(f"| {kind} {size} | {records} | {layout} | {len(raw) / records:.0f} | " + " | ".join(columns) + " |", flush=True)


# ---- PostgreSQL --------------------------------------------------------------------------------------------------------

def storage(major: int | None, few: bool) -> None:
    from cluster import Cluster
    from functions import PARTITIONS, PUSH_CALL, Measure
    from sql.records import batch, id7, push_arrays

    cluster = Cluster(major)
    try:
        m = Measure(cluster.dsn)
        own = next((r[0] for r in m.db.execute("SELECT attcompression FROM pg_attribute WHERE attrelid = 'queend.log'::regclass AND attname = 'body'")), b"")
        print(f"PostgreSQL {m.db.info.server_version // 10000}, its own codec: {'lz4' if own in (b'l', 'l') else 'pglz'}\n")
        ways = [("own codec", None, "EXTENDED", 2040)]
        ways += [("plain", None, "EXTERNAL", 2040)]
        ways += [(f"zstd 1, target {t}", 1, "EXTERNAL", t) for t in (2040, 3000, 4080)]
        ways += [(f"zstd {level}, tried again, target 4080", level, "EXTENDED", 4080) for level in (-1, 1)]
        print("| payload | records | " + " | ".join(f"{name}: push us, pop us, WAL B, disk B" for name, *_ in ways) + " |")
        print("|---" * (2 + len(ways)) + "|")
        for kind, size, records in cells():
            if few and (kind == "noise" or size == 65536):
                continue
            rows = max(1, min(100 if records == 1 else 20, (1 << 20) // (size * records)))
            payloads = [[KINDS[kind](size) for _ in range(records)] for _ in range(rows)]
            columns = []
            for _, level, how, target in ways:
                m.db.execute("TRUNCATE queend.log, queend.cursors")
                m.db.execute(f"ALTER TABLE queend.log ALTER COLUMN body SET STORAGE {how}")
                m.db.execute(f"ALTER TABLE queend.log SET (toast_tuple_target = {target})")
                bodies = [packed(p, level) for p in payloads]
                push_us, wal, sent, used = 1e9, m.wal(), 0, []
                for call in range(30):
                    parts = [m.parts[(call * rows + i) % PARTITIONS] for i in range(rows)]
                    used.append(parts)
                    batches = [batch(p, [id7() for _ in range(records)], [], kind=0)._replace(body=b) for p, b in zip(parts, bodies)]
                    arguments = (1, sorted({p & 63 for p in parts}), *push_arrays(batches))
                    before = m.cpu_us()
                    answer = m.db.execute(PUSH_CALL, arguments, prepare=True, binary=True).fetchall()
                    push_us = min(push_us, (m.cpu_us() - before) / (rows * records))
                    assert all(row[1] == 0 for row in answer)
                    sent += rows * records
                wal = (m.wal() - wal) / sent
                disk = int(m.db.execute("SELECT pg_total_relation_size('queend.log')").fetchone()[0]) / sent
                m.db.execute("VACUUM queend.log")
                pop_us = 1e9
                for parts in used:
                    before = m.cpu_us()
                    taken = pop(m, sorted(set(parts)), records)
                    pop_us = min(pop_us, (m.cpu_us() - before) / max(1, taken))
                columns.append(f"{push_us:.2f}, {pop_us:.2f}, {wal:.0f}, {disk:.0f}")
            print(f"| {kind} {size} | {records} | " + " | ".join(columns) + " |", flush=True)
        m.db.close()
    finally:
        cluster.stop()


def pop(m, parts: list[int], records: int) -> int:
    from functions import POP_CALL
    n = len(parts)
    rows = m.db.execute(POP_CALL, (1, list(range(1, n + 1)), parts, [m.group] * n, [True] * n, [records] * n, [1] * n, [True] * n,
                                   ["00000000-0000-0000-0000-000000000001"] * n, [0] * n, [0] * n, [0] * n), prepare=True, binary=True).fetchall()
    return sum(row[4] for row in rows if row[1] == 1)


def packed(payloads: list[bytes], level: int | None) -> bytes:
    raw = sizes_first(payloads)
    if level is None:
        return b"\x10" + raw
    out = ctypes.create_string_buffer(len(raw) + len(raw) // 100 + 600)
    n = CODECS[f"zstd {level}"].pack(out, raw)
    frame = out.raw[:n]
    return b"\x11" + varint(len(raw)) + frame if len(frame) < len(raw) * 7 // 8 else b"\x10" + raw


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["codecs", "storage"])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    arguments.add_argument("--few", action="store_true", help="storage: only JSON up to 8 KB")
    given = arguments.parse_args()
    random.seed(7)
    if given.what == "codecs":
        codecs()
    else:
        storage(given.postgres, given.few)


if __name__ == "__main__":
    main()
