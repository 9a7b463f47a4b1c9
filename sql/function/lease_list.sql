-- Live leases, for people. Reads only: the marks of lease ends (queend.stat_marks, stats.sql) find the partitions, the
-- cursors have the leases. Locks: none.

-- Returns live leases: one row per partition and group that holds one. Examines the p_looked partitions whose first
-- lease ends first, by the kept figures. So a lease that was taken after the last look of the statistics is missing.
--   p_queue, p_group           only leases of this queue, of groups of this name (NULL: all)
--   p_idle                     true: the lease whose consumer has been silent for longest comes first; otherwise the
--                              one that ends first
--   p_queues, p_groups         rules, one per place: patterns of LIKE for queue and group (NULL: any group). Only
--                              leases that a rule allows are returned (NULL: all)
-- The first row has total and complete alone. At most p_limit leases follow, those after the first p_offset.
--   lease_until, consumed_at   end of the lease; its claim, or the last acknowledgment since
--   next, leased               first offset not consumed, number of messages that the lease still has
--   attempt                    deliveries of these messages
--   lapses                     leases in a row that expired with the same first message, 0: fewer than two
--   total                      number of leases found
--   complete                   false: there are more partitions with leases than were examined
CREATE OR REPLACE FUNCTION queend.lease_list(p_queue text, p_group text, p_idle boolean, p_looked int, p_limit bigint,
    p_offset bigint, p_queues text[] DEFAULT NULL, p_groups text[] DEFAULT NULL)
RETURNS TABLE (queue text, name text, partition text, partition_id int, lease_id uuid, lease_until bigint,
               consumed_at bigint, next bigint, leased bigint, attempt int, lapses int, total bigint, complete boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
    SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_now   bigint := queend.now_us();
    v_queue int := (SELECT q.id FROM queend.queues q WHERE q.name = p_queue);
    v_parts int[] := ARRAY(SELECT m.partition_id FROM queend.stat_marks m WHERE m.due > 0
                            ORDER BY m.due LIMIT p_looked + 1);
BEGIN
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT k.*, w.queue_id, g.name, CASE WHEN p_idle THEN k.consumed_at ELSE k.lease_until END AS place
          FROM (SELECT DISTINCT u.id FROM unnest(v_parts[:p_looked]) AS u (id)) AS a
          CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = a.id OFFSET 0) AS w
          CROSS JOIN LATERAL (SELECT x.partition_id, x.group_id, x.lease_id, x.lease_until, x.consumed_at, x.attempt,
                                     x.standing
                                FROM queend.cursors x
                               WHERE x.partition_id = a.id AND x.lease_until > v_now OFFSET 0) AS k
          CROSS JOIN LATERAL (SELECT x.name FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
         WHERE (p_queue IS NULL OR w.queue_id = v_queue) AND (p_group IS NULL OR g.name = p_group)
           AND (p_queues IS NULL OR EXISTS (
                SELECT FROM (SELECT x.name FROM queend.queues x WHERE x.id = w.queue_id OFFSET 0) AS q,
                            unnest(p_queues, p_groups) AS r (queue, name)
                 WHERE q.name LIKE r.queue AND (r.name IS NULL OR g.name LIKE r.name))))
    SELECT NULL::text, NULL::text, NULL::text, NULL::int, NULL::uuid, NULL::bigint, NULL::bigint, NULL::bigint,
           NULL::bigint, NULL::int, NULL::int, count(*), cardinality(v_parts) <= p_looked FROM found
    UNION ALL
    (SELECT q.name, h.name, p.name, h.partition_id, h.lease_id, h.lease_until, h.consumed_at, f.next, f.leased,
            h.attempt, COALESCE(s.lapses, 0), NULL, NULL
       FROM (SELECT x.* FROM found x ORDER BY x.place, x.partition_id, x.group_id LIMIT p_limit OFFSET p_offset) AS h
       CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = h.queue_id OFFSET 0) AS q
       CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = h.partition_id OFFSET 0) AS p
       CROSS JOIN LATERAL queend.cursor_figures(ARRAY[h.partition_id], h.group_id) AS f
       LEFT JOIN LATERAL (SELECT x.lapses FROM queend.standing x
                           WHERE h.standing AND x.partition_id = h.partition_id AND x.group_id = h.group_id
                          OFFSET 0) AS s ON true
      ORDER BY h.place, h.partition_id, h.group_id);
END $$;
