-- Rows of the log stored between two moments (µs, the first excluded), at most p_most of them, in no order. Reads only the block
-- ranges the index on created_at cannot rule out: every other way through the log is closed to the planner.
CREATE OR REPLACE FUNCTION queend.rows_between(p_from bigint, p_to bigint, p_most int)
RETURNS TABLE (partition_id int, base bigint, n int, created_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = on AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT l.partition_id, l.base, l.n, l.created_at FROM queend.log l WHERE l.created_at > p_from AND l.created_at <= p_to LIMIT p_most;
END $$;
