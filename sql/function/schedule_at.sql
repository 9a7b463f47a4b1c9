-- The first of the p_most records from p_first on that is not due at p_now; NULL: all of them are.
-- Runs do not overlap: the one that may hold p_first is the last that begins at or before it.
CREATE OR REPLACE FUNCTION queend.schedule_at(p_part int, p_first bigint, p_most int, p_now bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE(
        (SELECT CASE WHEN x.last_offset >= p_first AND x.due > p_now THEN p_first END FROM queend.schedule x
          WHERE x.partition_id = p_part AND x.first_offset <= p_first ORDER BY x.first_offset DESC LIMIT 1),
        (SELECT x.first_offset FROM queend.schedule x
          WHERE x.partition_id = p_part AND x.first_offset > p_first AND x.first_offset < p_first + p_most AND x.due > p_now ORDER BY x.first_offset LIMIT 1));
END $$;
