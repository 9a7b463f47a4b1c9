"""Where the caller says the newest row begins, push looks from there on; a wrong word of it changes nothing but the
way."""
from __future__ import annotations

import pytest
from sql.records import PUSH, batch, id4, id7, push_arrays


def push(db, hint: int | None, *batches) -> list:
    lanes = sorted({b.part & 63 for b in batches})
    return sorted(db.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}, %s::bigint[])", lanes,
                          *push_arrays(list(batches)), [hint] * len(batches)))


@pytest.mark.parametrize("hint", [None, 0, 1, 2, 4],
                         ids=["none", "nothing known", "inside a row", "an older row", "the newest row"])
def test_offsets_follow_the_newest_row_wherever_the_hint_points(db, partitions, hint):
    part, = partitions()
    for ids in ([id7(), id7()], [id7(), id7()], [id7()]):
        db.push(batch(part, ids))
    assert [(r.status, r.base) for r in push(db, hint, batch(part, [id7()]))] == [(0, 5)]


@pytest.mark.parametrize("make", [id7, id4])
def test_a_hint_above_every_row_is_no_proof_of_an_empty_partition(db, partitions, make):
    part, = partitions()
    old = make()
    stored = db.push(batch(part, [old, make()]))[0]
    assert push(db, 1000, batch(part, [make()]))[0].base == 2
    again = push(db, 1000, batch(part, [old]))[0]
    assert (again.status, again.base, list(again.dup_offset), list(again.dup_at)) == (1, -1, [0], [stored.created_at])


def test_a_duplicate_of_a_row_below_the_hint_is_found(db, partitions):
    part, = partitions()
    old = id7()
    db.push(batch(part, [old]))
    db.push(batch(part, [id7()]))
    row = push(db, 1, batch(part, [old]))[0]
    assert (row.status, row.base, list(row.dup_offset)) == (1, -1, [0])


def test_chunks_of_one_partition_share_the_hint(db, partitions):
    part, = partitions()
    db.push(batch(part, [id7()]))
    ids = [id7() for _ in range(5)]
    rows = push(db, 0, batch(part, ids[:2], of=ids), batch(part, ids[2:], skip=2, of=ids))
    assert [(r.status, r.base) for r in rows] == [(0, 1), (0, 3)]
