"""Names, ids, options, groups, scans and the steps of a pop."""
from __future__ import annotations

import hashlib
import uuid

from sql.records import batch, id7

from queend.control.options import OPTIONS


def test_resolve_is_idempotent_and_derives_names(db):
    names = ["billing.invoice.v2", "orders-r", "billing.invoice.v2"]
    rows = sorted(db.rows("SELECT * FROM queend.resolve(%s, %s)", names, ["a", "a", "b"]))
    assert rows == sorted(db.rows("SELECT * FROM queend.resolve(%s, %s)", names, ["a", "a", "b"]))
    assert rows[0].queue_id == rows[2].queue_id != rows[1].queue_id and len({r.partition_id for r in rows}) == 3
    loaded = {r.name: r for r in db.rows("SELECT * FROM queend.catalog_load()")}
    assert (loaded[names[0]].namespace, loaded[names[0]].task,
            loaded[names[0]].lease_time) == ("billing", "invoice", 300)
    assert (loaded["orders-r"].namespace, loaded["orders-r"].task) == ("orders-r", "")
    assert db.rows("SELECT * FROM queend.partition_find(%s, %s)", [rows[0].queue_id] * 2,
                   ["nope", "b"]) == [(1, rows[2].partition_id)]
    assert sorted(db.rows("SELECT * FROM queend.partitions_find(%s)", [rows[2].partition_id, 10**9])) == [
        (rows[2].partition_id, rows[0].queue_id, "b")]


def spelled(seed: bytes, number: int, tag: bytes, mask: bytes) -> uuid.UUID:
    raw = bytearray(hashlib.sha256(seed + tag + number.to_bytes(4, "big")).digest()[:12])
    raw[6] = raw[6] & 15 | 128
    raw[8] = raw[8] & 63 | 128
    cover = hashlib.sha256(seed + mask + bytes(raw)).digest()
    return uuid.UUID(bytes=bytes(raw) + bytes(a ^ b for a, b in zip(number.to_bytes(4, "big"), cover)))


def test_ids_on_the_wire(db):
    seed = db.value("SELECT seed FROM queend.catalog")
    for number in (1, 7, 65536, 2**31 - 1):
        assert db.value("SELECT queend.partition_uuid(%s)", number) == spelled(seed, number, b"p", b"m")
        assert db.value("SELECT queend.queue_uuid(%s)", number) == spelled(seed, number, b"q", b"r")
        assert db.value("SELECT queend.partition_id(queend.partition_uuid(%s))", number) == number
        assert db.value("SELECT queend.partition_id(queend.queue_uuid(%s))", number) is None
    assert db.value("SELECT queend.partition_id(%s::uuid)", str(uuid.uuid4())) is None


