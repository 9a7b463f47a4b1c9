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
