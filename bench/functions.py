"""CPU of the hot functions alone: one session, prepared calls with binary parameters, a cluster of its own.

python bench/functions.py [--postgres MAJOR]   prints one line per case: microseconds of the backend per message, the
cheapest call and the mean of all, and WAL bytes per message. The cheapest call is the figure to compare on a busy
machine.
"""
from __future__ import annotations

import argparse
import os
import random
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from cluster import Cluster  # noqa: E402
from queend.postgres.conninfo import HOT_PLANS  # noqa: E402
from queend.postgres.migrate import migrate  # noqa: E402
from sql.records import ACK, PUSH, Batch, batch, id4, id7, push_arrays  # noqa: E402

PARTITIONS = 1000
PUSH_CALL = f"SELECT * FROM queend.push(%s::bigint, %s::int[], {PUSH})".replace("%s", "%b")
PUSH_KNOWN = PUSH_CALL.replace(")", ", p_known => %b::bigint[], p_known_at => %b::bigint[])")
PUSH_NAMED = PUSH_CALL.replace(")", ", p_hint => %b::bigint[], p_known => %b::bigint[], p_known_at => %b::bigint[])")
POP_CALL = ("SELECT * FROM queend.pop(%s::bigint, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::int[],"
            " %s::int[], %s::boolean[],"
            " %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])").replace("%s", "%b")
ACK_LEASED = ("SELECT * FROM queend.ack_leased(%s::bigint, %s::int[], %s::int[], %s::uuid[], %s::bigint[],"
              " %s::bigint[], %s::bigint[], %s)"
              ).replace("%s", "%b")
ACK_CALL = ACK.replace("queend.ack(%s,", "queend.ack(%s::bigint,").replace("%s", "%b")


