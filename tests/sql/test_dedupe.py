"""Dedupe equals a set: whatever ids come, whatever the clock did, however often they are sent again.

The database's clock cannot be moved, so the stored moments are: shifting every created_at of a partition and asking for
ids of matching moments is the same to the functions. Ids are crafted at, inside and outside the 60 s around now.
"""
from __future__ import annotations

import random
import threading
import time
import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql.records import Session, batch, id4, id7, id_text, kind_of

SECOND = 1_000_000
AGES = [0, 0, 1, 5, 59, 60, 61, 90, 121, 3600, -1, -30, -59, -61, -75, -90, -100, -3600, 10**8]
POOL = 16
# The clock goes on, so all that is stored becomes older; or it stepped back, and what is stored lies in the future.
SHIFTS = {"older": -45 * SECOND, "step back": 30 * SECOND}


def pool(seed: int) -> list[bytes]:
    """Ids of every kind around now; few enough that most are met again."""
    pick = random.Random(seed)
    now = time.time_ns() // 1000
    made = [id7(now - int(pick.choice(AGES) * SECOND) + pick.randrange(-2000, 2000)) for _ in range(POOL // 2)]
    made += [id4() for _ in range(POOL // 4)] + [id_text(f"{seed}-{i}") for i in range(POOL // 4)]
    pick.shuffle(made)
    return made


class Model:
    """What a partition must hold: id → offset."""

    def __init__(self):
        self.held: dict[bytes, int] = {}

    def check(self, row, ids: list[bytes]) -> None:
        fresh = 0
        found = list(row.dup_offset) if row.dup_offset is not None else [-1] * len(ids)
        for i, known in zip(ids, found, strict=True):
            expected = self.held.get(i, -1)
            assert known == expected, f"{i.hex()}: the database says {known}, the set {expected}"
            if expected < 0:
                self.held[i] = row.base + fresh
                fresh += 1
        assert row.base == (len(self.held) - fresh if fresh else -1)


SENDS = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, POOL - 1), min_size=1, max_size=3, unique=True),
                           st.sampled_from(["push", "push", "fresh", "chunks", "older", "step back", "again", "again"])), min_size=1, max_size=20)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), sends=SENDS)
def test_equals_a_set(conninfo, seed, sends):
    db = Session(conninfo)
    try:
        parts = [r.partition_id for r in sorted(db.rows("SELECT * FROM queend.resolve(%s, %s)", [f"set{seed}"] * 3, ["a", "b", "c"]))]
        db.rows("DELETE FROM queend.log WHERE partition_id = ANY(%s)", parts)
        db.rows("DELETE FROM queend.late_ids WHERE partition_id = ANY(%s)", parts)
        known = pool(seed)
        models = [Model() for _ in parts]
        last = None
        for which, places, how in sends:
            part, model = parts[which], models[which]
            ids = [known[i] for i in places]
            if how == "again" and last:
                which, places = last
                part, model, ids = parts[which], models[which], [known[i] for i in places]
            elif how == "fresh":                      # a producer in step, as nearly all are
                ids = [id7() for _ in ids]
                known[places[0]] = ids[0]
                places = places[:1]
            elif how in SHIFTS:
                shift(db, parts, models, known, SHIFTS[how])
                continue
            last = which, places
            if how == "chunks" and len(ids) > 1:
                rows = db.push(batch(part, ids[:1], of=ids), batch(part, ids[1:], skip=1, of=ids))
                model.check(rows[0], ids[:1])
                model.check(rows[1], ids[1:])
            else:
                model.check(db.push(batch(part, ids))[0], ids)
        for part, model in zip(parts, models, strict=True):
            rows = db.rows("SELECT base, n, ids, body, created_at FROM queend.log WHERE partition_id = %s ORDER BY base", part)
            stored = [r.ids[i:i + 16] for r in rows for i in range(0, 16 * r.n, 16)]
            assert stored == sorted(model.held, key=model.held.get)
            assert [r.base for r in rows] == [sum(x.n for x in rows[:i]) for i in range(len(rows))]
            assert [r.created_at for r in rows] == sorted(r.created_at for r in rows)
            for held, offset in list(model.held.items())[:5]:
                assert [r.found_offset for r in db.rows("SELECT * FROM queend.find(%s, %s)", part, held)] == [offset]
    finally:
        db.close()


