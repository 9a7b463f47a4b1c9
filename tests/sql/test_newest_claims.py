"""Groups that get only the newest record of each partition: what a claim takes, and what its acknowledgment moves."""
from __future__ import annotations

import random
import uuid

import pytest
from psycopg.types.json import Jsonb
from sql.records import HOUR, PUSH, addressed, batch, delete, id7, new_lease, push_arrays, stored, timed
from support.seeds import seed_of_run

POP = ("SELECT * FROM queend.pop_newest(%s, %s::int[], %s::int[], %s::int[], %s::boolean[], %s::int[], %s::int[],"
       " %s::boolean[], %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[])")
FAILED, DLQ, RETRY = b"\x01", b"\x02", b"\x03"


@pytest.fixture
def part(partitions) -> int:
    return partitions()[0]


@pytest.fixture
def group(db):
    """A group that conflates, on the queue of a partition."""
    def make(part: int, name: str = "newest") -> int:
        queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
        return db.rows("SELECT * FROM queend.group_resolve(%s, %s, 'all', NULL, true)", queue, name)[0].group_id
    return make


def pop(db, group: int, *parts: int, lease: str | None = None, budget: int = 100, auto: bool = False,
        delay_us: int = 0, window_us: int = 0, ttl_us: int = 0, rate: tuple[int, int] | None = None,
        version: int = 0, width: int = 100) -> list:
    n = len(parts)
    rates = ([rate[0]], [rate[1]]) if rate else (None, None)
    return db.rows(POP, version, [1] * n, list(parts), [group] * n, [True] * n, [budget], [width], [auto],
                   [lease or str(uuid.uuid4())], [60_000_000], [delay_us], [window_us], [ttl_us], *rates)


def newest(db, group: int, part: int, lease: str, **more) -> tuple[int, bytes] | None:
    """(offset, id) of the delivered record."""
    (row,) = pop(db, group, part, lease=lease, **more)
    if row.status != 1:
        return None
    assert row.take == 1 and row.base <= row.first < row.base + row.n
    return row.first, row.ids[16 * (row.first - row.base):][:16]


def cursor(db, part: int, group: int):
    return db.rows("SELECT * FROM queend.cursors WHERE partition_id = %s AND group_id = %s", part, group)[0]


def ran_out(db, part: int) -> None:
    db.rows("UPDATE queend.cursors SET lease_until = 1 WHERE partition_id = %s AND lease_until > 0", part)


def dead(db, part: int) -> list[int]:
    return [row[0] for row in db.rows("SELECT record_offset FROM queend.dead_letters WHERE partition_id = %s"
                                      " ORDER BY 1", part)]


def option(db, part: int, name: str, value) -> None:
    db.rows(f"UPDATE queend.queues SET {name} = %s WHERE id = (SELECT queue_id FROM queend.partitions WHERE id = %s)",
            value, part)


def test_the_flag_is_that_of_the_first_registration(db, part, group):
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    made = group(part)
    again = db.rows("SELECT * FROM queend.group_resolve(%s, 'newest', 'all', NULL, false)", queue)[0]
    assert (again.group_id, again.fresh, again.conflates) == (made, False, True)
    plain = db.rows("SELECT * FROM queend.group_resolve(%s, 'plain', 'new', NULL)", queue)[0]
    assert plain.conflates is False
    assert db.rows("SELECT * FROM queend.group_resolve(%s, 'plain', 'all', NULL, true)", queue)[0].conflates is False
    assert [(row.ord, row.conflates) for row in sorted(db.rows(
        "SELECT * FROM queend.groups_find(%s, %s)", [queue] * 3, ["plain", "newest", "absent"]))] == [
        (0, False), (1, True)]
    mode = db.rows("SELECT * FROM queend.group_resolve(%s, '__QUEUE_MODE__', 'all', NULL, true)", queue)[0]
    assert mode.conflates is False      # the queue mode has no group that could conflate


def test_the_newest_record_is_delivered_and_everything_before_it_consumed(db, part, group):
    ids, readers, lease = stored(db, part, 12, rows=3), group(part), new_lease()
    (row,) = pop(db, readers, part, lease=lease)
    assert (row.status, row.first, row.take, row.since, row.head, row.attempt) == (1, 11, 1, 0, 12, 1)
    assert newest(db, readers, part, new_lease()) is None      # leased
    (later,) = stored(db, part, 1)
    assert db.ack(part, readers, lease, [ids[11]]) == (0, 0, b"\x05", True, 11, 13, 0)
    assert newest(db, readers, part, lease) == (12, later)      # pushed after the claim: delivered later
    assert db.ack(part, readers, lease, [later]).released is True
    (row,) = pop(db, readers, part)
    assert (row.status, row.head) == (0, 13)
    assert db.ack(part, readers, None, [ids[3]]).codes == b"\x21"      # done with the newest