class Measure:
    def __init__(self, conninfo: str):
        migrate(conninfo)
        self.db = psycopg.connect(conninfo, autocommit=True, options=HOT_PLANS)
        found = self.db.execute("SELECT ord, partition_id FROM queend.resolve(%s, %s)",
                                (["bench"] * PARTITIONS, [f"p{i}" for i in range(PARTITIONS)])).fetchall()
        self.parts = [part for _, part in sorted(found)]
        self.group = self.db.execute("SELECT group_id FROM queend.group_resolve((SELECT min(id)"
                                     " FROM queend.queues), '__QUEUE_MODE__', 'all', NULL)"
                                     ).fetchone()[0]

    def cpu_us(self) -> float:
        """What this session's backend has used so far."""
        return int(Path(f"/proc/{self.db.info.backend_pid}/schedstat").read_text().split()[0]) / 1000

    def wal(self) -> int:
        return int(self.db.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])

    def case(self, label: str, rounds: int, call: Callable[[int], int]) -> None:
        """call(round) makes one call and returns how many messages it handled."""
        cost, messages, wal = [], [], self.wal()
        for number in range(rounds):
            before = self.cpu_us()
            count = call(number)
            if count:
                cost.append((self.cpu_us() - before) / count)
                messages.append(count)
        mean = sum(c * m for c, m in zip(cost, messages)) / sum(messages)
        print(f"{label:38} {min(cost):8.2f} {mean:8.2f} {(self.wal() - wal) / sum(messages):8.0f}", flush=True)

    def push(self, groups: int, size: int, make: Callable[[], bytes]) -> Callable[[int], int]:
        def call(_: int) -> int:
            rows: list[Batch] = [batch(p, [make() for _ in range(size)], [payload() for _ in range(size)])
                                 for p in random.sample(self.parts, groups)]
            answer = self.db.execute(PUSH_CALL, (1, sorted({r.part & 63 for r in rows}), *push_arrays(rows)),
                                     prepare=True, binary=True).fetchall()
            assert all(row[1] == 0 for row in answer)
            return groups * size
        return call

    def push_known(self, groups: int, size: int) -> Callable[[int], int]:
        """Version-4 ids of partitions whose ids the caller remembers: it knows each head and its moment."""
        known: dict[int, tuple[int, int]] = {}

        def call(_: int) -> int:
            rows = [batch(p, [id4() for _ in range(size)], [payload() for _ in range(size)])
                    for p in random.sample(self.parts, groups)]
            heads = [known.get(r.part, (-2, 0)) for r in rows]
            answer = self.db.execute(PUSH_KNOWN, (1, sorted({r.part & 63 for r in rows}), *push_arrays(rows),
                                                  *map(list, zip(*heads))),
                                     prepare=True, binary=True).fetchall()
            for row in answer:
                assert row[1] == (0 if rows[row[0]].part in known else 1)
                known[rows[row[0]].part] = row[2] + size, row[3]
            return groups * size

        while len(known) < PARTITIONS:
            call(0)
        return call

    def push_named(self, groups: int, size: int) -> Callable[[int], int]:
        """The caller wrote all partitions last and names their heads."""
        ends = {part: (head, at) for part, head, at in self.db.execute(
            "SELECT DISTINCT ON (partition_id) partition_id, base + n, created_at FROM queend.log"
            " ORDER BY partition_id, base DESC")}

        def call(_: int) -> int:
            rows = [batch(p, [id7() for _ in range(size)], [payload() for _ in range(size)])
                    for p in random.sample(list(ends), groups)]
            ((ord_, _, _, at, *_),) = self.db.execute(
                PUSH_NAMED, (1, sorted({r.part & 63 for r in rows}), *push_arrays(rows), [-1] * groups,
                             *map(list, zip(*(ends[r.part] for r in rows)))), prepare=True, binary=True).fetchall()
            assert ord_ == -2
            for row in rows:
                ends[row.part] = ends[row.part][0] + size, at
            return groups * size
        return call

    def pop(self, requests: int, auto: bool, claimed: list | None = None) -> Callable[[int], int]:
        """Each request takes 50 records of one partition; partitions in turn. claimed: gets (partitions, lease, ids,
        first offset and number) of each call."""
        def call(number: int) -> int:
            parts = [self.parts[(number * requests + i) % PARTITIONS] for i in range(requests)]
            lease = uuid.uuid4()
            rows = self.db.execute(POP_CALL, (
                1, list(range(1, requests + 1)), parts, [self.group] * requests, [True] * requests, [50] * requests,
                [1] * requests, [auto] * requests,
                [lease] * requests, [60_000_000] * requests, [0] * requests, [0] * requests), prepare=True,
                                   binary=True).fetchall()
            if claimed is not None:
                claimed.append((parts, lease, [b"".join(r[8] for r in rows if r[0] == i) for i in range(requests)],
                                [(min(r[3] for r in rows if r[0] == i), sum(r[4] for r in rows if r[0] == i))
                                 for i in range(requests)]))
            return sum(row[4] for row in rows if row[1] == 1)
        return call

    def ack(self, claimed: list) -> Callable[[int], int]:
        def call(number: int) -> int:
            parts, lease, ids, _ = claimed[number]
            sizes = [len(i) // 16 for i in ids]
            answer = self.db.execute(ACK_CALL, (1, parts, [self.group] * len(parts), [lease] * len(parts), sizes, ids,
                                                [bytes(n) for n in sizes],
                                                [3] * len(parts), [0] * len(parts), [], [], []), prepare=True,
                                     binary=True).fetchall()
            assert all(row[3] for row in answer)
            return sum(sizes)
        return call

    def ack_leased(self, claimed: list) -> Callable[[int], int]:
        def call(number: int) -> int:
            asked = sorted((part, *window) for part, window in zip(claimed[number][0], claimed[number][3]))
            parts, first, sizes = ([row[i] for row in asked] for i in range(3))
            after = [a + n for a, n in zip(first, sizes)]
            answer = self.db.execute(ACK_LEASED, (1, parts, [self.group] * len(parts), [claimed[number][1]]
                                                  * len(parts), first, [a - 1 for a in after], after, False),
                                     prepare=True, binary=True).fetchall()
            assert len(answer) == len(parts) and all(row[2] for row in answer)
            return sum(sizes)
        return call


def payload() -> bytes:
    return (b'{"order":"%08x","customer":"c-%04d","items":%d,"amount":%d,"currency":"USD",'
            b'"at":1795265509355199,"note":"gift, no invoice inside"}'
            % (random.getrandbits(32), random.randrange(10000), random.randrange(1, 10), random.randrange(100000)))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--postgres", type=int, metavar="MAJOR")
    cluster = Cluster(arguments.parse_args().postgres)
    try:
        m = Measure(cluster.dsn)
        print(f"PostgreSQL {m.db.info.server_version // 10000}, {os.cpu_count()} processors\n{'us per message':38}"
              f" {'cheapest':>8} {'mean':>8} {'WAL B':>8}")
        m.push(1000, 1, id7)(0)
        m.case("push 1000 partitions x 1", 60, m.push(1000, 1, id7))
        m.case("push 100 x 1", 100, m.push(100, 1, id7))
        m.case("push 300 x 1", 100, m.push(300, 1, id7))
        m.case("push 300 x 1, heads named", 100, m.push_named(300, 1))
        m.case("push 1 x 1", 1000, m.push(1, 1, id7))
        m.case("push 1 x 1, heads named", 1000, m.push_named(1, 1))
        m.case("push 10 x 100", 100, m.push(10, 100, id7))
        m.case("push 1000 x 1, version 4 ids", 40, m.push(1000, 1, id4))
        m.case("push 10 x 100, version 4 ids", 40, m.push(10, 100, id4))
        m.case("push 1000 x 1, version 4, remembered", 40, m.push_known(1000, 1))
        m.case("push 10 x 100, version 4, remembered", 40, m.push_known(10, 100))
        m.case("pop 10 requests x 50 single rows", 100, m.pop(10, auto=True))
        for _ in range(60):
            m.push(1000, 1, id7)(0)
        claimed: list = []
        m.case("pop 10 x 50, with lease", 100, m.pop(10, False, claimed))
        m.case("ack 10 x 50", 50, m.ack(claimed))
        m.case("ack 10 x 50, by lease", 50, m.ack_leased(claimed[50:]))
        m.db.close()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
