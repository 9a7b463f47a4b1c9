-- Up to where the rows of a partition from p_from on are over at p_at: stored before, and delivered before where they had to
-- wait for a moment (schedule_since). A place where a row begins.
CREATE OR REPLACE FUNCTION queend.row_over(p_part int, p_from bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_to bigint := queend.row_since(p_part, p_at);
    v_at bigint := queend.schedule_since(p_part, p_from, v_to, p_at);
BEGIN
    IF v_at IS NULL THEN
        RETURN v_to;
    END IF;
    RETURN (SELECT l.base FROM queend.log l WHERE l.partition_id = p_part AND l.base <= v_at ORDER BY l.base DESC LIMIT 1);
END $$;
