"""Does merging small rows pay? CPU of compaction against what each later reader saves, and disk.

python bench/compaction.py [--postgres MAJOR]   300 partitions with 100 records each, one to a row (and in rows of 10)
CPU in microseconds per message: the server's, vacuum included, and what the service itself uses.
"""
from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


from cluster import Cluster  # noqa: E402
from functions import POP_CALL, PUSH_CALL, Measure, payload  # noqa: E402
from queend import config  # noqa: E402
from queend.service import compact  # noqa: E402
from sql.records import batch, id7, push_arrays  # noqa: E402

EACH = 100          # records per partition


class Reader:
    """Pops everything there is as a new group; 10 requests in a call, `take` records each."""

    def __init__(self, m: Measure):
        self.m, self.number = m, 0

    def read(self, take: int) -> float:
        m = self.m
        self.number += 1
        group = m.db.execute("SELECT group_id FROM queend.group_resolve((SELECT min(id) FROM queend.queues), %s, 'all', NULL)", [f"g{self.number}"]).fetchone()[0]
        used, messages = 0.0, 0
        some = m.parts if take > 1 else m.parts[:20]
        for first in range(0, len(some), 10):
            parts = m.parts[first:first + 10]
            for _ in range(EACH // take):
                before = m.cpu_us()
                rows = m.db.execute(POP_CALL, (1, list(range(1, 11)), parts, [group] * 10, [True] * 10, [take] * 10, [1] * 10, [True] * 10,
                                               ["00000000-0000-0000-0000-000000000001"] * 10, [0] * 10, [0] * 10, [0] * 10), prepare=True, binary=True).fetchall()
                used += m.cpu_us() - before
                messages += sum(row[4] for row in rows if row[1] == 1)
        assert messages == EACH * len(some), messages
        return used / messages


def disk(m: Measure) -> int:
    return int(m.db.execute("SELECT pg_total_relation_size('queend.log')").fetchone()[0])


async def merge(dsn: str) -> tuple[float, float, compact.Figures]:
    """(server, service) CPU seconds of passes until nothing is left to merge."""
    os.environ["QUEEND_COMPACT_AFTER"] = "1"
    service = compact.Compact(config.load(), dsn)
    service.after_us = 0
    assert await service._lead()
    pid = service._connection.info.backend_pid
    own, server = time.process_time(), cpu(pid)
    gone = -1
    while gone != service.figures.gone:
        gone = service.figures.gone
        await service.walk()
    result = cpu(pid) - server, time.process_time() - own, service.figures
    await service.close()
    return result


def cpu(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def run(cluster: Cluster, m: Measure, reader: Reader, size: int) -> None:
    m.db.execute("TRUNCATE queend.log, queend.cursors")
    for _ in range(EACH // size):
        rows = [batch(p, [id7() for _ in range(size)], [payload() for _ in range(size)]) for p in m.parts]
        m.db.execute(PUSH_CALL, (1, sorted({r.part & 63 for r in rows}), *push_arrays(rows)), prepare=True, binary=True).fetchall()
    messages = EACH * len(m.parts)
    m.db.execute("VACUUM (ANALYZE) queend.log")
    small = disk(m)
    before = {take: min(reader.read(take) for _ in range(2)) for take in (50, 10, 1)}
    wal = m.wal()
    server, service, figures = asyncio.run(merge(cluster.dsn))
    wal = m.wal() - wal
    began = m.cpu_us()
    m.db.execute("VACUUM queend.log")
    vacuum = (m.cpu_us() - began) / messages
    after = {take: min(reader.read(take) for _ in range(2)) for take in (50, 10, 1)}
    m.db.execute("VACUUM FULL queend.log")
    cost = (server + service) * 1e6 / messages + vacuum
    print(f"\nrows of {size}: {figures.gone} rows of {messages // size} gone in {figures.passes} passes\n"
          f"compaction, us per message: server {server * 1e6 / messages:.2f}, vacuum {vacuum:.2f}, service {service * 1e6 / messages:.2f}, sum {cost:.2f}; WAL {wal / messages:.0f} B\n"
          f"disk, B per message: {small / messages:.0f} before, {disk(m) / messages:.0f} after\n"
          + "\n".join(f"pop {take} at a time, us per message: {before[take]:.2f} before, {after[take]:.2f} after; pays from reader"
                      f" {cost / (before[take] - after[take]):.1f} on" if before[take] > after[take] else
                      f"pop {take} at a time, us per message: {before[take]:.2f} before, {after[take]:.2f} after: never pays" for take in before), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    cluster = Cluster(arguments.parse_args().postgres)
    try:
        m = Measure(cluster.dsn)
        m.parts = m.parts[:300]
        reader = Reader(m)
        for size in 1, 10:
            run(cluster, m, reader, size)
        m.db.close()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
