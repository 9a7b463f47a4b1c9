"""What a log read asks the database: rows by offset, partitions changed since, the moment no later write can lie
before."""
from __future__ import annotations

import pytest
from sql.records import batch, id7, inner, packed, varint
from support.wait import until

READ = "SELECT * FROM queend.read_rows(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s)"
CHANGED = "SELECT * FROM queend.partitions_changed(%s::text[], %s::bigint[], %s::int[], %s::int[])"
BIG = 1 << 30


@pytest.fixture
def named(db, partitions):
    """Makes partitions of a new queue: (queue name, ids)."""
    def make(count=1):
        parts = partitions(count)
        return db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                        " WHERE p.id = %s", parts[0]), parts
    return make


def push(db, part, rows, records=1, size=0):
    for _ in range(rows):
        ids = [id7() for _ in range(records)]
        assert [r.status
                for r in db.push(batch(part, ids, [b'"%s"' % (b"x" * size)] * records if size else None))] == [0]


def read(db, queue, *entries, most=BIG):
    """entries: (partition, offset) or (partition, offset, most bytes)."""
    names, starts, budgets = zip(*((e[0], e[1], e[2] if len(e) > 2 else BIG) for e in entries))
    return db.rows(READ, [queue] * len(entries), list(names), list(starts), list(budgets), most)


def bases(rows):
    return [row.base for row in rows]


def changed(db, *entries):
    """entries: (queue, since, after, limit). The safe moment, and per entry ([partition ids], how it ended, where)."""
    first, *rows = db.rows(CHANGED, *map(list, zip(*entries)))
    out = [([], None, None) for _ in entries]
    for row in rows:
        found = out[row.ord][0]
        if row.status == 0:
            found.append(row.partition_id)
        else:
            out[row.ord] = (found, row.status, row.partition_id)
    assert first.ord == -1
    return first.written_at, out


def test_rows_from_the_one_that_holds_the_offset(db, named):
    queue, (part,) = named()
    push(db, part, 4, records=3)
    assert bases(read(db, queue, *(("p0", o) for o in (0, 2, 3, 11, 12)))) == [
        [0, 3, 6, 9], [0, 3, 6, 9], [3, 6, 9], [9], None]
    one = read(db, queue, ("p0", 4))[0]
    assert (one.status, one.head, one.floor) == (0, 12, 0) and one.n == [3, 3, 3]
    assert [one.ids, one.body] == [list(column) for column in zip(
        *db.rows("SELECT ids, body FROM queend.log WHERE partition_id = %s AND base > 0 ORDER BY base", part))]


def test_marks_and_refusals(db, named):
    queue, (part, _) = named(2)
    push(db, part, 3)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 2", part)
    db.rows("INSERT INTO queend.floors VALUES (%s, 2)", part)
    rows = read(db, queue, ("p0", 1), ("p0", 2), ("p0", 3), ("p0", 4), ("p1", 0), ("p1", 1), ("never", 0))
    assert [(r.status, r.head, r.floor, r.base) for r in rows] == [
        (2, 3, 2, None), (0, 3, 2, [2]), (0, 3, 2, None), (2, 3, 2, None), (0, 0, 0, None),
        (2, 0, 0, None), (0, 0, 0, None)]
    assert [(r.status, r.head) for r in read(db, "no such queue", ("p0", 0))] == [(1, 0)]


def test_a_partition_that_retention_emptied(db, named):
    queue, (part,) = named()
    push(db, part, 3)
    db.rows("DELETE FROM queend.log WHERE partition_id = %s", part)
    db.rows("INSERT INTO queend.floors VALUES (%s, 3)", part)
    assert [(r.status, r.head, r.floor) for r in read(db, queue, ("p0", 2), ("p0", 3), ("p0", 4))] == [
        (2, 3, 3), (0, 3, 3), (2, 3, 3)]
    assert db.rows("SELECT head, floor, written_at, at FROM queend.offsets(%s, 0, 10, 0)",
                   db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)) == [(3, 3, None, 3)]


def test_bytes_are_bounded_and_the_first_row_always_comes(db, named):
    queue, _ = named(3)
    parts = db.rows("SELECT p.id FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = %s"
                    " ORDER BY 1", queue)
    for (part,) in parts:
        push(db, part, 5, size=1000)
    cost = 1 + 2 + 1002 + 32
    assert len(varint(1002)) == 2
    assert bases(read(db, queue, ("p0", 0, 1), ("p1", 0, cost), ("p2", 0, cost + 1))) == [[0], [0], [0, 1]]
    assert bases(read(db, queue, ("p0", 0), ("p1", 0), ("p2", 0), most=1)) == [[0], None, None]
    assert bases(read(db, queue, ("p0", 0), ("p1", 0), ("p2", 0), most=6 * cost + 1)) == [[0, 1, 2, 3, 4], [0, 1], None]


