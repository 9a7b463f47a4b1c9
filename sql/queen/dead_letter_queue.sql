-- Dead letters: copies that outlive the message. payload is NULL where SQL cannot read it (see queen.messages). DELETE drops a letter.
CREATE OR REPLACE VIEW queen.dead_letter_queue AS
SELECT lpad(to_hex(d.id), 32, '0')::uuid AS id, queend.message_id(d.created_at, d.partition_id, d.record_offset) AS message_id, queend.partition_uuid(d.partition_id) AS partition_id,
       COALESCE(d.group_name, g.name) AS consumer_group, d.error AS error_message, d.retry_count, queend.moment(d.created_at) AS original_created_at,
       queend.moment(d.failed_at) AS failed_at, q.name AS queue, p.name AS partition, d.transaction_id, d.trace_id, d.producer_sub, CASE WHEN d.seal IS NULL THEN queend.as_jsonb(d.payload) END AS payload,
       d.record_offset AS message_offset
  FROM queend.dead_letters d
  JOIN queend.queues q ON q.id = d.queue_id
  JOIN queend.partitions p ON p.id = d.partition_id
  LEFT JOIN queend.consumer_groups g ON g.id = d.group_id;
CREATE OR REPLACE FUNCTION queen.dead_letters_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.dead_delete(ARRAY[('x' || right(replace(OLD.id::text, '-', ''), 16))::bit(64)::bigint]) > 0 THEN OLD END;
END $$;
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.dead_letter_queue FOR EACH ROW EXECUTE FUNCTION queen.dead_letters_deleted();
