"""Retention: what goes, what stays, and that what went is gone for pop, ack and dedupe; against a model, and in
races."""
from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

import pytest
from sql.calls import Waiting
from sql.records import Session, batch, id4, id7, id_text
from sql.retained import floor, head, live, retain

SECOND = 1_000_000


def now(db: Session) -> int:
    return db.value("SELECT queend.now_us()")


def test_expired_goes_consumed_or_not(db, partitions):
    part, other = partitions(2)
    for p in (other, part):
        for _ in range(3):
            db.push(batch(p, [id7(), id7()]))
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 4", part)
    assert [(r.partition_id, r.reason, r.rows, r.records) for r in retain(db, part, expired=cut)] == [
        (part, 1, 2, 4), (other, 1, 3, 6)]
    assert live(db, part) == [(4, 2)] and live(db, other) == []
    assert db.push(batch(other, [id7()]))[0].base == 6      # an offset is never given twice
    assert retain(db, part, expired=cut) == []


def test_bounded_and_resumed(db, partitions):
    parts = partitions(4)
    for p in parts:
        for _ in range(5):
            db.push(batch(p, [id7()]))
    queue = db.value("SELECT queue_id FROM queend.partitions WHERE id = %s", parts[0])
    cut, after, steps = now(db) + SECOND, 0, []
    while after is not None:
        *told, last = db.rows("SELECT * FROM queend.retain(%s, %s, 3, 3, %s, 0, 0)", queue, after, cut)
        steps.append(sum(row.rows for row in told))
        assert steps[-1] <= 3
        after = last.partition_id
        for p in parts:
            live(db, p)
    assert sum(steps) == 20 and [floor(db, p) for p in parts] == [5] * 4


def test_completed_waits_for_the_slowest_group(db, partitions, group):
    part, = partitions()
    for _ in range(3):
        db.push(batch(part, [id7(), id7(), id7()]))
    later = now(db) + SECOND
    pinned, = retain(db, part, completed=later)
    assert (pinned.reason, pinned.rows, pinned.pinned, pinned.group_id) == (0, 0, 9, None)      # no group has a cursor
    fast, slow = group(part), group(part)
    db.pop([part], fast, auto=True)
    db.pop([part], slow, budget=4, auto=True)
    told, = retain(db, part, completed=later)
    assert (told.reason, told.records, told.pinned, told.group_id) == (2, 3, 5, slow)
    assert live(db, part) == [(3, 3), (6, 3)]      # whole rows: record 3 is consumed but shares a row with 4
    assert db.messages(db.pop([part], slow, auto=True))[0][0] == 4
    told, = retain(db, part, completed=later)
    assert (told.records, told.pinned) == (6, 0) and live(db, part) == []
    db.push(batch(part, [id7()]))
    for one in (fast, slow):
        assert [o for o, _ in db.messages(db.pop([part], one, auto=True))] == [9]


def test_completed_spares_what_is_young(db, partitions, group):
    part, = partitions()
    for _ in range(2):
        db.push(batch(part, [id7()]))
    db.pop([part], group(part), auto=True)
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 1", part)
    assert retain(db, part, completed=cut)[0].records == 1 and live(db, part) == [(1, 1)]