def test_the_short_way_of_an_acknowledgment(db, part, group):
    """A daemon that delivered the record names the whole lease."""
    ids, readers, lease = stored(db, part, 9, rows=3), group(part), str(uuid.uuid4())
    assert newest(db, readers, part, lease) == (8, ids[8])
    stored(db, part, 1)
    assert db.rows("SELECT * FROM queend.ack_leased(0, %s::int[], %s::int[], %s::uuid[], %s::bigint[], %s::bigint[],"
                   " %s::bigint[], true)", [part], [readers], [lease], [0], [8], [9]) == [(part, readers, True, 10)]
    assert cursor(db, part, readers).committed == 8


@pytest.mark.parametrize("status", [FAILED, RETRY])
def test_a_record_that_goes_back_is_superseded(db, part, group, status):
    ids, readers, lease = stored(db, part, 4), group(part), new_lease()
    assert newest(db, readers, part, lease) == (3, ids[3])
    (later,) = stored(db, part, 1)
    row = db.ack(part, readers, lease, [ids[3]], status)
    assert (row.codes, row.released, row.committed) == (b"\x05", True, -1)
    assert cursor(db, part, readers).retries == (status == FAILED)
    (row,) = pop(db, readers, part, lease=lease)
    assert (row.first, row.since, row.attempt) == (4, 0, 2)      # the batch of the group goes on
    assert db.ack(part, readers, lease, [later]).committed == 4
    assert (cursor(db, part, readers).retries, dead(db, part)) == (0, [])


def test_the_budget_of_retries_ends_in_a_dead_letter(db, part, group):
    ids, readers = stored(db, part, 4), group(part)
    for attempt in range(1, 4):
        lease = new_lease()
        (row,) = pop(db, readers, part, lease=lease)
        assert (row.first, row.attempt) == (3, attempt)
        answer = db.ack(part, readers, lease, [ids[3]], FAILED, retry_limit=2)
    assert (answer.codes, answer.released, answer.committed) == (b"\x03", True, 3)
    assert dead(db, part) == [3] and cursor(db, part, readers).retries == 0
    assert pop(db, readers, part)[0].status == 0


def test_a_dead_letter_by_hand_passes_what_is_before_it(db, part, group):
    ids, readers, lease = stored(db, part, 4), group(part), new_lease()
    assert newest(db, readers, part, lease)
    assert db.ack(part, readers, lease, [ids[3]], DLQ).committed == 3
    assert dead(db, part) == [3] and pop(db, readers, part)[0].status == 0


def test_a_window_is_its_last_record(db, part, group):
    """An acknowledgment of everything under a lease does not list what the claim has passed."""
    ids, readers, lease = stored(db, part, 30, rows=3), group(part), new_lease()
    assert newest(db, readers, part, lease) == (29, ids[29])
    assert db.ack(part, readers, lease, [b"\0" * 16], b"\x10").codes == b"\x05"
    assert cursor(db, part, readers).committed == 29


def test_acknowledgments_of_other_leases_are_refused(db, part, group):
    ids, readers, lease = stored(db, part, 4), group(part), new_lease()
    assert newest(db, readers, part, lease)
    assert db.ack(part, readers, new_lease(), [ids[3]]).codes == b"\x10"
    (later,) = stored(db, part, 1)
    assert db.ack(part, readers, lease, [later]).codes == b"\x10"      # beyond the lease
    assert db.ack(part, readers, lease, [ids[1]]).committed == 1      # an older one of the lease completes up to it
    assert cursor(db, part, readers).lease_until > 0
    assert db.ack(part, readers, lease, [ids[3]]).released is True


def test_in_a_transaction(db, part, group):
    ids, readers, lease = stored(db, part, 4), group(part), new_lease()
    assert newest(db, readers, part, lease)
    assert db.value("SELECT queend.transaction_judge(%s, %s, %s, %s, %s, queend.now_us())", part, readers, lease,
                    ids[3], b"\0") == b"\x01"
    row = db.rows("SELECT * FROM queend.transaction_ack(%s, %s, %s, %s, '{}', '{}')", part, readers, ids[3], b"\0")[0]
    assert (row.codes, row.released, row.committed) == (b"\x05", True, 3)


