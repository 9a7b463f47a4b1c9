-- The traces of a name, oldest first, with the queue and partition of each.
CREATE OR REPLACE FUNCTION queend.traces_named(p_name text, p_limit int, p_offset int)
RETURNS TABLE (id uuid, transaction_id text, partition_id int, event_type text, data text, group_name text, worker_id text, created_at bigint,
               queue text, partition text, record_id bytea, names text[])
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT t.id, t.transaction_id, t.partition_id, t.event_type, t.data, t.group_name, t.worker_id, t.created_at, w.queue, w.name, t.record_id, t.names
      FROM (SELECT x.ord, x.trace_id FROM queend.trace_names x WHERE x.name = p_name ORDER BY x.name, x.ord LIMIT p_limit OFFSET p_offset) AS n
      CROSS JOIN LATERAL (SELECT x.* FROM queend.traces x WHERE x.id = n.trace_id OFFSET 0) AS t
      LEFT JOIN LATERAL (SELECT p.name, (SELECT q.name FROM queend.queues q WHERE q.id = p.queue_id) AS queue FROM queend.partitions p WHERE p.id = t.partition_id OFFSET 0) AS w ON true
     ORDER BY n.ord;
END $$;
