"""Acknowledging what was delivered without reading the log: done where queend.ack would do the same, refused wherever
it would not. Cursors are found by their key, or by the place where their claim wrote them; a place that is no more
theirs is the same as none."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import ACK_LEASED, MINUTE, PUSH_CLAIM, PUSH_ONE, Waiting, claim
from sql.records import Session, batch, id7, new_lease, push_arrays

from queend.postgres.conninfo import HOT_PLANS

STATE = ("SELECT committed, row_base, lease_until, lease_end, retry_until, consumed_at > 0, retries, attempt, lease_id"
         " FROM queend.cursors"
         " WHERE partition_id = %s")


ALL = [(0, 0, True, 0)]
KEY, PLACE = False, True
both_ways = pytest.mark.parametrize("places", [KEY, PLACE], ids=["key", "place"])


def leased(db, *acks, version: int = 0, heads: bool = False, places: list | None = None) -> list:
    """acks: (part, group, lease, first, last, base)."""
    return [tuple(row) for row in db.rows(ACK_LEASED, version, *[list(column) for column in zip(*acks)], heads,
                                          places)]


def place(db, part: int) -> str:
    return db.value("SELECT ctid::text FROM queend.cursors WHERE partition_id = %s", part)


@pytest.fixture
def delivered(db, partitions, group):
    """makes(n): a partition with records 0 to 9 in rows of 4, 3 and 3, the first n of them under a lease: (part, group,
    lease, ids)."""
    def make(n: int = 10):
        part, = partitions()
        readers = group(part)
        ids = [id7() for _ in range(10)]
        for first, end in ((0, 4), (4, 7), (7, 10)):
            db.push(batch(part, ids[first:end]))
        lease = new_lease()
        assert len(db.messages(db.pop([part], readers, budget=n, lease=lease))) == n
        return part, readers, lease, ids
    return make


@both_ways
@pytest.mark.parametrize("n, base", [(10, 10), (7, 7), (6, 4), (1, 0)],
                         ids=["all", "ends with a row", "ends in a row", "one"])
def test_a_whole_lease_as_ack_does_it(db, delivered, n, base, places):
    one, two = delivered(n), delivered(n)
    for part, readers, _, _ in (one, two):
        db.rows("UPDATE queend.cursors SET retries = 2 WHERE partition_id = %s", part)
    assert db.ack(*one[:3], one[3][:n]).released
    done = leased(db, (*two[:3], 0, n - 1, base), places=[place(db, two[0])] if places else None)
    assert done == (ALL if places else [(*two[:2], True, 0)])
    assert db.rows(STATE, two[0]) == db.rows(STATE, one[0])
    assert [offset for offset, _ in db.messages(db.pop([two[0]], two[1]))] == list(range(n, 10))


def test_the_beginning_of_a_lease_and_then_its_rest(db, delivered):
    part, readers, lease, ids = delivered()
    before = db.value("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part)
    db.rows("UPDATE queend.cursors SET retries = 1 WHERE partition_id = %s", part)
    assert leased(db, (part, readers, lease, 0, 4, 10)) == [(part, readers, False, 0)]
    assert db.rows("SELECT committed, lease_until, lease_id, retries FROM queend.cursors WHERE partition_id = %s",
                   part) == [(4, before, uuid.UUID(lease), 1)]
    assert leased(db, (part, readers, lease, 0, 4, 10)) == []           # once
    assert leased(db, (part, readers, lease, 5, 9, 10)) == [(part, readers, True, 0)]
    assert db.pop([part], readers)[0].status == 0


def test_the_head_where_it_is_asked_for(db, delivered):
    part, readers, lease, _ = delivered(7)
    assert leased(db, (part, readers, lease, 0, 2, 7), heads=True) == [(part, readers, False, 0)]
    assert leased(db, (part, readers, lease, 3, 6, 7), heads=True) == [(part, readers, True, 10)]


def test_many_in_the_order_asked(db, conninfo, delivered):
    """Whatever is known of the floors when the daemon's plan is made: a join that fits so few of them may lose the
    order."""
    all_ = sorted(delivered() for _ in range(12))
    db.rows("INSERT INTO queend.floors (partition_id, floor) SELECT part, 0 FROM unnest(%s::int[]) AS part",
            [part for part, *_ in all_])
    db.rows("ANALYZE queend.floors")
    wrong = all_[3]
    acks = [(part, readers, lease if part != wrong[0] else str(uuid.uuid4()), 0, 9, 10)
            for part, readers, lease, _ in all_]
    hot = Session(f"{conninfo} options='{HOT_PLANS}'")
    assert leased(hot, *acks) == [(part, readers, True, 0) for part, readers, _, _ in all_ if part != wrong[0]]
    hot.close()
    assert db.value("SELECT committed FROM queend.cursors WHERE partition_id = %s", wrong[0]) == -1


def refused(db, part, readers, lease, first=0, last=9, **more):
    before = db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part)
    here = place(db, part) if before else "(0,1)"
    for places in (None, [here], ["(0,1)"], ["(4000000000,1)"]):
        assert leased(db, (part, readers, lease, first, last, 10), places=places, **more) == []
    assert db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part) == before


@pytest.mark.parametrize("change", ["lease_until = queend.now_us() - 1", "lease_until = 0",
                                    "lease_id = gen_random_uuid()", "committed = 3", "committed = -1, lease_end = 3"],
                         ids=["expired", "given back", "leased anew", "moved", "a smaller window"])
def test_not_where_the_cursor_is_otherwise(db, delivered, change):
    part, readers, lease, _ = delivered()
    before = place(db, part)
    db.rows(f"UPDATE queend.cursors SET {change} WHERE partition_id = %s", part)
    refused(db, part, readers, lease)
    assert leased(db, (part, readers, lease, 0, 9, 10), places=[before]) == []


def test_not_beyond_the_lease(db, delivered):
    part, readers, lease, _ = delivered(7)
    refused(db, part, readers, lease)


def test_not_what_fell_to_retention(db, delivered):
    part, readers, lease, ids = delivered()
    db.rows("INSERT INTO queend.floors VALUES (%s, 4)", part)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 4", part)
    refused(db, part, readers, lease)
    assert db.ack(part, readers, lease, ids).codes == b"\x21" * 4 + b"\1" * 5 + b"\5"


def test_a_place_that_is_another_cursors_or_nobodys(db, delivered):
    """Their cursors are found by their key, and each is told once."""
    all_ = sorted(delivered() for _ in range(8))
    places = [place(db, part) for part, *_ in all_]
    places[0], places[1] = places[1], places[0]
    places[3] = "(4000000000,1)"
    db.rows("SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])", [all_[5][2]], [600],
            [], [], [])
    assert place(db, all_[5][0]) != places[5]
    acks = [(part, readers, lease, 0, 9, 10) for part, readers, lease, _ in all_]
    done = leased(db, *acks, places=places)
    assert sorted(done) == [(part, readers, True, 0) for part, readers, *_ in all_]
    for part, *_ in all_:
        assert db.rows("SELECT committed, lease_until, row_base FROM queend.cursors WHERE partition_id = %s",
                       part) == [(9, 0, 10)]


def test_some_by_their_places_and_one_not_at_all(db, delivered):
    all_ = sorted(delivered() for _ in range(3))
    acks = [(part, readers, lease, 0, 9, 10) for part, readers, lease, _ in all_]
    acks[1] = (*acks[1][:2], new_lease(), *acks[1][3:])
    done = leased(db, *acks, places=[place(db, part) for part, *_ in all_])
    assert done == [(*all_[0][:2], True, 0), (*all_[2][:2], True, 0)]
    assert db.value("SELECT committed FROM queend.cursors WHERE partition_id = %s", all_[1][0]) == -1


def test_not_the_whole_lease_by_its_place(db, delivered):
    """The place is of no use then; the acknowledgment is what it is without."""
    part, readers, lease, _ = delivered()
    assert leased(db, (part, readers, lease, 0, 4, 10), places=[place(db, part)]) == [(part, readers, False, 0)]
    assert leased(db, (part, readers, lease, 5, 9, 10), places=[place(db, part)]) == ALL


def test_claims_tell_their_places(db, delivered):
    part, readers, lease, _ = delivered(7)
    leased(db, (part, readers, lease, 0, 6, 7))
    told = db.rows("SELECT * FROM queend.claim(0, ARRAY[%s::int], ARRAY[%s::int], ARRAY[7::bigint], ARRAY[3],"
                   " ARRAY[7::bigint], ARRAY[%s::uuid], ARRAY[60000000::bigint])", part, readers, lease)
    assert [row.at for row in told] == [place(db, part)]
    assert leased(db, (part, readers, lease, 7, 9, 10), places=[told[0].at]) == ALL
    for single in (False, True):
        head = db.value("SELECT queend.head(%s)", part)
        row = batch(part, [id7()])
        if single:
            told = db.rows(PUSH_ONE, 0, part & 63, *row, 0, 1, readers, 1, True, "8" + lease[1:], MINUTE, None, None)
        else:
            told = db.rows(PUSH_CLAIM, 0, [part & 63], *push_arrays([row]), [1], [readers], [1], [True], [lease],
                           [MINUTE])
        told, = [row.seen for row in told if row.status == 2]
        assert told == db.value("SELECT tidsend(ctid) FROM queend.cursors WHERE partition_id = %s", part)
        assert leased(db, (part, readers, "8" + lease[1:] if single else lease, head, head, head + 1),
                      places=[place(db, part)]) == ALL


def test_an_extended_lease_is_still_the_same(db, delivered):
    part, readers, lease, _ = delivered()
    db.rows("SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])", [lease], [600], [], [], [])
    assert leased(db, (part, readers, lease, 0, 9, 10)) == [(part, readers, True, 0)]


def test_no_cursor_is_made(db, delivered):
    part, readers, lease, _ = delivered()
    db.rows("DELETE FROM queend.cursors WHERE partition_id = %s", part)
    refused(db, part, readers, lease)


def test_a_stale_caller_acknowledges_nothing(db, delivered):
    part, readers, lease, _ = delivered()
    refused(db, part, readers, lease, version=1 << 40)


@pytest.mark.parametrize("change",
                         ["committed = 5", "lease_until = 0, lease_id = '00000000-0000-0000-0000-000000000000'",
                          "lease_id = gen_random_uuid()"],
                         ids=["moved", "given back", "leased by another"])
@both_ways
def test_a_lease_that_is_lost_at_the_same_moment(db, session, delivered, change, places):
    part, readers, lease, _ = delivered()
    other, second = session(), session()
    places = [place(db, part)] if places else None
    other.rows("BEGIN")
    other.rows(f"UPDATE queend.cursors SET {change} WHERE partition_id = %s", part)
    waiting = Waiting(db, second, lambda: leased(second, (part, readers, lease, 0, 9, 10), places=places))
    other.rows("COMMIT")
    assert waiting.result() == []


@both_ways
def test_of_two_at_the_same_moment_one_takes_effect(db, session, delivered, places):
    part, readers, lease, _ = delivered()
    other, second = session(), session()
    places = [place(db, part)] if places else None
    other.rows("BEGIN")
    assert leased(other, (part, readers, lease, 0, 9, 10)) == [(part, readers, True, 0)]
    waiting = Waiting(db, second, lambda: leased(second, (part, readers, lease, 0, 9, 10), places=places))
    other.rows("COMMIT")
    assert waiting.result() == []


def test_an_extension_at_the_same_moment(db, session, delivered):
    """When the lock is had the cursor is another version, in another place, and still the lease's."""
    part, readers, lease, _ = delivered()
    other, second = session(), session()
    places = [place(db, part)]
    other.rows("BEGIN")
    other.rows("UPDATE queend.cursors SET lease_until = lease_until + 1 WHERE partition_id = %s", part)
    waiting = Waiting(db, second, lambda: leased(second, (part, readers, lease, 0, 9, 10), places=places))
    other.rows("COMMIT")
    assert waiting.result() in ([(part, readers, True, 0)], ALL)      # by its key, or where the lock led to
    assert db.value("SELECT committed FROM queend.cursors WHERE partition_id = %s", part) == 9


def test_what_was_claimed_from_memory(db, delivered):
    """The record after the last one of a claim is where the next claim stands, in one transaction if need be."""
    part, readers, lease, _ = delivered(7)
    leased(db, (part, readers, lease, 0, 6, 7))
    lease = new_lease()
    assert claim(db, (part, readers, 7, 2, 7, lease, MINUTE)) == [(part, readers)]
    assert leased(db, (part, readers, lease, 7, 8, 7)) == [(part, readers, True, 0)]
    assert claim(db, (part, readers, 9, 1, 7, lease, MINUTE)) == [(part, readers)]
