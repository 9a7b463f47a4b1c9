-- Pop, step LEASING: takes the lease of (partition, group) for p_seconds if nobody holds it, for at most p_batch records;
-- no row: it is held, delayed, or there is nothing to deliver. first … first + take - 1 is what pop_sm_fetch may read.
CREATE OR REPLACE FUNCTION queend.pop_sm_lease(p_part int, p_group int, p_seconds int, p_lease uuid, p_batch int)
RETURNS TABLE (first bigint, take int, attempt int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_delay  bigint;
    v_window bigint;
    v_ttl    bigint;
BEGIN
    SELECT q.delayed_processing * 1000000::bigint, q.window_buffer * 1000000::bigint, CASE WHEN q.ttl_set THEN q.ttl ELSE 0 END * 1000000::bigint
      INTO v_delay, v_window, v_ttl
      FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE p.id = p_part;
    RETURN QUERY
    SELECT min(r.first), sum(r.take)::int, max(r.attempt)
      FROM queend.pop(0, ARRAY[1], ARRAY[p_part], ARRAY[p_group], ARRAY[true], ARRAY[p_batch], ARRAY[1], ARRAY[false], ARRAY[p_lease],
                      ARRAY[p_seconds * 1000000::bigint], ARRAY[v_delay], ARRAY[v_window], ARRAY[v_ttl]) AS r
     WHERE r.status = 1 HAVING count(*) > 0;
    PERFORM queend.leases_keep(ARRAY[p_lease], ARRAY[p_part], ARRAY[p_group], true);
END $$;
