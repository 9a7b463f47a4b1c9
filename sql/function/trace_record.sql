-- Notes something about a message, under any number of names. Returns the trace's id; NULL: there is no such message.
CREATE OR REPLACE FUNCTION queend.trace_record(p_part int, p_id bytea, p_transaction text, p_group text, p_event text, p_worker text, p_data text, p_names text[])
RETURNS uuid
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_now bigint := queend.now_us();
    t     queend.traces;
BEGIN
    IF queend.message_find(p_part, p_id) IS NULL
       AND NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = p_part AND d.record_id = p_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO queend.traces (partition_id, record_id, transaction_id, group_name, event_type, worker_id, data, names, created_at)
    VALUES (p_part, p_id, p_transaction, p_group, p_event, p_worker, p_data, p_names, v_now) RETURNING * INTO t;
    INSERT INTO queend.trace_names (name, ord, partition_id, record_id, trace_id, created_at)
    SELECT DISTINCT n, t.ord, p_part, p_id, t.id, v_now FROM unnest(p_names) AS n;
    RETURN t.id;
END $$;
