"""Families of /metrics/prometheus about backlogs: per queue and per group, never per partition. They are the kept
figures (`services/stats`). At most QUEEND_METRICS_QUEUES queues and as many groups are shown, those furthest behind.
The number of those left out is shown, too, and sums are of all."""
from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from .families import Families

WHOLE = """
SELECT count(*) AS queues, coalesce(sum(s.pending), 0)::bigint AS pending,
       coalesce(sum(s.processing), 0)::bigint AS processing, coalesce(sum(s.dead), 0)::bigint AS dead,
       (SELECT count(*) FROM queend.stat_groups) AS groups,
       coalesce((SELECT (queend.now_us() - x.looked_at) / 1e6 FROM queend.stats x), 0)::float8 AS age,
       queend.now_us() AS now
  FROM queend.stat_queues s"""
# Finds the moment from which the first waiting message of a queue, row s of stat_queues, could be delivered. A message
# waits for each group that has not consumed it; in a queue without groups every message waits.
OLDEST = """least((SELECT min(o.oldest) FROM queend.consumer_groups g
                    CROSS JOIN LATERAL (SELECT c.oldest FROM queend.stat_cursors c
                                         WHERE c.group_id = g.id AND c.oldest > 0 ORDER BY c.oldest LIMIT 1) AS o
                    WHERE g.queue_id = s.queue_id),
                  (SELECT p.unread FROM queend.stat_partitions p WHERE p.queue_id = s.queue_id AND p.unread > 0
                    ORDER BY p.unread LIMIT 1))"""
QUEUES = f"""
SELECT q.name, s.pending, s.processing, s.total, s.dead, {OLDEST} AS oldest,
       queend.is_paused(s.queue_id, 0) AS paused
  FROM (SELECT x.* FROM queend.stat_queues x ORDER BY x.pending + x.processing - x.overlap DESC, x.queue_id
         LIMIT %s) AS s
  JOIN queend.queues q ON q.id = s.queue_id ORDER BY q.name"""
GROUPS = """
SELECT q.name AS queue, g.name, s.lag, s.leased, s.lagging,
       (SELECT c.oldest FROM queend.stat_cursors c WHERE c.group_id = s.group_id AND c.oldest > 0
         ORDER BY c.oldest LIMIT 1) AS oldest,
       greatest(s.consumed_at, (extract(epoch FROM g.created_at) * 1000000)::bigint) AS active,
       queend.is_paused(s.queue_id, s.group_id) AS paused
  FROM (SELECT x.* FROM queend.stat_groups x ORDER BY x.lag DESC, x.group_id LIMIT %s) AS s
  JOIN queend.consumer_groups g ON g.id = s.group_id JOIN queend.queues q ON q.id = g.queue_id
 ORDER BY q.name, g.name"""
OF_QUEUE = (      # name, description, value from a row and the time
    ("queend_queue_backlog_messages", "Messages that the group furthest behind has still to receive, leased messages "
                                      "excluded.", lambda row, now: row.pending),
    ("queend_queue_processing_messages", "Messages on lease.", lambda row, now: row.processing),
    ("queend_queue_stored_messages", "Stored messages, consumed or not.", lambda row, now: row.total),
    ("queend_queue_dead_letters", "Dead letters of the queue.", lambda row, now: row.dead),
    ("queend_queue_oldest_seconds", "Longest wait of a message that is due and that some group, or a queue without "
                                    "groups, has not consumed. 0: no such message.",
     lambda row, now: age(row.oldest, now)),
    ("queend_queue_paused", "1 if the queue is paused.", lambda row, now: int(row.paused)))
OF_GROUP = (
    ("queend_group_lag_messages", "Messages that the group has not consumed.", lambda row, now: row.lag),
    ("queend_group_processing_messages", "Messages that consumers of the group have on lease.",
     lambda row, now: row.leased),
    ("queend_group_lagging_partitions", "Partitions with messages that the group has not consumed.",
     lambda row, now: row.lagging),
    ("queend_group_oldest_seconds", "Longest wait of a message that is due and that the group has not consumed. 0: no "
                                    "such message.",
     lambda row, now: age(row.oldest, now)),
    ("queend_group_idle_seconds", "Time since the group's last pop with messages or acknowledgment, or since its "
                                  "creation.",
     lambda row, now: age(row.active, now)),
    ("queend_group_paused", "1 if the group or its queue is paused.",
     lambda row, now: int(row.paused)))


def age(moment: int | None, now: int) -> float:
    """Returns the seconds from a moment until now, both in µs by the database's clock; 0 for None, or a later
    moment."""
    return max(0.0, round((now - moment) / 1e6, 3)) if moment else 0.0


async def backlogs(families: Families, control: Any) -> None:
    """Adds the families of the database; none while the database does not answer."""
    most = control.settings.queend_metrics_queues
    try:
        await control.stats.fresh()
        async with control.pool.connection() as connection, connection.cursor(row_factory=namedtuple_row) as cursor:
            whole = await (await cursor.execute(WHOLE)).fetchone()
            queues = await (await cursor.execute(QUEUES, (most,))).fetchall()
            groups = await (await cursor.execute(GROUPS, (most,))).fetchall()
    except psycopg.Error:
        return
    families.each("queend_backlog_left_out", "Queues and groups without metrics of their own: those beyond "
                  "QUEEND_METRICS_QUEUES.", ("kind",), [(("queues",), max(whole.queues - most, 0)),
                                            (("groups",), max(whole.groups - most, 0))])
    families.gauge("queend_backlog_messages", "Waiting messages of all queues.", whole.pending)
    families.gauge("queend_backlog_processing_messages", "Messages on lease, of all queues.",
                   whole.processing)
    families.gauge("queend_dead_letters", "Dead letters of all queues.", whole.dead)
    families.gauge("queend_backlog_age_seconds", "Age of the backlog metrics.", max(0.0, whole.age))
    now = whole.now
    for name, text, value in OF_QUEUE:
        families.each(name, text, ("queue",), [((row.name,), value(row, now)) for row in queues])
    for name, text, value in OF_GROUP:
        families.each(name, text, ("queue", "group"), [((row.queue, row.name), value(row, now)) for row in groups])
