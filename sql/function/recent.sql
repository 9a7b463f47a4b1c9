-- Partitions that got records at or after a moment (µs), with their heads: how another daemon's pushes are found when no
-- word of them came. Reads only the block ranges the index on created_at cannot rule out.
CREATE OR REPLACE FUNCTION queend.recent(p_since bigint) RETURNS TABLE (partition_id int, queue_id int, head bigint)
LANGUAGE plpgsql STABLE SET enable_bitmapscan = on SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT r.partition_id, p.queue_id, r.head
      FROM (SELECT l.partition_id, max(l.base + l.n) AS head FROM queend.log l WHERE l.created_at >= p_since GROUP BY l.partition_id) AS r
      JOIN queend.partitions p ON p.id = r.partition_id;
END $$;
