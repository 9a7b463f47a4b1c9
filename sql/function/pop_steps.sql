-- Pop step by step, for callers that write SQL: find a partition, take its lease, read, give the lease back. Only the lease
-- is kept between the steps.

-- Pop, step RESOLVING: one partition of a queue with records the group has not consumed and no live lease, the least
-- recently consumed first; no row: none. lease_time, window_buffer and delayed_processing are seconds.
-- A proposal only: pop_sm_lease decides.
CREATE OR REPLACE FUNCTION queend.pop_sm_resolve(p_queue text, p_group text)
RETURNS TABLE (partition_id int, partition_name text, group_id int, queue_id int, lease_time int, window_buffer int, delayed_processing int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id, p.name, g.group_id, q.id, q.lease_time, q.window_buffer, q.delayed_processing
      FROM queend.queues q
      CROSS JOIN LATERAL queend.group_resolve(q.id, p_group, 'all', NULL) AS g
      JOIN queend.partitions p ON p.queue_id = q.id
      LEFT JOIN queend.cursors k ON k.partition_id = p.id AND k.group_id = g.group_id
     WHERE q.name = p_queue AND COALESCE(GREATEST(k.lease_until, k.retry_until), 0) <= queend.now_us()
       AND queend.schedule_due(p.id, COALESCE(k.committed + 1, 0), queend.now_us()) IS NULL
       AND queend.head(p.id) > COALESCE(k.committed + 1, CASE WHEN g.start_at IS NULL THEN 0 ELSE queend.offset_since(p.id, g.start_at) END)
     ORDER BY COALESCE(k.consumed_at, 0), p.id
     LIMIT 1;
END $$;

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

-- Pop, step FETCHING: p_take records of a partition from offset p_first, one row per record in order. Of compressed rows the
-- payload is NULL.
CREATE OR REPLACE FUNCTION queend.pop_sm_fetch(p_part int, p_first bigint, p_take int)
RETURNS TABLE (record_offset bigint, message_id uuid, transaction_id text, trace_id uuid, producer_sub text, payload text, created_at bigint)
LANGUAGE sql STABLE AS $$
    SELECT l.base + i.ord, queend.message_id(t.at, p_part, l.base + i.ord),
           COALESCE(m.transaction_id, encode(i.id, 'hex')::uuid::text), m.trace_id, m.producer_sub, convert_from(substr(l.body, b.starts[i.ord + 1] + 1, b.sizes[i.ord + 1]), 'UTF8'), t.at
      FROM queend.log l CROSS JOIN LATERAL queend.record_times(l.created_at, l.meta) AS r (times) CROSS JOIN LATERAL queend.body_open(l.body, l.n) AS b CROSS JOIN LATERAL queend.id_spread(l.ids) AS i CROSS JOIN LATERAL queend.record_meta(l.meta, i.ord) AS m
     CROSS JOIN LATERAL (SELECT COALESCE(r.times[i.ord + 1], l.created_at) AS at) AS t
     WHERE l.partition_id = p_part AND l.base < p_first + p_take AND l.base + l.n > p_first
       AND l.base >= COALESCE((SELECT x.base FROM queend.log x WHERE x.partition_id = p_part AND x.base <= p_first ORDER BY x.base DESC LIMIT 1), 0)
       AND l.base + i.ord >= p_first AND l.base + i.ord < p_first + p_take
     ORDER BY 1
$$;

-- Pop, step EMPTY: gives the lease back if it is still ours.
CREATE OR REPLACE FUNCTION queend.pop_sm_release(p_part int, p_group int, p_lease uuid) RETURNS boolean
LANGUAGE sql AS $$
    SELECT r.released FROM queend.release(ARRAY[p_part], ARRAY[p_group], ARRAY[p_lease]) AS r
$$;
