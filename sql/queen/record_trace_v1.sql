-- Notes something about a message: {"transactionId", "partitionId", "consumerGroup", "eventType": "info", "data", "workerId", "traceNames": [...]}.
-- {success, traceId}, or success false where there is no such message.
CREATE OR REPLACE FUNCTION queen.record_trace_v1(trace jsonb) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT CASE WHEN t.id IS NULL THEN '{"success": false, "error": "Message not found"}' ELSE jsonb_build_object('success', true, 'traceId', t.id) END
      FROM (SELECT CASE WHEN queend.partition_number(trace->>'partitionId') IS NOT NULL THEN
                        queend.trace_record(queend.partition_number(trace->>'partitionId'), queend.record_id(trace->>'transactionId'), left(trace->>'transactionId', 255),
                                            left(COALESCE(trace->>'consumerGroup', '__QUEUE_MODE__'), 255), left(COALESCE(trace->>'eventType', 'info'), 100), COALESCE(trace->>'workerId', '0'),
                                            COALESCE(trace->'data', 'null')::text,
                                            ARRAY(SELECT left(n, 255) FROM jsonb_array_elements_text(CASE jsonb_typeof(trace->'traceNames') WHEN 'array' THEN trace->'traceNames' ELSE '[]' END) AS n LIMIT 100))
                   END AS id) AS t
$$;