def test_message_ids(db):
    us, part, offset = 1_790_000_000_123_456, 77, (1 << 41) + (5 << 30) + 12345
    value = db.value("SELECT queend.message_id(%s, %s, %s)", us, part, offset).int
    assert (value >> 80, value >> 76 & 15, value >> 62 & 3) == (us // 1000, 7, 2)
    assert ((value >> 64 & 0xFFF) << 30 | value >> 32 & (1 << 30) - 1, value & 0xFFFFFFFF) == (offset, part)


def test_configure_raises_the_version_only_on_change(db):
    def version():
        return db.value("SELECT version FROM queend.catalog")

    def configure(options):
        return db.value("SELECT queend.configure('conf', 'ns', 'task', %s::jsonb)", options)
    answer = configure('{"leaseTime": "60", "retentionEnabled": true, "unknown": 1}')
    assert (answer["configured"], answer["queue"], answer["namespace"], answer["task"]) == (True, "conf", "ns", "task")
    assert len(answer["options"]) == 15
    assert (answer["options"]["leaseTime"], answer["options"]["retentionEnabled"]) == (60, True)
    part = db.value("SELECT queend.partition_id(%s::uuid)", answer["partitionId"])
    queue = db.value("SELECT q.id FROM queend.queues q WHERE queend.queue_uuid(q.id) = %s::uuid", answer["queueId"])
    assert db.rows("SELECT queue_id, name FROM queend.partitions_find(%s)", [part]) == [(queue, "Default")]
    was = version()
    configure('{"leaseTime": 60, "retentionEnabled": true}')
    assert configure("{}")["options"]["leaseTime"] == 60
    assert version() == was
    assert configure('{"mode": "replace"}')["options"]["leaseTime"] == 300
    assert version() == was + 1


def test_groups_start_where_they_subscribed_first(db, partitions):
    part, = partitions()
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    db.push(batch(part, [id7(), id7()]))
    stored = db.value("SELECT max(created_at) FROM queend.log WHERE partition_id = %s", part)

    def resolve(name, mode="all", start=None):
        return tuple(db.rows("SELECT * FROM queend.group_resolve(%s, %s, %s, %s)", queue, name, mode, start)[0])[:3]
    new = resolve("new", "new")
    assert new[1] > stored and new[2] and resolve("new") == (new[0], new[1], False)
    exact, after = resolve("exact", "all", stored), resolve("after", "all", stored + 1)
    everything, mode = resolve("all"), resolve("__QUEUE_MODE__", "new")
    assert mode[1] is None and everything[1] is None
    late = id7()
    db.push(batch(part, [late]))

    def scanned(group):
        return [(r.next, r.head) for r in db.rows("SELECT * FROM queend.pop_scan(%s, %s, 0, 10)", queue, group)]
    for group, offsets in ((new, [2]), (after, [2]), (exact, [0, 1, 2]), (everything, [0, 1, 2]), (mode, [0, 1, 2])):
        assert scanned(group[0]) == [(offsets[0], 3), (0, -2)]
        assert [o for o, _ in db.messages(db.pop([part], group[0], auto=True))] == offsets
        assert scanned(group[0]) == [(0, -2)]
    assert db.rows("SELECT * FROM queend.group_resolve(%s, 'x', 'all', NULL)", 10**9) == []
    assert sorted(db.rows("SELECT * FROM queend.groups_find(%s, %s)", [queue] * 2, ["nobody", "new"])) == [
        (1, new[0], False)]


def test_scan_pages(db, partitions, group):
    parts = sorted(partitions(10))
    readers = group(parts[0])
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    db.push(*[batch(p, [id7()]) for p in parts[::2]])
    found, after = [], 0
    while rows := db.rows("SELECT * FROM queend.pop_scan(%s, %s, %s, 3)", queue, readers, after):
        assert rows[-1].head == (-1 if after < parts[8] else -2) and rows[-1].partition_id > after
        found += [r.partition_id for r in rows[:-1]]
        after = rows[-1].partition_id
    assert found == parts[::2]


def test_recent(db, partitions):
    first, second = partitions(2)
    db.push(batch(first, [id7()]))
    (begin, writer) = db.rows("SELECT * FROM queend.recent(NULL, NULL)")
    assert begin.partition_id == 0 and writer.partition_id == -1
    assert db.rows("SELECT * FROM queend.recent(%s, 0)", begin.head)[2:] == []
    db.push(batch(second, [id7(), id7()]))
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", second)
    then = db.rows("SELECT * FROM queend.recent(%s, 0)", begin.head)
    assert then[2:] == [(second, queue, 2)]
    assert db.rows("SELECT * FROM queend.recent(%s, 0)", then[0].head)[2:] == []


def test_recent_looks_back_where_the_clock_was_set_back(db, partitions):
    part, = partitions()
    db.push(batch(part, [id7()]))
    ahead = db.value("SELECT queend.now_us()") + 3_600_000_000
    assert db.rows("SELECT partition_id FROM queend.recent(%s, 0)", ahead)[2:] == []
    assert (part,) in db.rows("SELECT partition_id FROM queend.recent(%s, 60000000)", ahead)


def test_the_next_look_begins_before_what_this_one_cannot_see(db, session, partitions):
    part, = partitions()
    slow = session()
    slow.connection.execute("BEGIN")
    slow.push(batch(part, [id7()]))
    began = slow.value("SELECT (extract(epoch FROM now()) * 1000000)::bigint")
    first = db.rows("SELECT * FROM queend.recent(queend.now_us(), 0)")
    assert first[2:] == [] and first[0].head <= began and first[1].head <= began
    slow.connection.execute("COMMIT")
    assert [r.head for r in db.rows("SELECT * FROM queend.recent(%s, 0)", first[0].head)
            if r.partition_id == part] == [1]


def test_delay_and_window(db, partitions, group):
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    db.push(batch(part, [id7()]))
    moments = [row.created_at for row in db.rows("SELECT created_at FROM queend.log WHERE partition_id = %s"
                                                 " ORDER BY base", part)]
    row, = db.pop([part], readers, delay_us=3_600_000_000)
    assert row.status == 3 and 3_500_000_000 < row.until - db.value("SELECT queend.now_us()") <= 3_600_000_000
    row, = db.pop([part], readers, window_us=3_600_000_000)
    assert row.status == 3
    db.rows("UPDATE queend.log SET created_at = created_at - 7200000000 WHERE partition_id = %s AND base = 0", part)
    assert moments == sorted(moments)
    assert [o for o, _ in db.messages(db.pop([part], readers, delay_us=3_600_000_000, auto=True))] == [0]
    assert [o for o, _ in db.messages(db.pop([part], readers, window_us=1, auto=True))] == [1]


def test_delete_and_sweep(db, partitions, group):
    part, kept = partitions()[0], partitions()[0]
    readers = group(part)
    for _ in range(5):
        db.push(batch(part, [id7(), uuid.uuid4().bytes]))
    db.push(batch(kept, [id7()]))
    db.pop([part], readers, budget=1)
    name = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                    part)
    version = db.value("SELECT version FROM queend.catalog")
    assert db.value("SELECT queend.queue_delete(%s)", name) and not db.value("SELECT queend.queue_delete(%s)", name)
    assert db.value("SELECT version FROM queend.catalog") == version + 1
    assert db.rows("SELECT * FROM queend.sweep(2)") == [(2, 1)]
    assert db.rows("SELECT * FROM queend.sweep(100)") == [(3, 0)]
    for table in ("log", "late_ids", "unlisted", "cursors", "floors", "dead_letters", "graves"):
        assert db.value(f"SELECT count(*) FROM queend.{table} WHERE partition_id = %s", part) == 0
    assert db.value("SELECT queend.head(%s)", kept) == 1