def test_a_long_read_comes_in_pieces(db, named):
    queue, (part, _) = named(2)
    db.rows("""INSERT INTO queend.log SELECT b, queend.now_us(), %s, 1, '00000000-0000-0000-0000-000000000000', false,
                      uuid_send(gen_random_uuid()), '\\x10027b7d', '' FROM generate_series(0, 2499) AS b""", part)
    rows = read(db, queue, ("p0", 1), ("p1", 0))
    assert [row.ord for row in rows] == [0, 0, 0, 1]
    assert sum((row.base for row in rows[:3]), []) == list(range(1, 2500))
    rows = read(db, queue, ("p0", 500))
    assert sum((row.base for row in rows), []) == list(range(500, 2500))


def test_a_write_in_flight_holds_the_safe_time_back(session, named):
    """The record's moment is read before its commit: without the lock table a reader that goes on from now would miss
    it."""
    writer, reader = session(), session()
    queue, (part, other) = named(2)
    writer.rows("BEGIN")
    push(writer, part, 1)
    stored = writer.value("SELECT created_at FROM queend.log WHERE partition_id = %s", part)
    push(reader, other, 1)
    safe, ((found, status, _),) = changed(reader, (queue, 0, 0, 10))
    assert safe <= stored < reader.value("SELECT created_at FROM queend.log WHERE partition_id = %s", other)
    assert (found, status) == ([other], 2)
    writer.rows("COMMIT")
    later, ((found, _, _),) = changed(reader, (queue, safe, 0, 10))
    assert found == [part, other] and later > stored


