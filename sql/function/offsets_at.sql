-- The first record of a partition stored at or after a moment (µs); one element of the arrays per entry, one row each, in
-- order. queue_id NULL: no such queue. found, stored_at: offset and moment of the record, NULL when there is none.
CREATE OR REPLACE FUNCTION queend.offsets_at(p_queue text[], p_partition text[], p_at bigint[])
RETURNS TABLE (ord int, queue_id int, found bigint, stored_at bigint, head bigint, floor bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT u.ord::int - 1, q.id, s.found, r.created_at, COALESCE(h.head, 0), COALESCE(f.floor, 0)
      FROM unnest(p_queue, p_partition, p_at) WITH ORDINALITY AS u (queue, partition, at, ord)
      LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
      LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
      LEFT JOIN LATERAL (SELECT x.floor FROM queend.floors x WHERE x.partition_id = p.id OFFSET 0) AS f ON true
      LEFT JOIN LATERAL (SELECT queend.head(p.id) AS head WHERE p.id IS NOT NULL) AS h ON true
      LEFT JOIN LATERAL (SELECT NULLIF(GREATEST(queend.offset_since(p.id, u.at), f.floor), h.head) AS found WHERE p.id IS NOT NULL) AS s ON true
      LEFT JOIN LATERAL (SELECT queend.record_time(l.created_at, l.meta, s.found - l.base) AS created_at FROM queend.log l WHERE l.partition_id = p.id AND l.base <= s.found ORDER BY l.base DESC LIMIT 1) AS r ON true
     ORDER BY u.ord;
END $$;