def test_steps_of_a_pop(db, partitions):
    first, second = partitions(2)
    queue = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id WHERE p.id = %s",
                     first)
    resolve, lease, release = ("SELECT * FROM queen.pop_sm_resolve(%s, 'steps')",
                               "SELECT * FROM queen.pop_sm_lease(%s, 'p1', 'steps', 60, %s, 4)", \
         "SELECT queen.pop_sm_release(%s, 'steps', %s)")
    assert db.rows(resolve, queue) == []
    ids = [id7() for _ in range(5)]
    db.push(batch(second, ids[:3], metas={1: (None, "me", "two")}))
    db.push(batch(second, ids[3:]))
    step, = db.rows(resolve, queue)
    assert (step.partition_id, step.partition_name,
            step.lease_time) == (db.value("SELECT queend.partition_uuid(%s)", second), "p1", 300)
    taken, = db.rows(lease, queue, "me")
    assert db.rows(lease, queue, "you") == [] and db.rows(resolve, queue) == []
    messages = db.value("SELECT queen.pop_sm_fetch(%s, %s, %s, 4)", taken.partition_id,
                        taken.cursor_ts, taken.cursor_id)
    assert [one["transactionId"] for one in messages] == [str(uuid.UUID(bytes=ids[0])), "two",
                                                          *(str(uuid.UUID(bytes=i)) for i in ids[2:4])]
    assert messages[1]["producerSub"] == "me"
    assert not db.value(release, step.partition_id, "you") and db.value(release, step.partition_id, "me")
    assert db.rows(lease, queue, "me") == [taken]


def test_a_step_of_a_pop_leases_nothing_older_than_the_ttl(db):
    db.rows("SELECT queend.configure('short', '', '', '{\"ttl\": 60}')")
    part = db.rows("SELECT * FROM queend.resolve(ARRAY['short'], ARRAY['p'])")[0].partition_id
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    group = db.rows("SELECT * FROM queend.group_resolve(%s, 'g', 'all', NULL)", queue)[0].group_id
    take = "SELECT * FROM queend.pop_one(%s, %s, 10, gen_random_uuid(), 60000000)"
    db.push(batch(part, [id7(), id7()]))
    db.rows("UPDATE queend.log SET created_at = created_at - 3600000000 WHERE partition_id = %s", part)
    assert db.rows(take, part, group) == [(0, None, None)]
    db.push(batch(part, [id7()]))
    assert db.rows(take, part, group) == [(1, 2, 1)]


def test_a_look_says_when_it_cannot_see_who_stores(db, session, partitions):
    """A role that may not see the sessions of others, as a daemon on a shared server."""
    part, = partitions()
    db.rows("DO $$ BEGIN CREATE ROLE looks; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    db.rows("GRANT USAGE ON SCHEMA queend TO looks")
    db.rows("GRANT SELECT ON ALL TABLES IN SCHEMA queend TO looks")
    hidden, looks = session(), session()
    looks.rows("SET ROLE looks")
    assert looks.rows("SELECT queue_id FROM queend.recent(NULL, NULL)")[0] == (0,)
    hidden.rows("BEGIN")
    hidden.push(batch(part, [id7()]))
    assert looks.rows("SELECT queue_id FROM queend.recent(NULL, NULL)")[0] == (1,)
    hidden.rows("COMMIT")
    assert looks.rows("SELECT queue_id FROM queend.recent(NULL, NULL)")[0] == (0,)


def test_every_option_has_its_column_and_default(db):
    """A queue that nobody configured has what queend/control/options.py says."""
    db.rows("SELECT * FROM queend.resolve(%s, %s)", ["plain"], ["p"])
    (row,) = db.rows("SELECT * FROM queend.queues WHERE name = 'plain'")
    assert {one.column: one.default for one in OPTIONS} == {one.column: getattr(row, one.column) for one in OPTIONS}
