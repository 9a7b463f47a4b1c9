-- Deleted records: one row each in queend.holes, which deliveries pass over. catalog.holes is true once a record was
-- deleted. Locks: only those of the rows written.

-- Deletes a record of a partition: the next deliveries pass over it.
CREATE OR REPLACE FUNCTION queend.hole_make(p_part int, p_offset bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.holes (partition_id, record_offset) VALUES (p_part, p_offset) ON CONFLICT DO NOTHING;
    PERFORM queend.schedule_cut(p_part, p_offset);
    UPDATE queend.catalog c SET holes = true WHERE NOT c.holes;
    PERFORM queend.stats_mark(ARRAY[p_part]);
END $$;

-- Returns the first offset at or after p_offset that was not deleted: the end of the run of holes that begins there.
CREATE OR REPLACE FUNCTION queend.hole_end(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    IF queend.hole_after(p_part, p_offset) IS DISTINCT FROM p_offset THEN
        RETURN p_offset;
    END IF;
    RETURN (SELECT h.record_offset + 1 FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset >= p_offset
               AND NOT EXISTS (SELECT FROM queend.holes x
                                WHERE x.partition_id = p_part AND x.record_offset = h.record_offset + 1)
             ORDER BY h.record_offset LIMIT 1);
END $$;

-- Returns the offset of the first deleted record of a partition at or after p_offset, NULL if there is none.
CREATE OR REPLACE FUNCTION queend.hole_after(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT h.record_offset FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset >= p_offset
             ORDER BY h.record_offset LIMIT 1);
END $$;
