-- The next offset of each partition, by queue and partition name, in their order: 0 when the partition was never written, -1
-- when there is no such queue. What waiting reads of the log watch.
CREATE OR REPLACE FUNCTION queend.heads(p_queue text[], p_partition text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT array_agg(CASE WHEN q.id IS NULL THEN -1 ELSE COALESCE(h.head, 0) END ORDER BY u.ord)
              FROM unnest(p_queue, p_partition) WITH ORDINALITY AS u (queue, partition, ord)
              LEFT JOIN LATERAL (SELECT x.id FROM queend.queues x WHERE x.name = u.queue OFFSET 0) AS q ON true
              LEFT JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = u.partition OFFSET 0) AS p ON true
              LEFT JOIN LATERAL (SELECT queend.head(p.id) AS head WHERE p.id IS NOT NULL) AS h ON true);
END $$;
