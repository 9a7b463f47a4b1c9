"""Dedupe equals a set: whatever ids come, whatever the clock did, however often they are sent again.

The database's clock cannot be moved, so the stored moments are: shifting every created_at of a partition and asking for
ids of matching moments is the same to the functions. Ids are crafted at, inside and outside the 60 s around now.
"""
from __future__ import annotations

import random
import struct
import threading
import time
import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sql.records import COMPARE, PUSH, Session, as_uuid, batch, id4, id7, id_text, inner, kind_of, packed, push_arrays

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


TOLD = ("p_known => %s::bigint[], p_known_at => %s::bigint[], p_look_row => %s::int[], p_look_from => %s::bigint[],"
        " p_look_to => %s::bigint[]")


class Memory:
    """What a daemon remembers of one partition, as push.sql asks it to: the ids that are not version 7, and up to where
    it knows them."""

    def __init__(self, wants: int | None = -2):
        self.ids: dict[bytes, set[int]] = {}
        self.known, self.known_at, self.wants = wants, 0, wants
        self.remembers = False        # only what it was told of (`seen`) and what followed

    def push(self, db: Session, part: int, ids: list[bytes]):
        """Sends until it was taken; returns the result row."""
        one = batch(part, ids)
        if one.kind == 1:
            return db.push(one)[0]
        for _ in range(1000):
            row, = db.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}, {TOLD})", [part & 63],
                           *push_arrays([one]), *self.tells(ids))
            self.learn(row)
            if row.status != 3:
                break
        fresh = [i for i, at in zip(ids, row.dup_offset or [-1] * len(ids), strict=True) if at < 0]
        self.follow(row, fresh)
        return row

    def asks(self, db: Session, part: int, ids: list[bytes]) -> list:
        """Sends once, as a caller that compares."""
        return db.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}, {TOLD}, p_compares => true)", [part & 63],
                       *push_arrays([batch(part, ids)]), *self.tells(ids))

    def transact(self, db: Session, part: int, ids: list[bytes]):
        """The same in a transaction, which stores all of them or none. A compressed body must not be cut, and need not
        be."""
        one = batch(part, ids)._replace(body=packed(inner([b"x"] * len(ids))))
        for _ in range(1000):
            row, = db.rows(f"SELECT * FROM queend.transaction(0, %s::int[], {PUSH}, %s::int[], %s::int[], %s::uuid[],"
                           " %s::int[], %s::bytea[],"
                           f" %s::bytea[], %s::int[], %s::int[], %s::text[], %s::uuid[], %s::int[], %s::int[], {TOLD})",
                           [part & 63], *push_arrays([one]), *([[]] * 12), *self.tells(ids))
            self.learn(row)
            if row.status != 3:
                break
        if row.status == 0:
            self.follow(row, ids)
        return row

    def tells(self, ids: list[bytes]) -> list[list]:
        look = sorted({at for i in ids for at in self.ids.get(i, ())})
        known = self.known if not look or self.known is None or self.known < 0 else -2 - self.known
        return [[known], [self.known_at], [1] * len(look), look, [at + 1 for at in look]]

    def learn(self, row) -> None:
        if row.seen is not None:
            assert self.wants != -1
            at, self.known_at = struct.unpack(">qq", row.seen[:16])
            self.remembers = True
            self.add(at, [row.seen[i:i + 16] for i in range(16, len(row.seen), 16)])
            self.known = at + len(row.seen) // 16 - 1

    def follow(self, row, fresh: list[bytes]) -> None:
        if self.remembers and self.known == row.base:
            self.add(row.base, fresh)
            self.known, self.known_at = row.base + len(fresh), row.created_at

    def add(self, base: int, ids: list[bytes]) -> None:
        for at, i in enumerate(ids, base):
            if i[6] >> 4 != 7:
                self.ids.setdefault(i, set()).add(at)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), data=st.data())
