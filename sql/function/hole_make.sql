-- Takes a record out of its partition: deliveries pass over it from the next one on.
CREATE OR REPLACE FUNCTION queend.hole_make(p_part int, p_offset bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.holes (partition_id, record_offset) VALUES (p_part, p_offset) ON CONFLICT DO NOTHING;
    PERFORM queend.schedule_cut(p_part, p_offset);
    UPDATE queend.catalog c SET holes = true WHERE NOT c.holes;
END $$;
