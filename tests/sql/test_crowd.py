"""Producers and consumers at once on few partitions: everything is delivered once, in order, whatever overlaps."""
from __future__ import annotations

import random
import threading
import time
import uuid

from sql.records import batch, id4, id7
from support.seeds import seed_of_run

PARTITIONS, PRODUCERS, CALLS, CONSUMERS = 6, 3, 60, 5
CUMULATIVE = b"\4"      # the status


def test_everything_is_delivered_once_and_in_order(session, partitions, group):
    parts = partitions(PARTITIONS)
    groups = [group(parts[0]), group(parts[0])]
    stored: dict[tuple[int, int], bytes] = {}
    delivered: dict[tuple[int, int], list[tuple[int, bytes]]] = {(g, p): [] for g in groups for p in parts}
    wanted: list[int] = []
    failures: list[BaseException] = []
    producing = threading.Event()
    deadline = time.monotonic() + 120

    def guarded(work, *arguments):
        def run():
            try:
                work(*arguments)
            except BaseException as error:
                failures.append(error)
                producing.set()
        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def produce(db, pick):
        for _ in range(CALLS):
            some = pick.sample(parts, pick.randrange(1, PARTITIONS))
            ids = {p: [pick.choice((id7, id7, id4))() for _ in range(pick.randrange(1, 5))] for p in some}
            for row in db.push(*[batch(p, ids[p]) for p in some]):
                p = some[row.ord]
                for i, record in enumerate(ids[p]):
                    stored[p, row.base + i] = record

    def consume(db, pick, who):
        while not failures and not (producing.is_set() and sum(len(delivered[who, p]) for p in parts) >= wanted[0]):
            assert time.monotonic() < deadline, "records are missing"
            auto, lease = pick.random() < 0.3, str(uuid.uuid4())
            some = pick.sample(parts, pick.randrange(1, PARTITIONS))
            rows = db.pop(some, who, budget=pick.randrange(1, 30), partitions=pick.randrange(1, 4),
                          auto=auto, lease=lease)
            for ord_ in {r.ord for r in rows if r.status == 1}:
                part, mine = some[ord_], db.messages([r for r in rows if r.ord == ord_])
                if auto:
                    delivered[who, part] += mine      # nobody else can have records of the same cursor in between
                    continue
                done = mine[:pick.randrange(1, len(mine) + 1)]
                row = db.ack(part, who, lease, [i for _, i in done]) if pick.random() < 0.8 else db.ack(
                    part, who, lease, [done[-1][1]], CUMULATIVE)
                assert not any(code & 24 for code in row.codes), row
                delivered[who, part] += done
                if len(done) < len(mine):
                    db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [who], [lease])

    seed = seed_of_run()
    consumers = [guarded(consume, session(), random.Random(seed + i), groups[i % 2]) for i in range(CONSUMERS)]
    producers = [guarded(produce, session(), random.Random(seed - i)) for i in range(PRODUCERS)]
    for thread in producers:
        thread.join()
    wanted.append(len(stored))
    producing.set()
    for thread in consumers:
        thread.join()
    assert not failures, failures
    for part in parts:
        expected = [stored[part, offset] for offset in range(sum(p == part for p, _ in stored))]
        for who in groups:
            # Two consumers may note what they got in the other order; what each cursor gave is in order by its offsets.
            got = sorted(delivered[who, part])
            assert got == list(enumerate(expected))
