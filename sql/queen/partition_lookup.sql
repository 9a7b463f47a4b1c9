-- The newest message of each partition that has one.
CREATE OR REPLACE VIEW queen.partition_lookup AS
SELECT queend.partition_uuid(p.id) AS id, q.name AS queue_name, queend.partition_uuid(p.id) AS partition_id, n.message_id AS last_message_id,
       n.created_at AS last_message_created_at, n.created_at AS updated_at
  FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id CROSS JOIN LATERAL queend.newest_message(p.id) AS n WHERE n.message_id IS NOT NULL;
