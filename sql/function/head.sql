-- The next offset a partition will give, never below its floor. PL/pgSQL keeps its plan from call to call; a function in
-- SQL that cannot be inlined is planned anew by each statement that uses it.
CREATE OR REPLACE FUNCTION queend.head(p_part int) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);
BEGIN
    RETURN COALESCE((SELECT l.base + l.n FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor ORDER BY l.base DESC LIMIT 1), v_floor);
END $$;