def test_a_record_with_a_moment_ends_the_claim(db, part, group):
    readers, lease = group(part), new_lease()
    ids = [id7() for _ in range(5)]
    now = db.value("SELECT queend.now_us()")
    moments = [None, now - HOUR, None, now + HOUR, None]
    db.rows(f"SELECT * FROM queend.push_due(0, %s::int[], {PUSH})", [part & 63],
            *push_arrays([timed(part, ids, moments)]))
    assert newest(db, readers, part, lease) == (2, ids[2])
    assert db.ack(part, readers, lease, [ids[2]]).committed == 2
    (row,) = pop(db, readers, part)
    assert (row.status, row.until) == (3, now + HOUR)
    db.rows("UPDATE queend.schedule SET due = 1 WHERE partition_id = %s", part)
    assert newest(db, readers, part, lease) == (4, ids[4])


def test_delays_of_the_queue(db, part, group):
    readers, lease = group(part), new_lease()
    old = stored(db, part, 3)
    db.rows("UPDATE queend.log SET created_at = created_at - %s WHERE partition_id = %s", HOUR, part)
    (young,) = stored(db, part, 1)
    assert newest(db, readers, part, lease, delay_us=HOUR // 2) == (2, old[2])
    assert db.ack(part, readers, lease, [old[2]]).committed == 2
    (row,) = pop(db, readers, part, delay_us=HOUR // 2)
    assert row.status == 3 and row.until > db.value("SELECT queend.now_us()")
    assert newest(db, readers, part, lease) == (3, young)


def test_a_quiet_time_is_waited_for(db, part, group):
    readers = group(part)
    stored(db, part, 3)
    (row,) = pop(db, readers, part, window_us=HOUR)
    assert row.status == 3 and row.until > db.value("SELECT queend.now_us()")
    assert cursor(db, part, readers).lease_until == 0


def test_records_that_are_too_old_are_passed(db, part, group):
    readers, lease = group(part), new_lease()
    stored(db, part, 3)
    db.rows("UPDATE queend.log SET created_at = created_at - %s WHERE partition_id = %s", HOUR, part)
    (row,) = pop(db, readers, part, ttl_us=HOUR // 2)
    assert row.status == 0 and cursor(db, part, readers).committed == 2
    (young,) = stored(db, part, 1)
    assert newest(db, readers, part, lease, ttl_us=HOUR // 2) == (3, young)


def test_a_rate_counts_deliveries(db, part, group):
    ids, readers, lease = stored(db, part, 20), group(part), new_lease()
    assert newest(db, readers, part, lease, rate=(HOUR, 1)) == (19, ids[19])
    assert db.ack(part, readers, lease, [ids[19]]).committed == 19
    stored(db, part, 2)
    (row,) = pop(db, readers, part, rate=(HOUR, 1))
    assert row.status == 3
    assert HOUR // 2 < row.until - db.value("SELECT queend.now_us()") <= HOUR


def test_deleted_records(db, part, group):
    ids, readers, lease = stored(db, part, 6, rows=2), group(part), new_lease()
    delete(db, part, ids[5], ids[4])
    assert newest(db, readers, part, lease) == (3, ids[3])
    assert db.ack(part, readers, lease, [ids[3]]).committed >= 3
    (row,) = pop(db, readers, part)
    assert row.status == 0 and cursor(db, part, readers).lease_until == 0
    (later,) = stored(db, part, 1)
    assert newest(db, readers, part, lease) == (6, later)


def test_a_record_that_is_deleted_under_its_lease(db, part, group):
    """Its acknowledgment still completes the claim: nothing that is older comes after it."""
    ids, readers, lease = stored(db, part, 6, rows=2), group(part), new_lease()
    assert newest(db, readers, part, lease) == (5, ids[5])
    delete(db, part, ids[5])
    row = db.ack(part, readers, lease, [ids[5]])
    assert row.codes[0] & 1 and row.released is True
    assert cursor(db, part, readers).committed == 5 and pop(db, readers, part)[0].status == 0


def test_records_for_another_group(db, part, group):
    readers, lease = group(part), new_lease()
    ids = stored(db, part, 3)
    addressed(db, part, 4, "others")
    assert newest(db, readers, part, lease) == (2, ids[2])
    assert db.ack(part, readers, lease, [ids[2]]).committed == 6
    own = addressed(db, part, 2, "newest")
    addressed(db, part, 1, "others")
    assert newest(db, readers, part, lease) == (8, own[1])


def test_removed_records(db, part, group):
    """Retention removes rows of a claim: the acknowledgment completes it."""
    ids, readers, lease = stored(db, part, 6, rows=3), group(part), new_lease()
    assert newest(db, readers, part, lease) == (5, ids[5])
    db.rows("DELETE FROM queend.log WHERE partition_id = %s AND base < 4", part)
    db.rows("INSERT INTO queend.floors (partition_id, floor) VALUES (%s, 4) ON CONFLICT (partition_id)"
            " DO UPDATE SET floor = 4", part)
    assert db.ack(part, readers, lease, [ids[5]]).committed == 5


def test_an_expired_lease_delivers_what_is_newest_then(db, part, group):
    ids, readers = stored(db, part, 3), group(part)
    first = new_lease()
    assert newest(db, readers, part, first) == (2, ids[2])
    (later,) = stored(db, part, 1)
    ran_out(db, part)
    (row,) = pop(db, readers, part)
    assert (row.first, row.since, row.attempt) == (3, 0, 2)
    assert db.ack(part, readers, first, [ids[2]]).codes == b"\x10"      # it has lost the partition


def test_a_record_that_ends_its_consumers(db, part, group):
    ids, readers = stored(db, part, 3), group(part)
    option(db, part, "delivery_limit", 3)
    for _ in range(3):
        assert newest(db, readers, part, new_lease()) == (2, ids[2])
        ran_out(db, part)
    (row,) = db.rows("SELECT first, lapses FROM queend.standing WHERE partition_id = %s", part)
    assert row == (2, 2)
    assert newest(db, readers, part, new_lease()) == (2, ids[2])
    ran_out(db, part)
    (row,) = pop(db, readers, part)
    assert (row.status, row.buried) == (0, 1)
    assert dead(db, part) == [2] and cursor(db, part, readers).committed == 2
    assert db.rows("SELECT FROM queend.standing WHERE partition_id = %s", part) == []
    (later,) = stored(db, part, 1)
    assert newest(db, readers, part, new_lease()) == (3, later)
    assert dead(db, part) == [2]


def test_expiries_are_counted_for_one_record(db, part, group):
    """Another record is delivered each time: none of them is left often."""
    readers = group(part)
    option(db, part, "delivery_limit", 1)
    for _ in range(5):
        (one,) = stored(db, part, 1)
        assert newest(db, readers, part, new_lease())[1] == one
        ran_out(db, part)
    assert dead(db, part) == []


def test_at_once(db, part, group):
    """A pop that acknowledges at delivery, which a group that conflates serves too."""
    ids, readers = stored(db, part, 7), group(part)
    assert newest(db, readers, part, new_lease(), auto=True) == (6, ids[6])
    k = cursor(db, part, readers)
    assert (k.committed, k.lease_end, k.lease_until, k.row_base) == (6, 6, 0, 7)
    assert db.rows("SELECT * FROM queend.take_back(%s::int[], %s::int[], %s::bigint[], %s::bigint[])", [part],
                   [readers], [0], [7]) == [(0, True)]
    assert newest(db, readers, part, new_lease()) == (6, ids[6])


def test_many_partitions(db, partitions, group):
    parts = partitions(6)
    readers, lease = group(parts[0]), new_lease()
    for number, part in enumerate(parts[:5]):
        stored(db, part, number + 1)
    rows = pop(db, readers, *parts, lease=lease, budget=3)
    assert [(row.ord, row.status, row.first) for row in rows] == [
        (0, 1, 0), (1, 1, 1), (2, 1, 2), (3, 4, 0), (4, 4, 0), (5, 4, 0)]
    rows = pop(db, readers, *parts, width=1)
    assert [row.status for row in rows] == [2, 2, 2, 1, 4, 4]
    assert sorted(row.partition_id for row in db.rows("SELECT * FROM queend.leases_find(ARRAY[%s]::uuid[], '{}', '{}')",
                                                      lease)) == parts[:3]


def test_an_empty_pop_writes_nothing(db, part, group):
    readers = group(part)
    stored(db, part, 2)
    assert newest(db, readers, part, new_lease(), auto=True)
    with db.connection.transaction():
        assert db.rows(POP, 0, [1], [part], [readers], [False], [1], [1], [False], [new_lease()], [1], [0], [0], None,
                       None, None)[0].status == 0
        assert db.value("SELECT pg_current_xact_id_if_assigned()") is None


def test_a_cursor_that_another_session_holds(two, part, group):
    first, second, _ = two
    readers = group(part)
    stored(second, part, 2)
    assert newest(second, readers, part, new_lease(), auto=True)
    (later,) = stored(second, part, 1)
    assert newest(first, readers, part, new_lease()) == (2, later)      # its transaction is open
    (row,) = second.rows(POP, 0, [1], [part], [readers], [False], [1], [1], [False], [new_lease()], [1], [0], [0], None,
                         None, None)
    assert (row.status, row.until) == (2, 0)
    first.rows("ROLLBACK")
    assert newest(second, readers, part, new_lease()) == (2, later)


def test_a_push_that_is_not_committed_is_delivered_later(two, part, group):
    first, second, _ = two
    readers, lease = group(part), new_lease()
    ids = stored(second, part, 2)
    (late,) = stored(first, part, 1)
    assert newest(second, readers, part, lease) == (1, ids[1])
    first.rows("COMMIT")
    assert second.ack(part, readers, lease, [ids[1]]).committed == 1
    assert newest(second, readers, part, new_lease()) == (2, late)


def test_a_stale_catalogue_is_told(db, part, group):
    readers = group(part)
    (row,) = pop(db, readers, part, version=db.value("SELECT version FROM queend.catalog") + 1)
    assert (row.ord, row.status) == (-1, 9)


def test_a_long_claim_is_acknowledged_by_its_last_row(db, part, group):
    """More records than one lease has otherwise: the others are not searched."""
    for _ in range(12):
        ids = stored(db, part, 1000)
    readers, lease = group(part), new_lease()
    assert newest(db, readers, part, lease) == (11999, ids[-1])
    assert db.ack(part, readers, lease, [ids[-1]]).committed == 11999


def test_pops_in_sql(db, part, group):
    """queen.pop_unified_batch_v4 serves the group as it is stored."""
    readers = group(part)
    ids = [id7() for _ in range(3)]
    db.push(batch(part, ids, [b'{"n":%d}' % n for n in range(3)]))
    queue = db.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                     " WHERE p.id = %s", part)
    request = {"idx": 0, "queue_name": queue, "consumer_group": "newest", "batch_size": 10, "worker_id": "w"}
    (answer,) = db.value("SELECT queen.pop_unified_batch_v4(%s)", Jsonb([request]))
    assert [one["data"] for one in answer["result"]["messages"]] == [{"n": 2}]
    assert cursor(db, part, readers).lease_end == 2


def test_histories(db, partitions, group):
    """Against a model: what is delivered rises, is never repeated once it was completed, and ends with the last."""
    rng = random.Random(seed_of_run())
    parts = partitions(3)
    readers = group(parts[0])
    option(db, parts[0], "delivery_limit", 0)
    written: dict[int, list[bytes]] = {part: [] for part in parts}
    gone: dict[int, set[int]] = {part: set() for part in parts}
    done = dict.fromkeys(parts, -1)
    held: dict[int, tuple[str, int]] = {}
    for _ in range(300):
        part = rng.choice(parts)
        action = rng.choice(["push", "push", "pop", "pop", "ack", "ack", "fail", "expire", "delete"])
        live = [at for at in range(done[part] + 1, len(written[part])) if at not in gone[part]]
        if action == "push":
            written[part] += stored(db, part, rng.randint(1, 5))
        elif action == "pop":
            lease = new_lease()
            got = newest(db, readers, part, lease)
            if part in held or not live:
                assert got is None
            else:
                assert got == (live[-1], written[part][live[-1]])
                held[part] = lease, live[-1]
        elif action == "delete" and live:
            at = rng.choice(live)
            if part not in held or held[part][1] != at:
                delete(db, part, written[part][at])
                gone[part].add(at)
        elif part in held:
            lease, at = held.pop(part)
            if action == "ack":
                assert db.ack(part, readers, lease, [written[part][at]]).codes[0] & 1
                done[part] = at
            elif action == "fail":
                assert db.ack(part, readers, lease, [written[part][at]], RETRY).released is True
            elif action == "expire":
                ran_out(db, part)
            else:
                held[part] = lease, at
    for part in parts:
        ran_out(db, part)
        live = [at for at in range(done[part] + 1, len(written[part])) if at not in gone[part]]
        got = newest(db, readers, part, new_lease())
        assert got == ((live[-1], written[part][live[-1]]) if live else None)
