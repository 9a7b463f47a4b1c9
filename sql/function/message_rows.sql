-- Rows of the log to list messages from, the newest first: of at most a thousand partitions (p_part) each partition's newest
-- p_most rows between two moments; otherwise (NULL) what lies in windows of time that grow back from p_to until p_most rows of
-- the wanted queues (NULL: all) are found, or p_look rows were looked at in one window.
CREATE OR REPLACE FUNCTION queend.message_rows(p_part int[], p_queue int[], p_from bigint, p_to bigint, p_most int, p_look int)
RETURNS TABLE (partition_id int, base bigint, created_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_to    bigint := LEAST(p_to, queend.now_us());
    v_width bigint := 1000000;
    v_from  bigint;
    v_found bigint := 0;
    v_rows  bigint;
BEGIN
    IF p_part IS NOT NULL THEN
        RETURN QUERY
        SELECT r.* FROM unnest(p_part) AS u (id)
         CROSS JOIN LATERAL (SELECT queend.row_since(u.id, p_from) AS low, CASE WHEN p_to < queend.now_us() THEN queend.row_since(u.id, p_to + 1) ELSE 9223372036854775807 END AS high OFFSET 0) AS w
         CROSS JOIN LATERAL (SELECT l.partition_id, l.base, l.created_at FROM queend.log l WHERE l.partition_id = u.id AND l.base >= w.low AND l.base <= w.high
                              ORDER BY l.base DESC LIMIT p_most) AS r
         ORDER BY r.created_at DESC, r.partition_id, r.base DESC;
        RETURN;
    END IF;
    LOOP
        v_from := GREATEST(v_to - v_width, p_from - 1);
        RETURN QUERY
        SELECT r.* FROM queend.rows_between(v_from, v_to, p_look) AS r
         WHERE p_queue IS NULL OR (SELECT p.queue_id FROM queend.partitions p WHERE p.id = r.partition_id) = ANY (p_queue)
         ORDER BY r.created_at DESC, r.partition_id, r.base DESC;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_found := v_found + v_rows;
        EXIT WHEN v_found >= p_most OR v_from < p_from;
        v_to := v_from;
        v_width := v_width * 4;
    END LOOP;
END $$;
