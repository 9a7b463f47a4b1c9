-- The base of a partition's first row whose `high` is not below an id; the head if there is none.
-- `high` never falls along the offsets. A late producer is a row or two behind, so the newest rows are looked at first;
-- only then a binary search over all of them.
CREATE OR REPLACE FUNCTION queend.high_since(p_part int, p_id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    low      bigint;
    high     bigint;
    seen     int;
    row_base bigint;
    row_n    int;
    row_high uuid;
BEGIN
    SELECT min(r.base) FILTER (WHERE r.high >= p_id), min(r.base), count(*) INTO high, low, seen
      FROM (SELECT l.base, l.high FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base DESC LIMIT 8) r;
    IF high IS NULL THEN
        RETURN queend.head(p_part);
    ELSIF high > low OR seen < 8 THEN
        RETURN high;
    END IF;
    SELECT l.base INTO low FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base LIMIT 1;
    WHILE low < high LOOP
        SELECT l.base, l.n, l.high INTO row_base, row_n, row_high FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (low + high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF row_high < p_id THEN
            low := row_base + row_n;
        ELSE
            high := row_base;
        END IF;
    END LOOP;
    RETURN low;
END $$;
