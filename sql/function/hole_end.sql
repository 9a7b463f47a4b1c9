-- The first offset at or after this one that was not deleted: the end of the run of holes that begins there.
CREATE OR REPLACE FUNCTION queend.hole_end(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    IF queend.hole_after(p_part, p_offset) IS DISTINCT FROM p_offset THEN
        RETURN p_offset;
    END IF;
    RETURN (SELECT h.record_offset + 1 FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset >= p_offset
               AND NOT EXISTS (SELECT FROM queend.holes x WHERE x.partition_id = p_part AND x.record_offset = h.record_offset + 1)
             ORDER BY h.record_offset LIMIT 1);
END $$;
