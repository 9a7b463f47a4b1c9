-- Visits the next partitions, at most p_limit, of the queues that are marked for a walk; returns how many: 0 when no mark is left.
-- What was kept of partitions that are gone leaves the figures on the way, and dead letters are counted in full.
CREATE OR REPLACE FUNCTION queend.stats_walk(p_limit int) RETURNS int
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    v_left   int := p_limit;
    v_queues int[] := '{}';
    v_parts  int[] := '{}';
    v_page   int[];
    v_last   int;
    q        record;
BEGIN
    FOR q IN SELECT s.queue_id, s.visit_after FROM queend.stat_queues s WHERE s.visit_after IS NOT NULL ORDER BY s.queue_id LIMIT p_limit LOOP
        EXIT WHEN v_left <= 0;
        v_page := ARRAY(SELECT p.id FROM queend.partitions p WHERE p.queue_id = q.queue_id AND p.id > q.visit_after ORDER BY p.id LIMIT v_left);
        v_last := CASE WHEN cardinality(v_page) = v_left THEN v_page[v_left] END;
        v_page := ARRAY(SELECT u.id FROM unnest(v_page) AS u (id)
                        UNION SELECT s.partition_id FROM queend.stat_partitions s
                               WHERE s.queue_id = q.queue_id AND s.partition_id > q.visit_after AND (v_last IS NULL OR s.partition_id <= v_last));
        v_parts := v_parts || v_page;
        v_queues := v_queues || array_fill(q.queue_id, ARRAY[cardinality(v_page)]);
        v_left := v_left - GREATEST(cardinality(v_page), 1);
        UPDATE queend.stat_queues s SET visit_after = v_last,
               dead = CASE WHEN q.visit_after = 0 THEN (SELECT count(*) FROM queend.dead_letters d WHERE d.queue_id = q.queue_id) ELSE s.dead END
         WHERE s.queue_id = q.queue_id;
    END LOOP;
    PERFORM queend.stats_visit(v_queues, v_parts);
    RETURN p_limit - v_left;
END $$;
