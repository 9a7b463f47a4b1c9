-- The first of the records p_from … p_to - 1 that could not be delivered before p_at: one with such a moment, or what stands
-- behind it and had to wait for it. NULL: none. So ages count from when a record could be delivered first.
CREATE OR REPLACE FUNCTION queend.schedule_since(p_part int, p_from bigint, p_to bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF (SELECT x.due FROM queend.schedule x WHERE x.partition_id = p_part AND x.first_offset <= p_from ORDER BY x.first_offset DESC LIMIT 1) >= p_at THEN
        RETURN CASE WHEN p_from < p_to THEN p_from END;
    END IF;
    RETURN (SELECT x.first_offset FROM queend.schedule x
             WHERE x.partition_id = p_part AND x.first_offset > p_from AND x.first_offset < p_to AND x.due >= p_at ORDER BY x.first_offset LIMIT 1);
END $$;
