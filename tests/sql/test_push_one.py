"""The push of one row is the push of many, told apart by nothing: same answers, same errors, same rows, whatever the
partition holds, the caller knows and a pop waits for."""
from __future__ import annotations

import itertools
from dataclasses import dataclass

import psycopg
import pytest
from sql.calls import MINUTE, PUSH_ONE, PUSHED_CLAIMS
from sql.records import PUSH, Batch, Session, as_uuid, batch, id4, id7, new_lease, push_arrays
from sql.retained import retain

SECOND = 1_000_000
PUSH_ALL = (f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, %s::bigint[], {PUSHED_CLAIMS},"
            " %s::bigint[], %s::bigint[])")
OF_LEASE = "8" + new_lease()[1:]      # it names its partition
TABLES = ("log", "late_ids", "cursors")


@dataclass
class Place:
    """A partition, and what a daemon may believe of it."""

    part: int
    group: int
    first: int = 0
    base: int = 0
    head: int = 0
    at: int = 0
    high: bytes = bytes(16)


def look(db: Session, part: int, group: int) -> Place:
    place = Place(part, group)
    found = db.rows("SELECT base, base + n AS head, created_at, high FROM queend.log WHERE partition_id = %s"
                    " ORDER BY base", part)
    if found:
        last = found[-1]
        place.first, place.base, place.head = found[0].base, last.base, last.head
        place.at, place.high = last.created_at, last.high.bytes
    return place


STATES = {
    "new": lambda db, part, group: None,
    "read": lambda db, part, group: [db.push(batch(part, [id7(), id7()])), db.push(batch(part, [id7()])),
                                     db.pop([part], group, auto=True)],
    "leased": lambda db, part, group: [db.push(batch(part, [id7()])), db.pop([part], group)],
    "behind": lambda db, part, group: [db.push(batch(part, [id7()])), db.pop([part], group, auto=True),
                                       db.push(batch(part, [id7()]))],
    "odd": lambda db, part, group: [db.push(batch(part, [id7(SECOND)])), db.push(batch(part, [id7()])),
                                    db.pop([part], group, auto=True)],
    "of random ids": lambda db, part, group: [db.push(batch(part, [id4()])), db.pop([part], group, auto=True)],
    "stored later": lambda db, part, group: [db.push(batch(part, [id7()])), db.pop([part], group, auto=True),
                                             db.rows("UPDATE queend.log SET created_at = created_at + %s"
                                                     " WHERE partition_id = %s", 30 * SECOND, part)],
    "removed": lambda db, part, group: [db.push(batch(part, [id7()])), db.pop([part], group, auto=True),
                                        retain(db, part, 1)],
}
IDS = {
    "grown": lambda place: batch(place.part, [id7(), id7()]),
    "made by the daemon": lambda place: batch(place.part, [id7()], kind=0),
    "older": lambda place: batch(place.part, [id7(place.at - SECOND if place.at else None)]),
    "untimely": lambda place: batch(place.part, [id7(SECOND)]),
    "of the future": lambda place: batch(place.part, [id7((place.at or 10 ** 15) + 10 ** 12)]),
    "random": lambda place: batch(place.part, [id4()]),
    "mixed": lambda place: batch(place.part, [id7(), id4()]),
    "with a trace": lambda place: batch(place.part, [id7()], metas={0: (bytes(16), None, None)}),
}
CLAIMED = ("grown", "made by the daemon", "random")
# (hint, known, known_at)
BELIEFS = {
    "nothing": lambda place: (0, None, None),
    "not asked": lambda place: (None, None, None),
    "the newest row": lambda place: (place.base, place.head, place.at),
    "an older row, and remembers nothing": lambda place: (place.first, 0, 0),
    "has no room": lambda place: (place.base, -1, 0),
    "a row above all": lambda place: (place.head + 5, place.head, place.at),
    "asks for the largest id": lambda place: (-2 - place.base, None, None),
    "names the head": lambda place: (-1, place.head, place.at),
    "names a head too low": lambda place: (-1, place.base, place.at),
    "names a head of later": lambda place: (-1, place.head, place.at + 100 * SECOND),
    "another moment": lambda place: (place.base, place.head, place.at + 1),
}
# (row, group, take, whole, lease, lease_us)
CLAIMS = {
    "none": lambda place: [None] * 6,
    "at once": lambda place: [1, place.group, 1, False, OF_LEASE, 0],
    "all at once": lambda place: [1, place.group, 2, True, OF_LEASE, 0],
    "a lease": lambda place: [1, place.group, 1, True, OF_LEASE, MINUTE],
    "a lease to remember": lambda place: [1, place.group, 1, True, new_lease(), MINUTE],
}
VERSIONS = {"any": 0, "right": 1, "stale": 99}