def test_equals_a_set_whoever_remembers(db, seed, data):
    """Two daemons that remember, one that may, one without room, one that does not care; restarts, retention, a lost
    end of the log."""
    part = db.rows("SELECT * FROM queend.resolve(%s, %s)", [f"mem{seed}"], ["a"])[0].partition_id
    for table in ("log", "late_ids", "unlisted", "floors"):
        db.rows(f"DELETE FROM queend.{table} WHERE partition_id = %s", part)
    ids = pool(seed) + [id4() for _ in range(POOL)]
    wants = {"one": -2, "two": -2, "may": 0, "full": -1}
    daemons = {name: Memory(want) for name, want in wants.items()}
    model = Model()
    floor = 0
    unlisted: dict[int, list] = {}        # by row: what stood there before it was stored
    for _ in range(data.draw(st.integers(1, 25))):
        who = data.draw(st.sampled_from([*wants, *wants, "nobody", "restart", "floor", "lost"]))
        whole = data.draw(st.booleans())
        some = [ids[i]
                for i in data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=4, unique=True))]
        head = db.value("SELECT queend.head(%s)", part)
        if who not in ("restart", "floor", "lost"):
            unlisted[head] = db.rows("SELECT since FROM queend.unlisted WHERE partition_id = %s", part)
        if who == "restart":
            name = data.draw(st.sampled_from([*wants]))
            daemons[name] = Memory(wants[name])
        elif who == "floor":
            starts = db.rows("SELECT base FROM queend.log WHERE partition_id = %s AND base >= %s", part, floor)
            # whole rows go, never a part
            floor = data.draw(st.sampled_from(sorted({floor, head, *(row.base for row in starts)})))
            db.rows("INSERT INTO queend.floors VALUES (%s, %s) ON CONFLICT (partition_id) DO UPDATE"
                    " SET floor = excluded.floor", part, floor)
            db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base + n <= %s", part, floor)
            model.held = {i: at for i, at in model.held.items() if at >= floor}
        elif who == "lost":
            # A database that came back without its last commits: whatever was stored with the newest row is gone,
            # late ids too, and what it removed is there.
            row = db.rows("SELECT base FROM queend.log WHERE partition_id = %s AND base >= %s"
                          " ORDER BY base DESC LIMIT 1", part, floor)
            if row:
                db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base >= %s", part, row[0].base)
                db.rows("DELETE FROM queend.late_ids WHERE partition_id = %s AND position >= %s", part, row[0].base)
                db.rows("DELETE FROM queend.unlisted WHERE partition_id = %s", part)
                for one in unlisted[row[0].base]:
                    db.rows("INSERT INTO queend.unlisted (partition_id, since) VALUES (%s, %s)", part, one.since)
                model.held = {i: at for i, at in model.held.items() if at < row[0].base}
        elif whole:
            row = (daemons[who] if who in daemons else Memory(None)).transact(db, part, some)
            first = next((n for n, i in enumerate(some) if i in model.held), -1)
            assert (row.status, row.dup_index, row.base) == ((0, -1, head) if first < 0 else (1, first, -1))
            if first < 0:
                model.held.update(zip(some, range(head, head + len(some)), strict=True))
        else:
            row = db.push(batch(part, some))[0] if who == "nobody" else daemons[who].push(db, part, some)
            check(model, row, some, head)
    rows = db.rows("SELECT base, ids FROM queend.log WHERE partition_id = %s ORDER BY base", part)
    stored = [(r.ids[16 * i:16 * i + 16], r.base + i) for r in rows for i in range(len(r.ids) // 16)
              if r.base + i >= floor]
    assert stored == sorted(model.held.items(), key=lambda held: held[1])


def test_a_log_that_lost_its_end_is_not_the_one_that_is_remembered(db, partitions):
    """The same head again, but with other ids below it: what a database that came back without its last commits may
    grow."""
    part, = partitions()
    first, lost, other = id4(), [id4(), id4()], [id4(), id4()]
    memory, peer = Memory(), Memory()
    memory.push(db, part, [first])
    assert [memory.push(db, part, [i]).base for i in lost] == [1, 2]
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base > 0", part)
    assert [peer.push(db, part, [i]).base for i in other] == [1, 2]
    assert memory.known == 3
    assert list(memory.push(db, part, other[:1]).dup_offset) == [1]
    assert [memory.push(db, part, [i]).base for i in lost] == [3, 4]


def test_who_has_no_room_and_who_remembers(db, partitions):
    """late_ids is filled while another still vouches by memory: neither misses what the other stored."""
    part, = partitions()
    memory, full = Memory(), Memory(-1)
    a, b, c, d = (id4() for _ in range(4))
    assert [memory.push(db, part, [i]).base for i in (a, b)] == [0, 1]
    assert db.value("SELECT count(*) FROM queend.late_ids WHERE partition_id = %s", part) == 0
    assert list(full.push(db, part, [a, c]).dup_offset) == [0, -1]
    assert db.value("SELECT count(*) FROM queend.unlisted WHERE partition_id = %s", part) == 0
    assert db.value("SELECT count(*) FROM queend.late_ids WHERE partition_id = %s", part) == 3
    assert list(memory.push(db, part, [c, d]).dup_offset) == [2, -1]
    assert list(full.push(db, part, [d, b]).dup_offset) == [3, 1]
    assert list(db.push(batch(part, [d]))[0].dup_offset) == [3]


def check(model: Model, row, ids: list[bytes], head: int) -> None:
    fresh = 0
    for i, known in zip(ids, row.dup_offset or [-1] * len(ids), strict=True):
        expected = model.held.get(i, -1)
        assert known == expected, f"{i.hex()}: the database says {known}, the set {expected}"
        if expected < 0:
            model.held[i] = head + fresh
            fresh += 1
    assert row.base == (head if fresh else -1)


SENDS = st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, POOL - 1), min_size=1, max_size=3, unique=True),
                           st.sampled_from(["push", "compare", "fresh", "chunks", "older", "step back", "again",
                                            "compare again"])), min_size=1, max_size=20)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), sends=SENDS)
