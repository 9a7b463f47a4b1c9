"""Keys and values in SQL: outcomes, waves, required operations, versions, expiry, two sessions at one key."""
from __future__ import annotations

import json
import random
from typing import Any

import pytest
from sql.calls import Waiting
from support.crowd import Crowd
from support.seeds import seed_of_run

GET, PUT, DELETE, INCR, CHECK, LIST, LIST_KEYS = range(7)
DONE, EXISTS, ABSENT, VERSION, LIMIT, TYPE, MORE = range(7)
HOUR = 3_600_000_000
ARGUMENTS = ("%s::int[], %s::smallint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::text[],"
             " %s::text[], %s::text[]")
ns = "shop"


def op(kind: int, key: str, value: Any = None, expect: int | None = None, ttl: int | None = HOUR,
       delta: str | None = None, low: str | None = None, high: str | None = None, wave: int = 0) -> tuple:
    return wave, kind, ns, key, None if value is None else json.dumps(value), expect, ttl, delta, low, high


def write(db, *ops: tuple) -> list:
    return sorted(db.rows(f"SELECT * FROM queend.kv_write({ARGUMENTS})", *map(list, zip(*ops))))


def one(db, *args, **more):
    return write(db, op(*args, **more))[0]


def bundle(db, required: list[bool], *ops: tuple) -> list:
    return db.rows(f"SELECT * FROM queend.kv_bundle({ARGUMENTS}, %s::boolean[])", *map(list, zip(*ops)), required)


@pytest.fixture(autouse=True)
def empty(db):
    db.rows("DELETE FROM queend.kv")


def test_outcomes(db):
    put = one(db, PUT, "a", {"n": 1})
    assert put.outcome == DONE and put.version > 0 and put.expires_at > put.updated_at
    got = one(db, GET, "a")
    assert (got.outcome, got.version, json.loads(got.value)) == (DONE, put.version, {"n": 1})
    assert one(db, GET, "b").outcome == ABSENT
    assert (lambda r: (r.outcome, r.version))(one(db, PUT, "a", 2, expect=0)) == (EXISTS, put.version)
    assert (lambda r: (r.outcome, r.version))(one(db, PUT, "b", 2, expect=7)) == (ABSENT, 0)
    assert (lambda r: (r.outcome, r.version))(one(db, PUT, "a", 2, expect=7)) == (VERSION, put.version)
    later = one(db, PUT, "a", 3, expect=put.version, ttl=None)
    assert later.outcome == DONE and later.version > put.version and later.expires_at == 2**63 - 1
    assert one(db, CHECK, "a", expect=later.version).outcome == DONE
    assert one(db, CHECK, "a", expect=0).outcome == EXISTS
    assert one(db, CHECK, "b", expect=0).outcome == DONE
    assert one(db, CHECK, "b", expect=9).outcome == ABSENT
    assert one(db, DELETE, "a", expect=1).outcome == VERSION
    assert one(db, DELETE, "a").outcome == DONE and one(db, DELETE, "a").outcome == ABSENT
    assert one(db, DELETE, "a", expect=0).outcome == ABSENT
    assert one(db, PUT, "a", 4, expect=0).version > later.version, "versions rise over a deletion"


def test_counters(db):
    assert [one(db, INCR, "c", delta="1", high="3").value for _ in range(3)] == ["1", "2", "3"]
    refused = one(db, INCR, "c", delta="1", high="3")
    assert (refused.outcome, refused.value) == (LIMIT, "3")
    assert one(db, INCR, "c", delta="-1.5").value == "1.5" and one(db, INCR, "c", delta="0.2").value == "1.7"
    assert one(db, INCR, "first", delta="10", high="5").outcome == LIMIT and one(db, GET, "first").outcome == ABSENT
    one(db, PUT, "text", "3")
    assert one(db, INCR, "text", delta="1").outcome == TYPE
    one(db, PUT, "huge", 10**40)
    assert one(db, INCR, "huge", delta="1").outcome == TYPE
    one(db, PUT, "large", 9007199254740993)
    assert one(db, INCR, "large", delta="1").value == "9007199254740994", "whole numbers are exact"
    assert float(one(db, INCR, "double", delta="1e99").value) == 1e99
    assert float(one(db, INCR, "double", delta="1e99").value) == 2e99, "what it writes it reads"


