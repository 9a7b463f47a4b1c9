-- One message by its partition and record id, from the log or, where that has lost it, from the dead letters; no row: there is
-- none, or it was deleted. body, n, place: the row that holds it and its 0-based place there (payload NULL); or its payload,
-- of a dead letter that has one. dead_error, dead_retries: of its newest dead letter. seal: id of the key its payload is
-- sealed with; encrypted: the queue's option.
CREATE OR REPLACE FUNCTION queend.message_show(p_part int, p_id bytea)
RETURNS TABLE (queue text, namespace text, task text, lease_time int, retry_limit int, retry_delay int, ttl int, priority int, partition text,
               record_offset bigint, stored_at bigint, transaction_id text, trace_id uuid, producer_sub text, payload text, body bytea, n int, place int,
               dead_error text, dead_retries int, seal text, encrypted boolean, deliver_at bigint)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_at bigint := queend.message_find(p_part, p_id);
BEGIN
    RETURN QUERY
    WITH dead AS (SELECT d.* FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id AND (v_at IS NULL OR d.record_offset = v_at)
                   ORDER BY d.id DESC LIMIT 1),
    record AS (
        SELECT v_at AS at, queend.record_time(l.created_at, l.meta, v_at - l.base) AS stored_at, m.transaction_id, m.trace_id, m.producer_sub, m.seal,
               NULL::text AS payload, l.body, l.n, (v_at - l.base)::int AS place, m.due
          FROM (SELECT x.* FROM queend.log x WHERE x.partition_id = p_part AND x.base <= v_at ORDER BY x.base DESC LIMIT 1) AS l
          CROSS JOIN LATERAL queend.record_meta(l.meta, (v_at - l.base)::int) AS m
        UNION ALL
        SELECT d.record_offset, d.created_at, d.transaction_id, d.trace_id, d.producer_sub, d.seal, d.payload, b.body, b.n, (d.record_offset - b.base)::int, NULL
          FROM dead d LEFT JOIN LATERAL (SELECT x.* FROM queend.dead_bodies x WHERE x.partition_id = p_part AND x.base <= d.record_offset AND d.payload IS NULL
                                          ORDER BY x.base DESC LIMIT 1) AS b ON true
         WHERE v_at IS NULL)
    SELECT q.name, q.namespace, q.task, q.lease_time, q.retry_limit, q.retry_delay, q.ttl, q.priority, p.name,
           r.at, r.stored_at, COALESCE(r.transaction_id, encode(p_id, 'hex')::uuid::text), r.trace_id, r.producer_sub, r.payload, r.body, r.n, r.place,
           d.error, d.retry_count, r.seal, q.encryption_enabled, r.due
      FROM record r
      JOIN queend.partitions p ON p.id = p_part
      JOIN queend.queues q ON q.id = p.queue_id
      LEFT JOIN dead d ON true;
END $$;
