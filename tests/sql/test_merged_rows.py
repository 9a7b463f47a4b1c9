"""Rows of records that were stored at several moments, as an import or an earlier release merged them: nobody who
reads, retries or looks for an id can tell."""
from __future__ import annotations

import itertools
import random
import time

import pytest

from queend._core import probe_batchrow, rows_merge

from sql.records import Session, batch, id4, id7, id_text
from sql.retained import floor, live, retain


def merge(db: Session, part: int, compress_from: int = 1024) -> int:
    """One row of all rows of a partition but the newest. Returns how many rows are gone."""
    *those, _ = db.rows("SELECT n, created_at, ids, body, meta, base, high, odd FROM queend.log WHERE partition_id = %s"
                        " ORDER BY base", part)
    merged = rows_merge([tuple(row)[:5] for row in those], compress_from)
    last = those[-1]
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base <= %s", part, last.base)
    db.rows("INSERT INTO queend.log (base, created_at, partition_id, n, high, odd, ids, body, meta)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", those[0].base, merged[0], part, sum(r.n for r in those),
            last.high, last.odd, *merged[1:])
    return len(those) - 1


def read(db: Session, part: int) -> list[tuple]:
    """Every record of a partition, as a reader gets it: offset, moment, id, payload, extras."""
    out = []
    for row in db.rows("SELECT base, n, created_at, ids, body, meta FROM queend.log WHERE partition_id = %s"
                       " ORDER BY base", part):
        ages: list[int] = []
        for i, record in enumerate(probe_batchrow(row.ids, row.body, row.meta, row.n, 0, ages)):
            out.append((row.base + i, row.created_at - ages[i], *record))
    assert [r[0] for r in out] == list(range(out[0][0], out[0][0] + len(out)))
    return out


def fill(db: Session, part: int, count: int = 10) -> None:
    for _ in range(count):
        db.push(batch(part, [id7()]))


def test_what_every_reader_sees_stays(db, partitions):
    """Singles and small batches, with and without extras, of different moments; merged twice."""
    part, = partitions()
    for n in range(20):
        metas = {0: (b"\xaa" * 16, "me", f"text {n}")} if n % 3 == 0 else None
        db.push(batch(part, [id7() for _ in range(1 + n % 4)], [b'{"n":%d,"x":"%s"}' % (n, b"y" * 20)] * (1 + n % 4),
                      metas))
        if n == 10:
            early = read(db, part)[:-1]
            assert merge(db, part) == 9 and read(db, part)[:len(early)] == early
    before = read(db, part)
    moments = [r[1] for r in before]
    records = ("SELECT record_offset, record_id, transaction_id, trace_id, producer_sub, stored_at"
               " FROM queend.records(%s, 0, 1000)")
    fetched = db.rows(records, part)
    assert merge(db, part) == 9 and read(db, part) == before and db.rows(records, part) == fetched
    for at in {*moments, *(m + 1 for m in moments)}:
        assert db.value("SELECT queend.offset_since(%s, %s)", part, at) == sum(m < at for m in moments)
    for offset, moment, *_ in before:
        assert db.value("SELECT queend.delayed_until(%s, %s, %s)", part, offset, moment) == 0
        assert db.value("SELECT queend.delayed_until(%s, %s, %s) > 0", part, offset, moment - 1)


def test_ids_are_found_with_their_moments(db, partitions):
    part, = partitions()
    old = id7(int(time.time() * 1e6) - 3_600_000_000)
    ids = [id7(), id4(), id7(), id_text("t"), old, id7(), id7(), id7()]
    for one in ids:
        db.push(batch(part, [one]))
    expected = [(r[0], r[1]) for r in read(db, part)]
    assert merge(db, part) == 6
    found = db.rows("SELECT * FROM queend.ids_find(%s, %s)", part, b"".join(ids))
    assert [(at, stored) for _, at, stored in sorted(found)] == expected
    again, = db.push(batch(part, ids))
    assert again.base == -1 and list(zip(again.dup_offset, again.dup_at)) == expected


