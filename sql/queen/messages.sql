-- Stored messages. payload_state tells what SQL can read: plain; packed (rows of the log that the daemon compressed: QUEEND_COMPRESS_FROM)
-- or sealed (encrypted): their payload is NULL here, queend hands it out over HTTP. payload is NULL too, and payload_text is not, where jsonb
-- cannot hold what the JSON says (\u0000). Name the queue and the partition: a search by anything else reads the whole log.
-- DELETE takes a message out of its queue.
CREATE OR REPLACE VIEW queen.messages AS
SELECT m.id, m.transaction_id, m.trace_id, queend.partition_uuid(p.id) AS partition_id, queend.as_jsonb(m.payload_text) AS payload, m.created_at,
       m.payload_state = 'sealed' AS is_encrypted, m.producer_sub, q.name AS queue, p.name AS partition, m.message_offset, m.payload_state, m.payload_text
  FROM queend.queues q JOIN queend.partitions p ON p.queue_id = q.id CROSS JOIN LATERAL queend.partition_messages(p.id) AS m;
CREATE OR REPLACE FUNCTION queen.messages_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.message_delete(queend.partition_id(OLD.partition_id), queend.record_id(OLD.transaction_id)) THEN OLD END;
END $$;
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.messages FOR EACH ROW EXECUTE FUNCTION queen.messages_deleted();
