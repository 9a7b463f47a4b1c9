-- Removes rows of deleted partitions, at most about p_limit log rows per call. removed: rows and empty partitions that
-- are gone (0: whatever is left has a busy lane); partitions: how many are left.
-- A partition's last rows go under its lane: a push that had passed the catalogue check before the deletion has either
-- committed by then, and is swept, or will find the version raised.
CREATE OR REPLACE FUNCTION queend.sweep(p_limit int) RETURNS TABLE (removed bigint, partitions bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_part int;
    v_rows int;
    v_left int := p_limit;
BEGIN
    WHILE v_left > 0 LOOP
        SELECT g.partition_id INTO v_part FROM queend.graves g ORDER BY g.partition_id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        IF NOT pg_try_advisory_xact_lock(1903519076, v_part & 63) THEN
            EXIT;      -- the lane is busy, and waiting here for one lane after another could close a circle
        END IF;
        DELETE FROM queend.log l WHERE l.partition_id = v_part
           AND l.base <= (SELECT max(r.base) FROM (SELECT x.base FROM queend.log x WHERE x.partition_id = v_part ORDER BY x.base LIMIT v_left) AS r);
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_left := v_left - GREATEST(v_rows, 1);
        IF NOT EXISTS (SELECT 1 FROM queend.log l WHERE l.partition_id = v_part) THEN
            DELETE FROM queend.late_ids t WHERE t.partition_id = v_part;
            DELETE FROM queend.unlisted u WHERE u.partition_id = v_part;
            DELETE FROM queend.cursors k WHERE k.partition_id = v_part;
            DELETE FROM queend.holes h WHERE h.partition_id = v_part;
            DELETE FROM queend.addressed a WHERE a.partition_id = v_part;
            DELETE FROM queend.schedule s WHERE s.partition_id = v_part;
            DELETE FROM queend.pauses u WHERE u.partition_id = v_part;
            DELETE FROM queend.standing s WHERE s.partition_id = v_part;
            WITH gone AS (DELETE FROM queend.traces t WHERE t.partition_id = v_part RETURNING t.id)
            DELETE FROM queend.trace_names n WHERE n.trace_id IN (SELECT g.id FROM gone g);
            DELETE FROM queend.stream_state s USING queend.stream_queries q WHERE s.query_id = q.id AND s.partition_id = v_part;
            DELETE FROM queend.floors f WHERE f.partition_id = v_part;
            DELETE FROM queend.dead_letters d WHERE d.partition_id = v_part;
            DELETE FROM queend.dead_bodies d WHERE d.partition_id = v_part;
            DELETE FROM queend.graves g WHERE g.partition_id = v_part;
        END IF;
    END LOOP;
    DELETE FROM queend.pauses u      -- every daemon has seen their end
     WHERE u.ctid = ANY (ARRAY(SELECT x.ctid FROM queend.pauses x WHERE x.ends_at < queend.now_us() - 600000000 LIMIT p_limit FOR UPDATE SKIP LOCKED));
    RETURN QUERY SELECT (p_limit - v_left)::bigint, count(*) FROM queend.graves;
END $$;