def test_equals_a_set(db, seed, sends):
    parts = [r.partition_id
             for r in sorted(db.rows("SELECT * FROM queend.resolve(%s, %s)", [f"set{seed}"] * 3, ["a", "b", "c"]))]
    db.rows("DELETE FROM queend.log WHERE partition_id = ANY(%s)", parts)
    db.rows("DELETE FROM queend.late_ids WHERE partition_id = ANY(%s)", parts)
    known = pool(seed)
    models = [Model() for _ in parts]
    last = None
    for which, places, how in sends:
        part, model = parts[which], models[which]
        ids = [known[i] for i in places]
        if how in ("again", "compare again") and last:
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
        elif how.startswith("compare"):
            model.check(db.push_comparing(batch(part, ids)), ids)
        else:
            model.check(db.push(batch(part, ids))[0], ids)
    for part, model in zip(parts, models, strict=True):
        rows = db.rows("SELECT base, n, ids, body, created_at FROM queend.log WHERE partition_id = %s"
                       " ORDER BY base", part)
        stored = [r.ids[i:i + 16] for r in rows for i in range(0, 16 * r.n, 16)]
        assert stored == sorted(model.held, key=model.held.get)
        assert [r.base for r in rows] == [sum(x.n for x in rows[:i]) for i in range(len(rows))]
        assert [r.created_at for r in rows] == sorted(r.created_at for r in rows)
        for held, offset in list(model.held.items())[:5]:
            assert [r.found for r in db.rows("SELECT * FROM queend.ids_find(%s, %s)", part, held)] == [offset]


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
            row._replace(created_at=row.created_at + by, high=uuid.UUID(bytes=moved(row.high.bytes))
                         if row.high.int else row.high,
                         ids=b"".join(moved(row.ids[i:i + 16]) for i in range(0, len(row.ids), 16))) for row in rows])
        cursor.executemany("INSERT INTO queend.late_ids VALUES (%s, %s, %s)",
                           [row._replace(id=moved(row.id)) for row in late])
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
    """Eight sessions push the same ids of all kinds in other orders and sizes: each id is stored once, all others are
    told where."""
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


def calls_of(db: Session, work: Callable[[], object]) -> set[str]:
    """The functions of queend that a piece of work calls."""
    db.rows("SET track_functions = 'all'")
    with db.connection.transaction():
        work()
        return {r.funcname for r in db.rows("SELECT funcname FROM pg_stat_xact_user_functions"
                                            " WHERE schemaname = 'queend'")}


