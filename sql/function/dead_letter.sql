-- Copies one stored record into dead_letters.
CREATE OR REPLACE FUNCTION queend.dead_letter(p_part int, p_group int, p_offset bigint, p_error text, p_retries int) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO queend.dead_letters (queue_id, partition_id, group_id, record_offset, record_id, transaction_id, trace_id,
                                     producer_sub, payload, error, retry_count, created_at, failed_at)
    SELECT p.queue_id, p_part, p_group, p_offset, r.id, COALESCE(m.transaction_id, encode(r.id, 'hex')::uuid::text),
           m.trace_id, m.producer_sub, queend.record_payload(r.body, r.i), p_error, p_retries, r.created_at, queend.now_us()
      FROM (SELECT l.*, (p_offset - l.base)::int AS i, substr(l.ids, (16 * (p_offset - l.base))::int + 1, 16) AS id FROM queend.log l
             WHERE l.partition_id = p_part AND l.base <= p_offset ORDER BY l.base DESC LIMIT 1) AS r
      CROSS JOIN LATERAL queend.record_meta(r.meta, r.i) AS m
      LEFT JOIN queend.partitions p ON p.id = p_part
     WHERE r.i < r.n
$$;
