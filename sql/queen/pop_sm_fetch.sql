-- Pop, step by step: the messages of a partition after the cursor that queen.pop_sm_lease named, in order, as queen.pop_unified_batch_v4 gives them;
-- it ends before one that SQL cannot read.
CREATE OR REPLACE FUNCTION queen.pop_sm_fetch(partition_id uuid, cursor_ts timestamptz, cursor_id uuid, batch_size int, window_buffer int DEFAULT 0, delayed_processing int DEFAULT 0) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_part  int := queend.partition_id(partition_id);
    v_first bigint := CASE WHEN cursor_ts IS NULL THEN (SELECT COALESCE(max(f.floor), 0) FROM queend.floors f WHERE f.partition_id = v_part) ELSE queend.message_offset(cursor_id) + 1 END;
BEGIN
    RETURN (
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(r.stored_at, v_part, r.record_offset), 'transactionId', r.transaction_id, 'traceId', r.trace_id, 'data', r.data, 'producerSub', r.producer_sub,
               'createdAt', queend.iso(r.stored_at)) ORDER BY r.record_offset), '[]')
      FROM (SELECT x.*, bool_and(x.data IS NOT NULL) OVER (ORDER BY x.record_offset) AS readable
              FROM (SELECT y.*, queend.as_jsonb(y.payload) AS data FROM queend.records(v_part, v_first, batch_size) AS y) AS x) AS r
     WHERE r.readable);
END $$;