def test_expiry(db):
    first = one(db, INCR, "c", delta="5")
    assert one(db, INCR, "c", delta="1", ttl=9 * HOUR).expires_at == first.expires_at, "a live counter keeps its expiry"
    one(db, PUT, "k", 1)
    db.rows("UPDATE queend.kv SET expires_at = queend.now_us()")
    assert [one(db, kind, key).outcome for kind in (GET, DELETE) for key in "ck"] == [ABSENT] * 4
    assert db.rows("SELECT * FROM queend.kv_get(%s, %s)", [ns, ns], ["c", "k"]) == []
    assert db.rows("SELECT * FROM queend.kv_list(%s, '', NULL, 10, 100, false)", ns) == []
    again = one(db, INCR, "c", delta="1")
    assert again.value == "1" and again.expires_at > first.expires_at, "an expired counter begins anew"
    assert one(db, PUT, "k", 2, expect=0).outcome == DONE


def test_waves_run_in_order(db):
    rows = write(db, op(INCR, "c", delta="1"), op(GET, "d"), op(INCR, "c", delta="1", wave=1),
                 op(PUT, "d", 5, wave=1), op(GET, "c", wave=2), op(DELETE, "c", wave=3),
                 op(INCR, "c", delta="1", wave=4))
    assert [(row.outcome, row.value) for row in rows] == [
        (DONE, "1"), (ABSENT, None), (DONE, "2"), (DONE, None), (DONE, "2"), (DONE, None), (DONE, "1")]


def test_lists(db):
    for i in range(5):
        one(db, PUT, f"walk:{i}", i)
    one(db, PUT, "walk%_:x", 9)
    one(db, PUT, "wal", 9)

    def page(after: str | None, most: int, kind: int = LIST):
        return [(r.outcome, r.key, r.value) for r in db.rows(
            f"SELECT * FROM queend.kv_apply({ARGUMENTS})", [0], [kind], [ns], ["walk:"], [after], [None], [most],
            [None], [None], [None])]
    assert page(None, 2) == [(DONE, "walk:0", "0"), (DONE, "walk:1", "1"), (MORE, None, None)]
    assert page("walk:1", 3) == [(DONE, f"walk:{i}", str(i)) for i in (2, 3, 4)]
    assert page("walk:3", 9, LIST_KEYS) == [(DONE, "walk:4", None)]
    bounded = db.rows("SELECT * FROM queend.kv_list(%s, 'walk', NULL, 100, 2, false)", ns)
    assert [row.key for row in bounded] == ["walk%_:x", "walk:0", None], "two bytes of values, then no more"
    assert db.rows("SELECT * FROM queend.kv_list('other', 'walk', NULL, 100, 99, false)") == []


def test_required(db):
    put = one(db, PUT, "lock", "mine")
    done = bundle(db, [True, False], op(CHECK, "lock", expect=put.version), op(PUT, "a", 1))
    assert [row.outcome for row in done] == [DONE, DONE]
    lost = bundle(db, [False, True, True], op(PUT, "a", 2), op(CHECK, "lock", expect=1), op(PUT, "lock", 1, expect=0,
                                                                                          wave=1))[-1]
    assert (lost.ord, lost.outcome, lost.version, lost.value) == (1, 16 + VERSION, put.version, '"mine"')
    assert one(db, GET, "a").value == "1", "nothing was written"


