-- Where partitions and the groups that consume them stand, one row per cursor; one row with group_id NULL where there is none.
-- floor, head: as of the log; newest: moment of the newest record (NULL: none stored); next: first offset not consumed;
-- beyond: records behind it that are, all the same; leased: records under delivery until lease_until (0: none); oldest: moment of the record at next,
-- or at the floor (NULL: none there); consumed: records the group has consumed since its cursor was made.
-- Partitions that are gone are left out. A few index probes per row, nothing is counted.
CREATE OR REPLACE FUNCTION queend.partition_cursors(p_parts int[])
RETURNS TABLE (queue_id int, partition_id int, floor bigint, head bigint, newest bigint, group_id int, next bigint, leased bigint, lease_until bigint,
               oldest bigint, consumed_at bigint, beyond bigint, consumed bigint)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := queend.now_us();
BEGIN
    RETURN QUERY
    SELECT p.queue_id, u.id, f.floor, GREATEST(h.next, f.floor), h.created_at, k.group_id, k.next,
           CASE WHEN k.until > 0 THEN GREATEST(k.lease_end - k.next + 1 - k.beyond + queend.done_count(k.done, k.lease_end + 1), 0) ELSE 0 END, COALESCE(k.until, 0),
           CASE WHEN COALESCE(k.next, f.floor) >= h.next OR h.next IS NULL THEN NULL
                WHEN COALESCE(k.next, f.floor) >= h.base THEN queend.record_time(h.created_at, h.meta, COALESCE(k.next, f.floor) - h.base)
                ELSE queend.record_stored(u.id, COALESCE(k.next, f.floor)) END,
           k.consumed_at, COALESCE(k.beyond, 0), COALESCE(k.consumed, 0)
      FROM unnest(p_parts) AS u (id)
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.partitions x WHERE x.id = u.id OFFSET 0) AS p
      CROSS JOIN LATERAL (SELECT COALESCE((SELECT x.floor FROM queend.floors x WHERE x.partition_id = u.id), 0) AS floor OFFSET 0) AS f
      LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.base, l.created_at, l.meta FROM queend.log l
                          WHERE l.partition_id = u.id AND l.base >= f.floor ORDER BY l.base DESC LIMIT 1) AS h ON true
      LEFT JOIN LATERAL (
            SELECT c.group_id, GREATEST(c.committed + 1, f.floor) AS next, CASE WHEN c.lease_until > v_now THEN c.lease_until ELSE 0 END AS until, c.lease_end,
                   NULLIF(c.consumed_at, 0) AS consumed_at,
                   c.beyond AS done, queend.done_count(c.beyond, GREATEST(c.committed + 1, f.floor)) AS beyond,
                   GREATEST(c.committed + 1 + queend.done_count(c.beyond, c.committed + 1) - COALESCE(c.origin, 0), 0) AS consumed
              FROM queend.cursors c
             CROSS JOIN LATERAL (SELECT FROM queend.consumer_groups g WHERE g.id = c.group_id OFFSET 0) AS g
             WHERE c.partition_id = u.id OFFSET 0) AS k ON true;
END $$;