def array(value: object) -> list | None:
    return None if value is None else [value]


def answer(db: Session, place: Place, call: str, values: list, began: int) -> tuple:
    """What it says and what it leaves, the moment of the call left out; undone."""
    with db.connection.transaction(force_rollback=True):
        try:
            with db.connection.transaction():
                rows = [tuple(row) for row in db.rows(call, *values)]
                places = [row[:-1] + (b"a place",) for row in rows if row[1] == 2 and len(row[-1]) == 6]
                rows = [row for row in rows if row[1] != 2] + places      # each call writes the cursor elsewhere
        except psycopg.Error as error:
            return (error.sqlstate,)
        moments = {row[3] for row in rows if row[3] >= began}
        assert len(moments) <= 1
        now = moments.pop() if moments else None
        kept = [[tuple(row) for row in db.rows(f"SELECT * FROM queend.{table} AS t WHERE partition_id = %s"
                                               " ORDER BY t::text", place.part)] for table in TABLES]
        leases = db.value("SELECT count(*) FROM queend.leases")

    def bare(value: object) -> object:
        if isinstance(value, list | tuple):
            return tuple(map(bare, value))
        return ("now", value - now) if now and value in (now, now + MINUTE) else value
    return bare(rows), bare(kept), leases


def both(db: Session, place: Place, one: Batch, belief: tuple, claim: list, version: int) -> tuple[tuple, tuple]:
    hint, known, known_at = belief
    if hint == -1:
        one = one._replace(hi=as_uuid(max(place.high, one.hi.bytes if one.hi else bytes(16))))
    began = db.value("SELECT queend.now_us()")
    lane = place.part & 63
    many = answer(db, place, PUSH_ALL, [version, [lane], *push_arrays([one]), *map(array, (hint, *claim, known,
                                                                                           known_at))], began)
    single = answer(db, place, PUSH_ONE, [version, lane, *one, hint, *claim, known, known_at], began)
    return many, single


@pytest.mark.parametrize("state", STATES)
def test_it_does_what_push_does(db: Session, partitions, group, state: str) -> None:
    part, = partitions()
    readers = group(part)
    STATES[state](db, part, readers)
    place = look(db, part, readers)
    assert db.value("SELECT version FROM queend.catalog") == VERSIONS["right"]
    seen = set()
    for (ids, one), (belief, of), (claim, wanted), (version, number) in itertools.product(
            IDS.items(), BELIEFS.items(), CLAIMS.items(), VERSIONS.items()):
        if version != "right" and (ids != "grown" or claim == "a lease") or ids not in CLAIMED and claim != "at once":
            continue      # seldom another case
        many, single = both(db, place, one(place), of(place), wanted(place), number)
        assert single == many, (ids, belief, claim, version)
        seen.add(many[0] if isinstance(many[0], str) else tuple(row[:2] for row in many[0]))
    assert {"QD409"} < seen and ((-1, 9),) in seen
    if state in ("read", "odd"):
        assert {((0, 0), (part, 2)), ((-2, 0), (part, 2))} <= seen, seen
