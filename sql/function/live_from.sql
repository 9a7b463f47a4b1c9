-- The first offset of a partition at or after p_next whose record was stored, or could be delivered first, at or after a moment;
-- the head if there is none.
-- p_base: a row of the log not above p_next's. Where that is young enough, as it is while consumers keep up, one probe says so.
CREATE OR REPLACE FUNCTION queend.live_from(p_part int, p_base bigint, p_next bigint, p_at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row record;
    v_to  bigint;
BEGIN
    SELECT l.base, l.n, l.created_at, l.meta INTO v_row FROM queend.log l WHERE l.partition_id = p_part AND l.base >= p_base ORDER BY l.base LIMIT 1;
    IF NOT FOUND OR queend.record_time(v_row.created_at, v_row.meta, GREATEST(p_next - v_row.base, 0)::int) >= p_at THEN
        RETURN p_next;
    END IF;
    v_to := GREATEST(p_next, queend.offset_since(p_part, p_at));
    RETURN COALESCE(queend.schedule_since(p_part, p_next, v_to, p_at), v_to);
END $$;
