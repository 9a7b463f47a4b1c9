-- Partitions; last_activity: when the newest message was stored. queue: the queue's name.
CREATE OR REPLACE VIEW queen.partitions AS
SELECT queend.partition_uuid(p.id) AS id, queend.queue_uuid(p.queue_id) AS queue_id, p.name, p.created_at,
       COALESCE((SELECT n.created_at FROM queend.newest_message(p.id) AS n), p.created_at) AS last_activity, q.name AS queue
  FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id;
