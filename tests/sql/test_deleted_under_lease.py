"""Records that are gone under a lease: they keep no partition closed, and acknowledging them is done."""
from __future__ import annotations

import uuid

import pytest
from sql.calls import transaction
from sql.records import batch, id7, new_lease

DONE, DONE_AND_FREE, NOT_FOUND, NO_LEASE = b"\x21", b"\x25", b"\x08", b"\x10"
COMPLETED, FAILED, DLQ, RETRY, UPTO = range(5)
LEFT = {"cleared": 4, "deleted": 4}


@pytest.fixture
def held(db, partitions, group):
    """Four records under a lease: (partition, group, lease, ids)."""
    part, = partitions()
    readers, lease = group(part), new_lease()
    ids = [id7() for _ in range(4)]
    db.push(batch(part, ids))
    db.pop([part], readers, lease=lease)
    return part, readers, lease, ids


def remove(db, part, ids, how):
    if how == "deleted":
        for one in ids:
            assert db.value("SELECT queend.message_delete(%s, %s)", part, one)
        return
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    db.rows("SELECT * FROM queend.retain(%s, %s, 1, 100, -queend.now_us(), 0, 0)", queue, part - 1)


def moot(db, part):
    return db.value("SELECT queend.leases_moot(ARRAY[%s])", part)


@pytest.mark.parametrize("how", LEFT)
@pytest.mark.parametrize("status", [COMPLETED, FAILED, DLQ, RETRY, UPTO])
@pytest.mark.parametrize("named", [True, False])
def test_what_is_gone_is_done_and_frees_the_partition(db, held, how, status, named) -> None:
    part, readers, lease, ids = held
    db.rows("SELECT queend.hole_make(%s, o) FROM generate_series(0, 3) AS o WHERE %s", part, how == "deleted")
    if how == "cleared":
        remove(db, part, ids, how)
    row = db.ack(part, readers, lease if named else None, ids, bytes([status] * 4))
    in_order = how == "deleted" and named and status == COMPLETED      # the log is not looked at for holes then
    assert (row.codes, row.released) == (b"\1\1\1\5" if in_order else DONE_AND_FREE * 4, True)
    db.push(batch(part, [new := id7()]))
    assert [offset for offset, _ in db.messages(db.pop([part], readers))] == [4] and new
    assert db.value("SELECT count(*) FROM queend.dead_letters WHERE partition_id = %s", part) == 0
    row = db.ack(part, readers, lease, ids)
    assert row.codes == (DONE if how == "deleted" else row.codes[:1]) * 4 and not row.released


@pytest.mark.parametrize("how", LEFT)
def test_a_lease_of_nothing_ends_by_itself(db, held, how) -> None:
    part, readers, lease, ids = held
    remove(db, part, ids, how)
    assert moot(db, part) == (1 if how == "cleared" else 0), "a deletion has ended it"
    assert db.value("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part) == 0
    row = db.ack(part, readers, lease, [ids[0], id7()])
    assert row.codes[:1] == DONE and row.released
    assert transaction(db, acks=[(part, readers, lease, ids, None)])[1, 0].codes == b"\1" * 4
    assert transaction(db, acks=[(part, readers, lease, ids, None)])[1, 0].codes == NO_LEASE * 4, "it counts once"
    db.push(batch(part, [id7()]))
    rows = db.pop([part], readers)
    assert [offset for offset, _ in db.messages(rows)] == [4] and rows[0].attempt == 1


@pytest.mark.parametrize("call", ["message_delete(%s, %s)", "message_bury(%s, %s, 'g', '')",
                                  "messages_erase(%s, ARRAY(SELECT 0::bigint WHERE %s::bytea <> ''))"])
def test_the_first_deletion_of_a_database_ends_the_lease_of_what_is_gone(session, db, partitions, group, call) -> None:
    part, = partitions()
    db.push(batch(part, [one := id7()]))
    db.pop([part], group(part, "g"))
    first = session()
    first.rows("BEGIN")
    first.rows("UPDATE queend.catalog SET holes = false")      # as in a database in which nothing was deleted yet
    first.rows(f"SELECT queend.{call}", part, one)
    assert first.value("SELECT lease_until FROM queend.cursors WHERE partition_id = %s", part) == 0
    first.rows("ROLLBACK")


def test_what_is_left_keeps_its_lease(db, held) -> None:
    part, readers, lease, ids = held
    remove(db, part, ids[:3], "deleted")
    assert moot(db, part) == 0
    row = db.ack(part, readers, lease, ids[:2] + [id7()])
    assert (row.codes, row.released) == (DONE * 2 + NOT_FOUND, False)
    row = db.ack(part, readers, lease, [ids[3]])
    assert (row.codes, row.released) == (b"\5", True)


def test_a_lease_id_of_the_partition_is_known_for_its_own(db, held) -> None:
    part, readers, lease, ids = held
    masked = db.value("SELECT ('8' || substr(md5('x'), 2, 23) || encode(int4send("
                      "queend.id_mask((SELECT seed FROM queend.catalog), 'l', decode('8' || substr(md5('x'), 2, 23),"
                      " 'hex')) # %s), 'hex'))::uuid", part)
    assert db.value("SELECT queend.lease_was(%s, %s, %s)", masked, part, readers)
    assert not db.value("SELECT queend.lease_was(%s, %s, %s)", masked, part + 1, readers)
    assert db.ack(part, readers, masked, [id7()]).codes == NOT_FOUND, "nothing was removed"
    remove(db, part, ids, "cleared")
    assert db.ack(part, readers, masked, [ids[0]]).codes == DONE
    assert db.ack(part, readers, str(uuid.UUID(int=5)), [ids[0]]).codes == NOT_FOUND
