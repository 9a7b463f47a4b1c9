-- What programs noted about messages, and under which names.
CREATE OR REPLACE VIEW queen.message_traces AS
SELECT t.id, queend.record_message(t.partition_id, t.record_id) AS message_id, queend.partition_uuid(t.partition_id) AS partition_id, t.transaction_id,
       t.group_name AS consumer_group, t.event_type, queend.as_jsonb(t.data) AS data, queend.moment(t.created_at) AS created_at, t.worker_id
  FROM queend.traces t;
CREATE OR REPLACE VIEW queen.message_trace_names AS
SELECT n.trace_id, n.name AS trace_name FROM queend.trace_names n;
