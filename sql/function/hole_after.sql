-- The first deleted record of a partition at or after an offset; NULL: there is none.
CREATE OR REPLACE FUNCTION queend.hole_after(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT h.record_offset FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset >= p_offset ORDER BY h.record_offset LIMIT 1);
END $$;
