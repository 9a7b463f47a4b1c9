-- Current figures of partitions and their groups, and sums of the kept figures (stats.sql). Reads only. Locks: none.

-- Returns the current figures of partitions, one row each. The columns pending, processing and completed are the
-- largest over the groups of the queue. In a queue without groups every stored message is pending. The column total
-- counts stored messages without deleted ones. The column consumed counts records of the group that consumed most.
-- Column oldest: when the first message was stored that some group has to consume (NULL without such a message). Column
-- waiting_since: from when that message could be delivered (cursor_figures). Column until: expiry of the first lease
-- (0: none). Column active: the last claim or acknowledgment (NULL: never).
CREATE OR REPLACE FUNCTION queend.partition_figures(p_parts int[])
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, pending bigint,
               processing bigint, completed bigint, consumed bigint, oldest bigint, until bigint, active bigint,
               total bigint, waiting_since bigint)
LANGUAGE sql STABLE AS $$
    SELECT c.queue_id, c.partition_id, min(c.floor), max(c.head), max(c.newest), max(c.lag - c.leased), max(c.leased),
           max(CASE WHEN c.group_id IS NULL THEN 0 ELSE c.total - c.lag END), max(c.consumed), min(c.oldest),
           COALESCE(min(c.lease_until) FILTER (WHERE c.lease_until > 0), 0), max(c.consumed_at), max(c.total),
           min(c.waiting_since)
      FROM queend.cursor_figures(p_parts, NULL) AS c GROUP BY c.queue_id, c.partition_id
$$;

-- Returns where the groups of a queue stand in partitions: one row per partition and group, with or without a cursor
-- (has_cursor). A partition of a queue without groups has one row with group_id NULL, whose lag is all stored messages.
-- If p_group is given, only of this group. Deleted partitions are left out. Costs index probes per row, at most a
-- binary search. If the partition has deleted messages, or messages for one group only, their list is read too.
-- Columns:
--   floor, head     as of the log; newest: when the newest record was stored (NULL: the partition is empty)
--   next            first offset not consumed; without a cursor: where the group's subscription begins
--   lag             messages to consume, also those on lease; without deleted ones and those for other groups
--   leased          messages on lease until lease_until (0: no lease), at most lag; lease_id: NULL without a lease
--   beyond          records behind next that are already consumed
--   oldest          when the first message to consume was stored (NULL without such a message)
--   waiting_since   from when that message could be delivered: it was stored, its delayedProcessing was over, and it
--                   and the 100 scheduled runs before it were due. Later than now: the message still waits
--   consumed        records that the group has consumed since its cursor was created
--   consumed_at     its last claim or acknowledgment (NULL: never)
--   total           stored messages without deleted ones
CREATE OR REPLACE FUNCTION queend.cursor_figures(p_parts int[], p_group int)
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, group_id int, next bigint,
               lag bigint, leased bigint, lease_until bigint, lease_id uuid, beyond bigint, oldest bigint,
               waiting_since bigint, consumed bigint, consumed_at bigint, total bigint, has_cursor boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint := queend.now_us();
    v_holes boolean;
    v_due   boolean;
