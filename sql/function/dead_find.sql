-- Ids of dead letters, the newest failure first. Every filter may be NULL: queue (by id), partition and consumer group (by name),
-- moments of the failure (µs, both inclusive). Without sorts, except of failures of one moment: PostgreSQL 15 would sort all of a queue's.
CREATE OR REPLACE FUNCTION queend.dead_find(p_queue int, p_partition text, p_group text, p_from bigint, p_to bigint, p_limit int, p_offset int)
RETURNS SETOF bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    IF p_queue IS NOT NULL THEN
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.queue_id = p_queue AND d.failed_at >= COALESCE(p_from, 0) AND d.failed_at <= COALESCE(p_to, 9223372036854775807)
           AND (p_partition IS NULL OR (SELECT p.name FROM queend.partitions p WHERE p.id = d.partition_id) = p_partition)
           AND (p_group IS NULL OR COALESCE(d.group_name, (SELECT g.name FROM queend.consumer_groups g WHERE g.id = d.group_id)) = p_group)
         ORDER BY d.queue_id DESC, d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    ELSE
        RETURN QUERY
        SELECT d.id FROM queend.dead_letters d
         WHERE d.failed_at >= COALESCE(p_from, 0) AND d.failed_at <= COALESCE(p_to, 9223372036854775807)
           AND (p_partition IS NULL OR (SELECT p.name FROM queend.partitions p WHERE p.id = d.partition_id) = p_partition)
           AND (p_group IS NULL OR COALESCE(d.group_name, (SELECT g.name FROM queend.consumer_groups g WHERE g.id = d.group_id)) = p_group)
         ORDER BY d.failed_at DESC, d.id DESC LIMIT p_limit OFFSET p_offset;
    END IF;
END $$;
