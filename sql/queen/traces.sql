-- Traces: the views, storing and reading them.

CREATE OR REPLACE VIEW queen.message_traces AS
SELECT t.id, queend.record_message(t.partition_id, t.record_id) AS message_id,
       queend.partition_uuid(t.partition_id) AS partition_id, t.transaction_id,
       t.group_name AS consumer_group, t.event_type, queend.as_jsonb(t.data) AS data,
       queend.moment(t.created_at) AS created_at, t.worker_id
  FROM queend.traces t
 WHERE NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = t.partition_id);
COMMENT ON VIEW queen.message_traces IS
'Traces: records that programs wrote about messages.';

CREATE OR REPLACE VIEW queen.message_trace_names AS
SELECT n.trace_id, n.name AS trace_name FROM queend.trace_names n
 WHERE NOT EXISTS (SELECT FROM queend.graves g WHERE g.partition_id = n.partition_id);
COMMENT ON VIEW queen.message_trace_names IS
'Names of traces: one row per trace and name.';

CREATE OR REPLACE FUNCTION queen.record_trace_v1(trace jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT CASE WHEN t.id IS NULL THEN '{"success": false, "error": "Message not found"}'
                ELSE jsonb_build_object('success', true, 'traceId', t.id) END
      FROM (SELECT CASE WHEN queend.partition_number(trace->>'partitionId') IS NOT NULL THEN
                        queend.trace_record(queend.partition_number(trace->>'partitionId'),
                                            queend.record_id(trace->>'transactionId'),
                                            trace->>'transactionId',
                                            COALESCE(trace->>'consumerGroup', '__QUEUE_MODE__'),
                                            COALESCE(trace->>'eventType', 'info'),
                                            COALESCE(trace->>'workerId', '0'),
                                            COALESCE(trace->'data', 'null')::text,
                                            ARRAY(SELECT n FROM jsonb_array_elements_text(
                                                             CASE jsonb_typeof(trace->'traceNames')
                                                             WHEN 'array' THEN trace->'traceNames'
                                                             WHEN 'string' THEN jsonb_build_array(trace->'traceNames')
                                                             ELSE '[]' END) AS n))
                   END AS id) AS t
$$;
COMMENT ON FUNCTION queen.record_trace_v1(jsonb) IS
'Records a trace of a message: {"transactionId", "partitionId", "consumerGroup", "eventType": "info", "data",
"workerId", "traceNames": a text or up to 100 texts}. Returns {success, traceId}; success is false if the message does
not exist. A name of more than 255 bytes or an eventType of more than 100 is an error.';

CREATE OR REPLACE FUNCTION queen.get_message_traces_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('traces', COALESCE(jsonb_agg(jsonb_build_object(
               'id', t.id, 'event_type', t.event_type, 'data', queend.as_jsonb(t.data), 'consumer_group', t.group_name,
               'worker_id', t.worker_id, 'created_at', queend.iso(t.created_at), 'trace_names', t.names)
                                                           ORDER BY t.ord), '[]'))
      FROM queend.traces_of(queend.partition_number(get_message_traces_v1.partition_id),
                            queend.record_id(get_message_traces_v1.transaction_id), 10000) AS t
$$;
COMMENT ON FUNCTION queen.get_message_traces_v1(text, text) IS
'Returns the traces of a message, oldest first: {"traces": [{id, event_type, data, consumer_group, worker_id,
created_at, trace_names}, …]}.';

CREATE OR REPLACE FUNCTION queen.get_traces_by_name_v1(trace_name text, page_limit int DEFAULT 100,
    page_offset int DEFAULT 0) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('traces', COALESCE(jsonb_agg(jsonb_build_object(
               'id', t.id, 'transaction_id', t.transaction_id, 'partition_id', queend.partition_uuid(t.partition_id),
               'queue_name', t.queue, 'partition_name', t.partition, 'event_type', t.event_type,
               'data', queend.as_jsonb(t.data), 'consumer_group', t.group_name, 'worker_id', t.worker_id,
               'created_at', queend.iso(t.created_at), 'trace_names', t.names) ORDER BY t.created_at), '[]'),
           'pagination', jsonb_build_object('limit', page_limit, 'offset', page_offset))
      FROM queend.traces_named(trace_name, queend.filter_number(NULL, 'page_limit', page_limit, 0, 1000),
                               page_offset) AS t
$$;
COMMENT ON FUNCTION queen.get_traces_by_name_v1(text, integer, integer) IS
'Returns the traces with a name, oldest first. Error 22023: a page_limit above 1000.';

CREATE OR REPLACE FUNCTION queen.get_available_trace_names_v1(page_limit int DEFAULT 50, page_offset int DEFAULT 0)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('trace_names', COALESCE(jsonb_agg(jsonb_build_object(
               'trace_name', n.name, 'trace_count', n.traces, 'message_count', n.messages,
               'last_seen', queend.iso(n.last)) ORDER BY n.last DESC, n.name)
               FILTER (WHERE n.name IS NOT NULL), '[]'), 'total', max(n.traces) FILTER (WHERE n.name IS NULL),
                              'pagination', jsonb_build_object('limit', page_limit, 'offset', page_offset))
      FROM queend.trace_names_list(page_limit, page_offset, 2147483647, 2147483647) AS n
$$;
COMMENT ON FUNCTION queen.get_available_trace_names_v1(integer, integer) IS
'Returns the names of traces, most recently used first.';
