-- What queues hold, and may hold (max_size, 0: any number): per queue the records that were stored and not yet consumed by all of its groups; where it has no group,
-- all that is stored. A group that has not come to a partition yet stands where its subscription would let it begin. From
-- heads, floors and cursors: a few probes per partition and group, however many records there are. Deleted records count
-- until the cursors have passed them, and what is older than a ttl until retention has removed it.
CREATE OR REPLACE FUNCTION queend.queue_sizes(p_queue int[]) RETURNS TABLE (queue_id int, size bigint, max_size int)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.id, COALESCE((
        SELECT sum(GREATEST(h.head - GREATEST(f.floor, s.next, 0), 0))::bigint
          FROM queend.partitions p
          LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
          CROSS JOIN LATERAL (SELECT l.base + l.n AS head FROM queend.log l
                               WHERE l.partition_id = p.id AND l.base >= COALESCE(f.floor, 0) ORDER BY l.base DESC LIMIT 1) AS h
          CROSS JOIN LATERAL (SELECT min(COALESCE(k.committed + 1, CASE WHEN g.start_at IS NULL THEN 0 ELSE queend.offset_since(p.id, g.start_at) END)) AS next
                                FROM queend.consumer_groups g
                                LEFT JOIN LATERAL (SELECT x.committed FROM queend.cursors x WHERE x.partition_id = p.id AND x.group_id = g.id OFFSET 0) AS k ON true
                               WHERE g.queue_id = q.id) AS s
         WHERE p.queue_id = q.id), 0), q.max_size
      FROM (SELECT DISTINCT u.id FROM unnest(p_queue) AS u (id)) AS u
     CROSS JOIN LATERAL (SELECT x.id, x.max_size FROM queend.queues x WHERE x.id = u.id OFFSET 0) AS q;
END $$;
