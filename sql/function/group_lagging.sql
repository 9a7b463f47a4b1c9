-- Partitions whose oldest message that a group has not consumed was stored before p_before (µs), that message's age first; at
-- most p_limit of them. Found by the kept figures; what was consumed since is seen and left out.
CREATE OR REPLACE FUNCTION queend.group_lagging(p_before bigint, p_limit int)
RETURNS TABLE (name text, queue text, partition text, partition_id int, lag bigint, oldest bigint, consumed_at bigint, lease_id uuid)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, p.name, s.partition_id, l.lag,
           CASE WHEN k.committed < s.next THEN s.oldest ELSE queend.record_stored(s.partition_id, k.committed + 1) END AS oldest,
           CASE WHEN k.committed >= 0 AND k.consumed_at > 0 THEN k.consumed_at END, CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END
      FROM (SELECT c.* FROM (SELECT y.group_id FROM queend.stat_groups y ORDER BY y.group_id) AS x
             CROSS JOIN LATERAL (SELECT y.* FROM queend.stat_cursors y WHERE y.group_id = x.group_id AND y.lag > 0 AND y.oldest < p_before
                                  ORDER BY y.oldest LIMIT p_limit) AS c
             ORDER BY c.oldest LIMIT p_limit) AS s
      CROSS JOIN LATERAL (SELECT x.* FROM queend.cursors x WHERE x.partition_id = s.partition_id AND x.group_id = s.group_id OFFSET 0) AS k
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = s.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
      CROSS JOIN LATERAL (SELECT x.name FROM queend.partitions x WHERE x.id = s.partition_id OFFSET 0) AS p
      CROSS JOIN LATERAL (SELECT CASE WHEN k.committed < s.next THEN s.lag
                                      ELSE queend.head(s.partition_id) - k.committed - 1 - queend.done_count(k.beyond, k.committed + 1) END AS lag OFFSET 0) AS l
     WHERE l.lag > 0
       AND CASE WHEN k.committed < s.next THEN s.oldest ELSE queend.record_stored(s.partition_id, k.committed + 1) END < p_before
     ORDER BY 6, g.name, q.name, s.partition_id;
END $$;
