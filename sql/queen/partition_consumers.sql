-- Where each consumer group stands in each partition, and who holds the lease (worker_id: its lease id). Counts are differences of offsets.
-- last_consumed_id is zero and last_consumed_created_at NULL where nothing was consumed, or retention has removed it.
CREATE OR REPLACE VIEW queen.partition_consumers AS
SELECT md5(k.partition_id || ':' || k.group_id)::uuid AS id, queend.partition_uuid(k.partition_id) AS partition_id, g.name AS consumer_group,
       m.id AS last_consumed_id, m.created_at AS last_consumed_created_at, k.committed + 1 AS total_messages_consumed, NULL::bigint AS total_batches_consumed,
       queend.moment(NULLIF(k.consumed_at, 0)) AS last_consumed_at, CASE WHEN k.lease_until > 0 THEN queend.moment(k.lease_until) END AS lease_expires_at,
       NULL::timestamptz AS lease_acquired_at, CASE WHEN k.lease_until > 0 THEN k.lease_id::text END AS worker_id, NULL::jsonb AS message_batch,
       CASE WHEN k.lease_until > 0 THEN (k.lease_end - k.committed)::int ELSE 0 END AS batch_size, 0 AS acked_count, k.retries AS batch_retry_count,
       GREATEST(queend.head(k.partition_id) - k.committed - 1 - queend.done_count(k.beyond, k.committed + 1), 0) AS pending_estimate, now() AS last_stats_update, g.created_at,
       q.name AS queue, p.name AS partition
  FROM queend.cursors k
  JOIN queend.consumer_groups g ON g.id = k.group_id
  JOIN queend.partitions p ON p.id = k.partition_id
  JOIN queend.queues q ON q.id = p.queue_id
  CROSS JOIN LATERAL queend.cursor_message(k.partition_id, k.committed) AS m;
