"""Erasing in SQL: what is overwritten at once, what waits for a daemon, and the order of its locks."""
from __future__ import annotations

import json
import uuid

import pytest
from sql.calls import Waiting
from sql.records import batch, body, delete, framed, id4, id7, inner, new_lease, packed, payloads, stored
from support.frames import frames

from queend._core import body_erased, record_read, row_records

LOG = "SELECT * FROM queend.log WHERE partition_id = %s ORDER BY base"
WAITING = "SELECT record_offset FROM queend.erasures WHERE partition_id = %s ORDER BY 1"


def settle(db, part: int, most: int = 1000) -> None:
    """As services/erasure does."""
    while found := db.rows("SELECT * FROM queend.erase_rows(%s, %s)", part, most):
        for row in found[:-1]:
            db.rows("SELECT queend.erase_put(%s, %s, %s, %s, %s::int[])", part, row.copy, row.base,
                    body_erased(row.body, row.n, row.places), row.places)
        db.rows("SELECT queend.erase_end(%s, %s)", part, found[-1].base)


def test_a_plain_row_is_overwritten_at_once(db, partitions):
    part, = partitions()
    ids = [id7() for _ in range(4)]
    db.push(batch(part, ids, [b"0", b"11", b"222", b"3333"],
                  {0: (b"t" * 16, "me", "first"), 1: (None, "me", None), 3: (None, None, "last")}))
    before, = db.rows(LOG, part)
    delete(db, part, ids[1], ids[3])
    after, = db.rows(LOG, part)
    assert payloads(db, after) == ["0", "", "222", ""]
    assert (after.ids, after.n, after.created_at, after.high) == (before.ids, before.n, before.created_at, before.high)
    kept = db.rows("SELECT * FROM queend.record_meta(%s, 0)", after.meta)
    assert kept == db.rows("SELECT * FROM queend.record_meta(%s, 0)", before.meta)
    assert b"me" in before.meta and after.meta.count(b"me") == 1 and b"last" not in after.meta
    assert db.value("SELECT queend.meta_gone(%s)", after.meta) == [1, 3]
    assert row_records(b"q", False, after.ids, after.body, after.meta, 4) == [(b"0", None), (b"", None), (b"222", None),
                                                                              (b"", None)]
    assert db.rows(WAITING, part) == []


@pytest.mark.parametrize("kind", ["packed", "framed"])
def test_a_compressed_row_waits_for_a_daemon(db, partitions, kind):
    part, = partitions()
    texts = ["one", "eve@example.org", "three"]
    ids = [id4() for _ in texts]
    data = [b'{"n":%d,"pad":"%s"}' % (i, b"x" * 2000) for i in range(3)]
    row = batch(part, ids, data)
    db.push(row._replace(body=packed(inner(data)) if kind == "packed" else framed(frames(data, texts, ids))))
    before, = db.rows(LOG, part)
    delete(db, part, ids[1])
    assert db.rows(WAITING, part) == [(1,)]
    settle(db, part)
    after, = db.rows(LOG, part)
    assert db.rows(WAITING, part) == [] and after.ids == before.ids
    found = [record_read(after.body, 3, i) for i in range(3)]
    assert found[0] == record_read(before.body, 3, 0) and found[2] == record_read(before.body, 3, 2)
    assert found[1] == (b"", None, ids[1] if kind == "framed" else None)
    assert b"eve@" not in after.meta


def test_a_body_is_small_or_compressed_as_a_push_would_make_it():
    data = [b"x" * 900, b"y" * 900, b"z"]
    assert body_erased(packed(inner(data)), 3, [0]) == body([b"", data[1], b"z"])
    assert body_erased(body(data), 3, [2], 1024)[:1] == b"\x11" and body_erased(body(data), 3, [2], 0)[:1] == b"\x10"
    with pytest.raises(ValueError):
        body_erased(b"\x10\xff", 3, [0])


def test_moments_of_a_merged_row_stay(db, partitions):
    part, = partitions()
    ids = [id7() for _ in range(3)]
    db.push(batch(part, ids, [b"1", b"2", b"3"], {1: (None, "me", None)}))
    times = b"\x11\x03\x09\x04\x05"
    db.rows("UPDATE queend.log SET meta = %s || substr(meta, 2) WHERE partition_id = %s", times, part)
    moments = "SELECT queend.record_times(created_at, meta) FROM queend.log WHERE partition_id = %s"
    before = db.value(moments, part)
    delete(db, part, ids[1])
    assert db.value(moments, part) == before and len(before) == 3