@pytest.mark.parametrize("made", [id7, id4], ids=["version 7", "version 4"])
def test_a_stretch_is_found_in_any_order(db, partitions, made):
    """By one comparison, by a join and by a caller that compares ids itself: in one row, in a merged one, over the edge
    of two."""
    part, = partitions()
    ids = [made() for _ in range(12)]
    for a, b in (0, 1), (1, 2), (2, 3), (3, 7), (7, 12):
        db.push(batch(part, ids[a:b]))
    expected = {r[2]: (r[0], r[1]) for r in read(db, part)}
    assert merge(db, part) == 3
    db.rows("DELETE FROM queend.late_ids WHERE partition_id = %s", part)       # a daemon remembers those of version 4
    db.rows("INSERT INTO queend.unlisted VALUES (%s, 0)", part)

    def held(asked: list[bytes]) -> list[tuple[int, int]]:
        one, places = batch(part, asked), [expected[i][0] for i in asked if i in expected]
        (found,) = db.rows("SELECT * FROM queend.ids_held(%s, %s::smallint, %s, %s, %s, 0, %s::bigint[], %s::bigint[])",
                           part, one.kind, one.lo, one.hi, one.ids, [min(places)], [max(places) + 1])
        return list(zip(found.dup_offset, found.dup_at, strict=True))

    for a, b in itertools.combinations(range(13), 2):
        for asked in (ids[a:b], random.sample(ids[a:b], b - a), [*ids[a:b], made()], [made(), *ids[a:b]]):
            assert held(asked) == [expected.get(i, (-1, 0)) for i in asked], (a, b)
            if expected.keys() >= {*asked}:
                row = db.push_comparing(batch(part, asked))
                assert list(zip(row.dup_offset, row.dup_at, strict=True)) == [expected[i] for i in asked], (a, b)


def test_a_hint_that_is_no_row_any_more(db, partitions, group):
    """The worst that row_base can be: any offset where once a row began. Pop, ack and dedupe do not mind."""
    part, = partitions()
    who = group(part)
    fill(db, part)
    ids = [r[2] for r in read(db, part)]
    assert merge(db, part) == 8
    for hint in range(10):
        for auto in True, False:
            db.rows("DELETE FROM queend.cursors WHERE partition_id = %s", part)
            db.rows("INSERT INTO queend.cursors (committed, row_base, partition_id, group_id, lease_end)"
                    " VALUES (%s, %s, %s, %s, %s)", hint - 1, hint, part, who, hint - 1)
            taken = db.messages(db.pop([part], who, budget=2, auto=auto))
            assert taken == list(enumerate(ids))[hint:hint + 2]
            if not auto:
                db.rows("UPDATE queend.cursors SET row_base = %s WHERE partition_id = %s", hint, part)
                answer = db.ack(part, who, None, ids[hint:hint + 2])
                assert set(answer.codes) <= {1, 5} and answer.committed == min(hint + 1, 9)
            assert db.messages(db.pop([part], who)) == list(enumerate(ids))[hint + 2:]


def test_retention_takes_a_row_when_its_last_record_is_due(db, partitions):
    part, = partitions()
    fill(db, part)
    moments = [r[1] for r in read(db, part)]
    merge(db, part)
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
            assert merge(db, part) == 38
    dead = db.rows("SELECT record_offset, created_at, record_id FROM queend.dead_letters WHERE partition_id = %s"
                   " ORDER BY id", part)
    assert [tuple(d) for d in dead] == [before[3][:3], before[30][:3]]


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_forgets_begins_with_a_row(db, partitions, group, seed):
    """Retention by every rule, a few rows at a time, between pushes and acks of single records: the floor is where a
    row begins, or the head, and a read from the floor on has all that is left."""
    rng = random.Random(seed)
    parts = partitions(2)
    who = group(parts[0])
    queue = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                     parts[0])
    stored: dict[int, list[bytes]] = {p: [] for p in parts}
    forgotten = 0
    for _ in range(150):
        part = rng.choice(parts)
        match rng.randrange(4):
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
                rule = rng.choice(("expired", "completed", "waited"))
                moments = [r.created_at for r in db.rows("SELECT created_at FROM queend.log WHERE partition_id = %s",
                                                         part)]
                cut = rng.choice(moments or [0]) + rng.randint(0, 1)
                forgotten += sum(r.records for r in retain(db, part, rng.choice((1, 2, 1000)), parts=1, **{rule: cut}))
        for p, name in zip(parts, ("p0", "p1"), strict=True):
            live(db, p)
            at = floor(db, p)
            found = db.rows("SELECT * FROM queend.read_rows(ARRAY[%s::text], ARRAY[%s::text], ARRAY[%s::bigint],"
                            " ARRAY[1 << 30], 1 << 30)", queue, name, at)
            assert b"".join(one for row in found for one in row.ids or []) == b"".join(stored[p][at:])
    assert forgotten
