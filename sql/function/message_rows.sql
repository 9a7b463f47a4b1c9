-- Rows of the log to list p_most messages from, the newest first, where there are so many: rows between two moments that may have a
-- message of the status (NULL: any). At most p_look rows are looked at for it, so that fewer may be found than there are.
-- Of at most a thousand partitions (p_part) their own newest rows are read: without a status only of the p_most partitions written
-- last, no others can have one of the p_most newest. Otherwise (NULL) the log is read back in windows of time, and what the wanted
-- queues (NULL: all) have of it is kept. A window that has too much is made narrower before it is read, the next one wider again.
CREATE OR REPLACE FUNCTION queend.message_rows(p_part int[], p_queue int[], p_status text, p_from bigint, p_to bigint, p_most int, p_look int)
RETURNS TABLE (partition_id int, base bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    chunk   CONSTANT int := 5000;      -- rows of one window, at most
    v_now   bigint := queend.now_us();
    v_to    bigint := LEAST(p_to, v_now);
    v_width bigint := 1000000;
    v_each  int := CASE WHEN p_status IS NULL THEN p_most ELSE GREATEST(p_look / GREATEST(cardinality(p_part), 1), 10) END;
    v_from  bigint;
    v_most  int;
    v_whole boolean := p_status IS NULL AND NOT (SELECT c.holes FROM queend.catalog c);      -- a row has all its messages to list
    v_found int := 0;
    v_rows  int;
    v_more  int;
    v_part  int[];
    v_base  bigint[];
    v_n     int[];
BEGIN
    IF p_part IS NOT NULL THEN
        SELECT array_agg(h.id), CASE WHEN p_status IS NULL AND p_to >= v_now AND count(*) = p_most THEN min(h.created_at) ELSE p_from END INTO v_part, v_from
          FROM (SELECT u.id, l.created_at FROM unnest(p_part) AS u (id)
                 CROSS JOIN LATERAL (SELECT COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = u.id), 0) AS floor OFFSET 0) AS f
                 CROSS JOIN LATERAL (SELECT x.created_at FROM queend.log x WHERE x.partition_id = u.id AND x.base >= f.floor ORDER BY x.base DESC LIMIT 1) AS l
                 WHERE l.created_at >= p_from
                 ORDER BY l.created_at DESC LIMIT CASE WHEN p_status IS NULL AND p_to >= v_now THEN p_most END) AS h;
        RETURN QUERY
        SELECT r.partition_id, r.base FROM unnest(v_part) AS u (id)
         CROSS JOIN LATERAL (SELECT CASE WHEN p_status IS NULL THEN queend.row_since(u.id, v_from) ELSE 0 END AS low,
                                    CASE WHEN p_to < v_now THEN queend.row_since(u.id, p_to + 1) ELSE 9223372036854775807 END AS high OFFSET 0) AS w
          LEFT JOIN LATERAL (SELECT s.* FROM queend.partition_done(u.id, v_now) AS s OFFSET 0) AS s ON p_status <> 'dead_letter'
         CROSS JOIN LATERAL (SELECT l.partition_id, l.base, l.n, l.created_at FROM queend.log l
                              WHERE l.partition_id = u.id AND l.base >= w.low AND l.base <= CASE WHEN p_status = 'completed' THEN LEAST(s.reach, w.high) ELSE w.high END
                              ORDER BY l.base DESC LIMIT v_each) AS r
         CROSS JOIN LATERAL queend.row_may(p_status, r.partition_id, r.base, r.base + r.n - 1, CASE WHEN p_status = 'completed' THEN s.reach ELSE s.done END, s.leased) AS m
         WHERE r.created_at >= v_from AND m.may
         ORDER BY r.created_at DESC, r.partition_id, r.base DESC;
        RETURN;
    END IF;
    LOOP
        v_from := GREATEST(v_to - v_width, p_from - 1);
        v_most := CASE WHEN v_to - v_from = 1 THEN p_look ELSE LEAST(2 * p_most + 1000, chunk, p_look) END;      -- pushes of one moment are not divided
        SELECT array_agg(r.partition_id), array_agg(r.base), array_agg(r.n), count(*) INTO v_part, v_base, v_n, v_rows
          FROM (SELECT x.* FROM queend.rows_between(v_from, v_to, v_most + 1) AS x ORDER BY x.created_at DESC, x.partition_id, x.base DESC) AS r;
        IF v_rows > v_most AND v_to - v_from > 1 THEN
            v_width := GREATEST((v_to - v_from) / 4, 1);
            CONTINUE;
        END IF;
        SELECT array_agg(f.partition_id), array_agg(f.base), COALESCE(sum(CASE WHEN v_whole THEN f.n ELSE 1 END), 0) INTO v_part, v_base, v_more
          FROM (SELECT c.partition_id, c.base, c.n
                  FROM (SELECT u.* FROM unnest(v_part, v_base, v_n) WITH ORDINALITY AS u (partition_id, base, n, ord) ORDER BY u.ord OFFSET 0) AS c
                  LEFT JOIN LATERAL (SELECT p.queue_id FROM queend.partitions p WHERE p.id = c.partition_id OFFSET 0) AS p ON p_queue IS NOT NULL
                  LEFT JOIN LATERAL (SELECT s.* FROM queend.partition_done(c.partition_id, v_now) AS s OFFSET 0) AS s ON p_status <> 'dead_letter'
                 CROSS JOIN LATERAL queend.row_may(p_status, c.partition_id, c.base, c.base + c.n - 1, CASE WHEN p_status = 'completed' THEN s.reach ELSE s.done END, s.leased) AS m
                 WHERE (p_queue IS NULL OR p.queue_id = ANY (p_queue)) AND m.may
                 LIMIT p_most - v_found) AS f;
        RETURN QUERY SELECT * FROM unnest(v_part, v_base);
        v_found := v_found + v_more;
        p_look := p_look - v_rows;
        EXIT WHEN v_found >= p_most OR v_from < p_from OR p_look <= 0;
        v_to := v_from;
        v_width := v_width * 4;
    END LOOP;
END $$;
