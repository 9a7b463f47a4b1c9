-- The first offset of a partition whose record was stored at or after a moment; the head if there is none.
-- created_at never runs backwards against the offset, so a binary search finds it: about 2 log2(rows) index probes.
CREATE OR REPLACE FUNCTION queend.offset_since(p_part int, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    low    bigint;
    high   bigint := queend.head(p_part);
    row_at bigint;
    row_base bigint;
    row_n  int;
BEGIN
    SELECT l.base INTO low FROM queend.log l WHERE l.partition_id = p_part ORDER BY l.base LIMIT 1;
    IF low IS NULL THEN
        RETURN high;
    END IF;
    WHILE low < high LOOP
        SELECT l.base, l.n, l.created_at INTO row_base, row_n, row_at FROM queend.log l
         WHERE l.partition_id = p_part AND l.base <= (low + high) / 2 ORDER BY l.base DESC LIMIT 1;
        IF row_at < p_at THEN
            low := row_base + row_n;
        ELSE
            high := row_base;
        END IF;
    END LOOP;
    RETURN low;
END $$;
