-- What was noted about a message, oldest first: {"traces": [{id, event_type, data, consumer_group, worker_id, created_at, trace_names}, …]}.
CREATE OR REPLACE FUNCTION queen.get_message_traces_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('traces', COALESCE(jsonb_agg(jsonb_build_object(
               'id', t.id, 'event_type', t.event_type, 'data', queend.as_jsonb(t.data), 'consumer_group', t.group_name, 'worker_id', t.worker_id,
               'created_at', queend.iso(t.created_at), 'trace_names', t.names) ORDER BY t.ord), '[]'))
      FROM queend.traces_of(queend.partition_number(get_message_traces_v1.partition_id), queend.record_id(get_message_traces_v1.transaction_id), 10000) AS t
$$;
