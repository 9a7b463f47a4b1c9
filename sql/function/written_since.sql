-- Partitions (of all queues) with a record stored at or after a moment (µs), ascending; NULL when that is more than p_most
-- log rows. Reads only the block ranges the index on created_at cannot rule out: every other way through the log is closed
-- to the planner, to which a LIMIT looks like a reason to walk the primary key.
CREATE OR REPLACE FUNCTION queend.written_since(p_since bigint, p_most int) RETURNS int[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = on AS $$
DECLARE
    v_parts int[];
    v_rows  bigint;
BEGIN
    SELECT array_agg(DISTINCT r.partition_id ORDER BY r.partition_id), count(*) INTO v_parts, v_rows
      FROM (SELECT l.partition_id FROM queend.log l WHERE l.created_at >= p_since LIMIT p_most + 1) AS r;
    RETURN CASE WHEN v_rows <= p_most THEN COALESCE(v_parts, '{}') END;
END $$;
