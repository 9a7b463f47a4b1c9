-- The messages of a partition, by the partition's number, in order. For the views of the schema queen: its result stays as it is.
CREATE OR REPLACE FUNCTION queend.partition_messages(part int)
RETURNS TABLE (id uuid, transaction_id text, trace_id uuid, payload_text text, created_at timestamptz, producer_sub text, message_offset bigint, payload_state text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT queend.message_id(r.stored_at, part, r.record_offset), r.transaction_id, r.trace_id, r.payload, queend.moment(r.stored_at), r.producer_sub, r.record_offset, r.state
      FROM queend.records(part, 0, 9223372036854775807) AS r;
END $$;
