"""Plan guards: on a million messages in a hundred thousand partitions no hot call scans a table, and each touches a few
pages per partition it names. With plans made while the tables were empty, and with plans made afterwards."""
from __future__ import annotations

import random
import time
import uuid

import psycopg
import pytest
from psycopg.rows import namedtuple_row
from sql.calls import ACK_LEASED, CLAIM, PUSH_CLAIM, PUSH_ONE, TRANSACTION
from sql.records import ACK, PUSH, Session, batch, id4, id7, new_lease, push_arrays

PARTITIONS, ROWS = 100_000, 10
HOT = ("-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c"
       " enable_sort=off -c jit=off")
HOUR = 3_600_000_000
OF_LEASE = "8" + new_lease()[1:]      # it names its partition
PUSH_CALL = f"SELECT * FROM queend.push(%s, %s::int[], {PUSH})"
PUSH_COMPARES = f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, p_compares => true)"
POP_CALL = ("SELECT * FROM queend.pop(0, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::int[], %s::int[],"
            " %s::boolean[], %s::uuid[],"
            " %s::bigint[], %s::bigint[], %s::bigint[])")
NEWEST_CALL = POP_CALL.replace("queend.pop(", "queend.pop_newest(")


# catalog has one row and no key to ask for.
SCANS = ("SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE schemaname = 'queend' AND relname <> 'catalog'"
         " AND seq_scan > 0 ORDER BY 1")


