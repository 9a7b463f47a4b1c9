-- Partitions: the views, and what retention removed of them.

CREATE OR REPLACE VIEW queen.partitions AS
SELECT queend.partition_uuid(p.id) AS id, queend.queue_uuid(p.queue_id) AS queue_id, p.name, p.created_at,
       COALESCE((SELECT queend.moment(e.written_at) FROM queend.log_end(p.id) AS e), p.created_at) AS last_activity,
       q.name AS queue
  FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id;
COMMENT ON VIEW queen.partitions IS
'Partitions. The column last_activity is the time when the newest message was stored, even if it was deleted. The column
queue is its queue''s name.';

CREATE OR REPLACE VIEW queen.partition_lookup AS
SELECT queend.partition_uuid(p.id) AS id, q.name AS queue_name, queend.partition_uuid(p.id) AS partition_id,
       n.message_id AS last_message_id, n.created_at AS last_message_created_at, n.created_at AS updated_at
  FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id
  CROSS JOIN LATERAL queend.newest_message(p.id) AS n
 WHERE n.message_id IS NOT NULL;
COMMENT ON VIEW queen.partition_lookup IS
'The newest message of each partition that has messages.';

CREATE OR REPLACE VIEW queen.retention_history AS
SELECT md5('h' || h.id)::uuid AS id, queend.partition_uuid(h.partition_id) AS partition_id,
       h.messages AS messages_deleted, h.kind AS retention_type, h.executed_at,
       q.name AS queue
  FROM queend.retention_history h LEFT JOIN queend.queues q ON q.id = h.queue_id;
COMMENT ON VIEW queen.retention_history IS
'Messages that retention removed: partition, kind (retention_type), number and time of each removal.';

CREATE OR REPLACE FUNCTION queen.delete_partition_v1(queue text, partition text) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('deleted', true, 'queue', queue, 'partition', partition,
                              'existed', queend.partition_delete(queend.required('queue', queue),
                                                                 queend.required('partition', partition)))
$$;
COMMENT ON FUNCTION queen.delete_partition_v1(text, text) IS
'Deletes a partition with its content. Returns {deleted, queue, partition, existed}. A later push creates the partition
again, from offset 0.';