def test_a_group_that_has_not_come_yet_is_waited_for(db, partitions, group):
    part, = partitions()
    quick, slow = group(part), group(part)
    ids = [id7() for _ in range(3)]
    for i in ids[:2]:
        db.push(batch(part, [i]))
    late = group(part, mode="timestamp",
                 start=db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 1", part))
    db.push(batch(part, [ids[2]]))
    db.pop([part], quick, auto=True)
    later = now(db) + SECOND
    told, = retain(db, part, completed=later)
    assert (told.rows, told.pinned, told.group_id) == (0, 3, slow)
    db.pop([part], slow, auto=True)
    told, = retain(db, part, completed=later)
    assert (told.records, told.pinned, told.group_id) == (1, 2, late)      # it begins at the second
    assert [o for o, _ in db.messages(db.pop([part], late, auto=True))] == [1, 2]
    assert retain(db, part, completed=later)[0].records == 2


def test_waited_too_long(db, partitions, group):
    part, done, never = partitions(3)
    for p in (part, done, never):
        for _ in range(3):
            db.push(batch(p, [id7()]))
    readers = group(part)
    db.pop([part], readers, budget=1, auto=True)
    db.pop([done], readers, auto=True)
    cut = {p: db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 2", p)
           for p in (part, done, never)}
    assert [(r.reason, r.records) for r in retain(db, part, waited=cut[part], parts=1)] == [(3, 2)]
    assert retain(db, done, waited=cut[done], parts=1) == []      # all is consumed: not a matter of waiting
    assert [(r.reason, r.records) for r in retain(db, never, waited=cut[never], parts=1)] == [(3, 2)]
    assert [o for o, _ in db.messages(db.pop([part], readers, auto=True))] == [2]


@pytest.mark.parametrize("make", [id7, id4, lambda: id_text(uuid.uuid4().hex), lambda: id7(1_600_000_000_000_000)])
def test_the_id_of_what_is_gone_is_free_again(db, partitions, make):
    part, = partitions()
    old, young = [make() for _ in range(3)], make()
    db.push(batch(part, old))
    db.push(batch(part, [young]))
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 3", part)
    retain(db, part, expired=cut)
    row, = db.push(batch(part, [*old, young]))
    assert row.base == 4 and list(row.dup_offset) == [-1, -1, -1, 3]
    assert retain(db, part, expired=now(db) + SECOND)[0].records == 4
    assert db.rows("SELECT 1 FROM queend.late_ids WHERE partition_id = %s", part) == []
    assert db.push(batch(part, [young]))[0].base == 7


def test_an_ack_of_what_is_gone(db, partitions, group):
    part, = partitions()
    ids = [id7(), id7()]
    db.push(batch(part, [ids[0]]))
    db.push(batch(part, [ids[1]]))
    readers, lease = group(part), str(uuid.uuid4())
    db.pop([part], readers, lease=lease)
    cut = db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 1", part)
    retain(db, part, expired=cut)
    row = db.ack(part, readers, lease, ids)
    # gone, which counts as done; done, and the lease with it
    assert list(row.codes) == [33, 5] and row.released and row.committed == 1
    assert db.pop([part], readers)[0].status == 0


def test_a_pop_begins_at_the_floor(db, partitions, group):
    part, = partitions()
    readers = group(part)
    db.push(batch(part, [id7()]))
    db.pop([part], readers, delay_us=10**12)      # makes the cursor, takes nothing
    for _ in range(300):
        db.push(batch(part, [id7()]))
    retain(db, part, expired=db.value("SELECT created_at FROM queend.log WHERE partition_id = %s AND base = 299", part))
    assert [o for o, _ in db.messages(db.pop([part], readers, budget=1))] == [299]


def test_everything_gone_under_a_lease(db, partitions, group):
    part, = partitions()
    i = id7()
    db.push(batch(part, [i]))
    readers, lease = group(part), str(uuid.uuid4())
    db.pop([part], readers, lease=lease)
    retain(db, part, expired=now(db) + SECOND)
    assert list(db.ack(part, readers, lease, [i]).codes) == [37], "gone, and the lease ends with it"
    j = id7()
    db.push(batch(part, [j]))
    assert db.messages(db.pop([part], readers, auto=True)) == [(1, j)]


def test_a_partition_deleted_meanwhile_gets_no_floor(two, partitions):  # noqa: F811
    first, second, watcher = two
    part, = partitions()
    second.push(batch(part, [id7()]))
    queue = second.value("SELECT q.name FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                         " WHERE p.id = %s", part)
    retain(first, part, expired=now(first) + SECOND)
    waiting = Waiting(watcher, second, lambda: second.value("SELECT queend.queue_delete(%s)", queue))
    first.rows("COMMIT")
    assert waiting.result() is True
    while second.rows("SELECT * FROM queend.sweep(1000)")[0].partitions:
        pass
    assert second.rows("SELECT 1 FROM queend.floors WHERE partition_id = %s", part) == []


def test_a_deletion_under_way_is_not_waited_for(two, partitions):  # noqa: F811
    first, second, _ = two
    part, = partitions()
    second.push(batch(part, [id7()]))
    first.value("SELECT queend.queue_delete(q.name) FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id"
                " WHERE p.id = %s", part)
    assert retain(second, part, expired=now(second) + SECOND) == []
    first.rows("ROLLBACK")


def test_push_pop_and_ack_go_on_meanwhile(two, partitions, group):  # noqa: F811
    """Nothing the hot functions lock is locked by an open retention, nor the other way round."""
    first, second, third = two
    part, = partitions()
    readers, lease = group(part), str(uuid.uuid4())
    ids = [id7() for _ in range(3)]
    for i in ids[:2]:
        second.push(batch(part, [i]))
    retain(first, part, expired=now(first) + SECOND)      # both, not committed
    assert second.push(batch(part, [ids[2]]))[0].base == 2
    assert second.messages(second.pop([part], readers, budget=2, lease=lease)) == [(0, ids[0]), (1, ids[1])]
    assert list(second.ack(part, readers, lease, ids[:2]).codes) == [1, 5]
    first.rows("COMMIT")
    assert third.messages(third.pop([part], readers, auto=True)) == [(2, ids[2])]
    first.rows("BEGIN")
    first.push(batch(part, [id7()]))
    first.pop([part], readers)
    assert retain(second, part, expired=now(second) + SECOND)[0].records == 1
    first.rows("COMMIT")
    assert live(second, part) == [(3, 1)]


def test_tidy(db, partitions, group):
    part, gone = partitions(2)
    stay, leave = group(part), group(part)
    for p, g in ((part, stay), (part, leave), (gone, stay)):
        db.push(batch(p, [id7()]))
        db.pop([p], g, auto=True)
    db.rows("DELETE FROM queend.consumer_groups WHERE id = %s", leave)
    db.rows("DELETE FROM queend.partitions WHERE id = %s", gone)
    at, removed = (0, 0), 0
    while at[0] is not None:
        row, = db.rows("SELECT * FROM queend.tidy(%s, %s, 2)", *at)
        removed, at = removed + row.removed, (row.next_part, row.next_group)
    assert removed >= 2
    assert db.rows("SELECT partition_id, group_id FROM queend.cursors WHERE partition_id IN (%s, %s)", part,
                   gone) == [(part, stay)]


@dataclass
class Log:
    """What one partition must be: ids by offset, the moments of its rows, cursors of the groups that came by."""

    ids: list[bytes] = field(default_factory=list)
    rows: list[tuple[int, int, int]] = field(default_factory=list)      # base, n, created_at
    floor: int = 0
    cursors: dict[int, int] = field(default_factory=dict)               # group → first not consumed


@pytest.mark.parametrize("seed", range(8))
def test_any_history_is_that_of_a_log_that_forgets(db, partitions, group, seed):
    chance = random.Random(seed)
    parts = partitions(3)
    groups = [group(parts[0]) for _ in range(2)]
    logs = {p: Log() for p in parts}
    kinds = [id7, id4, lambda: id7(chance.randrange(1, 10**15))]

    def push():
        part = chance.choice(parts)
        log = logs[part]
        ids = [chance.choice(log.ids) if log.ids and chance.random() < 0.3 else chance.choice(kinds)()
               for _ in range(chance.randint(1, 6))]
        ids = list(dict.fromkeys(ids))
        row, = db.push(batch(part, ids))
        stored = {i: log.floor + n for n, i in enumerate(log.ids[log.floor:])}
        fresh = [i for i in ids if i not in stored]
        assert list(row.dup_offset or [-1] * len(ids)) == [stored.get(i, -1) for i in ids]
        if fresh:
            assert row.base == len(log.ids)
            log.rows.append((row.base, len(fresh), row.created_at))
            log.ids += fresh

    def pop():
        part, who = chance.choice(parts), chance.choice(groups)
        log = logs[part]
        budget = chance.randint(1, 8)
        start = max(log.cursors.get(who, 0), log.floor)
        due = list(enumerate(log.ids))[start:start + budget]
        assert db.messages(db.pop([part], who, budget=budget, auto=True)) == due
        log.cursors[who] = due[-1][0] + 1 if due else log.cursors.get(who, log.floor)

    def forget():
        part = chance.choice(parts)
        log = logs[part]
        rule = chance.choice(["expired", "completed", "waited"])
        cut = chance.choice([r[2] for r in log.rows] or [1]) + chance.randint(0, 1)
        limit = chance.choice([1, 2, 1000])
        told = retain(db, part, rows=limit, parts=1, **{rule: cut})
        to = next((base for base, _, at in log.rows if at >= cut), len(log.ids))
        least = min(log.cursors.get(one, log.floor)
                    for one in groups) if log.cursors else 0 if rule == "completed" else -1
        if rule == "completed":
            to = min(to, next((base for base, n, _ in log.rows if base + n > least), len(log.ids)))
        elif rule == "waited" and log.cursors and least >= to:
            to = 0
        ends = [base + n for base, n, _ in log.rows if log.floor <= base < to][:limit]
        if ends:
            assert sum(r.records for r in told) == ends[-1] - log.floor
            log.floor = ends[-1]
        else:
            assert sum(r.records for r in told) == 0
        assert live(db, part) == [(base, n) for base, n, _ in log.rows if base >= log.floor]

    for _ in range(250):
        chance.choices([push, pop, forget], [4, 3, 3])[0]()
    for part in parts:
        assert head(db, part) == len(logs[part].ids)


def test_what_is_gone_but_not_vacuumed_is_not_walked_through(session, partitions, group):
    """Generation after generation is deleted while an old snapshot keeps vacuum from removing any of it: a retention, a
    push, a duplicate and a pop touch as many pages at the end as at the beginning."""
    hot, reader = session(), session()
    for setting in ("enable_seqscan = off", "enable_bitmapscan = off", "enable_sort = off",
                    "plan_cache_mode = force_generic_plan"):
        hot.rows(f"SET {setting}")
    part, = partitions()
    readers = group(part)
    hot.push(batch(part, [id7()]))
    hot.pop([part], readers, auto=True)
    reader.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.value("SELECT count(*) FROM queend.log")

    def pages(call) -> int:
        """Of the one call of `queend.…` that call makes."""
        seen = []
        rows = hot.rows

        def explained(query, *values):
            if "queend." not in query or query.startswith("EXPLAIN"):
                return rows(query, *values)
            plan = rows("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query, *values)[0][0][0]["Plan"]
            seen.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
            return []
        hot.rows = explained
        try:
            call()
        finally:
            hot.rows = rows
        return sum(seen)
    queue = hot.value("SELECT queue_id FROM queend.partitions WHERE id = %s", part)
    costs = []
    for _ in range(25):
        at = head(hot, part)
        hot.rows("INSERT INTO queend.log SELECT %s + i, queend.now_us(), %s, 1, '00000000-0000-0000-0000-000000000000',"
                 " false, uuid_send(gen_random_uuid()), '\\x10027b7d', ''"
                 " FROM generate_series(0, 199) AS i", at, part)
        old = id7()
        hot.push(batch(part, [old]))
        cut = hot.value("SELECT created_at FROM queend.log WHERE partition_id = %s ORDER BY base DESC LIMIT 1", part)
        costs.append((pages(lambda cut=cut: hot.rows("SELECT * FROM queend.retain(%s, %s, 1, 1000, %s, 0, 0)",
                                                     queue, part - 1, cut)),
                      pages(lambda: hot.push(batch(part, [id7()]))),
                      pages(lambda old=old: hot.push(batch(part, [old]))),
                      pages(lambda: hot.pop([part], readers, budget=1, auto=True))))
    reader.rows("ROLLBACK")
    early, late = costs[2], costs[-1]
    assert all(then <= now_ + 15 for then, now_ in zip(late, early, strict=True)), costs
