-- The base of the row that holds an offset of a partition; the offset itself where there is none.
CREATE OR REPLACE FUNCTION queend.row_of(p_part int, p_offset bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN COALESCE((SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= p_offset ORDER BY l.base DESC LIMIT 1), p_offset);
END $$;
