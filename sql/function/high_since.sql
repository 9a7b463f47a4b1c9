-- The base of a partition's first row whose `high` is not below an id; the head if there is none.
-- `high` never falls along the offsets. A late producer is a row or two behind, so the newest rows are looked at first;
-- only then a binary search over all of them.
CREATE OR REPLACE FUNCTION queend.high_since(p_part int, p_id uuid) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_floor bigint := COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0);   -- below: see offset_since
    v_low bigint;
    v_high bigint;
    v_seen int;
    v_base bigint;
    v_n int;
    v_row uuid;
BEGIN
    SELECT min(r.base) FILTER (WHERE r.high >= p_id), min(r.base), count(*) INTO v_high, v_low, v_seen
      FROM (SELECT l.base, l.high FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor ORDER BY l.base DESC LIMIT 8) r;
    IF v_high IS NULL THEN
        RETURN queend.head(p_part);
    ELSIF v_high > v_low OR v_seen < 8 THEN
        RETURN v_high;
    END IF;
    SELECT l.base INTO v_low FROM queend.log l WHERE l.partition_id = p_part AND l.base >= v_floor ORDER BY l.base LIMIT 1;
    WHILE v_low < v_high LOOP
        SELECT l.base, l.n, l.high INTO v_base, v_n, v_row FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (v_low + v_high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF v_row < p_id THEN
            v_low := v_base + v_n;
        ELSE
            v_high := v_base;
        END IF;
    END LOOP;
    RETURN v_low;
END $$;