def shift(db: Session, parts: list[int], models: list[Model], known: list[bytes], by: int) -> None:
    """Moves every moment: of the rows, inside the version-7 ids that are stored, and inside those still to come."""
    def moved(raw: bytes) -> bytes:
        if raw[6] >> 4 != 7:
            return raw
        return (int.from_bytes(raw[:6], "big") + by // 1000).to_bytes(6, "big") + raw[6:]
    rows = db.rows("DELETE FROM queend.log WHERE partition_id = ANY(%s) RETURNING *", parts)
    late = db.rows("DELETE FROM queend.late_ids WHERE partition_id = ANY(%s) RETURNING *", parts)
    with db.connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO queend.log VALUES ({', '.join(['%s'] * 9)})", [
            row._replace(created_at=row.created_at + by, high=uuid.UUID(bytes=moved(row.high.bytes)) if row.high.int else row.high,
                         ids=b"".join(moved(row.ids[i:i + 16]) for i in range(0, len(row.ids), 16))) for row in rows])
        cursor.executemany("INSERT INTO queend.late_ids VALUES (%s, %s, %s)", [row._replace(id=moved(row.id)) for row in late])
    for model in models:
        model.held = {moved(i): offset for i, offset in model.held.items()}
    known[:] = [moved(i) for i in known]


def test_an_id_of_the_future_is_known_when_its_time_comes(db, partitions):
    part, = partitions()
    model, known = Model(), [id7(time.time_ns() // 1000 + 75 * SECOND)]
    model.check(db.push(batch(part, known))[0], known)
    for _ in range(4):       # 75 s ahead, 30 ahead: timely, 15 ago, 60 ago, 105 ago
        shift(db, [part], [model], known, SHIFTS["older"])
        model.check(db.push(batch(part, known))[0], known)
    new = [id7()]
    model.check(db.push(batch(part, new))[0], new)


def test_one_winner_among_connections(session, partitions):
    """Eight sessions push the same ids of all kinds in other orders and sizes: each id is stored once, all others are told where."""
    parts = partitions(2)
    ids = pool(7) + [id7() for _ in range(20)]
    answers: list[tuple[int, bytes, int]] = []
    failures: list[BaseException] = []

    def producer(db: Session, seed: int) -> None:
        try:
            pick = random.Random(seed)
            for part in parts * 2:
                order = pick.sample(ids, len(ids))
                while order:
                    size = pick.randrange(1, 9)
                    some, order = order[:size], order[size:]
                    row = db.push(batch(part, some))[0]
                    fresh = iter(range(row.base, row.base + len(some)))
                    found = row.dup_offset or [-1] * len(some)
                    answers.extend((part, i, at if at >= 0 else next(fresh)) for i, at in zip(some, found, strict=True))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=producer, args=(session(), seed)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for part in parts:
        told = {}
        for where, i, offset in answers:
            if where == part:
                assert told.setdefault(i, offset) == offset
        rows = session().rows("SELECT base, ids FROM queend.log WHERE partition_id = %s ORDER BY base", part)
        stored = [r.ids[i:i + 16] for r in rows for i in range(0, len(r.ids), 16)]
        assert {i: n for n, i in enumerate(stored)} == told and len(stored) == len(told)


def test_an_id_is_free_again_below_the_floor(db, partitions):
    part, = partitions()
    ids = [id7(), id4(), id7(time.time_ns() // 1000 + 3600 * SECOND)]
    for i in ids:
        assert db.push(batch(part, [i]))[0].base >= 0
    db.rows("INSERT INTO queend.floors VALUES (%s, 3)", part)
    assert [db.push(batch(part, [i]))[0].base for i in ids] == [3, 4, 5]
    assert [list(db.push(batch(part, [i]))[0].dup_offset) for i in ids] == [[3], [4], [5]]


def test_offsets_are_never_given_twice(db, partitions):
    part, = partitions()
    db.push(batch(part, [id7(), id7()]))
    db.rows("INSERT INTO queend.floors VALUES (%s, 2)", part)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s", part)
    assert db.push(batch(part, [id7()]))[0].base == 2


def test_kinds_are_what_the_ids_are():
    assert [kind_of(ids)[0] for ids in ([id7()], [id4(), id_text("x")], [id4(), id7()])] == [1, 2, 3]
