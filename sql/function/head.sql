-- The next offset a partition will give, never below its floor.
CREATE OR REPLACE FUNCTION queend.head(p_part int) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT COALESCE((SELECT l.base + l.n FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 1),
                    (SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0)
$$;