class Hot(Session):
    """A session as the daemon opens them."""

    def __init__(self, conninfo: str):
        self.connection = psycopg.connect(conninfo, autocommit=True, row_factory=namedtuple_row, options=HOT)

    def pages(self, query: str, *values) -> int:
        """Pages the call touched; it must not have scanned a table."""
        with self.connection.transaction():
            before = self.rows(SCANS)
            plan = self.value("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query, *values)[0]["Plan"]
            assert self.rows(SCANS) == before, query
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.fixture(scope="module")
def loaded(postgres):
    """(conninfo, a session whose plans are older than the rows, queue, group, partitions)."""
    conninfo = postgres.database()
    early = Hot(conninfo)
    queue = early.rows("SELECT * FROM queend.resolve(ARRAY['plans'], ARRAY['first'])")[0].queue_id
    group = early.rows("SELECT * FROM queend.group_resolve(%s, 'readers', 'all', NULL)", queue)[0].group_id
    assert early.rows("SELECT * FROM queend.group_resolve(%s, 'later', 'all', NULL)", queue)[0].group_id == group + 1
    assert early.rows("SELECT * FROM queend.group_resolve(%s, 'newest', 'all', NULL, true)",
                      queue)[0].group_id == group + 2
    early.rows("TRUNCATE queend.log, queend.late_ids, queend.cursors, queend.partitions")
    early.rows("ANALYZE")
    for _, call, values in calls(queue, group, [1]):
        early.rows(call, *values)
    for table in ("log", "late_ids", "cursors", "partitions"):      # TRUNCATE would throw the plans away
        early.rows(f"DELETE FROM queend.{table}")
    early.rows("INSERT INTO queend.partitions (id, queue_id, name) SELECT 1000 + i, %s, 'p' || i"
               " FROM generate_series(1, %s) AS i", queue, PARTITIONS)
    early.rows("""INSERT INTO queend.log
                  SELECT b, queend.now_us() - %s + (b * %s + i) * 3000::bigint, 1000 + i, 1,
                   '00000000-0000-0000-0000-000000000000', false,
                         uuid_send(gen_random_uuid()), '\\x10027b7d', ''
                          FROM generate_series(0, %s) AS b, generate_series(1, %s) AS i""",
               HOUR, PARTITIONS, ROWS - 1, PARTITIONS)
    early.rows("INSERT INTO queend.cursors (committed, partition_id, group_id) SELECT -1, 1000 + i, %s"
               " FROM generate_series(1, %s) AS i", group, PARTITIONS)
    early.rows("SELECT brin_summarize_new_values('queend.log_by_time')")
    yield conninfo, early, queue, group, list(range(1001, 1001 + PARTITIONS))
    early.close()


def calls(queue: int, group: int, parts: list[int]):
    """(most pages per partition named, call, values) of every hot function on these partitions."""
    def push(batches):
        return 0, sorted({b.part & 63 for b in batches}), *push_arrays(batches)

    def pop(auto, who=group, fresh=False):
        n = len(parts)
        return [1] * n, parts, [who] * n, [fresh] * n, [20 * n], [n], [auto], [lease], [60_000_000], [0], [0]

    def acks(ids):
        n = len(parts)
        return parts, [group] * n, [lease] * n, [1] * n, ids, [bytes(1)] * n
    lease = str(uuid.uuid4())
    new = [id7() for _ in parts]
    late = [id4() for _ in parts]
    n = len(parts)
    yield 25, PUSH_CALL, push([batch(p, [i]) for p, i in zip(parts, new)])
    yield 35, PUSH_CALL, push([batch(p, [i]) for p, i in zip(parts, late)])
    yield 120, PUSH_CALL, push([batch(p, [i]) for p, i in zip(parts, new)])      # duplicates
    yield 120, PUSH_CALL, push([batch(p, [i]) for p, i in zip(parts, late)])
    yield 45, PUSH_COMPARES, push([batch(p, [i]) for p, i in zip(parts, new)])
    yield 60, POP_CALL, pop(False)
    yield 60, PUSH_CLAIM, (*push([batch(p, [id7()]) for p in parts]), list(range(1, n + 1)), [group] * n, [1] * n,
                           [True] * n, [lease] * n, [0] * n)
    yield 60, CLAIM, (0, parts, [group] * n, [0] * n, [1] * n, [0] * n, [lease] * n, [0] * n)
    yield 20, "SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])", (
        [lease], [60], [1] * n, parts, [group] * n)
    yield 45, ACK, (0, *acks(late), [3] * n, [0] * n, [], [], [])                # not the window: one by one
    yield 60, POP_CALL, pop(True)
    # A group that meets these partitions first: each cursor is made, and marks its partition for the figures.
    yield 75, POP_CALL, pop(True, group + 1, True)
    yield 75, NEWEST_CALL, pop(False, group + 2, True)
    yield 25, "SELECT * FROM queend.release(%s, %s, %s::uuid[])", (parts, [group + 2] * n, [lease] * n)
    yield 75, NEWEST_CALL, pop(True, group + 2)
    yield 160, TRANSACTION, (*push([batch(p, [id7()]) for p in parts]), *acks(new)[:2], [None] * n, *acks(new)[3:],
                             [], [], [], [], [], [])
    yield 15, "SELECT * FROM queend.release(%s, %s, %s::uuid[])", (parts, [group] * n, [lease] * n)
    yield 25, "SELECT * FROM queend.resolve(%s, %s)", (["plans"] * n, [f"p{p}" for p in parts])
    yield 45, "SELECT * FROM queend.resolve(%s, %s)", (["plans"] * n, [f"new {lease} {p}" for p in parts])   # made
    yield 8, "SELECT * FROM queend.partitions_find(%s)", (parts,)
    yield 8, "SELECT * FROM queend.partition_find(%s, %s)", ([queue] * n, [f"p{p}" for p in parts])
    yield 20, "SELECT * FROM queend.pop_scan(%s, %s, %s, %s)", (queue, group, parts[0], n)


@pytest.mark.parametrize("moment", ["plans older than the rows", "statistics", "new plans"])
def test_no_call_scans_and_each_touches_few_pages(loaded, moment):
    conninfo, session, queue, group, all_parts = loaded
    if moment == "statistics":
        session.rows("ANALYZE")
    elif moment == "new plans":
        session = Hot(conninfo)
    for _, call, values in calls(queue, group, all_parts[-7:]):
        session.rows(call, *values)               # reads the system catalogues
    offset = ["plans older than the rows", "statistics", "new plans"].index(moment)
    for count in (1, 100):
        parts = all_parts[offset * 31 + count::971][:count]
        for most, call, values in calls(queue, group, parts):
            touched = session.pages(call, *values)
            assert touched <= 120 + most * count, (count, call, touched)


@pytest.mark.parametrize("named", [False, True])
def test_the_push_of_one_row(loaded, named):
    _, session, _, group, all_parts = loaded
    touched = []
    for part in all_parts[40_000 + named::977][:20]:
        head, at = session.rows("SELECT base + n AS head, created_at FROM queend.log WHERE partition_id = %s"
                                " ORDER BY base DESC LIMIT 1", part)[0]
        values = [0, part & 63, *batch(part, [id7()]), -1 if named else 0, 1, group, 1, True, OF_LEASE, 0, head, at]
        touched.append(session.pages(PUSH_ONE, *values))
    # one may come after a vacuum that the server began by itself, and reads the system catalogues anew
    assert sorted(touched)[-2] <= 60


@pytest.mark.parametrize("count", [1, 100])
def test_acknowledging_what_was_delivered(loaded, count):
    _, session, _, group, all_parts = loaded
    parts = all_parts[50_000 + count::7][:count]
    lease = str(uuid.uuid4())
    rows = session.pop(parts, group, budget=10 * count, lease=lease, fresh=False)
    ids = {}
    for row in rows:
        ids[row.ord] = ids.get(row.ord, b"") + row.ids
    assert len(ids) == count and sum(row.take for row in rows) == 10 * count
    touched = session.pages(ACK, 0, [parts[i] for i in ids], [group] * count, [lease] * count,
                            [10] * count, list(ids.values()), [bytes(10)] * count, [3] * count, [0] * count, [], [], [])
    assert touched <= 120 + 40 * count
    assert session.value("SELECT min(committed) FROM queend.cursors WHERE partition_id = ANY(%s)", parts) == 9


@pytest.mark.parametrize("count", [1, 100])
def test_a_claim_goes_to_its_cursors(loaded, count):
    _, session, _, group, all_parts = loaded
    parts = all_parts[44_000 + count::7][:count]
    session.rows("UPDATE queend.cursors SET committed = 4, lease_end = 4"
                 " WHERE partition_id = ANY(%s) AND group_id = %s", parts, group)
    asked = [group] * count, [5] * count, [1] * count, [5] * count, [str(uuid.uuid4())] * count, [0] * count
    assert session.pages(CLAIM, 0, parts, *asked) <= 120 + 25 * count
    assert session.value("SELECT min(committed) FROM queend.cursors WHERE partition_id = ANY(%s) AND group_id = %s",
                         parts, group) == 5


@pytest.mark.parametrize("count", [1, 100])
def test_acknowledging_by_lease_reads_no_log(loaded, count):
    _, session, _, group, all_parts = loaded
    parts = all_parts[40_000 + count::7][:count]
    lease = str(uuid.uuid4())
    session.pop(parts, group, budget=10 * count, lease=lease, fresh=False)
    for heads, first, last in ((False, 0, 4), (True, 5, 9)):
        values = 0, parts, [group] * count, [lease] * count, [first] * count, [last] * count, [10] * count, heads, None
        touched = session.pages(ACK_LEASED, *values)
        assert touched <= 120 + (25 if heads else 15) * count, touched
    assert session.value("SELECT min(committed) FROM queend.cursors WHERE partition_id = ANY(%s)", parts) == 9


@pytest.mark.parametrize("count", [1, 100])
def test_acknowledging_by_places_looks_up_less_than_by_keys(loaded, count):
    """Both once more than once: what is written for the first time touches more."""
    _, session, _, group, all_parts = loaded
    parts = all_parts[85_000 + count::7][:count]
    lease, touched = str(uuid.uuid4()), []
    session.pop(parts, group, budget=10 * count, lease=lease, fresh=False)
    for number in range(4):
        session.rows("UPDATE queend.cursors SET committed = -1, lease_end = 9, lease_id = %s, lease_until = %s"
                     " WHERE partition_id = ANY(%s) AND group_id = %s", lease, 1 << 60, parts, group)
        places = [session.value("SELECT ctid::text FROM queend.cursors WHERE partition_id = %s AND group_id = %s", part,
                                group) for part in parts]
        touched.append(session.pages(ACK_LEASED, 0, parts, [group] * count, [lease] * count, [0] * count, [9] * count,
                                     [10] * count, False, None if number % 2 else places))
        assert session.value("SELECT array_agg(DISTINCT committed) FROM queend.cursors WHERE partition_id = ANY(%s)"
                             " AND group_id = %s", parts, group) == [9]
    assert touched[2] < touched[3], touched


def test_leases_are_found_by_probes(loaded):
    """Whoever renews a lease: its partition is in the id, or it is remembered, or there is none. Not all cursors are
    read."""
    _, session, _, group, all_parts = loaded
    parts = all_parts[41_000:41_003]
    several = new_lease()
    session.rows("INSERT INTO queend.leases SELECT gen_random_uuid(), 1, ARRAY[1, 2] FROM generate_series(1, 10000)")
    session.pop(parts, group, budget=1000, lease=several, fresh=False)
    one = str(session.value("SELECT encode(t.raw || int4send(%s # queend.id_mask(c.seed, 'l', t.raw)), 'hex')::uuid"
                            "  FROM queend.catalog c, (SELECT substr(set_byte(uuid_send(gen_random_uuid()), 0, 200), 1,"
                            " 12) AS raw) AS t", all_parts[41_009]))
    session.pop([all_parts[41_009]], group, budget=10, lease=one, fresh=False)
    call = "SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])"
    for _ in range(7):
        for lease, status, found in ((several, 0, 3), (one, 0, 1), (str(uuid.uuid4()), 1, 0)):
            (row,) = session.rows(call, [lease], [60], [], [], [])
            assert (row.status, row.renewed) == (status, found)
            touched = session.pages(call, [lease], [60], [], [], [])
            assert touched <= 80, (lease, touched)
        required = "SELECT * FROM queend.leases_find(%s::uuid[], %s::int[], %s::int[])"
        assert session.pages(required, [several, one, str(uuid.uuid4())], [], []) <= 80


def test_recent_reads_only_the_newest_pages(loaded):
    _, session, queue, _, parts = loaded
    total = session.value("SELECT pg_relation_size('queend.log') / 8192")
    since = session.value("SELECT queend.now_us()")
    session.push(batch(parts[5], [id7()]))
    assert session.rows("SELECT partition_id FROM queend.recent(%s, 0)", since) == [(0,), (-1,), (parts[5],)]
    touched = session.pages("SELECT * FROM queend.recent(%s, 0)", since)
    assert touched < total / 10


def test_cursors_change_in_place(loaded):
    """Moves of cursors stay on their page (HOT): no index entry is written for them."""
    _, session, _, group, all_parts = loaded
    parts = all_parts[70_000:70_050]

    def updates():
        session.rows("SELECT pg_stat_force_next_flush()")
        return session.rows("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'queend'"
                            " AND relname = 'cursors'")[0]
    before = updates()
    for _ in range(10):
        lease = str(uuid.uuid4())
        rows = session.pop(parts, group, budget=50, lease=lease, fresh=False)
        session.rows("SELECT * FROM queend.renew(%s::uuid[], %s, %s::int[], %s::int[], %s::int[])", [lease], [600],
                     [1] * 50, parts, [group] * 50)
        for row in rows:
            if row.status == 1:
                session.ack(parts[row.ord], group, lease, [row.ids])
    after = updates()
    assert after.n_tup_upd - before.n_tup_upd > 200
    assert after.n_tup_hot_upd - before.n_tup_hot_upd >= 0.9 * (after.n_tup_upd - before.n_tup_upd)


class Control(Hot):
    """A session as the control plane opens them: the functions it calls bring their own settings."""

    def __init__(self, conninfo: str):
        self.connection = psycopg.connect(conninfo, autocommit=True, row_factory=namedtuple_row)


def log_reads(session: Hot, queue: int, parts: list[int]):
    """(most pages per partition, call, values) of what the log reads ask."""
    n = len(parts)
    names = [["plans"] * n, [f"p{part - 1000}" for part in parts]]
    after = parts[0]
    moment = session.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 5", parts[0])
    late = session.value("SELECT queend.now_us()") + 1
    yield 60, "SELECT * FROM queend.read_rows(%s, %s, %s::bigint[], %s::bigint[], 1000000000)", (
        *names, [4] * n, [1000] * n)
    yield 25, "SELECT queend.heads(%s, %s)", names
    yield 90, "SELECT * FROM queend.offsets_at(%s, %s, %s::bigint[])", (*names, [moment] * n)
    yield 60, "SELECT * FROM queend.offsets(%s, %s, %s, %s)", (queue, after, n, moment)
    yield 25, "SELECT * FROM queend.partitions_changed(ARRAY['plans'], ARRAY[NULL::bigint], %s, %s)", ([after], [n])
    yield 20, "SELECT * FROM queend.partitions_changed(%s, %s::bigint[], %s, %s)", (
        ["plans"] * n, [late] * n, [0] * n, [1000] * n)


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("moment", ["plans older than the rows", "statistics", "new plans"])
def test_log_reads_probe(loaded, moment, count):
    conninfo, early, queue, _, all_parts = loaded
    session = Control(conninfo)
    if moment == "plans older than the rows":
        session.rows("SET plan_cache_mode = force_generic_plan")
    elif moment == "statistics":
        early.rows("ANALYZE")
    parts = all_parts[:count]
    for _ in range(7 if moment != "new plans" else 1):      # beyond the five calls after which a plan is kept
        for _, call, values in log_reads(session, queue, all_parts[-3:]):
            session.rows(call, *values)
    for most, call, values in log_reads(session, queue, parts):
        touched = session.pages(call, *values)
        assert touched <= 200 + most * count, (count, call, touched)
    session.close()


@pytest.mark.parametrize("moment", ["plans older than the rows", "statistics", "new plans"])
def test_groups_are_shown_and_moved_by_probes(loaded, moment):
    conninfo, early, queue, group, all_parts = loaded
    session = Control(conninfo)
    if moment == "plans older than the rows":
        session.rows("SET plan_cache_mode = force_generic_plan")
    elif moment == "statistics":
        early.rows("ANALYZE")
    seek = "SELECT * FROM queend.group_seek(%s, %s, %s::int, %s, %s, %s::bigint, %s::bigint)"
    middle = session.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 5", all_parts[60_000])
    # made by other tests, without cursors
    strange = session.value("SELECT count(*) FROM queend.partitions WHERE id < %s", all_parts[0])
    for count in (3, 3, 3, 3, 3, 3, 3, 1, 100):
        for most, call, values in (
                (30 + 20 * strange, "SELECT * FROM queend.group_show('readers', %s)", (count,)),
                (40, seek, (queue, group, None, all_parts[60_000], count, None, None)),
                (40, seek, (queue, group, None, all_parts[60_000], count, None, 3)),
                (120, seek, (queue, group, None, all_parts[60_000], count, middle, None)),
                (40, seek, (queue, group, all_parts[60_000], 0, 1, None, 0))):
            touched = session.pages(call, *values)
            # 3: the plan is made, catalogues are read
            assert touched <= 200 + most * count or count == 3, (count, call, touched)
    session.close()


def test_all_groups_are_shown_by_kept_figures(loaded):
    """A walk through everything takes some probes per partition and cursor, a visit of one partition a few, a page of
    all groups hardly any."""
    conninfo, early, queue, group, all_parts = loaded
    session = Control(conninfo)
    middle = session.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 5", all_parts[60_000])
    session.rows("SELECT * FROM queend.stats_changed(0, true, true)")
    while session.value("SELECT queend.stats_walk(1000)"):
        pass
    session.rows("SELECT queend.stats_keep(queend.now_us(), false)")
    assert session.value("SELECT members FROM queend.stat_groups WHERE group_id = %s", group) >= PARTITIONS
    for call, values in (("SELECT * FROM queend.group_list()", ()),
                         ("SELECT * FROM queend.group_lagging(%s, 100)", (middle,)),
                         ("SELECT queend.stats_visit(%s::int[], %s::int[])", ([queue] * 3, all_parts[60_000:60_003]))):
        session.pages(call, *values)      # the plan is made, catalogues are read
        assert session.pages(call, *values) <= 3000, call
    session.close()


@pytest.mark.parametrize("moment", ["plans older than the rows", "statistics", "new plans"])
def test_leases_are_listed_by_probes(loaded, moment):
    """Of those examined a few pages each, of those returned some more; the rest is not read."""
    conninfo, early, queue, group, all_parts = loaded
    session = early if moment == "plans older than the rows" else Control(conninfo)
    if moment == "statistics":
        early.rows("ANALYZE")
    parts = all_parts[90_000:93_000]
    far = 1 << 60
    early.rows("UPDATE queend.cursors SET lease_until = %s, lease_end = committed + 1, lease_id = gen_random_uuid()"
               " WHERE partition_id = ANY(%s) AND group_id = %s", far, parts, group)
    early.rows("DELETE FROM queend.stat_marks WHERE due > 0")
    early.rows("INSERT INTO queend.stat_marks (partition_id, due) SELECT u.id, %s FROM unnest(%s::int[]) AS u (id)",
               far, parts)
    call = "SELECT * FROM queend.lease_list(%s, %s, %s, %s, %s, 0)"
    ruled = call.replace("0)", "0, ARRAY['none', 'pl%%'], ARRAY[NULL, 'read%%'])")
    for queue_name in (None, "plans", "none"):
        for idle in (False, True):
            for looked, limit in ((10, 10), (1000, 10), (1000, 100)):
                values = queue_name, None if idle else "readers", idle, looked, limit
                found = session.rows(call, *values)      # the plan is made, catalogues are read
                assert (found[0].total, found[0].complete) == (0 if queue_name == "none" else looked, False)
                assert len(found) == (1 if queue_name == "none" else 1 + limit)
                touched = session.pages(call, *values)
                assert touched <= 300 + 20 * looked + 60 * limit, (values, touched)
                assert session.rows(ruled, *values) == found
                touched = session.pages(ruled, *values)
                assert touched <= 300 + 24 * looked + 60 * limit, (values, touched)
    early.rows("UPDATE queend.cursors SET lease_until = 0, lease_end = committed WHERE partition_id = ANY(%s)"
               " AND group_id = %s", parts, group)
    early.rows("DELETE FROM queend.stat_marks WHERE due > 0")
    if session is not early:
        session.close()


def test_messages_are_found_by_probes(loaded):
    """One message, a page of a partition, of a queue of many partitions and of everything, of a status too; dead
    letters page by page; deliveries in a database with holes."""
    conninfo, early, queue, group, all_parts = loaded
    session = Control(conninfo)
    part = all_parts[65_000]
    early.push(batch(part, [id7()]))
    base, ids, at = session.rows("SELECT base, ids, created_at FROM queend.log WHERE partition_id = %s"
                                 " ORDER BY base DESC LIMIT 1", part)[0]
    session.rows("""INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id,
     transaction_id, payload, error, retry_count, created_at, failed_at)
                    SELECT %s, %s + i %% 1000, %s, i, uuid_send(gen_random_uuid()), 'x', '1', 'e', 0, 0, i
                     FROM generate_series(1, 100000) AS i""", queue, all_parts[0], group)
    session.rows("INSERT INTO queend.holes SELECT i, %s FROM generate_series(10, 10000) AS i", part)
    session.rows("INSERT INTO queend.addressed SELECT 2 * i, 2 * i, %s, 'nobody'"
                 " FROM generate_series(2500, 10500) AS i", part)
    page = "SELECT * FROM queend.message_list(%s, %s, NULL, NULL, NULL, %s, %s, 20, 0, 100000)"
    # found nowhere: no more than 5000 rows are looked at
    of_status = "SELECT * FROM queend.message_list(%s, NULL, NULL, NULL, %s, 0, %s, 20, 0, 5000)"
    for _ in range(7):
        for most, call, values in (
                (300, "SELECT queend.message_find(%s, %s)", (part, ids[:16])),
                (300, "SELECT * FROM queend.message_show(%s, %s)", (part, ids[:16])),
                (100, "SELECT * FROM queend.message_groups(%s, %s)", (part, base)),
                (1500, page, ("plans", f"p{part - 1000}", 0, at)),
                (8000, page, ("plans", None, at - 60_000_000, at)),
                (8000, page, (None, None, at - 60_000_000, at)),
                # of each row: its partition, the groups of its queue, their cursors and leases, what was deleted
                *((110_000, of_status, (name, status, at)) for name in ("plans", None)
                  for status in ("pending", "processing", "completed")),
                *((2500, "SELECT * FROM queend.message_list(%s, NULL, NULL, NULL, 'dead_letter', 0, %s, 20, 0, 5000)",
                   (name, at)) for name in ("plans", None)),
                (4000, "SELECT * FROM queend.message_list('plans', %s, NULL, NULL, 'dead_letter', 0, %s, 20, 0, 5000)",
                 (f"p{all_parts[7] - 1000}", at)),
                (300, "SELECT * FROM queend.dead_find(%s, NULL, NULL, NULL, NULL, 20, 0)", (queue,)),
                (300, "SELECT * FROM queend.dead_find(NULL, NULL, NULL, 500, 1000, 20, 0)", ()),
                (900, "SELECT * FROM queend.dead_find(%s, %s, 'readers', NULL, NULL, 20, 0)",
                 (queue, f"p{all_parts[7] - 1000}")),
                (900, "SELECT queend.dead_count(NULL, %s, NULL, NULL, NULL, 100000)", (f"p{all_parts[7] - 1000}",)),
                (900, "SELECT * FROM queend.dead_show(ARRAY(SELECT queend.dead_find(NULL, NULL, NULL, NULL,"
                      " NULL, 20, 0)))", ()),
                (900, "SELECT queend.dead_delete(ARRAY(SELECT queend.dead_find(NULL, NULL, NULL, NULL, NULL, 20, 0)))",
                 ()),
                (60, "SELECT queend.hole_after(%s, 5000)", (part,)),
                (60, "SELECT queend.hole_end(%s, 9990)", (part,)),
                (60, "SELECT queend.given_until(%s, %s, 5000, 100)", (part, group)),
                (300, "SELECT queend.due_from(%s, %s, NULL, 20900)", (part, group))):
            touched = session.pages(call, *values)
            assert touched <= most or _ == 0, (call, touched)      # the first time the catalogues are read
    session.rows("DELETE FROM queend.dead_letters")
    session.rows("UPDATE queend.catalog SET holes = true")
    session.close()


def test_what_changed_lately_is_found_without_a_walk(loaded):
    """A page of the partitions written since a moment costs what was written since, not what is stored or how many
    there are."""
    conninfo, early, queue, _, all_parts = loaded
    session = Control(conninfo)
    call = "SELECT * FROM queend.partitions_changed(ARRAY['plans'], ARRAY[%s::bigint], ARRAY[0], ARRAY[1000])"
    early.rows("SELECT brin_summarize_new_values('queend.log_by_time')")
    since = session.value("SELECT queend.now_us()")
    written = sorted(all_parts[90_000:90_500:50])
    early.push(*(batch(part, [id7()]) for part in written))
    for _ in range(7):
        assert [row.partition_id for row in session.rows(call, since) if row.ord == 0 and row.status == 0] == written
    total = session.value("SELECT pg_relation_size('queend.log') / 8192")
    assert session.pages(call, since) < total / 10
    # everything: walked, and no further than a call may
    rows = session.rows(call, 0)
    assert len(rows) == 1002 and rows[-1].status == 3
    session.pages(call, 0)
    session.close()


def test_sizes_and_idle_partitions_are_told_by_probes(loaded):
    _, session, queue, _, parts = loaded
    assert session.pages("SELECT * FROM queend.queue_sizes(ARRAY[%s])", queue) < 60 * PARTITIONS
    assert session.pages("SELECT * FROM queend.partitions_clean(%s, 500, queend.now_us() + %s)",
                         parts[5000], HOUR) < 60 * 500


AGAIN = {"random": id4, "timely": id7, "untimely": lambda: id7(time.time_ns() // 1000 - HOUR)}
PAGES = {"random": 1000, "timely": 1000, "untimely": 10 * 8000}    # that 8000 ids may touch; untimely: a probe of each
HEAD = "SELECT base + n FROM queend.log WHERE partition_id = %s ORDER BY base DESC LIMIT 1"
KNOWING = ("%s::bigint[], NULL, NULL, NULL, NULL, NULL, NULL, %s::bigint[], %s::bigint[], %s::int[], %s::bigint[],"
           " %s::bigint[]")


@pytest.mark.parametrize("order", ["same", "shifted", "shuffled"])
@pytest.mark.parametrize("kind", AGAIN)
def test_rows_sent_again_cost_what_they_are(loaded, kind, order):
    """Twice as many rows sent again to one partition touch about twice as many pages, however they align with the rows
    of the log. The session remembers ids as a daemon does."""
    _, session, _, _, all_parts = loaded
    touched = []
    for place, rows in enumerate((4, 8)):
        part = all_parts[70_000 + 10 * [*AGAIN].index(kind) + 100 * len(order) + place]
        ids = [AGAIN[kind]() for _ in range(1000 * rows)]
        first = session.value(HEAD, part)
        session.rows("INSERT INTO queend.unlisted (partition_id, since) VALUES (%s, %s)", part, first)
        known = send(session, part, ids, first, -2 - first if kind == "random" else None, {})
        offsets = {one: first + n for n, one in enumerate(ids)}
        again = ids[500:] + ids[:500] if order == "shifted" else ids[:]
        if order == "shuffled":
            random.shuffle(again)
        touched.append(send(session, part, again, known, -2 - known if kind == "random" else None, offsets))
    assert touched[1] <= 2.5 * touched[0] and touched[1] <= PAGES[kind], touched


def send(session: Hot, part: int, ids: list[bytes], head: int, known: int | None, offsets: dict[bytes, int]) -> int:
    """Pushes ids in rows of 1000, and says where those may stand that are stored. Returns the new head the first time;
    the second time the pages that the call touched."""
    rows = [batch(part, ids[at:at + 1000], skip=at, of=ids) for at in range(0, len(ids), 1000)]
    at = session.value("SELECT created_at FROM queend.log WHERE partition_id = %s ORDER BY base DESC LIMIT 1", part)
    looks = [(n // 1000 + 1, offsets[one], offsets[one] + 1) for n, one in enumerate(ids) if one in offsets]
    values = [0, [part & 63], *push_arrays(rows), [0] * len(rows), [known] * len(rows), [at] * len(rows),
              *([list(column) for column in zip(*looks, strict=True)] if looks and known else [[], [], []])]
    call = f"SELECT * FROM queend.push(%s, %s::int[], {PUSH}, {KNOWING})"
    if not offsets:
        session.rows(call, *values)
        return head + len(ids)
    pages = session.pages(call, *values)
    assert session.value(HEAD, part) == head, "nothing is stored twice"
    return pages
