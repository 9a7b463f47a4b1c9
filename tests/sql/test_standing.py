"""Messages that end their consumers: deliveries become narrow until the culprit is alone, and it goes to the dead
letters."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import claim
from sql.records import batch, id7, new_lease

MESSAGES = 16


@pytest.fixture
def part(db, partitions):
    """A partition with 16 messages in two rows."""
    one, = partitions()
    for _ in range(2):
        db.push(batch(one, [id7() for _ in range(MESSAGES // 2)]))
    return one


def limit(db, part, most: int) -> None:
    db.rows("UPDATE queend.queues SET delivery_limit = %s WHERE id = (SELECT queue_id FROM queend.partitions"
            " WHERE id = %s)", most, part)


def ran_out(db, part) -> None:
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s AND lease_until > 0", part)


def taken(db, part, readers, lease=None, budget: int = 8) -> list[tuple[int, bytes]]:
    return db.messages(db.pop([part], readers, budget=budget, lease=lease or new_lease()))


def standing(db, part):
    rows = db.rows("SELECT first, lapses, width FROM queend.standing WHERE partition_id = %s", part)
    assert [row.standing for row in db.rows("SELECT standing FROM queend.cursors WHERE partition_id = %s", part)] == [
        True if rows else None]
    return tuple(rows[0]) if rows else None


def consume(db, part, readers, culprits: set[int], one_by_one: bool = False) -> list[list[int]]:
    """A consumer that a culprit ends, until nothing is left: what was delivered each time."""
    seen = []
    for _ in range(400):
        lease = new_lease()
        messages = taken(db, part, readers, lease)
        if not messages:
            return seen
        seen.append([offset for offset, _ in messages])
        for offset, record in messages if one_by_one else []:
            if offset in culprits:
                break
            db.ack(part, readers, lease, [record])
        if not one_by_one and not culprits & {offset for offset, _ in messages}:
            db.ack(part, readers, lease, [record for _, record in messages])
        ran_out(db, part)
    raise AssertionError(seen)


def dead(db, part) -> list[tuple[int, str]]:
    return [tuple(row) for row in db.rows("SELECT record_offset, error FROM queend.dead_letters WHERE partition_id = %s"
                                          " ORDER BY id", part)]


def test_deliveries_are_halved_until_the_culprit_is_alone(db, part, group):
    readers = group(part)
    limit(db, part, 4)
    seen = consume(db, part, readers, {5})
    assert [(one[0], len(one)) for one in seen] == [
        (0, 8), (0, 8), (0, 4), (4, 4), (4, 2), (4, 1), (5, 1), (5, 1), (5, 1), (5, 1), (5, 1), (6, 1), (7, 1), (8, 8)]
    assert dead(db, part) == [(5, "Left by 5 consumers whose leases ran out (deliveryLimit 4)")]
    assert standing(db, part) is None


@pytest.mark.parametrize("one_by_one", [False, True], ids=["batches", "one by one"])
def test_all_else_is_delivered(db, part, group, one_by_one):
    readers = group(part)
    limit(db, part, 3)
    seen = consume(db, part, readers, {0, 6, 7, 15}, one_by_one)
    assert {offset for one in seen for offset in one} == set(range(MESSAGES))
    assert [offset for offset, _ in dead(db, part)] == [0, 6, 7, 15] and standing(db, part) is None


def test_never_means_never(db, part, group):
    readers = group(part)
    limit(db, part, 0)
    for _ in range(30):
        assert taken(db, part, readers)
        ran_out(db, part)
    assert dead(db, part) == [] and standing(db, part) == (0, 29, 1)
    row, = db.rows("SELECT * FROM queend.standing_list(NULL) WHERE partition_id = %s", part)
    assert (row.lapses, row.first) == (29, 0) and row.since > 0


def test_one_lease_that_ran_out_changes_nothing(db, part, group):
    readers = group(part)
    taken(db, part, readers)
    ran_out(db, part)
    lease = new_lease()
    messages = taken(db, part, readers, lease)
    assert len(messages) == 8 and standing(db, part) == (0, 1, None)
    assert db.rows("SELECT * FROM queend.standing_list(NULL) WHERE partition_id = %s", part) == []
    db.ack(part, readers, lease, [record for _, record in messages])
    # the way that knows all the rules looks first
    assert claim(db, (part, readers, 8, 8, 8, str(uuid.uuid4()), 60_000_000)) == []
    assert len(taken(db, part, readers)) == 8 and standing(db, part) is None


def test_a_lease_that_was_given_back_does_not_count(db, part, group):
    readers = group(part)
    for _ in range(5):
        lease = new_lease()
        messages = taken(db, part, readers, lease)
        db.rows("SELECT * FROM queend.release(%s, %s, %s::uuid[])", [part], [readers], [lease])
        db.ack(part, readers, None, [messages[0][1]], b"\3")
    assert standing(db, part) is None and len(messages) == 8


def test_an_end_that_a_daemon_or_its_database_caused_does_not_count(db, part, group):
    readers = group(part)
    for _ in range(5):
        assert len(taken(db, part, readers)) == 8
        db.rows("INSERT INTO queend.system_state VALUES ('away', '{}', queend.now_us()) ON CONFLICT (key) DO UPDATE"
                " SET changed_at = excluded.changed_at")
        ran_out(db, part)
    assert standing(db, part) is None


def test_a_seek_ends_it(db, part, group):
    readers = group(part)
    for _ in range(3):
        taken(db, part, readers)
        ran_out(db, part)
    assert standing(db, part) == (0, 2, 4)
    db.rows("SELECT * FROM queend.group_seek((SELECT queue_id FROM queend.partitions"
            " WHERE id = %s), %s, %s, 0, 1, NULL, 0)", part, readers, part)
    assert standing(db, part) is None and len(taken(db, part, readers)) == 8
