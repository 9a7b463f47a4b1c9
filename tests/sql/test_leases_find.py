"""Leases are found by their ids: by the partition that the id names, or by what is remembered of it."""
from __future__ import annotations

import uuid

import pytest
from sql.records import batch, id7, new_lease

RENEW = "SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])"
NAMED, OTHER = "f" + str(uuid.uuid4())[1:], new_lease()


def renewed(db, lease: str) -> tuple[int, int]:
    (row,) = db.rows(RENEW, [lease], [600], [], [], [])
    return row.status, row.renewed


def spelled(db, part: int) -> str:
    """An id as a daemon makes it for a lease of this partition."""
    return str(db.value("SELECT encode(t.raw || int4send(%s # queend.id_mask(c.seed, 'l', t.raw)), 'hex')::uuid"
                        "  FROM queend.catalog c, (SELECT substr(set_byte(uuid_send(gen_random_uuid()), 0, 200), 1, 12)"
                        " AS raw) AS t", part))


def test_of_one_partition(db, partitions, group):
    parts = partitions(2)
    who, other = group(parts[0], "one"), group(parts[0], "other")
    db.push(*(batch(part, [id7()]) for part in parts))
    lease = spelled(db, parts[0])
    assert db.value("SELECT queend.lease_part(%s)", lease) == parts[0] and renewed(db, lease) == (1, 0)
    for one in (other, who):
        db.pop([parts[0]], one, lease=lease if one == who else spelled(db, parts[0]))
    assert renewed(db, lease) == (0, 1) and db.rows("SELECT * FROM queend.leases") == []
    db.rows("UPDATE queend.cursors SET lease_until = queend.now_us() - 1 WHERE lease_id = %s", lease)
    assert renewed(db, lease) == (2, 0)


@pytest.mark.parametrize("how", ["pop", "claim", "push"])
def test_of_several_partitions(db, partitions, group, how):
    parts = partitions(3)
    who = group(parts[0])
    lease = new_lease()
    rows = [batch(part, [id7()]) for part in parts]
    if how == "push":
        lanes = sorted({part & 63 for part in parts})
        db.rows("SELECT * FROM queend.push(0, %s::int[], %s::int[], %s::int[], %s::int[], %s::smallint[], %s::uuid[],"
                " %s::uuid[], %s::bytea[], %s::bytea[], %s::bytea[],"
                " NULL, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::uuid[], %s::bigint[])", lanes,
                *map(list, zip(*rows)), [1, 2, 3], [who] * 3, [1] * 3, [True] * 3, [lease] * 3, [60_000_000] * 3)
    else:
        db.push(*rows)
    if how == "pop":
        db.pop(parts, who, lease=lease)
    if how == "claim":
        db.rows("SELECT * FROM queend.claim(0, %s::int[], %s::int[], %s::bigint[], %s::int[], %s::bigint[],"
                " %s::uuid[], %s::bigint[])",
                parts, [who] * 3, [0] * 3, [1] * 3, [0] * 3, [lease] * 3, [60_000_000] * 3)
    assert renewed(db, lease) == (0, 3)
    assert db.ack(parts[0], who, lease, [rows[0].ids]).released is True
    assert renewed(db, lease) == (0, 2)      # whichever of them is done first
    assert db.value("SELECT count(*) FROM queend.leases WHERE lease_id = %s", lease) == 1


def test_what_was_not_claimed_is_not_remembered(db, partitions, group):
    parts = partitions(2)
    who = group(parts[0])
    lease = new_lease()
    db.pop(parts, who, lease=lease)
    db.push(*(batch(part, [id7()]) for part in parts))
    db.pop(parts, who, lease=lease, auto=True)
    assert db.value("SELECT count(*) FROM queend.leases WHERE lease_id = %s", lease) == 0


def test_of_cursors_that_are_known(db, partitions, group):
    """What was asked for is remembered where something was claimed, without a look at the cursors; only who has the
    lease is found by it."""
    parts = partitions(3)
    who = group(parts[0])
    first, second = new_lease(), new_lease()
    db.pop(parts, who)
    db.pop(parts, who, lease=first, fresh=False)
    db.push(*(batch(part, [id7()]) for part in parts[:2]))
    db.pop(parts, who, lease=second, fresh=False)
    assert db.rows("SELECT lease_id::text FROM queend.leases WHERE lease_id = ANY (%s::uuid[])",
                   [first, second]) == [(second,)]
    assert renewed(db, first)[0] == 1 and renewed(db, second) == (0, 2)


@pytest.mark.parametrize("lease", [NAMED, OTHER], ids=["named", "other"])
def test_named_by_a_program(db, partitions, group, lease):
    part, = partitions()
    db.push(batch(part, [id7(), id7()]))
    name = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                    part)
    (answer,) = db.value("SELECT queen.pop_unified_batch_v4(jsonb_build_array(jsonb_build_object('queue_name',"
                         " %s::text, 'worker_id', %s::text, 'batch_size', 1)))", name, lease)
    assert answer["result"]["leaseId"] == lease
    assert db.value("SELECT queen.renew_lease_v2(jsonb_build_array(jsonb_build_object('leaseId', %s::text)))",
                    lease)[0]["success"] is True
    assert renewed(db, lease) == (0, 1)
    assert len(db.rows("SELECT * FROM queen.pop_sm_lease(%s, 'p0', 'steps', 60, %s, 1)", name, lease)) == 1
    assert renewed(db, lease) == (0, 2)


def test_forgotten_when_nobody_has_them(db, partitions, group):
    parts = partitions(4)
    who = group(parts[0])
    db.push(*(batch(part, [id7()]) for part in parts))
    leases = [new_lease() for _ in range(2)]
    ids = {}
    for lease, own in zip(leases, (parts[:2], parts[2:])):
        for row in db.pop(own, who, lease=lease):
            ids[own[row.ord]] = row.ids
    for part in parts[:2]:
        db.ack(part, who, leases[0], [ids[part]])
    db.ack(parts[2], who, leases[1], [ids[parts[2]]])

    def tidy() -> int:
        after, gone = "00000000-0000-0000-0000-000000000000", 0
        while after is not None:
            ((removed, after),) = db.rows("SELECT * FROM queend.leases_tidy(%s, 1)", after)
            gone += removed
        return gone

    tidy()
    assert db.rows("SELECT lease_id::text FROM queend.leases WHERE lease_id = ANY (%s::uuid[])",
                   leases) == [(leases[1],)]
    assert renewed(db, leases[1]) == (0, 1) and tidy() == 0
