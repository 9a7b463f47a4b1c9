-- Ids of dead letters, the newest failure first. Every filter may be NULL: queue (by id), partition and consumer group (by name),
-- moments of the failure (µs, both inclusive). Names become numbers first: of a partition only its own dead letters are read, of a
-- group nothing is looked up for each. Without sorts, except of one partition's and of failures of one moment: PostgreSQL 15 would sort all
-- of a queue's.
CREATE OR REPLACE FUNCTION queend.dead_find(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint, p_limit int, p_offset int)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
    v_from  bigint := COALESCE(p_from, 0);
    v_to    bigint := COALESCE(p_to, 9223372036854775807);
    v_group int[] := ARRAY(SELECT g.id FROM queend.consumer_groups g WHERE p_group IS NOT NULL AND g.name = p_group AND (p_queue IS NULL OR g.queue_id = p_queue));
BEGIN
    IF p_partition IS NOT NULL THEN
        RETURN QUERY
        SELECT d.id FROM (SELECT q.id FROM queend.queues q WHERE p_queue IS NULL OR q.id = p_queue) AS q
         CROSS JOIN LATERAL (SELECT x.id FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = p_partition OFFSET 0) AS p
         CROSS JOIN LATERAL (SELECT x.* FROM queend.dead_letters x WHERE x.partition_id = p.id OFFSET 0) AS d
         WHERE d.failed_at >= v_from AND d.failed_at <= v_to AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
         ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    ELSIF p_queue IS NOT NULL THEN
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.queue_id = p_queue AND d.failed_at >= v_from AND d.failed_at <= v_to
           AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
         ORDER BY d.queue_id DESC, d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    ELSE
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.failed_at >= v_from AND d.failed_at <= v_to AND (p_group IS NULL OR COALESCE(d.group_name = p_group, d.group_id = ANY (v_group)))
         ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    END IF;
END $$;
