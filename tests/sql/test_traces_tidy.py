"""Traces whose message retention or a clear has removed: which go, which stay."""
from __future__ import annotations

import pytest
from sql.records import Session, batch, id7

LATER = 2**60


def noted(db: Session, part: int, *ids: bytes, names: int = 1) -> None:
    for one in ids:
        assert db.value("SELECT queend.trace_record(%s, %s, 't', 'g', 'info', 'w', '{}', %s)",
                        part, one, [f"{part}-{number}" for number in range(names)])


def left(db: Session, *parts: int) -> dict[int, set[bytes]]:
    """The messages that have traces, by partition. As many names are stored as the traces say."""
    assert db.value("SELECT count(*) FROM queend.trace_names WHERE partition_id = ANY (%s)", list(parts)) == db.value(
        "SELECT COALESCE(sum(cardinality(names)), 0) FROM queend.traces WHERE partition_id = ANY (%s)", list(parts))
    return {part: {row.record_id for row in db.rows(
        "SELECT record_id FROM queend.traces WHERE partition_id = %s", part)} for part in parts}


def tidied(db: Session, page: int, before: int = LATER) -> int:
    """How many traces went, and that the end was reached."""
    gone, at, steps = 0, (0, b"", 0), db.value("SELECT count(*) FROM queend.traces") // page + 2
    for _ in range(steps):
        ((removed, *rest),) = db.rows("SELECT * FROM queend.traces_tidy(%s, %s, %s, %s, %s)", *at, page, before)
        gone, at = gone + removed, tuple(rest)
        if at[0] is None:
            return gone
    raise AssertionError("no end")


def removed_first_row(db: Session, part: int) -> None:
    db.rows("SELECT * FROM queend.retain((SELECT queue_id FROM queend.partitions WHERE id = %s), %s, 1, 1, %s, 0, 0)",
            part, part - 1, LATER)


@pytest.mark.parametrize("page", (1, 3, 100))
@pytest.mark.parametrize("id_of", (id7, lambda: bytes([8]) * 6 + bytes([0x80]) + id7()[7:]), ids=("timely", "other"))
def test_traces_go_with_their_messages(db, partitions, page, id_of):
    whole, half, empty = partitions(3)
    ids = {part: [id_of() for _ in range(4)] for part in (whole, half, empty)}
    for part, (a, b, c, d) in ids.items():
        db.push(batch(part, [a, b]))
        db.push(batch(part, [c, d]))
        noted(db, part, a, a, b, c, d, names=2)
    removed_first_row(db, half)
    for _ in range(2):
        removed_first_row(db, empty)
    assert tidied(db, page, before=1) == 0, "they are younger"
    assert tidied(db, page) == 3 + 5
    assert left(db, whole, half, empty) == {whole: set(ids[whole]), half: set(ids[half][2:]), empty: set()}
    assert tidied(db, page) == 0


def test_a_dead_letter_keeps_its_traces(db, partitions, group):
    (part,) = partitions(1)
    kept, gone = id7(), id7()
    db.push(batch(part, [kept, gone]))
    group(part)
    noted(db, part, kept, gone)
    db.rows("INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id,"
            " transaction_id, payload, error, retry_count, created_at, failed_at)"
            " SELECT queue_id, id, 0, 0, %s, '', '', '', 0, 0, 0 FROM queend.partitions WHERE id = %s RETURNING id",
            kept, part)
    removed_first_row(db, part)
    assert tidied(db, 10) == 1 and left(db, part) == {part: {kept}}
