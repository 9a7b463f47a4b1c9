-- When a record that is not due at p_now will be; NULL: it is.
CREATE OR REPLACE FUNCTION queend.schedule_due(p_part int, p_offset bigint, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT CASE WHEN s.last_offset >= p_offset AND s.due > p_now THEN s.due END
              FROM queend.schedule s WHERE s.partition_id = p_part AND s.first_offset <= p_offset ORDER BY s.first_offset DESC LIMIT 1);
END $$;