def test_copies_lose_what_is_no_dead_letter_with_the_row(db, partitions, group):
    """A copy of a compressed row is kept for its dead letters alone, once retention has removed the row."""
    part, = partitions()
    who = group(part)
    ids = [id4() for _ in range(3)]
    db.push(batch(part, ids)._replace(body=packed(inner([b"0" * 99, b"1" * 99, b"2" * 99]))))
    db.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", part, who)
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    db.rows("SELECT * FROM queend.retain(%s, 0, 10, 1000, queend.now_us() + 1000000, 0, 0)", queue)
    assert db.rows(LOG, part) == [] and db.rows(WAITING, part) == [(0,), (2,)]
    settle(db, part, most=1)
    copy = db.value("SELECT body FROM queend.dead_bodies WHERE partition_id = %s", part)
    assert [record_read(copy, 3, i)[0] for i in range(3)] == [b"", b"1" * 99, b""]
    assert db.value("SELECT message_delete FROM queend.message_delete(%s, %s)", part, ids[1]) is True
    assert db.rows("SELECT * FROM queend.dead_bodies WHERE partition_id = %s", part) == []


def test_a_dead_letter_that_was_made_meanwhile_keeps_its_payload(db, partitions, group):
    part, = partitions()
    db.push(batch(part, [id4(), id4()])._replace(body=packed(inner([b"0" * 99, b"1" * 99]))))
    db.rows("INSERT INTO queend.erasures (partition_id, record_offset) VALUES (%s, 0), (%s, 1)", part, part)
    db.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", part, group(part))
    settle(db, part)
    row, = db.rows(LOG, part)
    assert [record_read(row.body, 2, i)[0] for i in range(2)] == [b"", b"1" * 99] and db.rows(WAITING, part) == []


