"""Deleted messages: deliveries pass over them, cursors get on, and nothing else is lost."""
from __future__ import annotations

import random
import uuid

import pytest
from psycopg.errors import UndefinedObject
from sql.calls import CLAIM
from sql.records import batch, consume, delete, framed, id4, id7, stored
from support.frames import frames
from support.seeds import seed_of_run


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("budget", [1, 3, 100])
@pytest.mark.parametrize("gone", [[0], [9], [4], [0, 1, 2], [7, 8, 9], [3, 4, 5, 6], [0, 2, 4, 6, 8], [1, 3, 5, 7, 9],
                                  list(range(10)), [0, 9]], ids=str)
def test_deliveries_pass_over_them(db, partitions, group, gone, budget, auto):
    part, = partitions(1)
    ids = stored(db, part, 10, rows=5)
    delete(db, part, *(ids[i] for i in gone))
    assert consume(db, part, group(part), budget, auto) == [i for i in range(10) if i not in gone]
    more = stored(db, part, 1)
    who = group(part)
    assert consume(db, part, who, budget, auto) == [*(i for i in range(10) if i not in gone), 10]
    assert db.value("SELECT queend.message_find(%s, %s)", part, more[0]) == 10
    assert db.value("SELECT queend.message_delete(%s, %s)", part, ids[gone[0]]) is False
    assert db.value("SELECT queend.message_delete(%s, %s)", part, id7()) is False


def test_deletions_between_deliveries(db, partitions, group):
    """Any order of pushes, deletions and deliveries: what was not deleted before it was delivered comes once, in
    order."""
    seed = seed_of_run()
    dice = random.Random(seed)
    part, = partitions(1)
    who = group(part)
    live, seen, head = {}, [], 0
    for _ in range(150):
        if dice.random() < 0.5:
            for one in stored(db, part, dice.choice([1, 2, 5])):
                live[head] = one
                head += 1
        if live and dice.random() < 0.6:
            for at in dice.sample(sorted(live), min(len(live), 3)):
                delete(db, part, live.pop(at))
        if dice.random() < 0.3:
            got = consume(db, part, who, dice.choice([1, 2, 100]), dice.random() < 0.5)
            assert got == sorted(at for at in live if not seen or at > max(seen)), f"seed {seed}"
            seen += got


def test_a_claim_of_what_is_in_memory_is_refused(db, partitions, group):
    part, = partitions(1)
    who = group(part)
    ids = stored(db, part, 4)
    delete(db, part, ids[2])
    version = db.value("SELECT version FROM queend.catalog")

    def claim(first: int, take: int) -> list:
        return db.rows(CLAIM, version, [part], [who], [first], [take], [0], [str(uuid.uuid4())], [0])

    assert claim(0, 3) == [] and claim(0, 2) == [(part, who)] and claim(2, 1) == []


def test_deleted_under_lease(db, partitions, group):
    """Who holds it may acknowledge it; who is given it again after a failure is not given what was deleted."""
    part, = partitions(1)
    who = group(part)
    ids = stored(db, part, 3)
    lease = str(uuid.uuid4())
    db.pop([part], who, lease=lease)
    delete(db, part, ids[0])
    assert db.ack(part, who, lease, ids[:1]).codes == b"\1"
    delete(db, part, ids[1])
    db.ack(part, who, lease, ids[1:], status=bytes([1, 1]))
    assert consume(db, part, who, 100, False) == [2]


def test_dead_letters_and_copies_go_too(db, partitions, group):
    part, = partitions(1)
    who = group(part)
    ids = [id4() for _ in range(3)]
    db.push(batch(part, ids)._replace(body=framed(frames([b"1", b"2", b"3"], ["a", "b", "c"], ids))))
    db.rows("SELECT queend.dead_letter(%s, %s, %s::bigint[], %s::text[], 3)", part, who, [0, 1], ["x", "y"])
    copies = "SELECT count(*) FROM queend.dead_bodies WHERE partition_id = %s"
    delete(db, part, ids[0])
    assert db.value(copies, part) == 1
    group(part, "g")
    assert db.value("SELECT queend.message_bury(%s, %s, 'g', 'z')", part, ids[2]) is True
    assert db.value("SELECT queend.message_bury(%s, %s, 'g', 'z')", part, ids[2]) is False
    assert db.value("SELECT queend.message_bury(%s, %s, 'g', 'z')", part, ids[0]) is None
    assert consume(db, part, group(part), 100, True) == [1]
    delete(db, part, ids[1], ids[2])
    assert db.value(copies,
                    part) == 0 == db.value("SELECT count(*) FROM queend.dead_letters WHERE partition_id = %s", part)


def test_a_group_that_does_not_exist_is_not_made(db, partitions):
    part, = partitions(1)
    ids = stored(db, part, 2)
    with pytest.raises(UndefinedObject, match="Consumer group not found"):
        db.value("SELECT queend.message_bury(%s, %s, 'biling', 'z')", part, ids[0])
    assert db.value("SELECT queend.message_bury(%s, %s, '__QUEUE_MODE__', 'z')", part, ids[0]) is True
    assert db.rows("SELECT record_offset, group_name, from_all FROM queend.dead_letters WHERE partition_id = %s",
                   part) == [(0, "__QUEUE_MODE__", True)]
    assert db.rows("SELECT g.name FROM queend.consumer_groups g JOIN queend.partitions p ON p.queue_id = g.queue_id"
                   " WHERE p.id = %s", part) == []


def test_holes_go_with_retention(db, partitions, group):
    part, = partitions(1)
    ids = stored(db, part, 6, rows=3)
    delete(db, part, ids[1], ids[4])
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 4", part)
    db.rows("SELECT * FROM queend.retain(%s, 0, 10, 1000, %s, 0, 0)", queue, cut)
    assert db.rows("SELECT record_offset FROM queend.holes WHERE partition_id = %s", part) == [(4,)]
    assert consume(db, part, group(part), 100, True) == [5]
