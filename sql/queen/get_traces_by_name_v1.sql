-- The traces of a name, oldest first.
CREATE OR REPLACE FUNCTION queen.get_traces_by_name_v1(trace_name text, page_limit int DEFAULT 100, page_offset int DEFAULT 0) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('traces', COALESCE(jsonb_agg(jsonb_build_object(
               'id', t.id, 'transaction_id', t.transaction_id, 'partition_id', queend.partition_uuid(t.partition_id), 'queue_name', t.queue, 'partition_name', t.partition,
               'event_type', t.event_type, 'data', queend.as_jsonb(t.data), 'consumer_group', t.group_name, 'worker_id', t.worker_id,
               'created_at', queend.iso(t.created_at), 'trace_names', t.names) ORDER BY t.created_at), '[]'),
           'pagination', jsonb_build_object('limit', page_limit, 'offset', page_offset))
      FROM queend.traces_named(trace_name, LEAST(page_limit, 1000), page_offset) AS t
$$;
