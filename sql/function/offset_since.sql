-- The first offset of a partition whose record was stored at or after a moment; the head if there is none.
-- A row's created_at is that of its last record, so the row is found first, then the record in it.
CREATE OR REPLACE FUNCTION queend.offset_since(p_part int, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_base  bigint := queend.row_since(p_part, p_at);
    v_times bigint[];
BEGIN
    SELECT queend.record_times(l.created_at, l.meta) INTO v_times FROM queend.log l WHERE l.partition_id = p_part AND l.base = v_base;
    IF v_times IS NULL THEN
        RETURN v_base;
    END IF;
    RETURN v_base + (SELECT count(*) FROM unnest(v_times) AS t (at) WHERE t.at < p_at);
END $$;