def test_a_write_that_waits_for_its_lane_holds_it_back_too(session, named):
    holder, waiter, reader = session(), session(), session()
    _, (part,) = named()
    holder.rows("BEGIN")
    holder.rows("SELECT pg_advisory_xact_lock(1903519076, %s)", part & 63)
    waiter.rows("BEGIN")
    begun = waiter.value("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
    waiter.connection.pgconn.send_query(b"SELECT pg_advisory_xact_lock(1903519076, %d)" % (part & 63))
    until(lambda: reader.value("SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", waiter.pid) == 1,
          "it waits")
    holder.rows("COMMIT")
    assert reader.value("SELECT queend.safe_time()") <= begun
    waiter.connection.pgconn.get_result()
    while waiter.connection.pgconn.get_result() is not None:
        pass
    waiter.rows("COMMIT")
    assert reader.value("SELECT queend.safe_time()") > begun


def test_locks_of_others_do_not(session):
    other, reader = session(), session()
    other.rows("BEGIN")
    other.rows("SELECT pg_advisory_xact_lock(1903519077, 1)")
    other.rows("SELECT pg_advisory_xact_lock(1903519076)")
    assert reader.value("SELECT queend.safe_time()") > other.value(
        "SELECT (extract(epoch FROM now()) * 1000000)::bigint")


def test_what_cannot_be_seen_stops_the_safe_time(session, conninfo, named):
    """A role that may not see when the writer began tells the earliest `since`, which is never wrong."""
    writer, admin = session(), session()
    queue, (part,) = named()
    admin.rows("DROP ROLE IF EXISTS stranger")
    admin.rows("CREATE ROLE stranger")
    admin.rows("GRANT USAGE ON SCHEMA queend TO stranger")
    admin.rows("GRANT SELECT ON ALL TABLES IN SCHEMA queend TO stranger")
    stranger = session()
    stranger.rows("SET ROLE stranger")
    assert stranger.value("SELECT queend.safe_time()") is not None
    writer.rows("BEGIN")
    push(writer, part, 1)
    assert stranger.value("SELECT queend.safe_time()") is None
    assert changed(stranger, (queue, 77, 0, 10), (queue, 99, 0, 10))[0] == 77
    assert changed(stranger, (queue, 77, 0, 10), (queue, None, 0, 10))[0] == 0
    writer.rows("COMMIT")
    assert stranger.value("SELECT queend.safe_time()") is not None
    admin.rows("DROP OWNED BY stranger")
    admin.rows("DROP ROLE stranger")


def pages(db, queue, since, limit):
    """All partitions by following the cursor."""
    out, after = [], 0
    while True:
        _, ((found, status, after),) = changed(db, (queue, since, after, limit))
        assert len(found) <= limit
        out += found
        if status == 2:
            return out


def test_partitions_in_order_of_creation_and_by_page(db, named):
    queue, parts = named(25)
    other, (stranger,) = named()
    for part in reversed(parts[5:]):
        push(db, part, 1)
    push(db, stranger, 1)
    for limit in (1, 7, 20, 25, 1000):
        assert pages(db, queue, None, limit) == sorted(parts)
        assert pages(db, queue, 0, limit) == sorted(parts[5:])
    assert changed(db, (other, 0, 0, 10), ("none", 0, 0, 10),
                   (queue, 1 << 60, 0, 10))[1] == [([stranger], 2, 0), ([], 1, 0), ([], 2, 0)]


def test_since_is_inclusive(db, named):
    queue, (part,) = named()
    push(db, part, 1)
    at = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s", part)
    assert [changed(db, (queue, since, 0, 10))[1][0][0] for since in (at - 1, at, at + 1)] == [[part], [part], []]


def test_much_written_since_is_found_by_walking(db, named):
    """More rows than are looked at by time: the same answer."""
    queue, parts = named(30)
    busy, (much,) = named()
    db.rows("""INSERT INTO queend.log SELECT b, queend.now_us(), %s, 1, '00000000-0000-0000-0000-000000000000', false,
                      uuid_send(gen_random_uuid()), '\\x10027b7d', '' FROM generate_series(0, 100000) AS b""", much)
    since = db.value("SELECT queend.now_us()")
    assert db.value("SELECT queend.written_since(0, 100000)") is None
    for part in parts[::3]:
        push(db, part, 1)
    for limit in (1, 4, 1000):
        assert pages(db, queue, 0, limit) == sorted(parts[::3])
        assert pages(db, queue, since, limit) == sorted(parts[::3])
    assert pages(db, busy, 0, 10) == [much] and pages(db, busy, since, 10) == []
    # a page of many entries ends early, and the cursor goes on where it did
    first = changed(db, *[(queue, 0, 0, 1000)] * 1000)[1][999]
    assert first == ([part for part in sorted(parts)[:20] if part in parts[::3]], 3, sorted(parts)[19])
    db.rows("DELETE FROM queend.log WHERE partition_id = %s", much)


def test_offsets_at_a_time(db, named):
    queue, (part, _) = named(2)
    for _ in range(3):
        push(db, part, 1, records=2)
    at = [row[0] for row in db.rows("SELECT created_at FROM queend.log WHERE partition_id = %s ORDER BY base", part)]

    def ask(*moments, name="p0", queue=queue):
        return [(r.found, r.stored_at, r.head, r.floor) for r in
                db.rows("SELECT * FROM queend.offsets_at(%s, %s, %s)", [queue] * len(moments),
                        [name] * len(moments), list(moments))]
    assert ask(0, at[0], at[0] + 1, at[1], at[2], at[2] + 1) == [
        (0, at[0], 6, 0), (0, at[0], 6, 0), (2, at[1], 6, 0), (2, at[1], 6, 0), (4, at[2], 6, 0), (None, None, 6, 0)]
    assert ask(0, name="p1") == [(None, None, 0, 0)] and ask(0, name="never") == [(None, None, 0, 0)]
    assert [r.queue_id for r in db.rows("SELECT * FROM queend.offsets_at(%s, %s, %s)", ["none"], ["p0"], [0])] == [None]
    number = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    assert [(r.name, r.head, r.floor, r.written_at, r.at)
            for r in db.rows("SELECT * FROM queend.offsets(%s, 0, 10, %s)", number, at[1])] == [
        ("p0", 6, 0, at[2], 2), ("p1", 0, 0, None, 0)]
    assert [r.name for r in db.rows("SELECT * FROM queend.offsets(%s, %s, 1, NULL)", number, part)] == ["p1"]
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 2", part)
    db.rows("INSERT INTO queend.floors VALUES (%s, 2)", part)
    assert ask(0, at[0]) == [(2, at[1], 6, 2)] * 2


def test_heads_by_name(db, named):
    queue, (part, _) = named(2)
    push(db, part, 2, records=3)
    assert db.value("SELECT queend.heads(%s, %s)", [queue, "none", queue, queue],
                    ["p0", "p0", "never", "p1"]) == [6, -1, 0, 0]


def test_a_compressed_body_counts_unpacked(db, named):
    for payload in (b"[]", b'"%s"' % (b"x" * 100), b'"%s"' % (b"x" * 20_000), b'"%s"' % (b"x" * 3_000_000)):
        raw = inner([payload] * 3)
        assert db.value("SELECT queend.body_size(%s)", packed(raw)) == len(raw)
        assert db.value("SELECT queend.body_size(%s)", b"\x10" + raw) == len(raw) + 1
    assert db.value("SELECT queend.body_size('\\x11')") == 1
    queue, (part,) = named()
    for _ in range(5):
        ids = [id7()]
        db.push(batch(part, ids)._replace(body=packed(inner([b'"%s"' % (b"x" * 9998)]))))
    cost = 2 + 10_000 + 32
    assert bases(read(db, queue, ("p0", 0, 3 * cost))) == [[0, 1, 2]]
    assert bases(read(db, queue, ("p0", 0, 3 * cost + 1))) == [[0, 1, 2, 3]]
