"""Places of cursors while others write to the table: it is rewritten, versions are pruned, frozen and taken by other
cursors, transactions abort, in part or as a whole."""
from __future__ import annotations

import pytest
from sql.calls import ACK_LEASED, Waiting
from sql.records import batch, id7, new_lease

ALL = [(0, 0, True, 0)]
DONE = [(9, 0)]
OPEN = -1


@pytest.fixture
def delivered(db, partitions, group):
    """makes(): a partition of 10 records, all under a lease, as ack_leased takes it."""
    def make() -> tuple:
        part, = partitions()
        readers, lease = group(part), new_lease()
        db.push(batch(part, [id7() for _ in range(10)]))
        assert len(db.messages(db.pop([part], readers, budget=10, lease=lease))) == 10
        return part, readers, lease, 0, 9, 10
    return make


def leased(db, acks: list, places: list) -> list:
    return sorted(tuple(row) for row in db.rows(ACK_LEASED, 0, *[list(column) for column in zip(*acks)], False, places))


def place(db, ack: tuple) -> str:
    return db.value("SELECT ctid::text FROM queend.cursors WHERE partition_id = %s", ack[0])


def state(db, ack: tuple) -> list:
    return db.rows("SELECT committed, lease_until FROM queend.cursors WHERE partition_id = %s", ack[0])


def told(acks: list) -> list:
    return sorted((*ack[:2], True, 0) for ack in acks)


@pytest.mark.parametrize("rewrite", ["VACUUM FULL queend.cursors", "CLUSTER queend.cursors USING cursors_pkey",
                                     "VACUUM FREEZE queend.cursors"])
def test_a_table_that_was_rewritten_or_frozen(db, delivered, rewrite):
    """Of versions that died some room is left: cursors move into places that were others'."""
    for ack in [delivered() for _ in range(6)]:
        db.rows("DELETE FROM queend.cursors WHERE partition_id = %s", ack[0])
    acks = sorted(delivered() for _ in range(6))
    places = [place(db, ack) for ack in acks]
    db.connection.execute(rewrite)
    assert leased(db, acks, places) in (ALL, told(acks))
    assert [state(db, ack) for ack in acks] == [DONE] * 6
    assert leased(db, acks, places) == []


def test_a_place_that_another_cursor_took(db, delivered):
    """The version that the claim wrote was pruned away, and another cursor's new version stands there."""
    one, other = delivered(), delivered()
    before = place(db, one)
    db.rows("UPDATE queend.cursors SET lease_until = lease_until + 1 WHERE partition_id = %s", one[0])
    db.connection.execute("VACUUM queend.cursors")
    for _ in range(400):
        db.rows("UPDATE queend.cursors SET consumed_at = consumed_at + 1 WHERE partition_id = %s", other[0])
        if place(db, other) == before:
            break
    assert place(db, other) == before
    assert leased(db, [one], [before]) == told([one])
    assert state(db, one) == DONE and state(db, other)[0][0] == OPEN


@pytest.mark.parametrize("end", ["ROLLBACK", "ROLLBACK TO before_it"], ids=["aborted", "aborted in part"])
def test_a_cursor_that_somebody_wrote_in_vain(db, session, delivered, end):
    """It waits for them, and then finds the version of its claim as it was."""
    ack, other, second = delivered(), session(), session()
    places = [place(db, ack)]
    other.rows("BEGIN")
    other.rows("SAVEPOINT before_it")
    other.rows("UPDATE queend.cursors SET committed = 5, lease_until = 0 WHERE partition_id = %s", ack[0])
    waiting = Waiting(db, second, lambda: leased(second, [ack], places))
    other.rows(end)
    assert waiting.result() == ALL and state(db, ack) == DONE


def test_a_cursor_that_somebody_holds_locked(db, session, delivered):
    ack, other, second = delivered(), session(), session()
    places = [place(db, ack)]
    other.rows("BEGIN")
    other.rows("SELECT FROM queend.cursors WHERE partition_id = %s FOR UPDATE", ack[0])
    waiting = Waiting(db, second, lambda: leased(second, [ack], places))
    other.rows("COMMIT")
    assert waiting.result() == ALL and state(db, ack) == DONE


def test_in_a_transaction_that_is_undone_in_part(db, session, delivered):
    """What a subtransaction wrote is told as what a transaction wrote."""
    acks, other = sorted(delivered() for _ in range(3)), session()
    places = [place(db, ack) for ack in acks]
    other.rows("BEGIN")
    for end in ("ROLLBACK TO here", "RELEASE here"):
        other.rows("SAVEPOINT here")
        assert leased(other, acks, [places[0], "(4000000000,1)", places[2]]) == told(acks)
        other.rows(end)
    other.rows("COMMIT")
    assert [state(db, ack) for ack in acks] == [DONE] * 3


def test_what_the_same_transaction_wrote_before_is_not_done(db, session, delivered):
    acks, other = sorted(delivered() for _ in range(2)), session()
    other.rows("BEGIN")
    for ack in acks:
        other.rows("UPDATE queend.cursors SET lease_until = lease_until + 1 WHERE partition_id = %s", ack[0])
    places = [place(other, ack) for ack in acks]
    wrong = (*acks[0][:2], new_lease(), *acks[0][3:])
    assert leased(other, [wrong, acks[1]], places) == told(acks[1:])
    other.rows("COMMIT")
    assert state(db, acks[0])[0][0] == OPEN and state(db, acks[1]) == DONE


def test_one_that_is_named_twice(db, delivered):
    """The contract says once; whoever breaks it acknowledges once all the same."""
    one, other = sorted(delivered() for _ in range(2))
    places = [place(db, ack) for ack in (one, one, other)]
    assert set(leased(db, [one, one, other], places)) == set(told([one, other]))
    assert state(db, one) == state(db, other) == DONE
