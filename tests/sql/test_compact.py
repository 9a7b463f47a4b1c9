"""Compaction: rows become fewer, and nobody who reads, retries or looks for an id can tell."""
from __future__ import annotations

import random
import time

import pytest

from queend._core import probe_batchrow, rows_merge

from sql.records import Session, batch, id4, id7, id_text
from sql.retained import floor, live, retain


def compact(db: Session, least: int = 2, limit: int = 1000, age_us: int = 0, compress_from: int = 1024) -> int:
    """One pass over the log, as the service makes it. Returns how many rows are gone."""
    gone, at = 0, (0, -1)
    while at[0] is not None:
        *runs, last = db.rows("SELECT * FROM queend.compact_find(%s, %s, %s, queend.now_us() - %s, %s)", *at, limit, age_us, least)
        for run in runs:
            rows = db.rows("SELECT n, created_at, ids, body, meta FROM queend.compact_rows(ARRAY[%s::int], ARRAY[%s::bigint], ARRAY[%s::bigint])", *run[:3])
            assert len(rows) == run.rows >= least
            gone += put(db, run, rows_merge([tuple(r) for r in rows], compress_from))
        at = last[:2]
    return gone


def put(db: Session, run, merged) -> int:
    return db.value("SELECT queend.compact(%s, ARRAY[%s::int], ARRAY[%s::bigint], ARRAY[%s::bigint], ARRAY[%s::int], ARRAY[%s::bigint], ARRAY[%s::bytea],"
                    " ARRAY[%s::bytea], ARRAY[%s::bytea])", run.partition_id & 63, *run, *merged)


def read(db: Session, part: int) -> list[tuple]:
    """Every record of a partition, as a reader gets it: offset, moment, id, payload, extras."""
    out = []
    for row in db.rows("SELECT base, n, created_at, ids, body, meta FROM queend.log WHERE partition_id = %s ORDER BY base", part):
        ages: list[int] = []
        for i, record in enumerate(probe_batchrow(row.ids, row.body, row.meta, row.n, 0, ages)):
            out.append((row.base + i, row.created_at - ages[i], *record))
    assert [r[0] for r in out] == list(range(out[0][0], out[0][0] + len(out)))
    return out


def rows(db: Session, part: int) -> list[tuple[int, int]]:
    return [tuple(r) for r in db.rows("SELECT base::int, n FROM queend.log WHERE partition_id = %s ORDER BY base", part)]


def fill(db: Session, part: int, count: int = 10) -> None:
    for _ in range(count):
        db.push(batch(part, [id7()]))


def test_what_every_reader_sees_stays(db, partitions):
    """Singles and small batches, with and without extras, of different moments; merged twice."""
    part, = partitions()
    for n in range(20):
        metas = {0: (b"\xaa" * 16, "me", f"text {n}")} if n % 3 == 0 else None
        db.push(batch(part, [id7() for _ in range(1 + n % 4)], [b'{"n":%d,"x":"%s"}' % (n, b"y" * 20)] * (1 + n % 4), metas))
    before = read(db, part)
    moments = [r[1] for r in before]
    fetched = db.rows("SELECT record_offset, record_id, transaction_id, trace_id, producer_sub, stored_at FROM queend.records(%s, 0, 1000)", part)
    assert compact(db, limit=7) > 0 and compact(db) > 0 and compact(db) == 0
    assert len(rows(db, part)) == 2 and rows(db, part)[1][1] == 4
    assert read(db, part) == before
    assert db.rows("SELECT record_offset, record_id, transaction_id, trace_id, producer_sub, stored_at FROM queend.records(%s, 0, 1000)", part) == fetched
    for at in {*moments, *(m + 1 for m in moments)}:
        assert db.value("SELECT queend.offset_since(%s, %s)", part, at) == sum(m < at for m in moments)
    for offset, moment, *_ in before:
        assert db.value("SELECT queend.delayed_until(%s, %s, %s)", part, offset, moment) == 0
        assert db.value("SELECT queend.delayed_until(%s, %s, %s) > 0", part, offset, moment - 1)