BEGIN
    SELECT c.holes, c.scheduled INTO v_holes, v_due FROM queend.catalog c;
    RETURN QUERY
    SELECT l.queue_id, l.id, l.floor, l.head, l.newest, l.group_id, l.next, l.lag, LEAST(l.leased, l.lag), l.until,
           CASE WHEN l.until > 0 THEN l.lease_id END, queend.done_count(l.beyond, l.next), w.stored,
           GREATEST(w.stored + l.delayed,
                    CASE WHEN v_due AND w.stored IS NOT NULL
                         THEN (SELECT max(d.due) FROM (SELECT x.due FROM queend.schedule x
                                                        WHERE x.partition_id = l.id AND x.first_offset <= w.first
                                                        ORDER BY x.first_offset DESC LIMIT 100) AS d) END),
           l.consumed, l.consumed_at, l.total, l.has_cursor
      FROM (SELECT p.queue_id, p.delayed, u.id, f.floor, GREATEST(h.next, f.floor) AS head, h.base, h.meta,
                   h.created_at AS newest, k.id AS group_id, k.committed IS NOT NULL AS has_cursor, s.next, d.done,
                   k.beyond, COALESCE(k.until, 0) AS until, k.lease_id, NULLIF(k.consumed_at, 0) AS consumed_at,
                   GREATEST(h.next, f.floor) - f.floor - t.holes AS total,
                   GREATEST(GREATEST(h.next, f.floor) - s.next - queend.done_count(d.done, s.next), 0) AS lag,
                   CASE WHEN k.until > 0
                        THEN GREATEST(k.lease_end + 1 - s.next - queend.done_count(d.done, s.next)
                                      + queend.done_count(d.done, k.lease_end + 1), 0)
                        ELSE 0 END AS leased,
                   CASE WHEN k.committed IS NULL THEN 0
                        ELSE GREATEST(k.committed + 1 + queend.done_count(k.beyond, k.committed + 1)
                                      - COALESCE(k.origin, 0), 0) END AS consumed
              FROM unnest(p_parts) AS u (id)
              CROSS JOIN LATERAL (
                    SELECT x.queue_id,
                           (SELECT q.delayed_processing * 1000000::bigint FROM queend.queues q
                             WHERE q.id = x.queue_id) AS delayed
                      FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
              LEFT JOIN LATERAL (SELECT x.floor, x.addressed FROM queend.floors x
                                  WHERE x.partition_id = u.id OFFSET 0) AS a ON true
              CROSS JOIN LATERAL (SELECT COALESCE(a.floor, 0) AS floor OFFSET 0) AS f
              LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.base, l.created_at, l.meta FROM queend.log l
                                  WHERE l.partition_id = u.id AND l.base >= f.floor
                                  ORDER BY l.base DESC LIMIT 1) AS h ON true
              CROSS JOIN LATERAL (SELECT CASE WHEN v_holes THEN (SELECT count(*) FROM queend.holes x
                                                                  WHERE x.partition_id = u.id
                                                                    AND x.record_offset >= f.floor)
                                              ELSE 0 END AS holes OFFSET 0) AS t
              LEFT JOIN LATERAL (
                    SELECT g.id, g.name, g.start_at, c.committed, c.beyond, c.lease_end, c.lease_id, c.consumed_at,
                           c.origin, CASE WHEN c.lease_until > v_now THEN c.lease_until ELSE 0 END AS until
                      FROM queend.consumer_groups g
                      LEFT JOIN LATERAL (SELECT x.* FROM queend.cursors x
                                          WHERE x.partition_id = u.id AND x.group_id = g.id OFFSET 0) AS c ON true
                     WHERE g.queue_id = p.queue_id AND (p_group IS NULL OR g.id = p_group) OFFSET 0) AS k ON true
              CROSS JOIN LATERAL (
                    SELECT CASE WHEN k.committed IS NOT NULL THEN GREATEST(k.committed + 1, f.floor)
                                WHEN k.start_at IS NULL OR h.next IS NULL THEN f.floor
                                WHEN h.created_at < k.start_at THEN h.next
                                ELSE queend.offset_since(u.id, k.start_at) END AS next OFFSET 0) AS s
              CROSS JOIN LATERAL (
                    SELECT CASE WHEN t.holes > 0 OR a.addressed
                                THEN queend.withheld(u.id, k.name, s.next) + COALESCE(k.beyond, '{}')
                                ELSE k.beyond END AS done OFFSET 0) AS d
             OFFSET 0) AS l
      LEFT JOIN LATERAL (
            SELECT n.first, CASE WHEN n.first >= l.base THEN queend.record_time(l.newest, l.meta, n.first - l.base)
                                 ELSE queend.record_stored(l.id, n.first) END AS stored
              FROM (SELECT CASE WHEN l.done IS NULL THEN l.next ELSE queend.undone_from(l.done, l.next) END AS first
                    OFFSET 0) AS n
             WHERE l.lag > 0 OFFSET 0) AS w ON true;
END $$;

-- Returns how many messages of a partition a group has to consume (cursor_figures); NULL if the partition or the group
-- is gone. The views of the schema queen need this result type: it stays.
CREATE OR REPLACE FUNCTION queend.cursor_lag(part int, consumer_group int) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT c.lag FROM queend.cursor_figures(ARRAY[part], consumer_group) AS c WHERE c.group_id IS NOT NULL);
END $$;

-- Returns the offsets of a partition from p_from on that a group is not given, joined to runs. These are deleted
-- records, and records for another group (p_group: its name, NULL: all groups).
CREATE OR REPLACE FUNCTION queend.withheld(p_part int, p_group text, p_from bigint) RETURNS int8multirange
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT COALESCE(range_agg(w.run), '{}')
              FROM (SELECT int8range(h.record_offset, h.record_offset + 1) AS run FROM queend.holes h
                     WHERE h.partition_id = p_part AND h.record_offset >= p_from
                    UNION ALL
                    SELECT int8range(GREATEST(a.first_offset, p_from), a.last_offset + 1) FROM queend.addressed a
                     WHERE a.partition_id = p_part AND a.last_offset >= p_from AND a.group_name <> p_group) AS w);
END $$;

-- Returns a page of the namespaces or tasks (p_kind: namespace, task) that have a queue, by name, with the sums of
-- their queues' kept figures. If there are more than 10 000 queues, the sums are kept too, as of the last update
-- (stats_spaces).
CREATE OR REPLACE FUNCTION queend.space_list(p_kind text, p_limit bigint, p_offset bigint)
RETURNS TABLE (name text, queues bigint, partitions bigint, total bigint, pending bigint)
LANGUAGE plpgsql STABLE SET jit = off SET enable_sort = off SET enable_bitmapscan = off
    SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    IF queend.names_total(0, 'queue') > 10000 AND EXISTS (SELECT FROM queend.stat_spaces) THEN
        RETURN QUERY
        SELECT s.name, s.queues, s.partitions, s.total, s.pending FROM queend.stat_spaces s WHERE s.kind = p_kind
         ORDER BY s.kind, s.name LIMIT p_limit OFFSET p_offset;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT q.name, count(*), COALESCE(sum(s.partitions), 0)::bigint, COALESCE(sum(s.total), 0)::bigint,
           COALESCE(sum(s.pending), 0)::bigint
      FROM (SELECT x.id, CASE p_kind WHEN 'task' THEN x.task ELSE x.namespace END AS name FROM queend.queues x) AS q
      LEFT JOIN queend.stat_queues s ON s.queue_id = q.id WHERE q.name <> '' GROUP BY q.name
     ORDER BY q.name LIMIT p_limit OFFSET p_offset;
END $$;
