"""What is left of a log, and a step of retention, as tests see them."""
from __future__ import annotations

from sql.records import Session


def retain(db: Session, part: int, rows: int = 1000, expired: int = 0, completed: int = 0, waited: int = 0,
           parts: int = 100, after: int | None = None) -> list:
    """One call on the queue of a partition, from that partition on; without the last row, which says where to go on."""
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    got = db.rows("SELECT * FROM queend.retain(%s, %s, %s, %s, %s, %s, %s)", queue,
                  part - 1 if after is None else after, parts, rows, expired, completed, waited)
    assert got[-1].reason == -1 and all(row.reason >= 0 for row in got[:-1])
    return got[:-1]


def floor(db: Session, part: int) -> int:
    return db.value("SELECT COALESCE((SELECT floor FROM queend.floors WHERE partition_id = %s), 0)", part)


def head(db: Session, part: int) -> int:
    return db.value("SELECT queend.head(%s)", part)


def live(db: Session, part: int) -> list[tuple[int, int]]:
    """(base, n) of what is left, which begins at the floor and has no gap."""
    rows = [(r.base, r.n)
            for r in db.rows("SELECT base, n FROM queend.log WHERE partition_id = %s ORDER BY base", part)]
    at = floor(db, part)
    for base, n in rows:
        assert base == at
        at += n
    assert head(db, part) == at
    return rows