def test_ids_are_found_with_their_moments(db, partitions):
    part, = partitions()
    ids = [make() for make in (id7, id4, id7, lambda: id_text("t"), lambda: id7(int(time.time() * 1e6) - 3_600_000_000), id7, id7, id7)]
    for one in ids:
        db.push(batch(part, [one]))
    expected = [(r[0], r[1]) for r in read(db, part)]
    assert compact(db) == 6
    assert [(found, stored) for _, found, stored in sorted(db.rows("SELECT * FROM queend.ids_find(%s, %s)", part, b"".join(ids)))] == expected
    again, = db.push(batch(part, ids))
    assert again.base == -1 and list(zip(again.dup_offset, again.dup_at)) == expected


def test_a_run_that_changed_is_left(db, partitions):
    part, = partitions()
    fill(db, part)
    run = db.rows("SELECT * FROM queend.compact_find(%s, -1, 100, queend.now_us(), 2)", part)[0]
    data = rows_merge([tuple(r)[1:] for r in db.rows("SELECT * FROM queend.compact_rows(ARRAY[%s::int], ARRAY[%s::bigint], ARRAY[%s::bigint])", *run[:3])])
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base = 0", part)
    assert put(db, run, data) == 0 and len(rows(db, part)) == 9
    assert put(db, run._replace(to_base=10, rows=9), data) == 0, "not without a newer row"
    db.rows("DELETE FROM queend.partitions WHERE id = %s", part)
    assert put(db, run._replace(from_base=1, rows=8), data) == 0, "not in a partition that is gone"


def test_an_open_delivery_keeps_its_rows(db, partitions, group):
    part, = partitions()
    who = group(part)
    fill(db, part)
    taken = db.pop([part], who, budget=3)
    assert compact(db) == 0, "the run begins with what is delivered"
    db.ack(part, who, None, [i for _, i in db.messages(taken)])
    assert compact(db) == 8
    assert [o for o, _ in db.messages(db.pop([part], who))] == list(range(3, 10))


def test_a_pop_that_had_begun_before_leaves_a_hint_that_is_no_row_any_more(db, partitions, group):
    """The worst it can write: any row_base that was one. Pop, ack and dedupe do not mind."""
    part, = partitions()
    who = group(part)
    fill(db, part)
    ids = [r[2] for r in read(db, part)]
    assert compact(db) == 8
    for hint in range(10):
        for auto in True, False:
            db.rows("DELETE FROM queend.cursors WHERE partition_id = %s", part)
            db.rows("INSERT INTO queend.cursors (committed, row_base, partition_id, group_id, lease_end) VALUES (%s, %s, %s, %s, %s)",
                    hint - 1, hint, part, who, hint - 1)
            assert db.messages(db.pop([part], who, budget=2, auto=auto)) == list(enumerate(ids))[hint:hint + 2]
            if not auto:
                db.rows("UPDATE queend.cursors SET row_base = %s WHERE partition_id = %s", hint, part)
                answer = db.ack(part, who, None, ids[hint:hint + 2])
                assert set(answer.codes) <= {1, 5} and answer.committed == min(hint + 1, 9)
            assert db.messages(db.pop([part], who)) == list(enumerate(ids))[hint + 2:]


def test_retention_takes_a_row_when_its_last_record_is_due(db, partitions):
    part, = partitions()
    fill(db, part)
    moments = [r[1] for r in read(db, part)]
    compact(db)
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    for due, left in (moments[8], 10), (moments[8] + 1, 1):
        db.rows("SELECT * FROM queend.retain(%s, 0, 10, 100, %s, 0, 0)", queue, due)
        assert len(read(db, part)) == left


def test_a_dead_letter_of_a_merged_row(db, partitions, group):
    part, = partitions()
    who = group(part)
    for n in range(40):
        db.push(batch(part, [id7()], [b'{"n":%d,"text":"%s"}' % (n, b"same " * 20)]))
    before = read(db, part)
    for offset in 3, 30:      # before and after it was merged
        db.rows("SELECT queend.dead_letter(%s, %s, %s::bigint[], ARRAY['why'], 1)", part, who, [offset])
        if offset == 3:
            assert compact(db) == 38
    dead = db.rows("SELECT record_offset, created_at, record_id FROM queend.dead_letters WHERE partition_id = %s ORDER BY id", part)
    assert [tuple(d) for d in dead] == [before[3][:3], before[30][:3]]


