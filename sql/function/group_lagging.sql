-- Partitions whose oldest message that a group has not consumed was stored before p_before (µs), that message's age first; at
-- most p_limit of them.
CREATE OR REPLACE FUNCTION queend.group_lagging(p_before bigint, p_limit int)
RETURNS TABLE (name text, queue text, partition text, partition_id int, lag bigint, oldest bigint, consumed_at bigint, lease_id uuid)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT g.name, q.name, k.name, k.partition_id, k.head - k.next, o.oldest, k.consumed_at, CASE WHEN k.lease_until > queend.now_us() THEN k.lease_id END
      FROM queend.group_positions(ARRAY(SELECT x.id FROM queend.consumer_groups x), NULL) AS k
      CROSS JOIN LATERAL (SELECT queend.record_stored(k.partition_id, k.next) AS oldest WHERE k.head > k.next OFFSET 0) AS o
      CROSS JOIN LATERAL (SELECT x.name, x.queue_id FROM queend.consumer_groups x WHERE x.id = k.group_id OFFSET 0) AS g
      CROSS JOIN LATERAL (SELECT x.name FROM queend.queues x WHERE x.id = g.queue_id OFFSET 0) AS q
     WHERE o.oldest < p_before
     ORDER BY o.oldest, g.name, q.name, k.partition_id LIMIT p_limit;
END $$;
