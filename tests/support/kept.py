"""The kept figures, row by row and to the microsecond, beside what is counted by hand."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg

from queend.services.stats import LOCK, PAGE, PAGE_ROWS

from .truth import TABLES, Truth, differences

# What the daemon does before it answers a page (services/stats): a look, and the walks it marked.
LOOK = f"""SELECT queend.stats_visit(c.queues, c.parts), queend.stats_keep(c.since, false), queend.stats_walk({PAGE}),
    queend.stats_walk({PAGE}), queend.stats_walk({PAGE})
    FROM queend.stats_changed({PAGE_ROWS}, false, true) AS c WHERE c.since IS NOT NULL"""
# The next transaction that writes, the moment, and whether transactions that have written are open.
MARKS = """SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    EXISTS (SELECT FROM pg_snapshot_xip(pg_current_snapshot()))"""
# Rows of the kept figures, and last what is told without them.
FIGURES = """SELECT json_build_array(
    (SELECT COALESCE(json_agg(json_build_array(q.name, s.partitions, s.pushed, s.total, s.pending, s.processing,
                                               s.overlap, s.completed, s.leased, s.waiting, s.stored, s.dead)), '[]')
       FROM queend.stat_queues s LEFT JOIN queend.queues q ON q.id = s.queue_id),
    (SELECT COALESCE(json_agg(json_build_array(s.group_id, s.members, s.lagging, s.lag, s.leases, s.leased,
                                               s.consumed > 0)), '[]') FROM queend.stat_groups s),
    (SELECT COALESCE(json_agg(json_build_array(s.partition_id, s.floor, s.head, s.newest, s.total, s.pending,
                                               s.processing, s.overlap, s.completed, s.until, s.unread)), '[]')
       FROM queend.stat_partitions s),
    (SELECT COALESCE(json_agg(json_build_array(s.group_id, s.partition_id, s.lag, s.leased, s.oldest,
                                               CASE WHEN s.has_cursor THEN s.next END)), '[]')
       FROM queend.stat_cursors s),
    (SELECT COALESCE(json_agg(json_build_array(c.group_id, c.partition_id, c.lag, c.leased,
                                               COALESCE(c.waiting_since, 0), CASE WHEN c.has_cursor THEN c.next END)),
                     '[]')
       FROM queend.cursor_figures(ARRAY(SELECT p.id FROM queend.partitions p), NULL) AS c
      WHERE c.group_id IS NOT NULL AND (c.has_cursor OR c.lag > 0)))"""


def looked(database: psycopg.Connection, views: dict[str, Callable[[list[tuple], Truth], Iterator[str]]]
           ) -> tuple[Truth | None, list[str]]:
    """Brings the kept figures up to date and reads them with the tables they follow from, in one snapshot. views:
    further queries in that snapshot, and what judges their rows. Returns the count, and what is wrong. The count is
    None if figures differ and something was committed, or a lease expired, meanwhile: a look is not to blame for what
    came after it."""
    with database.pipeline():
        before = database.execute(MARKS)
        database.execute("BEGIN")
        database.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        database.execute(LOOK)
        database.execute("COMMIT")
        database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        rows = [database.execute(one) for one in (TABLES, FIGURES, *views, MARKS)]
        database.execute("COMMIT")
    ((first, began, open_),), ((tables,),), ((figures,),), *rest, ((last, ended, _),) = [
        one.fetchall() for one in (before, *rows)]
    truth = Truth(tables)
    found = list(told(truth, *figures))
    for check, of_view in zip(views.values(), rest, strict=True):
        found += check(of_view, truth)
    quiet = last <= first + 1 and not open_ and not any(began < lease <= ended for _, _, _, _, lease, *_ in tables[5])
    return truth if quiet or not found else None, found


def told(truth: Truth, queues: list, groups: list, partitions: list, cursors: list, live: list) -> Iterator[str]:
    """Names what these rows tell wrongly."""
    yield from differences(
        {name: figures for name, *figures in queues},
        {one.name: [len(one.partitions), one.sum("head"), one.stored, one.sum("pending"), one.sum("processing"),
                    one.sum("overlap"), one.sum("completed"), sum(part.until > 0 for part in one.partitions.values()),
                    sum(part.behind > 0 for part in one.partitions.values()),
                    sum(part.total > 0 for part in one.partitions.values()), one.dead]
         for one in truth.queues.values()}, "stat_queues")
    yield from differences(
        {truth.group_numbers.get(group, group): figures for group, *figures in groups},
        {key: [truth.members[key], truth.lagging[key], truth.lag[key],
               sum(bool(one.leased) for one in parts.values()), truth.leased[key],
               truth.queues[key[0]].groups[key[1]]] for key, parts in truth.groups.items()}, "stat_groups")
    yield from differences(
        {truth.numbers.get(part, part): figures for part, *figures in partitions},
        {(queue.name, one.name): [one.floor, one.head, one.newest, one.total, one.pending, one.processing,
                                  one.overlap, one.completed, one.until, one.unread or 0]
         for queue in truth.queues.values() for one in queue.partitions.values()}, "stat_partitions")
    want = {(*key, part): [len(one.to_do), len(one.leased), one.waits or 0, one.next]
            for key, parts in truth.groups.items() for part, one in parts.items() if one.cursor or one.to_do}
    for what, rows in (("stat_cursors", cursors), ("cursor_figures", live)):
        yield from differences(
            {(*truth.group_numbers.get(group, (group,)), truth.numbers.get(part, (part,))[-1]): figures
             for group, part, *figures in rows}, want, what)
