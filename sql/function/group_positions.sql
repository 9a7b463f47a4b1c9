-- Where groups stand: one row per cursor of theirs, by group as given and partition in order of creation, at most p_limit of
-- each group. next: first offset not consumed, never below the floor; beyond: records behind it that are consumed all the
-- same; head - next - beyond is the lag, exact and without a count.
-- consumed: records it has consumed since its cursor was made, those included that it consumed again after a seek.
-- head_at: moment of the newest record, NULL when none is stored. consumed_at: NULL when nothing was ever consumed.
CREATE OR REPLACE FUNCTION queend.group_positions(p_group int[], p_limit bigint)
RETURNS TABLE (group_id int, partition_id int, name text, next bigint, head bigint, head_at bigint, lease_id uuid, lease_until bigint, consumed_at bigint, beyond bigint, consumed bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.id, k.partition_id, k.name, GREATEST(k.committed + 1, COALESCE(f.floor, 0)),
           GREATEST(COALESCE(h.next, f.floor, 0), k.committed + 1), h.created_at, k.lease_id, k.lease_until,
           CASE WHEN (k.committed >= 0 OR k.beyond IS NOT NULL) AND k.consumed_at > 0 THEN k.consumed_at END,
           queend.done_count(k.beyond, GREATEST(k.committed + 1, COALESCE(f.floor, 0))),
           GREATEST(k.committed + 1 + queend.done_count(k.beyond, k.committed + 1) - COALESCE(k.origin, 0), 0)
      FROM unnest(p_group) WITH ORDINALITY AS u (id, ord)
      CROSS JOIN LATERAL (SELECT x.queue_id FROM queend.consumer_groups x WHERE x.id = u.id OFFSET 0) AS g
      CROSS JOIN LATERAL (
            SELECT p.name, c.* FROM queend.partitions p
             CROSS JOIN LATERAL (SELECT x.* FROM queend.cursors x WHERE x.partition_id = p.id AND x.group_id = u.id OFFSET 0) AS c
             WHERE p.queue_id = g.queue_id ORDER BY p.id LIMIT p_limit) AS k
      LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = k.partition_id OFFSET 0) AS f ON true
      LEFT JOIN LATERAL (SELECT l.base + l.n AS next, l.created_at FROM queend.log l
                          WHERE l.partition_id = k.partition_id AND l.base >= COALESCE(f.floor, 0) ORDER BY l.base DESC LIMIT 1) AS h ON true
     ORDER BY u.ord, k.partition_id;
END $$;
