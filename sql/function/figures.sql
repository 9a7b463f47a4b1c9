-- Figures of partitions and their groups, of this moment, and sums of the kept ones. Reads only.

-- The figures of partitions, live, one row each. Where several groups consume one, each figure is the largest over the
-- groups; where none does, all that is stored is pending. consumed: records of the group that consumed most; oldest:
-- moment of the oldest record some group has not consumed (NULL: none); until: when the first of its leases runs out
-- (0: none); active: the last claim or acknowledgment (NULL: never).
CREATE OR REPLACE FUNCTION queend.partition_figures(p_parts int[])
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, pending bigint,
               processing bigint, completed bigint, consumed bigint, oldest bigint, until bigint, active bigint)
LANGUAGE sql STABLE AS $$
    SELECT c.queue_id, c.partition_id, min(c.floor), max(c.head), max(c.newest),
           max(GREATEST(c.head - COALESCE(c.next, c.floor) - c.beyond - c.leased, 0)), max(c.leased),
           max(COALESCE(c.next, c.floor) - c.floor + c.beyond),
           max(c.consumed), min(c.oldest), COALESCE(min(c.lease_until) FILTER (WHERE c.lease_until > 0), 0),
           max(c.consumed_at)
      FROM queend.partition_cursors(p_parts) AS c GROUP BY c.queue_id, c.partition_id
$$;

-- Where partitions and the groups that consume them stand, one row per cursor; one row with group_id NULL where there
-- is none. floor, head: as of the log; newest: moment of the newest record (NULL: none stored); next: first offset not
-- consumed; beyond: records behind it that are, all the same; leased: records under delivery until lease_until (0:
-- none); oldest: moment of the record at next, or at the floor (NULL: none there); consumed: records the group has
-- consumed since its cursor was made. Partitions that are gone are left out. A few index probes per row, nothing is
-- counted.
CREATE OR REPLACE FUNCTION queend.partition_cursors(p_parts int[])
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, group_id int, next bigint,
               leased bigint, lease_until bigint, oldest bigint, consumed_at bigint, beyond bigint, consumed bigint)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    RETURN QUERY
    SELECT p.queue_id, u.id, f.floor, GREATEST(h.next, f.floor), h.created_at, k.group_id, k.next,
           CASE WHEN k.until > 0
                     THEN GREATEST(k.lease_end - k.next + 1 - k.beyond + queend.done_count(k.done, k.lease_end + 1), 0)
                ELSE 0 END, COALESCE(k.until, 0),
           CASE WHEN COALESCE(k.next, f.floor) >= h.next OR h.next IS NULL THEN NULL
                WHEN COALESCE(k.next, f.floor) >= h.base
                     THEN queend.record_time(h.created_at, h.meta, COALESCE(k.next, f.floor) - h.base)
                ELSE queend.record_stored(u.id, COALESCE(k.next, f.floor)) END,
           k.consumed_at, COALESCE(k.beyond, 0), COALESCE(k.consumed, 0)
      FROM unnest(p_parts) AS u (id)
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
      CROSS JOIN LATERAL (SELECT COALESCE((SELECT x.floor FROM queend.floors x WHERE x.partition_id = u.id),
                                          0) AS floor OFFSET 0) AS f
      LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.base, l.created_at, l.meta FROM queend.log l
                          WHERE l.partition_id = u.id AND l.base >= f.floor ORDER BY l.base DESC LIMIT 1) AS h ON true
      LEFT JOIN LATERAL (
            SELECT c.group_id, GREATEST(c.committed + 1, f.floor) AS next,
                   CASE WHEN c.lease_until > v_now THEN c.lease_until ELSE 0 END AS until, c.lease_end,
                   NULLIF(c.consumed_at, 0) AS consumed_at,
                   c.beyond AS done, queend.done_count(c.beyond, GREATEST(c.committed + 1, f.floor)) AS beyond,
                   GREATEST(c.committed + 1 + queend.done_count(c.beyond, c.committed + 1) - COALESCE(c.origin, 0),
                            0) AS consumed
              FROM queend.cursors c
             CROSS JOIN LATERAL (SELECT FROM queend.consumer_groups g WHERE g.id = c.group_id OFFSET 0) AS g
             WHERE c.partition_id = u.id OFFSET 0) AS k ON true;
END $$;

-- Namespaces or tasks (p_kind: namespace, task) that have a queue, by name, with the sums of their queues' kept
-- figures: a page of them.
-- Where queues are many the sums are kept as well, and as old as the last look (stats_spaces).
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
