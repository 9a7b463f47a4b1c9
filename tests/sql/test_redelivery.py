"""Records for one consumer group: its deliveries have them, those of others pass over them, and nothing else is
lost."""
from __future__ import annotations

import random
import uuid

import pytest
from sql.records import addressed, consume, delete, stored
from support.seeds import seed_of_run

CLAIM = ("SELECT part, grp FROM queend.claim(%s, %s::int[], %s::int[], %s::bigint[], %s::int[], %s::bigint[],"
         " %s::uuid[], %s::bigint[])")


def runs(db, part: int) -> list[tuple]:
    return db.rows("SELECT first_offset, last_offset, group_name FROM queend.addressed WHERE partition_id = %s"
                   " ORDER BY 1", part)


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("budget", [1, 3, 100])
def test_each_group_has_its_own(db, partitions, group, budget, auto):
    part, = partitions(1)
    one, other, third = group(part, "one"), group(part, "other"), group(part, "third")
    stored(db, part, 3)
    addressed(db, part, 2, "one")
    addressed(db, part, 2, "one")
    addressed(db, part, 1, "other")
    stored(db, part, 2)
    addressed(db, part, 1, "one")
    # what follows of one group is one run
    assert runs(db, part) == [(3, 6, "one"), (7, 7, "other"), (10, 10, "one")]
    assert consume(db, part, one, budget, auto) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert consume(db, part, other, budget, auto) == [0, 1, 2, 7, 8, 9]
    assert consume(db, part, third, budget, auto) == [0, 1, 2, 8, 9]
    assert consume(db, part, group(part, "late"), budget, auto) == [0, 1, 2, 8, 9]


def test_in_a_partition_without_anything_else(db, partitions, group):
    part, = partitions(1)
    one, other = group(part, "one"), group(part, "other")
    addressed(db, part, 2, "one")
    version = db.value("SELECT version FROM queend.catalog")
    assert db.rows(CLAIM, version, [part], [other], [0], [2], [0], [str(uuid.uuid4())], [0]) == []
    assert db.rows(CLAIM, version, [part], [one], [0], [2], [0], [str(uuid.uuid4())], [0]) == [(part, one)]
    assert consume(db, part, other, 10, False) == []


def test_a_claim_of_what_is_in_memory_is_refused(db, partitions, group):
    part, = partitions(1)
    one, other = group(part, "one"), group(part, "other")
    stored(db, part, 2)
    addressed(db, part, 2, "one")
    version = db.value("SELECT version FROM queend.catalog")

    def claim(who: int, first: int, take: int) -> list:
        return db.rows(CLAIM, version, [part], [who], [first], [take], [0], [str(uuid.uuid4())], [0])

    assert consume(db, part, other, 2, True) == [0, 1]      # passed
    stored(db, part, 1)
    addressed(db, part, 1, "one")
    assert claim(other, 4, 2) == [] and claim(other, 4, 1) == [(part, other)] and claim(other, 5, 1) == []
    assert claim(one, 0, 6) == [(part, one)]


def test_a_deleted_group_is_meant_when_it_is_used_again(db, partitions, group):
    part, = partitions(1)
    group(part, "one")
    addressed(db, part, 1, "one")
    name = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                    part)
    db.rows("SELECT * FROM queend.group_delete('one', %s, true)", name)
    assert consume(db, part, group(part, "one"), 10, True) == [0]
    assert consume(db, part, group(part, "two"), 10, True) == []


def test_runs_beyond_what_one_look_passes(db, partitions, group):
    part, = partitions(1)
    other = group(part, "other")
    stored(db, part, 2500)
    db.rows("INSERT INTO queend.addressed SELECT i, i, %s, 'one' FROM generate_series(0, 2400) AS i", part)
    db.rows("INSERT INTO queend.floors VALUES (%s, 0, true)", part)
    assert consume(db, part, other, 1000, True) == list(range(2401, 2500))


def test_any_order(db, partitions, group):
    """Pushes, addressed records, deletions and deliveries of three groups: each group has what is for it once, in
    order."""
    seed = seed_of_run()
    dice = random.Random(seed)
    part, = partitions(1)
    groups = {name: group(part, name) for name in ("one", "other", "third")}
    seen: dict[str, list[int]] = {name: [] for name in groups}
    live: dict[int, tuple[bytes, str | None]] = {}
    head = 0
    for _ in range(200):
        name = dice.choice([None, None, *groups])
        count = dice.choice([1, 2, 5])
        for one in stored(db, part, count) if name is None else addressed(db, part, count, name):
            live[head] = one, name
            head += 1
        if live and dice.random() < 0.3:
            delete(db, part, live.pop(dice.choice(sorted(live)))[0])
        for name, who in groups.items():
            if dice.random() < 0.3:
                last = max(seen[name], default=-1)
                got = consume(db, part, who, dice.choice([1, 2, 100]), dice.random() < 0.5)
                assert got == [at for at, (_, to) in sorted(live.items()) if at > last
                               and to in (None, name)], f"seed {seed}"
                seen[name] += got


def test_addresses_go_with_retention_and_with_the_partition(db, partitions, group):
    part, = partitions(1)
    addressed(db, part, 2, "one")
    stored(db, part, 1)
    addressed(db, part, 2, "one")
    queue, name = db.rows("SELECT q.id, q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                          " WHERE p.id = %s", part)[0]
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 3", part)
    db.rows("SELECT * FROM queend.retain(%s, 0, 10, 1000, %s, 0, 0)", queue, cut)
    assert runs(db, part) == [(3, 4, "one")] and consume(db, part, group(part, "other"), 10, True) == []
    db.rows("SELECT queend.queue_delete(%s)", name)
    db.rows("SELECT * FROM queend.sweep(1000)")
    assert runs(db, part) == []