def test_sweep(db):
    for i in range(10):
        one(db, PUT, f"k{i}", i)
    db.rows("UPDATE queend.kv SET expires_at = queend.now_us() WHERE value::int % 2 = 0")
    at, removed, pages = ("", ""), 0, 0
    while at[0] is not None:
        (row,) = db.rows("SELECT * FROM queend.kv_sweep(%s, %s, 3)", *at)
        at, removed, pages = (row.ns, row.key), removed + row.removed, pages + 1
    assert removed == 5 and pages == 4
    assert db.value("SELECT count(*) FROM queend.kv") == 5


def test_versions_rise_when_the_server_lost_some(db):
    """A promoted server may have lost the newest versions, and even the era of the server before it."""
    before = one(db, PUT, "a", 1).version
    db.rows("UPDATE queend.kv_era SET server = 'another/1'")
    db.rows("RESET queend.kv_era")      # as a new session: those before ended with the server
    db.rows("SELECT setval('queend.kv_versions', 1)")
    after = one(db, PUT, "a", 1).version
    assert after > before and (after >> 33) == (before >> 33) + 1 and after < 2**53


def test_two_sessions_at_one_key(two):
    first, second, watcher = two
    mine = one(first, PUT, "k", 1, expect=0)
    waiting = Waiting(watcher, second, lambda: one(second, PUT, "k", 2, expect=0))
    assert one(watcher, PUT, "other", 1).outcome == DONE, "other keys do not wait"
    first.rows("COMMIT")
    row = waiting.result()
    assert (row.outcome, row.version, row.value) == (EXISTS, mine.version, "1")


def test_random_operations_against_a_model(db):
    dice = random.Random(seed_of_run())
    held: dict[str, tuple[int, str]] = {}
    highest = 0
    for _ in range(400):
        kind = dice.choice((GET, PUT, PUT, DELETE, INCR, CHECK))
        key = dice.choice("abc")
        version, value = held.get(key, (0, None))
        expect = dice.choice((None, 0, version, 12345)) if kind in (PUT, DELETE) else (
            dice.choice((0, version, 12345)) if kind == CHECK else None)
        new = dice.choice((1, 2.5, "text", None, {"a": [1]}))
        row = one(db, kind, key, None if kind != PUT else new if new is not None else 0, expect=expect, delta="1")
        lost = (DONE if expect is None or expect == version else EXISTS if expect == 0 else
                ABSENT if not version else VERSION)
        if kind == GET:
            wanted = DONE if version else ABSENT
        elif kind == INCR:
            wanted = DONE if not version or value[0] in "0123456789" else TYPE
        elif kind == DELETE:
            wanted = lost if version else ABSENT
        else:
            wanted = lost
        assert row.outcome == wanted, (kind, key, expect, version, value)
        if wanted != DONE or kind in (GET, CHECK):
            assert row.version == version and (row.value is None if not version else row.value == value)
            continue
        if kind == DELETE:
            held.pop(key, None)
            continue
        assert row.version > highest
        highest = row.version
        held[key] = (row.version, json.dumps(new if new is not None else 0) if kind == PUT else row.value)
        if kind == INCR:
            assert float(row.value) == float(value or 0) + 1


def test_crossing_statements_do_not_deadlock(session):
    """Eight sessions write the same keys in random orders, some with pushes' lanes before."""
    def work(number: int) -> None:
        mine, dice = session_of[number], random.Random(f"{seed_of_run()}/{number}")
        for _ in range(40):
            keys = dice.sample("abcdef", 4)
            if dice.random() < 0.3:
                mine.rows("BEGIN")
                mine.rows("SELECT pg_advisory_xact_lock(1903519076, lane) FROM unnest(%s::int[]) AS lane", [1, 2])
                write(mine, *(op(INCR, key, delta="1") for key in keys))
                mine.rows("COMMIT")
            else:
                write(mine, *(op(INCR, key, delta="1") for key in keys))
    session_of = [session() for _ in range(8)]
    with Crowd() as crowd:
        crowd.all(work, range(8))
    total = session_of[0].value("SELECT sum(value::int) FROM queend.kv WHERE ns = %s", ns)
    assert total == 8 * 40 * 4
