"""A statement that is executed after its moment does nothing, wherever it stood still before; and a log that holds
twins is acknowledged."""
from __future__ import annotations

import threading

import psycopg
import pytest
from sql.records import NOTHING, PUSH, batch, id7, new_lease, push_arrays, stored
from support.wait import PATIENCE, until

from queend._core import probe_statements

FENCE = " WHERE clock_timestamp() <= %s OR queend.late(%s)"
CHANGE = {"push", "push_due", "push_one", "pop", "pop_newest", "turn", "claim", "ack", "ack_leased", "transaction",
          "transaction_due", "stream_cycle", "renew", "release", "take_back", "resolve_within", "group_within",
          "rates_take", "kv_write", "kv_bundle", "transaction_bundle", "locks", "timers_write"}


def test_all_that_changes_something_is_fenced() -> None:
    assert {name for name, text, _ in probe_statements() if "queend.late(" in text} == CHANGE
    for name, text, types in probe_statements():
        if name in CHANGE:
            assert (text.endswith(f" WHERE clock_timestamp() <= ${len(types)} OR queend.late(${len(types)})")
                    and types[-1] == 1184), name


@pytest.mark.parametrize("hold", ["lane", "cursor"])
def test_a_statement_that_waited_too_long_for_its_locks_does_nothing(session, db, partitions, group, hold) -> None:
    """The moment passes while it waits: the check stands after the locks."""
    holder, late = session(), session()
    part, = partitions()
    readers = group(part)
    stored(db, part, 1)
    lease = new_lease()
    ((_, one),) = db.messages(db.pop([part], readers, lease=lease))
    before = db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s",
                     part), db.value("SELECT count(*) FROM queend.log WHERE partition_id = %s", part)
    holder.rows("BEGIN")
    if hold == "lane":
        holder.rows("SELECT pg_advisory_xact_lock(1903519076, %s)", part & 63)
    else:
        holder.rows("SELECT FROM queend.cursors WHERE partition_id = %s FOR UPDATE", part)
    moment = db.value("SELECT clock_timestamp() + interval '0.3 s'")
    errors: list[BaseException] = []

    def call() -> None:
        try:
            if hold == "lane":
                late.rows(f"SELECT * FROM queend.push(0, %s::int[], {PUSH}){FENCE}", [part & 63],
                          *push_arrays([batch(part, [id7()])]), moment, moment)
            else:
                late.rows("SELECT * FROM queend.ack(0, %s::int[], %s::int[], %s::uuid[], ARRAY[1], %s::bytea[],"
                          " ARRAY['\\x00'::bytea], ARRAY[3], ARRAY[0::bigint], '{}', '{}', '{}')" + FENCE,
                          [part], [readers], [lease], [one], moment, moment)
        except psycopg.Error as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: db.value("SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", late.pid),
          "it waits")
    until(lambda: db.value("SELECT clock_timestamp() > %s", moment), "its moment has passed")
    holder.rows("COMMIT")
    thread.join(PATIENCE)
    assert errors and errors[0].sqlstate == "QD408"
    assert abs(int(errors[0].diag.message_detail) - db.value("SELECT queend.now_us()")) < 60_000_000
    assert before == (db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s", part),
                      db.value("SELECT count(*) FROM queend.log WHERE partition_id = %s", part))


@pytest.mark.parametrize("moment,done", [("infinity", True), ("-infinity", False)])
def test_each_function_is_undone_as_a_whole(db, partitions, group, moment, done) -> None:
    part, = partitions()
    readers = group(part)
    stored(db, part, 3)
    calls = [
        (f"SELECT * FROM queend.push(0, %s::int[], {PUSH}){FENCE}", [part & 63], *push_arrays([batch(part, [id7()])])),
        ("SELECT * FROM queend.pop(0, ARRAY[1], %s::int[], %s::int[], ARRAY[true], ARRAY[2], ARRAY[1], ARRAY[true],"
         " ARRAY[%s::uuid], ARRAY[0::bigint], ARRAY[0::bigint],"
         f" ARRAY[0::bigint]){FENCE}", [part], [readers], NOTHING),
        ("SELECT * FROM (SELECT part, grp, released, head FROM queend.ack_leased(0, '{}', '{}', '{}', '{}', '{}',"
         " '{}', false) UNION ALL"
         " SELECT part, grp, NULL, 0 FROM queend.claim(0, %s::int[], %s::int[], ARRAY[%s::bigint], ARRAY[1],"
         " ARRAY[0::bigint], ARRAY[%s::uuid], ARRAY[60000000::bigint])) AS t" + FENCE,
         [part], [readers], 2 if done else 0, new_lease()),
    ]
    facts = ("SELECT (SELECT sum(l.n) FROM queend.log l WHERE l.partition_id = %s), (SELECT (k.committed,"
             " k.lease_until > 0) FROM queend.cursors k WHERE k.partition_id = %s)")
    for call, *values in calls:
        before = db.rows(facts, part, part)
        if done:
            db.rows(call, *values, moment, moment)
        else:
            with pytest.raises(psycopg.Error) as error:
                db.rows(call, *values, moment, moment)
            assert error.value.sqlstate == "QD408"
        assert (db.rows(facts, part, part) != before) == done, call


@pytest.fixture
def twins(db, partitions, group):
    """Records a b b c, the second and the third with one id, as a statement that was executed twice left them once:
    (partition, group, ids)."""
    part, = partitions()
    readers = group(part)
    ids = [id7() for _ in range(3)]
    for some in ([ids[0]], [ids[1]], [ids[1]], [ids[2]]):
        db.push(batch(part, some, kind=0))
    return part, readers, [ids[0], ids[1], ids[1], ids[2]]


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_a_log_that_holds_twins_is_acknowledged_one_by_one(db, twins, status) -> None:
    part, readers, ids = twins
    lease = new_lease()
    assert [one for _, one in db.messages(db.pop([part], readers, lease=lease))] == ids
    for number, one in enumerate(ids):
        row = db.ack(part, readers, lease, [one], bytes([status]), retry_limit=0)
        assert row.status == 0 and len(row.codes) == 1, row
        if status == 3:      # it goes back, and the lease with it
            assert row.codes == b"\5" and row.committed == -1
            return
        assert row.committed == number
    assert db.pop([part], readers)[0].status == 0


@pytest.mark.parametrize("status", [0, 2])
def test_twins_are_acknowledged_together(db, twins, status) -> None:
    part, readers, ids = twins
    lease = new_lease()
    db.pop([part], readers, lease=lease)
    row = db.ack(part, readers, lease, ids, bytes([status] * 4))
    assert (len(row.codes), row.committed, row.released) == (4, 3, True)


def test_twins_are_acknowledged_in_a_transaction_and_found_by_a_push(db, twins) -> None:
    part, readers, ids = twins
    lease = new_lease()
    db.pop([part], readers, lease=lease)
    assert db.value("SELECT queend.transaction_judge(%s, %s, %s, %s, %s, queend.now_us())", part, readers, lease,
                    b"".join(ids), bytes(4)) == b"\1" * 4
    row, = db.push(batch(part, [ids[1], id7(), ids[3]]))
    assert (row.status, row.dup_offset) == (1, [1, -1, 3])
