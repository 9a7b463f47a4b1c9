-- Up to where a caller's knowledge of a partition counts: up to the end of the row it says, if that is still where a row of
-- that moment ends; else 0. The log may have lost its end, with a database's failure, and grown another. p_known as in push.
CREATE OR REPLACE FUNCTION queend.ids_known(p_part int, p_known bigint, p_known_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_known bigint := CASE WHEN p_known < -1 THEN -2 - p_known ELSE p_known END;
BEGIN
    IF v_known > 0 AND EXISTS (SELECT FROM (SELECT l.base + l.n AS next, l.created_at FROM queend.log l WHERE l.partition_id = p_part AND l.base < v_known
                                             ORDER BY l.base DESC LIMIT 1) AS l WHERE l.next = v_known AND l.created_at = p_known_at) THEN
        RETURN v_known;
    END IF;
    RETURN 0;
END $$;