@pytest.mark.parametrize("seed", range(6))
def test_any_history(db, partitions, group, seed):
    """Pushes, retries, pops, acks and compaction in any order: every group gets every record once, in order, as it was pushed."""
    rng = random.Random(seed)
    parts = partitions(3)
    groups = [group(parts[0]) for _ in range(2)]
    stored: dict[int, list[bytes]] = {p: [] for p in parts}
    got: dict[tuple[int, int], list[tuple[int, bytes]]] = {(p, g): [] for p in parts for g in groups}
    for _ in range(150):
        part, who = rng.choice(parts), rng.choice(groups)
        match rng.randrange(6):
            case 0 | 1:
                new = [rng.choice((id7, id7, id7, id4))() for _ in range(rng.choice((1, 1, 1, 5)))]
                old = rng.sample(stored[part], min(len(stored[part]), rng.choice((0, 0, 2))))
                row, = db.push(batch(part, new + old))
                assert row.status == 0 or [o >= 0 for o in row.dup_offset] == [False] * len(new) + [True] * len(old)
                if row.status:
                    assert [stored[part][o] for o in row.dup_offset if o >= 0] == old
                stored[part] += new
            case 2:
                auto = rng.random() < 0.5
                taken = db.messages(db.pop([part], who, budget=rng.choice((1, 3, 50)), auto=auto))
                if taken and not auto:
                    keep = rng.randrange(len(taken) + 1)
                    if rng.random() < 0.5:
                        compact(db)
                    if keep:
                        assert set(db.ack(part, who, None, [i for _, i in taken[:keep]]).codes) <= {1, 5}
                    taken = taken[:keep]
                    db.rows("UPDATE queend.cursors SET lease_until = 0 WHERE partition_id = %s AND group_id = %s", part, who)
                got[part, who] += taken
            case 3 | 4:
                compact(db, least=rng.choice((2, 4)), limit=rng.choice((3, 1000)), compress_from=rng.choice((0, 1, 1024)))
            case 5:
                db.rows("UPDATE queend.cursors SET row_base = GREATEST(0, committed + 1 - %s) WHERE partition_id = %s", rng.randrange(3), part)
    for (part, who), taken in got.items():
        while more := db.messages(db.pop([part], who, auto=True, budget=7)):
            taken += more
        assert taken == list(enumerate(stored[part]))


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_is_merged_and_forgets_begins_with_a_row(db, partitions, group, seed):
    """Retention by every rule, a few rows at a time, between pushes, acks of single records and compaction: the floor is
    where a row begins, or the head, and a read from the floor on has all that is left."""
    rng = random.Random(seed)
    parts = partitions(2)
    who = group(parts[0])
    queue = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                     parts[0])
    stored: dict[int, list[bytes]] = {p: [] for p in parts}
    merged = forgotten = 0
    for _ in range(150):
        part = rng.choice(parts)
        match rng.randrange(5):
            case 0 | 1:
                new = [id7() for _ in range(rng.choice((1, 1, 2, 5)))]
                db.push(batch(part, new))
                stored[part] += new
            case 2:
                taken = db.messages(db.pop([part], who, budget=rng.choice((1, 3, 20))))
                if taken:
                    db.ack(part, who, None, [one for _, one in rng.sample(taken, rng.randint(1, len(taken)))])
                    db.rows("UPDATE queend.cursors SET lease_until = 0 WHERE partition_id = %s", part)
            case 3:
                merged += compact(db, least=rng.choice((2, 4)), limit=rng.choice((3, 1000)))
            case 4:
                rule = rng.choice(("expired", "completed", "waited"))
                moments = [r.created_at for r in db.rows("SELECT created_at FROM queend.log WHERE partition_id = %s", part)]
                cut = rng.choice(moments or [0]) + rng.randint(0, 1)
                forgotten += sum(r.records for r in retain(db, part, rng.choice((1, 2, 1000)), parts=1, **{rule: cut}))
        for p, name in zip(parts, ("p0", "p1"), strict=True):
            live(db, p)
            at = floor(db, p)
            found = db.rows("SELECT * FROM queend.read_rows(ARRAY[%s::text], ARRAY[%s::text], ARRAY[%s::bigint], ARRAY[1 << 30], 1 << 30)",
                            queue, name, at)
            assert b"".join(one for row in found for one in row.ids or []) == b"".join(stored[p][at:])
    assert merged and forgotten
