-- The traces of one message, oldest first, at most p_limit.
CREATE OR REPLACE FUNCTION queend.traces_of(p_part int, p_id bytea, p_limit int) RETURNS SETOF queend.traces
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY SELECT t.* FROM queend.traces t WHERE t.partition_id = p_part AND t.record_id = p_id ORDER BY t.partition_id, t.record_id, t.ord LIMIT p_limit;
END $$;
