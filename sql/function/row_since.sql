-- Where a partition's first row begins that has a record stored at or after a moment; the head if there is none.
-- created_at never runs backwards against the offset, so a binary search finds it: about 2 log2(rows) index probes.
CREATE OR REPLACE FUNCTION queend.row_since(p_part int, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_low bigint;
    v_high bigint := queend.head(p_part);
    v_at bigint;
    v_base bigint;
    v_n int;
BEGIN
    -- From the floor on: below it lie the index entries of rows that are gone but not vacuumed yet.
    SELECT l.base INTO v_low FROM queend.log l
     WHERE l.partition_id = p_part AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = p_part), 0)
     ORDER BY l.base LIMIT 1;
    IF v_low IS NULL THEN
        RETURN v_high;
    END IF;
    WHILE v_low < v_high LOOP
        SELECT l.base, l.n, l.created_at INTO v_base, v_n, v_at FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (v_low + v_high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF v_at < p_at THEN
            v_low := v_base + v_n;
        ELSE
            v_high := v_base;
        END IF;
    END LOOP;
    RETURN v_low;
END $$;
