-- What retention removed.
CREATE OR REPLACE VIEW queen.retention_history AS
SELECT md5('h' || h.id)::uuid AS id, queend.partition_uuid(h.partition_id) AS partition_id, h.messages AS messages_deleted, h.kind AS retention_type, h.executed_at,
       q.name AS queue
  FROM queend.retention_history h LEFT JOIN queend.queues q ON q.id = h.queue_id;