@pytest.mark.parametrize("first", [0, 1, 30, 45, 89])
def test_ids_without_order_that_come_again_are_left_to_a_caller_that_compares(db, partitions, first):
    """The caller gets the rows between the first and the last place that it named, none of which is joined."""
    part, = partitions()
    ids, memory = [id4() for _ in range(90)], Memory()
    for at in range(0, len(ids), 10):
        memory.push(db, part, ids[at:at + 10])
    again = random.Random(first).sample(ids[first:first + 40], len(ids[first:first + 40]))
    answers: list = []
    calls = calls_of(db, lambda: answers.extend(memory.asks(db, part, again)))
    assert [row.base for row in answers] == [*range(first // 10 * 10, min(first + 40, 90), 10)]
    assert {row.status for row in answers} == {COMPARE} and "ids_within" not in calls
    seen = b"".join(row.seen for row in answers)
    assert {*again} <= {seen[at:at + 16] for at in range(0, len(seen), 16)}


@pytest.mark.parametrize("why", ["one id is new", "a record was deleted", "retention has passed the row",
                                 "others have pushed", "it lies too far"])
def test_other_ids_without_order_are_looked_up(db, partitions, why):
    part, = partitions()
    ids, memory = [id4() for _ in range(40)], Memory()
    for at in range(0, len(ids), 10):
        memory.push(db, part, ids[at:at + 10])
    again = [*ids[::-1], id4()] if why == "one id is new" else ids[::-1]
    if why == "a record was deleted":
        db.rows("INSERT INTO queend.holes (partition_id, record_offset) VALUES (%s, 39)", part)
    elif why == "retention has passed the row":
        db.rows("INSERT INTO queend.floors (partition_id, floor) VALUES (%s, 5)", part)
    elif why == "others have pushed":
        Memory().push(db, part, [id4()])
    elif why == "it lies too far":
        assert db.rows("SELECT * FROM queend.ids_placed(%s, 0, 40, 39)", part) == []
        return
    answer, = memory.asks(db, part, again)
    assert answer.status == 1
    found = {i: ids.index(i) if i in ids else -1 for i in again}
    if why == "retention has passed the row":
        found |= dict.fromkeys(ids[:5], -1)
    assert list(answer.dup_offset) == [found[i] for i in again]


@pytest.mark.parametrize("first", [0, 1, 30, 45, 89])
def test_ids_that_come_again_are_left_to_a_caller_that_compares(db, partitions, first):
    """In any order: the caller gets rows of the log, none of which is joined, that hold all of them."""
    part, = partitions()
    ids = [id7() for _ in range(90)]
    for call in ids[:60], ids[60:]:
        db.push(*(batch(part, call[at:at + 10], skip=at, of=call) for at in range(0, len(call), 10)))
    again = random.Random(first).sample(ids[first:first + 40], len(ids[first:first + 40]))
    cut = len(again) // 2
    chunks = [batch(part, again[a:b], skip=a, of=again) for a, b in ((0, cut), (cut, len(again))) if a < b]
    rows: list = []
    calls = calls_of(db, lambda: rows.extend(db.push(*chunks, compares=True)))
    log = db.rows("SELECT base, created_at, ids FROM queend.log WHERE partition_id = %s ORDER BY base", part)
    assert len(log) == 9
    assert {(row.ord, row.status) for row in rows} == {(0, COMPARE)}
    told = [(row.base, row.created_at, row.seen) for row in rows]
    assert told == [tuple(row) for row in log if row.base in {base for base, *_ in told}]
    seen = b"".join(seen for *_, seen in told)
    assert {*again} <= {seen[at:at + 16] for at in range(0, len(seen), 16)}
    assert "ids_match" not in calls


@pytest.mark.parametrize("why", ["it does not compare", "the first id is new", "a record was deleted", "no order"])
def test_other_ids_that_come_again_are_looked_up(db, partitions, why):
    part, = partitions()
    ids = [id4() if why == "no order" else id7() for _ in range(40)]
    stored = ids[1:] if why == "the first id is new" else ids
    db.push(batch(part, stored))
    if why == "a record was deleted":
        db.rows("INSERT INTO queend.holes (partition_id, record_offset) VALUES (%s, 39)", part)
    answer, = db.push(batch(part, ids[::-1]), compares=why != "it does not compare")
    assert answer.status == 1
    assert list(answer.dup_offset) == [stored.index(i) if i in stored else -1 for i in ids[::-1]]


def test_no_more_ids_are_left_to_the_caller_than_it_wants(db, partitions):
    part, = partitions()
    ids = [id7() for _ in range(40)]
    for at in range(0, 40, 10):
        db.push(batch(part, ids[at:at + 10]))

    def near(first: int, last: int, most: int) -> list[int]:
        return [row.base for row in db.rows("SELECT * FROM queend.ids_near(%s, %s, %s, %s)", part,
                                            as_uuid(ids[first]), as_uuid(ids[last]), most)]
    assert near(3, 3, 1) == [0]
    assert near(13, 37, 30) == [10, 20, 30]
    assert near(13, 37, 20) == []
    assert near(0, 39, 40) == [0, 10, 20, 30]


def test_listed_ids_are_found_with_their_moments(db, partitions):
    """Ids in late_ids: all in one row, and in several."""
    part, = partitions()
    ids = [id_text(str(n)) for n in range(60)]
    for at in range(0, 60, 20):
        db.push(batch(part, ids[at:at + 20]))
    assert db.value("SELECT count(*) FROM queend.late_ids WHERE partition_id = %s", part) == 60
    rows = db.rows("SELECT created_at FROM queend.log WHERE partition_id = %s ORDER BY base", part)
    stored = [r.created_at for r in rows]
    for wanted in ids[5:15], ids[15:45][::-1]:
        answers = db.push(batch(part, wanted))
        places = [ids.index(one) for one in wanted]
        assert list(answers[0].dup_offset) == places
        assert list(answers[0].dup_at) == [stored[place // 20] for place in places]