def test_a_deletion_waits_for_the_dead_letter_that_is_being_made(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    who = group(part)
    ids = stored(watcher, part, 2)
    lease = new_lease()
    watcher.pop([part], who, lease=lease)
    a.ack(part, who, lease, ids, status=bytes([2, 2]))
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queend.message_delete(%s, %s)", part, ids[0]))
    a.rows("COMMIT")
    assert waiting.result() is True
    assert watcher.rows("SELECT record_id FROM queend.dead_letters WHERE partition_id = %s", part) == [(ids[1],)]


def test_a_dead_letter_that_comes_too_late_is_not_made(two, partitions, group):
    """A group whose cursor is new: the deletion could not take it."""
    a, b, watcher = two
    part, = partitions()
    ids = stored(watcher, part, 2)
    assert a.value("SELECT queend.message_delete(%s, %s)", part, ids[0]) is True
    who, lease = group(part), new_lease()
    watcher.pop([part], who, lease=lease)
    waiting = Waiting(watcher, b, lambda: b.ack(part, who, lease, ids, status=bytes([2, 2])))
    a.rows("COMMIT")
    waiting.result()
    assert watcher.rows("SELECT record_id FROM queend.dead_letters WHERE partition_id = %s", part) == [(ids[1],)]


def test_a_deletion_passes_retention_and_the_deletion_of_its_queue(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    group(part)
    ids = stored(watcher, part, 2)
    queue, name = watcher.rows("SELECT q.id, q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                               " WHERE p.id = %s", part)[0]
    assert a.value("SELECT queend.message_delete(%s, %s)", part, ids[0]) is True
    told = b.rows("SELECT * FROM queend.retain(%s, 0, 10, 1000, queend.now_us() + 1000000, 0, 0)", queue)
    assert [row.records for row in told if row.reason > 0] == []      # it is left to the next round: nobody waits
    assert b.rows("SELECT * FROM queend.erase_rows(%s, 10)", part) == []
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queend.queue_delete(%s)", name))
    assert a.value("SELECT queend.message_delete(%s, %s)", part, ids[1]) is True
    a.rows("COMMIT")
    assert waiting.result() is True
    assert watcher.value("SELECT queend.message_delete(%s, %s)", part, ids[1]) is False


def test_burying_and_acknowledging_beside_a_deletion(three, partitions, group):
    a, b, c, watcher = three
    part, = partitions()
    who, _ = group(part), group(part, "g")
    ids = stored(watcher, part, 3)
    lease = new_lease()
    watcher.pop([part], who, lease=lease)
    a.rows("SELECT queend.cursors_lock(%s, %s)", [part], [who])      # as an acknowledgment that has come so far
    bury = Waiting(watcher, b, lambda: b.value("SELECT queend.message_bury(%s, %s, 'g', 'x')", part, ids[1]))
    gone = Waiting(watcher, c, lambda: c.value("SELECT queend.message_delete(%s, %s)", part, ids[2]))
    a.rows("SELECT queend.dead_letter(%s, %s, '{0}', '{x}', 0)", part, who)
    a.rows("COMMIT")
    assert bury.result() is True and gone.result() is True


RETAIN = "SELECT * FROM queend.retain(%s, 0, 10, 1000, queend.now_us() + 1000000, 0, 0)"
CLEAR = "SELECT * FROM queend.retain(%s, 0, 10, 1000, -queend.now_us() - 1000000, 0, 0)"
COMPRESSED = packed(inner([b"0" * 99, b"1" * 99, b"2" * 99]))


def test_retention_beside_a_dead_letter_that_is_being_made(two, partitions, group):
    """The dead letter has copied the row already: retention leaves the partition to its next run."""
    a, b, watcher = two
    parts = partitions(2)
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    for part in parts:
        watcher.push(batch(part, [id4() for _ in range(3)])._replace(body=COMPRESSED))
    a.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", parts[0], group(parts[0]))
    assert [(row.partition_id, row.records) for row in b.rows(RETAIN, queue) if row.reason >= 0] == [(parts[1], 3)]
    a.rows("COMMIT")
    assert [(row.partition_id, row.records) for row in b.rows(RETAIN, queue) if row.reason >= 0] == [(parts[0], 3)]
    assert watcher.rows(WAITING, parts[0]) == [(0,), (2,)]


def test_a_queue_is_cleared_beside_dead_letters_that_are_being_made(two, partitions, group):
    """It waits for the first partition alone: a session that makes dead letters may hold a later one, too."""
    a, b, watcher = two
    parts = partitions(2)
    who = group(parts[0])
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    for part in parts:
        watcher.push(batch(part, [id4() for _ in range(3)])._replace(body=COMPRESSED))
    a.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", parts[1], who)
    assert [(row.partition_id, row.reason, row.records) for row in b.rows(CLEAR, queue)] == [
        (parts[0], 1, 3), (parts[1] - 1, -1, 0)]
    waiting = Waiting(watcher, b, lambda: b.rows(CLEAR, queue))
    a.rows("COMMIT")
    assert [(row.partition_id, row.records) for row in waiting.result()] == [(parts[1], 3), (None, 0)]
    assert watcher.rows(WAITING, parts[1]) == [(0,), (2,)]


def test_no_dead_letter_is_made_in_a_row_that_retention_removes(two, partitions, group):
    a, b, watcher = two
    part, = partitions()
    who = group(part)
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    watcher.push(batch(part, [id4() for _ in range(3)])._replace(body=COMPRESSED))
    assert a.rows(RETAIN, queue)[0].records == 3
    waiting = Waiting(watcher, b,
                      lambda: b.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", part, who))
    a.rows("COMMIT")
    waiting.result()
    for table in "dead_letters", "dead_bodies":
        assert watcher.value(f"SELECT count(*) FROM queend.{table} WHERE partition_id = %s", part) == 0


def test_a_deletion_of_dead_letters_beside_retention(two, partitions, group):
    """One of the two sees that the payload is to be overwritten in the copy."""
    a, b, watcher = two
    part, = partitions()
    queue = watcher.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    watcher.push(batch(part, [id4() for _ in range(3)])._replace(body=COMPRESSED))
    watcher.rows("SELECT queend.dead_letter(%s, %s, '{1,2}', '{x,y}', 0)", part, group(part))
    dead = watcher.value("SELECT id FROM queend.dead_letters WHERE partition_id = %s AND record_offset = 1", part)
    assert a.rows(RETAIN, queue)[0].records == 3
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queend.dead_delete(ARRAY[%s::bigint])", dead))
    a.rows("COMMIT")
    assert waiting.result() == 1
    assert watcher.rows(WAITING, part) == [(0,), (1,)]


def test_an_erasure_in_sql_beside_a_redrive(two, partitions, group):
    """The redrive is committed before the search, or comes after it."""
    a, b, watcher = two
    part, = partitions()
    ids = stored(watcher, part, 3)
    queue, name = watcher.rows("SELECT q.id, q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                               " WHERE p.id = %s", part)[0]
    watcher.rows("SELECT queend.dead_letter(%s, %s, '{1}', '{x}', 0)", part, group(part))
    assert a.value("SELECT redriven FROM queend.dead_redrive(%s, NULL, NULL, NULL, NULL, NULL, 9)", queue) == 1
    wanted = json.dumps({"queue": name, "transactionIds": [str(uuid.UUID(bytes=ids[1]))]})
    waiting = Waiting(watcher, b, lambda: b.value("SELECT queen.erase_v1(%s::jsonb)", wanted))
    a.rows("COMMIT")
    assert waiting.result()["erased"] == 2
    rows = watcher.rows(LOG, part)
    assert [payloads(watcher, row) for row in rows][1:] == [[""]] and payloads(watcher, rows[0])[1] == ""


DELETE, BURY = "SELECT queend.message_delete(%s, %s)", "SELECT queend.message_bury(%s, %s, 'g', 'x')"


@pytest.mark.parametrize(("first", "second", "answer"), [
    (DELETE, DELETE, False), (BURY, BURY, False), (DELETE, BURY, None), (BURY, DELETE, True)],
    ids=["deleted twice", "moved twice", "deleted, then moved", "moved, then deleted"])
def test_of_two_calls_at_once_the_second_sees_what_the_first_did(two, partitions, group, first, second, answer):
    a, b, watcher = two
    part, = partitions()
    group(part, "g")
    ids = stored(watcher, part, 1)
    assert a.value(first, part, ids[0]) is True
    waiting = Waiting(watcher, b, lambda: b.value(second, part, ids[0]))
    a.rows("COMMIT")
    assert waiting.result() is answer


@pytest.fixture
def three(session):
    first, second, third, watcher = (session() for _ in range(4))
    first.rows("BEGIN")
    return first, second, third, watcher
